"""The plain data of a `.pt2` archive: the entries and texts of it that run no code when torch reads them.

`torch.export.load` unpickles parts of a `.pt2`, evaluates its size expressions
as Python, and builds Python source from its names; opening a file must not run
code of its author. So torch is given a copy with plain data only: no pickled
weights or objects, no sample inputs, no guards. Expressions are of a known
grammar and have small numbers, and names are valid in their positions.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.errors import reading
from workbench.formats.io.errors import LoadError
from workbench.formats.io.size_expressions import is_of_sizes

MAX_EXPANSION = 64  # largest ratio of unpacked to packed size, per entry and in all; torch does not compress
SMALL_ENTRY = 2**26  # unpacked bytes that are always allowed
_CHUNK = 2**20  # bytes copied at a time
_SAVE_AGAIN = "save it again with torch.export.save of torch 2.9 or newer"
_PLAIN = re.compile(r"(archive_format|archive_version|byteorder|\.data/.*|\.format_version|\.storage_alignment)")
_PROGRAM = re.compile(r"models/\w+\.json")
_DATA = re.compile(r"data/(weights|constants)/((weight|tensor)_\d+|\w+_config\.json)")
_LEFT_OUT = re.compile(r"(data/sample_inputs|extra)/.*")  # the first is a pickle, the second is not needed
# Names occur in the source that torch builds: names of values unquoted, names of modules and weights in quotation
# marks. Texts in arguments of operators occur as Python literals, so any text is safe.
_SYMBOLS = re.compile(r"([^\W\d]\w*)?", re.ASCII)
_PATHS = re.compile(r"[^\"\\\x00-\x1f\x7f\u2028\u2029]*")
_NAMES = re.compile(r"[\w.,:/<>+*#\[\] -]*")
_MODULE = re.compile(r"[\w.\[\]' @-]*,[\w.\[\]' @-]*,[\w.<>-]*")
_FIELDS_OF_SYMBOLS = ("name", "as_name", "forward_arg_names", "class_fqn")
_FIELDS_OF_PATHS = ("fqn", "parameter_name", "buffer_name", "tensor_constant_name", "buffer_to_mutate", "target_fqn")
_NUMBERS_AND_TEXTS = ("as_string", "as_strings", "torch_version")
_TABLES_OF_VALUES = (
    "tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "custom_obj_values", "range_constraints",
)  # fmt: skip
_CONTAINERS = (None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict")


def copy_plain_data(path: Path, target: Path) -> None:
    """Write a copy of the program without pickles, with only the weights that it names.

    Raises LoadError if the file is damaged, is not a program, needs its pickles, or unpacks to far more than its size.
    """
    with reading("the program", LoadError, _SAVE_AGAIN):
        try:
            with zipfile.ZipFile(path) as archive:
                _copy(archive, target)
        except (zipfile.BadZipFile, EOFError, NotImplementedError):
            raise LoadError("the file is not a program saved by torch.export, or it was cut off") from None


def _copy(archive: zipfile.ZipFile, target: Path) -> None:
    names = archive.namelist()
    root = names[0].split("/", 1)[0] if names else ""
    if f"{root}/archive_format" not in names:
        raise LoadError(f"this is not a program of torch.export, or one in an old format with pickles; {_SAVE_AGAIN}")
    archive_names = {name.removeprefix(f"{root}/"): name for name in dict.fromkeys(names)}
    _refuse_large(archive)
    texts = {
        entry: _plain(entry, archive.read(archive_names[entry])) for entry in archive_names if _is_read_whole(entry)
    }
    needed_weights = _named_weights(texts)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as copy:
        for entry, name in archive_names.items():
            if _LEFT_OUT.fullmatch(entry):
                if entry.startswith("data/sample_inputs/"):
                    copy.writestr(name, b"")
            elif entry in texts:
                copy.writestr(name, texts[entry])
            elif entry in needed_weights:
                with archive.open(name) as source, copy.open(name, "w", force_zip64=True) as copied:
                    shutil.copyfileobj(source, copied, _CHUNK)


def _refuse_large(archive: zipfile.ZipFile) -> None:
    """Raise LoadError, before unpacking, for entries that expand far too much, alone or together."""
    packed = unpacked = 0
    for entry in archive.infolist():
        packed, unpacked = packed + entry.compress_size, unpacked + entry.file_size
        if _expands_too_much(entry.file_size, entry.compress_size) or _expands_too_much(unpacked, packed):
            raise LoadError(
                f"'{entry.filename}' in the archive expands from {entry.compress_size / 1e6:,.1f} to "
                f"{entry.file_size / 1e6:,.0f} MB, which weights never do; {_SAVE_AGAIN}"
            )


def _expands_too_much(size: int, packed: int) -> bool:
    return size > MAX_EXPANSION * packed + SMALL_ENTRY


def _is_read_whole(entry: str) -> bool:
    """Whether the entry is parsed. Weights are copied unparsed, and only those that are named."""
    if _LEFT_OUT.fullmatch(entry):
        return False
    return not _DATA.fullmatch(entry) or entry.endswith("_config.json")


def _named_weights(texts: Mapping[str, bytes]) -> set[str]:
    """Entries with the weights that the program's tables name."""
    return {
        f"{entry_name.rpartition('/')[0]}/{weight['path_name']}"
        for entry_name, text in texts.items()
        if entry_name.endswith("_config.json")
        for weight in _json(entry_name, text)["config"].values()
    }


def _plain(name: str, data: bytes) -> bytes:
    """The checked content of an entry; for a program, only what torch needs."""
    if _PROGRAM.fullmatch(name):
        return json.dumps(_clean(_json(name, data))).encode()
    if not (_PLAIN.fullmatch(name) or _DATA.fullmatch(name)):
        raise LoadError(
            f"the archive contains '{name}', which may run code when it is opened, so it is not opened; {_SAVE_AGAIN}, "
            "with plain tensors only"
        )
    if name.endswith("_config.json"):
        for weight, weight_entry in _json(name, data)["config"].items():
            path_name = weight_entry["path_name"]
            if weight_entry["use_pickle"] or not re.fullmatch(r"(weight|tensor)_\d+", path_name):
                raise LoadError(
                    f"'{weight}' is stored as a pickle, which runs code when opened, so it is not opened;"
                    f" {_SAVE_AGAIN}, with plain tensors only"
                )
    return data


def _json(name: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise LoadError(f"'{name}' in the archive is not JSON; {_SAVE_AGAIN}") from None


def _clean(item: Any, key: str = "") -> Any:
    """The program's description without parts that torch would evaluate. key: the field or table of the item."""
    if isinstance(item, dict):
        names = _SYMBOLS if key in _TABLES_OF_VALUES else _NAMES
        for name in item:
            _check(names, name)
        if key == "metadata":
            return {"nn_module_stack": item["nn_module_stack"]} if _is_stack(item.get("nn_module_stack")) else {}
        return {name: [] if name == "guards_code" else _clean(value, name) for name, value in item.items()}
    if isinstance(item, list):
        return [_clean(value, key) for value in item]
    if not isinstance(item, str):
        return item
    if key == "expr_str":
        _check_size(item)
    elif key in ("in_spec", "out_spec"):
        _check_spec(item)
    elif key not in _NUMBERS_AND_TEXTS:
        _check(_SYMBOLS if key in _FIELDS_OF_SYMBOLS else _PATHS if key in _FIELDS_OF_PATHS else _NAMES, item)
    return item


def _check(pattern: re.Pattern[str], name: str) -> None:
    if not pattern.fullmatch(name):
        raise LoadError(f"the program has the name {name[:80]!r}, which torch would take for source code")


def _is_stack(text: object) -> bool:
    """Whether it is a stack of modules in torch's form: `key,path,class;key,path,class`."""
    return isinstance(text, str) and all(_MODULE.fullmatch(entry) for entry in text.split(";"))


def _check_size(expression: str) -> None:
    if not is_of_sizes(expression):
        raise LoadError(f"the program has the size {expression[:80]!r}, which is not an expression of sizes")


def _check_spec(spec: str) -> None:
    """Raise LoadError unless arguments are nested in tuples, lists and dicts only, and keywords are valid names."""
    if not spec:
        return
    try:
        _, root = _json("the program's signature", spec.encode())
        waiting = [root]
        while waiting:
            spec_node = waiting.pop()
            if spec_node["type"] not in _CONTAINERS or "__enum__" in str(spec_node["context"]):
                raise LoadError(
                    f"the program takes or returns a {str(spec_node['type'])[:80]}; use tuples, lists and dicts of"
                    " tensors"
                )
            waiting += spec_node["children_spec"]
        arguments = root["children_spec"]
        if root["type"] == "builtins.tuple" and len(arguments) == 2 and arguments[1]["type"] == "builtins.dict":
            for name in json.loads(arguments[1]["context"]):  # these occur in the source that torch builds
                _check(_SYMBOLS, name)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        raise LoadError(f"the program's signature, {spec[:80]!r}, cannot be read; {_SAVE_AGAIN}") from None
