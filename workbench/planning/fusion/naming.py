"""The groups of a graph by number and name."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.ir import Graph
from workbench.ops.fusion_kinds import FUSABLE
from workbench.planning.fusion.fusion_facts import FusedGroup
from workbench.planning.fusion.group_calls import group_name
from workbench.planning.fusion.grouping import kind_text
from workbench.planning.fusion.problem import Operator


def operators_by_group(group: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """The operators of each group, in topological order; groups are in the order of their first operators.

    group: the number of the group of each operator.
    """
    results: dict[int, tuple[int, ...]] = {}
    for i, number in enumerate(group):
        results[number] = (*results.get(number, ()), i)
    return results


def group_names(graph: Graph, group: Sequence[int]) -> dict[int, str]:
    """The name of each group: "group_1" and so on for calls, in topological order; an operator alone keeps its name."""
    names, nodes = {}, graph.nodes
    number = 1
    while any(node.name.startswith(group_name(number)) for node in nodes):
        number += 1
    for key, members in operators_by_group(group).items():
        if len(members) == 1:
            names[key] = nodes[members[0]].name
            continue
        names[key] = group_name(number)
        number += 1
    return names


def fused_groups(graph: Graph, operators: Sequence[Operator], group: Sequence[int]) -> tuple[FusedGroup, ...]:
    """The groups for the report. The kind of a group is FUSABLE if one of its operators is, else that of its last
    operator."""
    names = group_names(graph, group)
    return tuple(
        FusedGroup(
            names[key],
            tuple(operators[i].name for i in members),
            kind_text(FUSABLE if any(operators[i].kind == FUSABLE for i in members) else operators[members[-1]].kind),
        )
        for key, members in operators_by_group(group).items()
    )
