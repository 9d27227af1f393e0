"""Which files the page may open by their paths: where other machines can ask, those of some folders only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from workbench.errors import UserError
from workbench.io.samples import FOLDER
from workbench.ui.own_site import listens_beyond_this_machine

NAMED = "WORKBENCH_FOLDERS"  # folders as in PATH, whose files may be opened


def real_path(path: str) -> Path:
    """Where the path leads, symbolic links followed, whether there is a file or not. Raises UserError."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        raise UserError(f"{path!a} cannot be the path of a file; name another") from None


def open_folders() -> Sequence[Path] | None:
    """Folders whose files may be opened: those that were named at start, else the working folder; None for any."""
    named = [folder for folder in os.environ.get(NAMED, "").split(os.pathsep) if folder]
    if not named and not listens_beyond_this_machine():
        return None
    return [real_path(folder) for folder in [*(named or ["."]), str(FOLDER)]]


def check_may_open(path: str) -> None:
    """Raises UserError for a path outside `open_folders`; it does not tell whether there is such a file."""
    place, folders = real_path(path), open_folders()
    if folders is not None and not any(place.is_relative_to(folder) for folder in folders):
        raise UserError(
            f"'{path}' is in no folder whose files this app opens; upload the file, "
            f"or start the app in its folder, or with {NAMED} naming that"
        )
