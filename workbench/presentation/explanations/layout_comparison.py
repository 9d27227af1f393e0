"""Layout strategies side by side: what one of them made, and its row in a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.planning.layout.problem.required_layouts import RequiredLayouts
from workbench.planning.layout.strategies.strategy_facts import layout_facts, layout_step
from workbench.rewrite import History

if TYPE_CHECKING:
    from workbench.run.compare import Verdict


@dataclass(frozen=True)
class LaidOut:
    """One strategy's result; `verdict` is None without verification."""

    history: History
    verdict: Verdict | None
    required: RequiredLayouts

    def row(self) -> dict[str, Any]:
        """Counts, bound and certificate, seconds, and the verdict, as a row of a table."""
        step, last = layout_step(self.history), self.history[-1].after
        facts = layout_facts(step)
        return {
            **{name: last[name] for name in ("nodes", "transposes", "elements_moved", "bytes_moved")},
            "required_layouts": self.required.total,
            "required_layouts_met": self.required.met,
            "lower_bound": facts.lower_bound,
            "certified": facts.certified,
            "proof": facts.sentence,
            "seconds": None if step is None else round(step.seconds, 4),
            "verified": None if self.verdict is None else self.verdict.ok,
            "max_abs_error": None if self.verdict is None else self.verdict.max_abs_error,
            "max_rel_error": None if self.verdict is None else self.verdict.max_rel_error,
        }
