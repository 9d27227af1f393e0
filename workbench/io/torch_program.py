"""Export a torch program, from a factory or a `.pt2` file, as an ONNX file.

`torch.export.load` unpickles parts of a `.pt2`, evaluates its size expressions
as Python, and builds Python source from its names; opening a file must not run
code of its author. So the archive is read here first, and torch is given a copy
that holds plain data only: no pickled weights or objects, no sample inputs, no
guards, only expressions of a known grammar and valid names.
"""

from __future__ import annotations

import ast
import importlib
import json
import logging
import re
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.io.errors import LoadError

if TYPE_CHECKING:
    import torch

MOST_UNFOLDED = 64  # largest ratio of unpacked to packed size, per entry and in all; torch does not compress
SMALL_ENTRY = 2**26  # bytes that are always allowed
_PIECE = 2**20  # bytes copied at a time
_SAVE_AGAIN = "save it again with torch.export.save of torch 2.9 or newer"
_PLAIN = re.compile(r"(archive_format|archive_version|byteorder|\.data/.*|\.format_version|\.storage_alignment)")
_PROGRAM = re.compile(r"models/\w+\.json")
_DATA = re.compile(r"data/(weights|constants)/((weight|tensor)_\d+|\w+_config\.json)")
_LEFT_OUT = re.compile(r"(data/sample_inputs|extra)/.*")  # the first is a pickle, the second is not needed
_NAME = re.compile(r"[\w.,:/<>+*#\[\] -]*")  # texts that occur in the source that torch builds: no call, no new line
_CONTAINERS = (None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict")
_SIZE_FUNCTIONS = frozenset(
    # sympy's, and those of torch.utils._sympy.functions
    "Symbol Integer Rational Float Add Mul Pow Max Min Abs Mod And Or Not Eq Ne Equality Unequality LessThan "  # noqa: SIM905
    "StrictLessThan GreaterThan StrictGreaterThan floor ceiling FloorDiv ModularIndexing Where PythonMod CleanDiv "
    "CeilToInt FloorToInt CeilDiv LShift RShift PowByNatural FloatPow FloatTrueDiv IntTrueDiv TruncToFloat TruncToInt "
    "RoundToInt RoundDecimal ToFloat Identity IsNonOverlappingAndDenseIndicator".split()
)
_SIZE_SYNTAX = (
    ast.Expression,
    ast.Name,
    ast.Load,
    ast.keyword,
    ast.UnaryOp,
    ast.USub,
    ast.BinOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.FloorDiv,
    ast.Compare,
    ast.cmpop,
)


# ---- programs -----------------------------------------------------------------------


def call_factory(factory: str) -> torch.export.ExportedProgram:
    """The program that `package.module:factory` makes, exported for inference. Raises LoadError."""
    import torch

    module_name, _, function_name = factory.partition(":")
    if not module_name or not function_name:
        raise LoadError("write the factory as package.module:function")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except ImportError as error:
        raise LoadError(f"module '{module_name}' cannot be imported ({error}); run this in its folder") from None
    except AttributeError:
        raise LoadError(f"module '{module_name}' has no '{function_name}'") from None
    made = _guarded("the factory failed", function)
    if isinstance(made, torch.export.ExportedProgram):
        return made
    if not (isinstance(made, tuple) and 2 <= len(made) <= 4 and isinstance(made[0], torch.nn.Module)):
        raise LoadError(
            "the factory must return (module, args), (module, args, kwargs), (module, args, kwargs, dynamic_shapes) "
            "or a torch.export.ExportedProgram"
        )
    module, args = made[:2]
    kwargs, shapes = (*made[2:], None, None)[:2]
    return _guarded(
        "torch.export failed", lambda: torch.export.export(module.eval(), tuple(args), kwargs, dynamic_shapes=shapes)
    )


def open_program(path: Path, scratch: Path) -> torch.export.ExportedProgram:
    """The program in a `.pt2` file, nothing of which is unpickled or run. Raises LoadError."""
    import torch

    copy = scratch / "program.pt2"
    try:
        with zipfile.ZipFile(path) as archive:
            _copy_plain_data(archive, copy)
    except (zipfile.BadZipFile, EOFError, NotImplementedError):
        raise LoadError("the file is not a program saved by torch.export, or it was cut off") from None
    with _quiet():
        return _guarded("torch cannot read the program", lambda: torch.export.load(copy))


def to_onnx(program: torch.export.ExportedProgram, scratch: Path) -> Path:
    """The program as an ONNX file in `scratch`. Raises LoadError."""
    import torch

    path = scratch / "model.onnx"
    with _quiet():
        _guarded(
            "torch.onnx cannot export the program",
            lambda: torch.onnx.export(program, (), path, dynamo=True, verbose=False, external_data=True),
        )
    return path


def _guarded(what: str, work: Callable[[], Any]) -> Any:
    """The result of foreign code; any exception becomes one line."""
    try:
        return work()
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = lines[0] if lines else "no reason given"
        raise LoadError(f"{what}: {type(error).__name__}: {told[:300]}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress torch's notes to its own developers."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch._export", "onnxscript")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


# ---- the plain data of a .pt2 -----------------------------------------------------------


def _copy_plain_data(archive: zipfile.ZipFile, target: Path) -> None:
    """Write a copy without pickles, with only the weights that the program names.

    Raises LoadError if pickles are needed, and for entries that unpack to far more than the file.
    """
    names = archive.namelist()
    root = names[0].split("/", 1)[0] if names else ""
    if f"{root}/archive_format" not in names:
        raise LoadError(f"this is not a program of torch.export, or one in an old format with pickles; {_SAVE_AGAIN}")
    inner = {name.removeprefix(f"{root}/"): name for name in dict.fromkeys(names)}
    _refuse_large(archive)
    texts = {place: _plain(place, archive.read(inner[place])) for place in inner if _is_read_whole(place)}
    named = _named_weights(texts)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as copy:
        for place, name in inner.items():
            if _LEFT_OUT.fullmatch(place):
                if place.startswith("data/sample_inputs/"):
                    copy.writestr(name, b"")
            elif place in texts:
                copy.writestr(name, texts[place])
            elif place in named:
                with archive.open(name) as source, copy.open(name, "w", force_zip64=True) as written:
                    shutil.copyfileobj(source, written, _PIECE)


def _refuse_large(archive: zipfile.ZipFile) -> None:
    """Raise LoadError, before unpacking, for entries that would become far larger than the file, each or together."""
    packed = unfolded = 0
    for entry in archive.infolist():
        packed, unfolded = packed + entry.compress_size, unfolded + entry.file_size
        if _unfolds(entry.file_size, entry.compress_size) or _unfolds(unfolded, packed):
            raise LoadError(
                f"'{entry.filename}' in the archive expands from {entry.compress_size / 1e6:,.1f} to "
                f"{entry.file_size / 1e6:,.0f} MB, which weights do not; {_SAVE_AGAIN}"
            )


def _unfolds(size: int, packed: int) -> bool:
    return size > MOST_UNFOLDED * packed + SMALL_ENTRY


def _is_read_whole(place: str) -> bool:
    """Whether the entry is parsed. Weights are copied unparsed, and only those that are named."""
    if _LEFT_OUT.fullmatch(place):
        return False
    return not _DATA.fullmatch(place) or place.endswith("_config.json")


def _named_weights(texts: Mapping[str, bytes]) -> set[str]:
    """Entries with the weights that the program's tables name."""
    return {
        f"{place.rpartition('/')[0]}/{entry['path_name']}"
        for place, text in texts.items()
        if place.endswith("_config.json")
        for entry in _json(place, text)["config"].values()
    }


def _plain(name: str, data: bytes) -> bytes:
    """The checked entry; of a program, what torch needs."""
    if _PROGRAM.fullmatch(name):
        return json.dumps(_clean(_json(name, data))).encode()
    if not (_PLAIN.fullmatch(name) or _DATA.fullmatch(name)):
        raise LoadError(
            f"the archive holds '{name}', which may run code when it is opened, so it is not; {_SAVE_AGAIN}, "
            "with plain tensors only"
        )
    if name.endswith("_config.json"):
        for weight, entry in _json(name, data)["config"].items():
            place = entry["path_name"]
            if entry["use_pickle"] or not re.fullmatch(r"(weight|tensor)_\d+", place):
                raise LoadError(
                    f"'{weight}' is stored as a pickle, which runs code when opened, so it is not; {_SAVE_AGAIN}, "
                    "with plain tensors only"
                )
    return data


def _json(name: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise LoadError(f"'{name}' in the archive is not JSON; {_SAVE_AGAIN}") from None


def _clean(item: Any, key: str = "") -> Any:
    """The program's description without what torch would evaluate."""
    if isinstance(item, dict):
        for name in item:
            _check_name(name)
        if key == "metadata":
            return {name: value for name, value in item.items() if name == "nn_module_stack"}
        return {name: [] if name == "guards_code" else _clean(value, name) for name, value in item.items()}
    if isinstance(item, list):
        return [_clean(value, key) for value in item]
    if not isinstance(item, str):
        return item
    if key == "expr_str":
        _check_size(item)
    elif key in ("in_spec", "out_spec"):
        _check_spec(item)
    else:
        _check_name(item)
    return item


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise LoadError(f"the program has the name {name[:80]!r}, which torch would take for source code")


def _check_size(expression: str) -> None:
    """An expression of sizes: numbers, symbols, and functions of them."""
    try:
        fine = all(_is_of_sizes(node) for node in ast.walk(ast.parse(expression, mode="eval")))
    except (SyntaxError, ValueError, RecursionError):
        fine = False
    if not fine:
        raise LoadError(f"the program has the size {expression[:80]!r}, which is not an expression of sizes")


def _is_of_sizes(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _SIZE_FUNCTIONS
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) or re.fullmatch(r"[\w.+-]*", str(node.value)) is not None
    return isinstance(node, _SIZE_SYNTAX)


def _check_spec(spec: str) -> None:
    """How arguments are nested: tuples, lists and dicts only."""
    if not spec:
        return
    waiting = [_json("the program's signature", spec.encode())[1]]
    while waiting:
        found = waiting.pop()
        if found["type"] not in _CONTAINERS or "__enum__" in str(found["context"]):
            raise LoadError(f"the program takes or returns a {found['type']}; use tuples, lists and dicts of tensors")
        waiting += found["children_spec"]
