"""The inspector's rows on fused groups: their memory traffic, and why they have no further operators."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.ir import Node
from workbench.ops import fusion_kind_of
from workbench.planning.fusion.fusion_facts import FusionFacts
from workbench.planning.fusion.grouping import kind_text
from workbench.planning.fusion.opened_groups import OpenedGroups
from workbench.planning.fusion.traffic import stored_values, traffic_of_group
from workbench.rewrite import Step


def fusion_rows(groups: OpenedGroups, node: Node, steps: Sequence[Step]) -> list[list[str]]:
    """The operator's kind and group, and why its group ends after it; [] before operators are fused.

    steps: up to the shown moment.
    """
    facts = next((step.facts for step in reversed(steps) if isinstance(step.facts, FusionFacts)), None)
    group = groups.group_of.get(node.name)
    if facts is None and group is None:
        return []
    rows = [["kind", kind_text(fusion_kind_of(node))], ["group", "none: it is a kernel of its own"]]
    if group is not None:
        rows[1] = ["group", f"{group}, {len(groups.members(group)):,} operators"]
    refusal = "" if facts is None else facts.refusals.get(node.name, "")
    return [*rows, ["joins no later operator", refusal]] if refusal else rows


def group_rows(groups: OpenedGroups, name: str) -> list[list[str]]:
    """The call of the fused group, and the bytes that it and its separate operators read and write."""
    call = groups.graph.find(name)
    members = groups.members(name)
    if call is None or members == (name,):
        return []
    nodes = groups.opened.nodes
    values, indices = stored_values(groups.opened), range(len(nodes))
    numbers = {i for i in indices if nodes[i].name in members}
    group_bytes = traffic_of_group(values, [-1 if i in numbers else i for i in indices], -1)
    operator_bytes = [traffic_of_group(values, indices, i) for i in numbers]
    return [
        ["call", call.op],
        ["bytes read and written", _count(group_bytes)],
        [
            "by its operators alone",
            _count(None if None in operator_bytes else sum(size or 0 for size in operator_bytes)),
        ],
    ]


def _count(size: int | None) -> str:
    return "not known" if size is None else f"{size:,}"
