"""A graph with all groups made at once that `fuse_groups` with `past_products` makes one after the other."""

from __future__ import annotations

from workbench.ir import Graph
from workbench.planning.fusion.group_calls import call_edit, group_function
from workbench.planning.fusion.grouping import Groups, merges
from workbench.planning.fusion.naming import group_names, operators_by_group
from workbench.planning.fusion.problem import fusion_problem


def grouped(graph: Graph) -> Graph:
    """The graph itself if a pass has grouped its operators; else a copy with groups by fusion kind."""
    if any(group_function(graph, node) for node in graph.nodes):
        return graph
    result = graph.copy()
    groups = Groups(fusion_problem(graph))
    for _ in merges(groups, past_products=True):  # a kernel can write into its part of a Concat
        pass  # each merge changes `groups`
    names = group_names(graph, groups.group)
    for number, indices in operators_by_group(groups.group).items():
        if len(indices) > 1:
            members = [graph.nodes[i] for i in indices]
            result.apply(call_edit(result, graph, members, names[number], [node.name for node in members]))
    return result
