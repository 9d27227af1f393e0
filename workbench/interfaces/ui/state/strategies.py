"""The results of all layout strategies on the open model, cached by the name of the target profile."""

from __future__ import annotations

from collections.abc import Callable

from workbench.interfaces.api import layouts
from workbench.interfaces.ui.state.session import ComparedLayouts, Opened
from workbench.planning.layout.profile import Profile


def cached_layouts(opened: Opened, profile: Profile) -> ComparedLayouts | None:
    """The results for that profile; None if there are none, or the profile has changed."""
    cached = opened.compared_layouts.get(profile.name)
    return cached if cached is not None and cached.profile == profile else None


def layouts_of(
    opened: Opened, profile: Profile, report: Callable[[str, float], None], timed: bool = False
) -> ComparedLayouts:
    """The results of the strategies for that profile, each compared with the original; cached by its name.

    timed: also of those that run operators on this machine.
    """
    comparison = cached_layouts(opened, profile) or stopped_comparison(opened, profile) or ComparedLayouts(profile, {})
    opened.stopped_layouts[profile.name] = comparison
    layouts(
        opened.graph,
        target=profile.name,
        verifier=opened.verifier,
        on_strategy=report,
        found=comparison.results,
        timed=timed,
    )
    opened.compared_layouts[profile.name] = opened.stopped_layouts.pop(profile.name)
    opened.moments.clear()
    return comparison


def stopped_comparison(opened: Opened, profile: Profile) -> ComparedLayouts | None:
    """The results of a stopped comparison for that profile; None without one."""
    cached = opened.stopped_layouts.get(profile.name)
    return cached if cached is not None and cached.profile == profile else None
