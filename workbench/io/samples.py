"""The sample models that are part of the program, listed in `sample_models/index.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent.parent
_INSTALLED = _PACKAGE / "sample_models"
FOLDER = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent / "sample_models"


@dataclass(frozen=True)
class Shows:
    """What a sample opens with: passes, target, mode, and the moment, rewrite number `rewrite` of step `step`.

    rewrite: None for the whole step. preset: the list that the passes stand in for on screen. node: is selected.
    """

    passes: Sequence[str]
    step: int
    rewrite: int | None = None
    mode: str = ""
    target: str = ""
    preset: str = ""
    node: str = ""


@dataclass(frozen=True)
class Sample:
    """One model to try.

    dims:  numbers for symbolic dims.
    group: the group in which it is listed.
    shows: what it opens with; None if it opens without passes, for those that the user chooses.
    page:  on which it opens, "memory", "lanes" or "".
    """

    title: str
    file: Path
    description: str
    source: str
    dims: Mapping[str, int] = field(default_factory=dict)
    group: str = ""
    shows: Shows | None = None
    page: str = ""


@cache
def samples() -> tuple[Sample, ...]:
    """Every sample, in the order of the list."""
    table = tomllib.loads((FOLDER / "index.toml").read_text(encoding="utf-8"))
    return tuple(_sample(entry) for entry in table["sample"])


def _sample(entry: Mapping[str, Any]) -> Sample:
    shows = Shows(**entry["shows"]) if "shows" in entry else None
    return Sample(**{**entry, "file": FOLDER / entry["file"], "shows": shows})
