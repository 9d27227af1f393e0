"""The mutants that may survive, each with its reason: `survivors.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

SURVIVORS = Path(__file__).parent / "survivors.toml"


@cache
def explained() -> dict[tuple[str, str], str]:
    """The reasons, by file and words of a mutant."""
    entries = tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))["survivor"]
    return {(entry["file"], words): entry["reason"] for entry in entries for words in entry["mutants"]}
