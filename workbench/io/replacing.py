"""A model's file and the one with its weights change together or not at all, even if the process is killed between."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workbench.io.errors import LoadError
from workbench.io.model_files import weight_locations
from workbench.support.files import replacing


@dataclass(frozen=True)
class Draft:
    """Where a model is written. data: the place for weights beside it, under the name that they will have."""

    model: Path
    data: Path


@contextmanager
def replacing_model(path: Path) -> Iterator[Draft]:
    """`workbench.support.files.replacing` for a model that may have weights beside it. Raises OSError.

    They get a name that the model which stands there does not use. So the old model has its weights until the new one,
    which is moved last, is in its place; then they are removed.
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
    except LoadError:  # a file that is no model, or lacks its weights, is lost with what lies beside it
        return ()
