"""Files that a user names: a file to read must be a plain file, and the folder of a file to write must exist."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from workbench.errors import UserError

SPECIAL = "it is a pipe or a device, not a file"


def is_special(path: str | Path) -> bool:
    """Whether it exists and is no file and no folder. Reading it may not end, moving a file over it destroys it."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def is_private(folder: Path) -> bool:
    """Whether it is a folder of this user, not a link to one, into which no other user can look or write.

    Raises OSError if it is not there.
    """
    if sys.platform == "win32":  # permissions are inherited from the user's own folders there
        return folder.is_dir()
    found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


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
                return
        with tempfile.TemporaryFile(dir=os.path.dirname(place)):
            return
    except OSError as error:
        raise not_written(path, error) from None


def write_text(path: str | Path, content: str) -> int:
    """Returns the file's bytes. Raises UserError."""
    try:
        return Path(path).write_bytes(content.encode())
    except OSError as error:
        raise not_written(path, error) from None


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
