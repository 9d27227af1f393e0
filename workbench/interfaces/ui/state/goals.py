"""The user's goals of an optimization, each with its settings of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workbench.pipeline.registry.pass_choice import DEFAULT_PRESET


@dataclass(frozen=True)
class Goal:
    """A goal. title, about: for the user. preset, strategy: its settings; "none" is no layout strategy.

    target: chosen where the present one wants channels first, as models have them; "" is none.
    added: passes that run behind those of the preset. options: what their options, "pass.option", are at first.
    """

    title: str
    about: str
    preset: str
    strategy: str = "none"
    target: str = ""
    added: tuple[str, ...] = ()
    options: Mapping[str, float] = field(default_factory=dict)


HARDWARE_GOAL, FLOAT16_GOAL = "hardware", "float16"  # goals with a page of their own beside Optimize
MAX_ERROR = "precision_optimal.max_error"  # the option of FLOAT16_GOAL that a user states
GOALS = {
    "simplify": Goal("Smaller and simpler", "Fewer nodes of standard operators, for any runtime.", DEFAULT_PRESET),
    HARDWARE_GOAL: Goal(
        "For a hardware layout",
        "The target's layouts with the fewest bytes moved; the step says what is proven.",
        DEFAULT_PRESET,
        "optimal",
        target="npu",
    ),
    FLOAT16_GOAL: Goal(
        "float16 within an error",
        "Half the weights; operators that would lose more stay in float32.",
        DEFAULT_PRESET,
        added=("precision_optimal",),
        options={MAX_ERROR: 1e-3},
    ),
    "learn": Goal("Learn what each pass does", "A few basic passes, to be played one by one.", "normalize"),
}


def goal_of(preset: str, strategy: str, added: Sequence[str]) -> str | None:
    """The goal with these settings; None without one."""
    wanted = (preset, strategy, tuple(added))
    return next((name for name, goal in GOALS.items() if (goal.preset, goal.strategy, goal.added) == wanted), None)
