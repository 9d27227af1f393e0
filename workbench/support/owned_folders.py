"""Temporary folders that are removed even if the process that made them was killed: by the next one that makes one."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.support.file_lock import is_locked, lock

_OWNER = "owner.lock"  # held while the folder's process lives
_NEW = _OWNER if sys.platform == "win32" else "new.lock"  # before it is locked; Windows renames no open file


@contextmanager
def owned_folder(prefix: str, within: Path | None = None) -> Iterator[Path]:
    """A folder for this block; those of the same prefix whose process is gone are removed. Raises OSError.

    within: where it is made; None for the temporary folder.
    """
    place = Path(tempfile.gettempdir()) if within is None else within
    _remove_left_ones(place, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    try:
        with open(folder / _NEW, "w") as owner:
            with contextlib.suppress(OSError):  # no locks in this file system: a folder left behind stays
                lock(owner)
            os.rename(folder / _NEW, folder / _OWNER)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # what still writes there leaves it to the next one


def is_private(folder: Path) -> bool:
    """Whether it is a folder of this user, not a link to one, into which no other user can look or write.

    Raises OSError if it is not there.
    """
    if sys.platform == "win32":  # permissions are inherited from the user's own folders there
        return folder.is_dir()
    result = os.lstat(folder)
    return stat.S_ISDIR(result.st_mode) and result.st_uid == os.geteuid() and not result.st_mode & 0o077


def _remove_left_ones(place: Path, prefix: str) -> None:
    for folder in place.glob(f"{prefix}*"):
        try:
            if not is_private(folder):  # another user's, or a link
                continue
            with open(folder / _OWNER) as owner:
                left = not is_locked(owner)
        except OSError:  # one that is just being made, or removed
            continue
        if left:
            shutil.rmtree(folder, ignore_errors=True)
