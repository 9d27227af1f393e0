"""Temporary folders that are removed even if the process that made them was killed: by the next one that makes one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.files import is_private
from workbench.run.worker.file_lock import is_locked, lock

_OWNER = "owner.lock"  # held while the folder's process lives


@contextmanager
def owned_folder(prefix: str) -> Iterator[Path]:
    """A folder for this block; those of the same prefix whose process is gone are removed. Raises OSError."""
    _remove_left_ones(prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        with open(folder / _OWNER, "w") as owner:
            lock(owner)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # what still writes there leaves it to the next one


def _remove_left_ones(prefix: str) -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        try:
            if not is_private(folder):  # another user's, or a link
                continue
            with open(folder / _OWNER) as owner:
                left = not is_locked(owner)
        except OSError:  # one that is just being made, or removed
            continue
        if left:
            shutil.rmtree(folder, ignore_errors=True)
