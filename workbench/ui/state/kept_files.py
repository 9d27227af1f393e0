"""Files of what is measured on a model, from which long work goes on even after a restart."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import UserError
from workbench.run.measurement.timing_cache import cache_file
from workbench.run.records.store import model_hash
from workbench.ui.state.session import Opened


def kept_file(opened: Opened, folder: str) -> Path:
    """The file of the open model in that folder of the cache. Raises UserError where there can be no folder."""
    place = cache_file().parent / folder
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder '{place}' for what is measured cannot be created: {error.strerror}") from None
    return place / f"{model_hash(opened.graph)[:16]}.jsonl"
