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
    if kept is not None:
        return kept
    begun = begun_before(opened, profile) or Compared(profile, {})
    opened.laid_out_begun[profile.name] = begun
    layouts(opened.graph, target=profile.name, verifier=opened.verifier, on_strategy=report, found=begun.found)
    opened.laid_out[profile.name] = opened.laid_out_begun.pop(profile.name)
    opened.moments.clear()
    return begun


def begun_before(opened: Opened, profile: Profile) -> Compared | None:
    """The results that a comparison for that profile had when it was stopped, None if there are none."""
    kept = opened.laid_out_begun.get(profile.name)
    return kept if kept is not None and kept.profile == profile else None
