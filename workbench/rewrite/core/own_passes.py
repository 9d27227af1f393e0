"""The user's own passes: each Python file in $WORKBENCH_PASSES, or in graph-workbench/passes of the user's settings.

A file holds one pass, as those of `passes/` do, and the pass has the file's name. A file is run when passes are listed,
in this process, and again after it changed; files whose names begin with _ are left out.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Collection, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from workbench.errors import UserError, one_sentence
from workbench.rewrite.core.passes import Pass
from workbench.support.files import settings_folder

PASSES_VARIABLE = "WORKBENCH_PASSES"
_MODULES = "workbench_own_passes"  # the package of the files' modules, which is nowhere on disk
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_MAX_CACHED = 256  # versions of files


class OwnPassError(UserError):
    """The file of a pass does not run, or holds no pass."""


def own_passes_folder() -> Path:
    return settings_folder("passes", PASSES_VARIABLE)


def own_passes(taken: Collection[str] = ()) -> Mapping[str, type[Pass] | str]:
    """The user's passes by name; for a file that holds none, the sentence that says why.

    taken: names that other passes and presets have.
    """
    folder = own_passes_folder()
    files = sorted(folder.glob("*.py")) if folder.is_dir() else []
    results: dict[str, type[Pass] | str] = {}
    for file in (file for file in files if not file.name.startswith("_")):
        try:
            if file.stem in taken:
                raise OwnPassError(f"{file}: the name '{file.stem}' is taken; rename the file")
            results[file.stem] = load_pass(file)
        except UserError as error:
            results[file.name if file.stem in taken else file.stem] = str(error)
    return results


def load_pass(file: Path) -> type[Pass]:
    """The pass in a file, which is run unless it is the same as at the last call. Raises OwnPassError."""
    if not _NAME.fullmatch(file.stem) or file.suffix != ".py":
        raise OwnPassError(f"{file}: the file's name must be small letters, digits and _, then .py; rename it")
    try:
        changed = file.stat().st_mtime_ns
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise OwnPassError(f"{file}: it is not text in UTF-8; save it as such") from None
    except OSError as error:
        raise OwnPassError(f"{file}: it cannot be read: {error.strerror or error}; name another file") from None
    result = _pass_of(file, changed, text)
    if isinstance(result, str):
        raise OwnPassError(result)
    return result


@lru_cache(_MAX_CACHED)
def _pass_of(file: Path, changed_ns: int, text: str) -> type[Pass] | str:
    """The pass, or why there is none; cached, since every run of a page asks for all passes."""
    folder = sha256(str(file.parent).encode()).hexdigest()[:8]  # files of one name in two folders are two modules
    module = ModuleType(f"{_MODULES}.{folder}.{file.stem}")
    module.__file__ = str(file)
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module  # where dataclasses look up the types of fields
    try:
        exec(compile(text, str(file), "exec"), module.__dict__)
        return _only_pass(module, file)
    except (Exception, SystemExit) as error:  # any error in a user's file is shown, and none stops the program
        if before is not None:
            sys.modules[module.__name__] = before
        return fault_sentence(error, file)


def _only_pass(module: ModuleType, file: Path) -> type[Pass]:
    defined = [c for _, c in inspect.getmembers(module, inspect.isclass) if c.__module__ == module.__name__]
    classes = [c for c in defined if issubclass(c, Pass)]
    if len(classes) != 1:
        raise OwnPassError(f"{file}: it must define one subclass of Pass, and defines {len(classes)}")
    return classes[0]


def fault_sentence(error: BaseException, file: Path) -> str:
    """The error with the line of the file at which it was raised."""
    if isinstance(error, OwnPassError):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return one_sentence(f"{file}, line {error.lineno}: it is not Python, {error.msg}; correct the line")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    where = f", line {lines[-1]}" if lines else ""
    return one_sentence(f"{file}{where}: {type(error).__name__}: {error}; correct the line")
