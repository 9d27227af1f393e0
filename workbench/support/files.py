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
    """Whether it exists and is no file and no folder. Reading it may not end, moving a file over it destroys it."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def check_outputs(outputs: Sequence[str | None], inputs: Sequence[str | None]) -> None:
    """Check before the work that no output replaces an input, and that the folders of outputs exist.

    Raises UserError.
    """
    taken = {os.path.realpath(path) for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        if not path:
            raise UserError("the name of a file to write is empty; name a file")
        place = os.path.realpath(path)
        if place in taken:
            raise UserError(f"'{path}' is read or written already by this command; write to another file")
        if os.path.isdir(place):
            raise UserError(f"'{path}' cannot be written, since it is a folder; name a file in it")
        if not os.path.isdir(os.path.dirname(place)):
            raise UserError(f"'{path}' cannot be written, since its folder does not exist; create the folder first")
        _check_writable(path, place)
        taken.add(place)


def _check_writable(path: str, place: str) -> None:
    if is_special(place):  # opening a pipe blocks until it has a reader
        return
    try:
        if os.path.exists(place):
            with open(place, "ab"):
                pass
        with tempfile.TemporaryFile(dir=os.path.dirname(place)):
            pass
    except OSError as error:
        raise not_written(path, error) from None


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Where to write the file anew; at the end of the block it is moved to the place where the old one stood till then.

    Other files beside that draft, such as a model's weights, are moved first. After an exception nothing has changed.
    A link stays, and the file that it leads to is replaced; the new file has the old one's permissions. Drafts that a
    killed process left in the folder are removed. Raises OSError.
    """
    place = Path(os.path.realpath(path))
    with owned_folder(_DRAFTS, place.parent) as folder:
        drafts = folder / "drafts"
        drafts.mkdir()
        yield drafts / place.name
        if place.exists():
            shutil.copymode(place, drafts / place.name)
        for name in sorted((file.name for file in drafts.iterdir()), key=lambda name: name == place.name):
            os.replace(drafts / name, place.with_name(name))


def write_text(path: str | Path, content: str) -> int:
    """Returns the file's bytes. A pipe or a device is written to as it stands. Raises UserError."""
    data = content.encode()
    try:
        if is_special(path):
            return Path(path).write_bytes(data)
        with replacing(path) as draft:
            return draft.write_bytes(data)
    except OSError as error:
        raise not_written(path, error) from None


def as_text_cell(cell: Any) -> Any:
    """A cell of a CSV file that no spreadsheet takes for a formula: such a text gets an apostrophe in front.

    Spreadsheets run what begins with one of "=+-@", after white space too, or with such a character of full width
    (https://owasp.org/www-community/attacks/CSV_Injection). A carriage return, which would begin a line, is a new line.
    """
    if not isinstance(cell, str) or _NUMBER.fullmatch(cell):
        return cell
    cell = cell.replace("\r", "\n")  # `csv` quotes only the latter
    return f"'{cell}" if _FORMULA.match(cell) else cell


def from_text_cell(cell: str) -> str:
    """The text of which `as_text_cell` made the cell."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell


def not_written(path: str | Path, error: OSError) -> UserError:
    """The sentence for an error of the system."""
    return UserError(f"'{path}' cannot be written: {error.strerror or error}; write to another place")


def cache_folder() -> Path:
    """The user's folder for what can be computed again, or the one that WORKBENCH_CACHE names."""
    own = os.environ.get("WORKBENCH_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(own) if own else home / "graph-workbench"


def settings_folder(kind: str, variable: str) -> Path:
    """The user's folder for settings of a kind, graph-workbench/`kind` in theirs, or the one that `variable` names."""
    own = os.environ.get(variable)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Path(own).expanduser() if own else home / "graph-workbench" / kind
