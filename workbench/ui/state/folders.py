"""Which files the page may open by path: any, or if other machines can connect, those in certain folders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from workbench.errors import UserError
from workbench.io.samples import FOLDER
from workbench.ui.server.origin_guard import listens_beyond_this_machine

NAMED = "WORKBENCH_FOLDERS"  # environment variable: folders, separated as in PATH, whose files may be opened


def real_path(path: str) -> Path:
    """The path with symbolic links resolved, whether or not the file exists. Raises UserError."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        raise UserError(f"{path!a} cannot be the path of a file; name another") from None


def open_folders() -> Sequence[Path] | None:
    """Folders whose files may be opened: those of WORKBENCH_FOLDERS, else the working folder; None for any."""
    named = [folder for folder in os.environ.get(NAMED, "").split(os.pathsep) if folder]
    if not named and not listens_beyond_this_machine():
        return None
    return [real_path(folder) for folder in [*(named or ["."]), str(FOLDER)]]


def check_may_open(path: str) -> None:
    """Raises UserError for a path outside `open_folders`, without disclosing whether the file exists."""
    place, folders = real_path(path), open_folders()
    if folders is not None and not any(place.is_relative_to(folder) for folder in folders):
        raise UserError(
            f"'{path}' is outside the folders whose files this app opens; upload the file, "
            f"or start the app in its folder or with that folder in {NAMED}"
        )
