"""The bounds of a certificate: what is asked of the output, which the checker answers from the file alone.

Written is only what the file does not say: which operators the target or the types of a run hold in place, which rules
groups follow, and where a plan of memory places values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from workbench.evidence.certification.flat import Json, node_key
from workbench.ir import Graph
from workbench.planning.fusion.fusion_facts import FusionFacts
from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.planning.layout.problem.cost_model import BYTES, COUNT
from workbench.planning.memory.order_facts import OrderFacts
from workbench.planning.memory.planning import MemoryPlan
from workbench.planning.precision.precision_facts import TRAFFIC, PrecisionFacts
from workbench.rewrite import History


def asked_bounds(history: History, written: Graph, plan: MemoryPlan | None) -> list[Json]:
    """What the last step of each kind minimized, and the plan. A cost in measured time has no bound in a file.

    written: the output, of which `plan` is.
    """
    bounds: dict[str, Json] = {}
    for step in history.steps:
        ask = _ASKED.get(type(step.facts))
        bounds |= {} if ask is None else {record["kind"]: record for record in ask(step.facts, history.graph, written)}
    return [*bounds.values(), *([] if plan is None else [_plan(plan, written)])]


def _transposes(facts: LayoutFacts, graph: Graph, written: Graph) -> Iterator[Json]:
    if facts.weigh in (BYTES, COUNT):
        yield {"kind": "transposes", "weigh": facts.weigh, "in_order": _in_order(facts.demanded)}


def _casts(facts: PrecisionFacts, graph: Graph, written: Graph) -> Iterator[Json]:
    held = {node_key(node) for node in graph.nodes if node.name in facts.held}
    in_type = [key for node in written.nodes if (key := node_key(node)) in held and key]
    if facts.weigh == TRAFFIC:
        yield {"kind": "traffic", "in_order": _in_order(facts.demanded), "in_type": in_type}
    elif facts.weigh in (BYTES, COUNT):
        yield {"kind": "casts", "weigh": facts.weigh, "in_type": in_type}


def _groups(facts: FusionFacts, graph: Graph, written: Graph) -> Iterator[Json]:
    if facts.traffic.bound_bytes is not None:
        yield {"kind": "groups", "rules": facts.over}


def _order(facts: OrderFacts, graph: Graph, written: Graph) -> Iterator[Json]:
    if facts.after_bytes is not None:
        yield {"kind": "order"}


def _plan(plan: MemoryPlan, written: Graph) -> Json:
    """The offsets of the values that nodes of the file itself compute, not of those inside bodies and functions."""
    own = {value for node in written.nodes for value in node.outputs if value}
    placed = {value.name: value.offset for value in plan.values if value.name in own and value.offset is not None}
    return {"kind": "plan", "offsets": placed}


def _in_order(demanded: tuple[str, ...]) -> list[str]:
    """Operators of ONNX; those of the NPU run as they stand in any case."""
    return sorted(operator for operator in demanded if "." not in operator)


_ASKED: Mapping[type, Callable[..., Iterator[Json]]] = {
    LayoutFacts: _transposes,
    PrecisionFacts: _casts,
    FusionFacts: _groups,
    OrderFacts: _order,
}
