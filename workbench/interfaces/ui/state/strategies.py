"""The results of all layout strategies on the open model, cached by the name of the target profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from workbench.interfaces.api import layouts
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.session import Opened
from workbench.planning.layout.profile import Profile
from workbench.presentation.explanations.layout_comparison import LaidOut
from workbench.run.measurement.measurement_result import Measurement


@dataclass
class ComparedLayouts:
    """The results of all layout strategies for one profile, and their measurements by device."""

    profile: Profile
    results: dict[str, LaidOut]
    measured: dict[str, Measurement] = field(default_factory=dict)


@dataclass
class LayoutComparisons(ModelState):
    """Comparisons by the name of the target profile. stopped: those that have begun and are not complete."""

    complete: dict[str, ComparedLayouts] = field(default_factory=dict)
    stopped: dict[str, ComparedLayouts] = field(default_factory=dict)


def cached_layouts(opened: Opened, profile: Profile) -> ComparedLayouts | None:
    """The results for that profile; None if there are none, or the profile has changed."""
    cached = opened.state(LayoutComparisons).complete.get(profile.name)
    return cached if cached is not None and cached.profile == profile else None


def layouts_of(
    opened: Opened, profile: Profile, report: Callable[[str, float], None], timed: bool = False
) -> ComparedLayouts:
    """The results of the strategies for that profile, each compared with the original; cached by its name.

    timed: also of those that run operators on this machine.
    """
    comparison = cached_layouts(opened, profile) or stopped_comparison(opened, profile) or ComparedLayouts(profile, {})
    comparisons = opened.state(LayoutComparisons)
    comparisons.stopped[profile.name] = comparison
    layouts(
        opened.graph,
        target=profile.name,
        verifier=opened.verifier,
        on_strategy=report,
        found=comparison.results,
        timed=timed,
    )
    comparisons.complete[profile.name] = comparisons.stopped.pop(profile.name)
    return comparison


def stopped_comparison(opened: Opened, profile: Profile) -> ComparedLayouts | None:
    """The results of a stopped comparison for that profile; None without one."""
    cached = opened.state(LayoutComparisons).stopped.get(profile.name)
    return cached if cached is not None and cached.profile == profile else None
