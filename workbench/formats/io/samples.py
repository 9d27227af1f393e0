"""The sample models that are part of the program, listed in `sample_models/index.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parents[2]
_INSTALLED = _PACKAGE / "sample_models"
FOLDER = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent / "sample_models"


@dataclass(frozen=True)
class Shows:
    """The initial state of a sample: passes, target, mode, and the moment after rewrite `rewrite` of step `step`.

    rewrite: None for the whole step. preset: the preset that is shown in place of the passes. node: the selected node.
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
    shows: its initial state; None if it opens without passes, which the user then chooses.
    page:  the page on which it opens, "memory", "streams" or "".
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
