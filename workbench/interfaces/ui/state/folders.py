"""Which files a page may open by path: all; if other machines can connect, those in certain folders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from workbench.errors import UserError
from workbench.formats.io.samples import FOLDER
from workbench.interfaces.ui.server.origin_guard import listens_beyond_this_machine

FOLDERS_VARIABLE = "WORKBENCH_FOLDERS"  # environment variable: folders whose files may be opened, separated as in PATH


def real_path(path: str) -> Path:
    """The path with symbolic links resolved, whether or not the file exists. Raises UserError."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        raise UserError(f"{path!a} cannot be the path of a file; name another") from None


def open_folders() -> Sequence[Path] | None:
    """The folders whose files may be opened: of WORKBENCH_FOLDERS, else the working folder; None: all folders."""
    named = [folder for folder in os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if folder]
    if not named and not listens_beyond_this_machine():
        return None
    return [real_path(folder) for folder in [*(named or ["."]), str(FOLDER)]]


def check_may_open(path: str) -> None:
    """Raise UserError for a path outside `open_folders`, without disclosing whether the file exists."""
    target, folders = real_path(path), open_folders()
    if folders is not None and not any(target.is_relative_to(folder) for folder in folders):
        raise UserError(
            f"'{path}' is outside the folders whose files this app opens; upload the file, "
            f"or start the app in its folder or with that folder in {FOLDERS_VARIABLE}"
        )
