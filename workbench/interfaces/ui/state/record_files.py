"""Records of measurements, from which a matrix or a tuning is resumed, even after a restart."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import UserError
from workbench.interfaces.ui.state.session import Opened
from workbench.run.measurement.timing_cache import cache_file
from workbench.run.records.store import model_hash


def record_file(opened: Opened, folder: str) -> Path:
    """The record of the open model in that folder of the cache. Raises UserError if the folder cannot be created."""
    path = cache_file().parent / folder
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the folder '{path}' for records of measurements cannot be created: {error.strerror}"
        ) from None
    return path / f"{model_hash(opened.graph)[:16]}.jsonl"
