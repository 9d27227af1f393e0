"""What the inspector says of fused groups: what a group reads and writes, and why it holds no more operators."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.fusion.fusion_facts import FusionFacts
from workbench.fusion.grouping import word
from workbench.fusion.opened_groups import OpenedGroups
from workbench.fusion.traffic import stored_values, traffic_of_group
from workbench.ir import Node
from workbench.ops import fusion_kind_of
from workbench.rewrite import Step


def fusion_rows(groups: OpenedGroups, node: Node, steps: Sequence[Step]) -> list[list[str]]:
    """The operator's kind and group, and why its group ends after it; nothing before operators are fused.

    steps: those up to the moment that is shown.
    """
    facts = next((step.facts for step in reversed(steps) if isinstance(step.facts, FusionFacts)), None)
    group = groups.group_of.get(node.name)
    if facts is None and group is None:
        return []
    rows = [["kind", word(fusion_kind_of(node))], ["group", "none: it is a kernel of its own"]]
    if group is not None:
        rows[1] = ["group", f"{group}, {len(groups.members(group)):,} operators"]
    refusal = "" if facts is None else facts.refusals.get(node.name, "")
    return [*rows, ["joins no later operator", refusal]] if refusal else rows


def group_rows(groups: OpenedGroups, name: str) -> list[list[str]]:
    """The call of the fused group, and the bytes that it reads and writes beside those of its operators alone."""
    call = groups.graph.find(name)
    members = groups.members(name)
    if call is None or members == (name,):
        return []
    nodes = groups.opened.nodes
    values, alone = stored_values(groups.opened), range(len(nodes))
    numbers = {i for i in alone if nodes[i].name in members}
    moved = traffic_of_group(values, [-1 if i in numbers else i for i in alone], -1)
    apart = [traffic_of_group(values, alone, i) for i in numbers]
    return [
        ["call", call.op],
        ["bytes read and written", _count(moved)],
        ["by its operators alone", _count(None if None in apart else sum(size or 0 for size in apart))],
    ]


def _count(size: int | None) -> str:
    return "not known" if size is None else f"{size:,}"
