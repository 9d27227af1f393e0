"""The results of all layout strategies on the open model, cached by target."""

from __future__ import annotations

from collections.abc import Callable

from workbench.api import layouts
from workbench.layout.profile import Profile
from workbench.ui.state.session import Compared, Opened


def compared_before(opened: Opened, profile: Profile) -> Compared | None:
    """The results for that profile, None if there are none or the profile was changed since."""
    kept = opened.laid_out.get(profile.name)
    return kept if kept is not None and kept.profile == profile else None


def layouts_of(opened: Opened, profile: Profile, report: Callable[[str, float], None]) -> Compared:
    """The results of all strategies for that profile, each compared with the original; cached by target."""
    kept = compared_before(opened, profile)
    if kept is None:
        found = layouts(opened.graph, target=profile.name, verifier=opened.verifier, on_strategy=report)
        kept = opened.laid_out[profile.name] = Compared(profile, found)
        opened.moments.clear()
    return kept
