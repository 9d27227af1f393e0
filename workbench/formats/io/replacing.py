"""Replaces a model's file and its weight file together or not at all, even if the process is killed in between."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workbench.formats.io.errors import LoadError
from workbench.formats.io.model_files import weight_locations
from workbench.support.files import replacing


@dataclass(frozen=True)
class Draft:
    """Where a model is written. data: the path for its external weights, with the name that the file will have."""

    model: Path
    data: Path


@contextmanager
def replacing_model(path: Path) -> Iterator[Draft]:
    """`workbench.support.files.replacing` for a model that may have an external weight file. Raises OSError.

    The new weight file gets a name that the old model does not use. So the old model keeps its weights until the new
    model, which is moved last, has replaced it; then the old weights are removed.
    """
    path = Path(os.path.realpath(path))
    names = [f"{path.name}.data", f"{path.name}.2.data"]
    used = _weights_of(path) if any(path.with_name(name).exists() for name in names) else ()
    free = next(name for name in [*names, f"{path.name}.3.data"] if name not in used)
    with replacing(path) as draft:
        yield Draft(draft, draft.with_name(free))
    for name in names:
        if name in used:
            path.with_name(name).unlink(missing_ok=True)


def _weights_of(path: Path) -> Collection[str]:
    try:
        return weight_locations(path) if path.is_file() else ()
    except LoadError:  # a file that is not a model, or lacks its weights, has no weights to keep
        return ()
