"""The user's goals of an optimization, each with its settings of the pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.registry.pass_choice import DEFAULT_PRESET


@dataclass(frozen=True)
class Goal:
    """A goal. title, about: for the user. preset, strategy: its settings; "none" is no layout strategy.

    target: chosen where the present one wants channels first, as models have them; "" is none.
    """

    title: str
    about: str
    preset: str
    strategy: str = "none"
    target: str = ""


GOALS = {
    "simplify": Goal("Smaller and simpler", "Fewer nodes of standard operators, for any runtime.", DEFAULT_PRESET),
    "hardware": Goal(
        "For a hardware layout",
        "The target's layouts; no choice of channels first or last moves fewer bytes, proven.",
        DEFAULT_PRESET,
        "optimal",
        target="npu",
    ),
    "learn": Goal("Learn what each pass does", "A few basic passes, to be played one by one.", "normalize"),
}


def goal_of(preset: str, strategy: str) -> str | None:
    """The goal with these settings; None without one."""
    return next((name for name, goal in GOALS.items() if (goal.preset, goal.strategy) == (preset, strategy)), None)
