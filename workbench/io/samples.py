"""The sample models that come with the program, as `sample_models/index.toml` lists them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_INSTALLED = _PACKAGE / "sample_models"
FOLDER = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent / "sample_models"


@dataclass(frozen=True)
class Sample:
    """One model to try. dims: values for symbolic dimensions that it needs."""

    title: str
    file: Path
    description: str
    source: str
    dims: Mapping[str, int] = field(default_factory=dict)


@cache
def samples() -> tuple[Sample, ...]:
    """Every sample, in the order of the list."""
    table = tomllib.loads((FOLDER / "index.toml").read_text(encoding="utf-8"))
    return tuple(Sample(**{**entry, "file": FOLDER / entry["file"]}) for entry in table["sample"])
