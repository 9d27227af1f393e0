"""Target profiles: what the hardware wants of layouts. One TOML file each, in `profiles/`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import UserError

FOLDER = Path(__file__).parent / "profiles"


class ProfileError(UserError):
    """There is no such profile, or its file does not say what it must."""


@dataclass(frozen=True)
class Profile:
    """layout: order of a CNN value's axes ("NHWC"); weights: of a convolution's weight ("HWOI");
    demands: operators whose CNN operands must be in that layout."""

    name: str
    title: str
    layout: str
    weights: str
    demands: frozenset[str]

    def layout_for(self, rank: int) -> str | None:
        """The wanted layout of a CNN value of that rank: NWC, NHWC, NDHWC, or channels first."""
        spatial = {3: "W", 4: "HW", 5: "DHW"}.get(rank)
        if spatial is None:
            return None
        return f"N{spatial}C" if self.layout.endswith("C") else f"NC{spatial}"


def profile_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def load_profile(name: str) -> Profile:
    """The profile of that name.

    Raises ProfileError with the names that there are.
    """
    if name not in profile_names():
        raise ProfileError(f"there is no target profile '{name}'; there are: {', '.join(profile_names())}")
    table = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    missing = [key for key in ("title", "layout", "weights", "demands") if key not in table]
    if missing:
        raise ProfileError(f"profile '{name}' does not say: {', '.join(missing)}; add it to {FOLDER / name}.toml")
    return Profile(name, table["title"], table["layout"], table["weights"], frozenset(table["demands"]))
