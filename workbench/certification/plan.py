"""A memory plan as evidence: the steps, and each value's lifetime and offset in the arena."""

from __future__ import annotations

from workbench.certification.flat import Json, node_key
from workbench.memory.planning import MemoryPlan


def plan_evidence(plan: MemoryPlan) -> Json:
    """The plan as JSON. Values of bodies and functions have paths as names, and None stands for steps in bodies."""
    lifetimes = plan.sharing.lifetimes
    steps = list(zip(lifetimes.steps, lifetimes.scopes, strict=True))
    values = [value for value in plan.values if value.offset is not None and value.block is not None]
    return {
        "kind": "plan",
        "planner": plan.packed.planner,
        "steps": [None if scope.outer else node_key(step.node) for step, scope in steps],
        "values": [
            {
                "name": value.name,
                "bytes": value.bytes,
                "offset": value.offset,
                "born": value.born,
                "dies": value.dies,
                "block": value.block,
            }
            for value in values
        ],
        "total": plan.packed.total,
        "bound": plan.packed.lower_bound,
        "certified": plan.certified,
    }
