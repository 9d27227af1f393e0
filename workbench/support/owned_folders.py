"""Temporary folders that are removed even after their process was killed: the next process removes them."""

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

_OWNER = "owner.lock"  # locked while the folder's process lives
_NEW = _OWNER if sys.platform == "win32" else "new.lock"  # until it is locked; Windows cannot rename an open file


@contextmanager
def owned_folder(prefix: str, within: Path | None = None) -> Iterator[Path]:
    """A folder for this block. Folders of the same prefix whose process has ended are removed. Raises OSError.

    within: its parent; None for the temporary folder.
    """
    parent = Path(tempfile.gettempdir()) if within is None else within
    _remove_abandoned(parent, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        with open(folder / _NEW, "w") as owner:
            with contextlib.suppress(OSError):  # the file system has no locks: an abandoned folder stays
                lock(owner)
            os.rename(folder / _NEW, folder / _OWNER)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # if a file is still written, the next process removes the folder


def is_private(folder: Path) -> bool:
    """Whether it is a folder of this user, not a link, that no other user can read or write.

    Raises OSError if it does not exist.
    """
    if sys.platform == "win32":  # there, permissions are inherited from the user's folders
        return folder.is_dir()
    result = os.lstat(folder)
    return stat.S_ISDIR(result.st_mode) and result.st_uid == os.geteuid() and not result.st_mode & 0o077


def _remove_abandoned(parent: Path, prefix: str) -> None:
    for folder in parent.glob(f"{prefix}*"):
        try:
            if not is_private(folder):  # another user's, or a link
                continue
            with open(folder / _OWNER) as owner:
                is_abandoned = not is_locked(owner)
        except OSError:  # it is just being created or removed
            continue
        if is_abandoned:
            shutil.rmtree(folder, ignore_errors=True)
