"""Files that a user names: a file to read must be a plain file, and one to write is replaced whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.errors import UserError
from workbench.support.owned_folders import owned_folder

SPECIAL = "it is a pipe or a device, not a file"
_FORMULA = re.compile(r"\s*[=+@\-\uff1d\uff0b\uff20\uff0d][\s\S]")
_NUMBER = re.compile(r"[+-]?\d[\d.,]*(e[+-]?\d+)?")
_DRAFTS = ".graph-workbench-"  # folders beside files that are being written


def is_special(path: str | Path) -> bool:
    """Whether the path exists and is neither a file nor a folder.

    Reading it may never end, and moving a file over it destroys it.
    """
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def check_outputs(outputs: Sequence[str | None], inputs: Sequence[str | None]) -> None:
    """Check before the work that no output replaces an input, and that the folders of outputs exist.

    Raises UserError.
    """
    used = {os.path.realpath(path) for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        if not path:
            raise UserError("the name of a file to write is empty; name a file")
        target = os.path.realpath(path)
        if target in used:
            raise UserError(f"'{path}' is read or written already by this command; write to another file")
        if os.path.isdir(target):
            raise UserError(f"'{path}' cannot be written, since it is a folder; name a file in it")
        if not os.path.isdir(os.path.dirname(target)):
            raise UserError(f"'{path}' cannot be written, since its folder does not exist; create the folder first")
        _check_writable(path, target)
        used.add(target)


def _check_writable(path: str, target: str) -> None:
    if is_special(target):  # opening a pipe blocks until it has a reader
        return
    try:
        if os.path.exists(target):
            with open(target, "ab"):
                pass
        with tempfile.TemporaryFile(dir=os.path.dirname(target)):
            pass
    except OSError as error:
        raise not_written(path, error) from None


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """The path of a draft, which replaces the file at the end of the block.

    Other files in the draft's folder, such as a model's weights, are moved first. After an exception nothing has
    changed. A link stays, and its target is replaced; the new file has the permissions of the old one. Drafts that a
    killed process left in the folder are removed. Raises OSError.
    """
    target = Path(os.path.realpath(path))
    with owned_folder(_DRAFTS, target.parent) as folder:
        drafts = folder / "drafts"
        drafts.mkdir()
        yield drafts / target.name
        if target.exists():
            shutil.copymode(target, drafts / target.name)
        for name in sorted((file.name for file in drafts.iterdir()), key=lambda name: name == target.name):
            os.replace(drafts / name, target.with_name(name))


def write_text(path: str | Path, content: str) -> int:
    """Write the file and return its bytes; a pipe or a device is written directly. Raises UserError."""
    return write_data(path, content.encode())


def write_data(path: str | Path, content: bytes) -> int:
    """The same with bytes."""
    try:
        if is_special(path):
            return Path(path).write_bytes(content)
        with replacing(path) as draft:
            return draft.write_bytes(content)
    except OSError as error:
        raise not_written(path, error) from None


def as_text_cell(cell: Any) -> Any:
    """A cell of a CSV file that spreadsheets do not read as a formula: a text that looks like one gets an apostrophe.

    Spreadsheets evaluate text that begins with "=", "+", "-" or "@", after white space too, or with such a character of
    full width (https://owasp.org/www-community/attacks/CSV_Injection). Carriage returns become newlines.
    """
    if not isinstance(cell, str) or _NUMBER.fullmatch(cell):
        return cell
    cell = cell.replace("\r", "\n")  # `csv` quotes only the latter
    return f"'{cell}" if _FORMULA.match(cell) else cell


def from_text_cell(cell: str) -> str:
    """The text from which `as_text_cell` made the cell."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell


def not_written(path: str | Path, error: OSError) -> UserError:
    """The error for a file that the system refused to write."""
    return UserError(f"'{path}' cannot be written: {error.strerror or error}; write to another path")


def cache_folder() -> Path:
    """The user's cache folder, or the folder that WORKBENCH_CACHE names."""
    override = os.environ.get("WORKBENCH_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(override) if override else home / "graph-workbench"


def settings_folder(kind: str, variable: str) -> Path:
    """The user's folder for settings of a kind, or the folder that the environment variable `variable` names."""
    override = os.environ.get(variable)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Path(override).expanduser() if override else home / "graph-workbench" / kind
