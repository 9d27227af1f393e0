"""What the layout strategy of a history stated about its result."""

from __future__ import annotations

from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.rewrite import History, Step


def layout_step(history: History) -> Step | None:
    """The last run of a layout strategy."""
    return next((s for s in reversed(history.steps) if isinstance(s.pass_, LayoutStrategy)), None)


def layout_facts(step: Step | None) -> LayoutFacts:
    """The facts that the layout strategy returned; empty ones for any other step."""
    facts = None if step is None else step.facts
    return facts if isinstance(facts, LayoutFacts) else LayoutFacts()
