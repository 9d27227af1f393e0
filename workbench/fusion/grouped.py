"""A graph with all its groups made at once, as `fuse_groups` with `past_products` makes them one after the other."""

from __future__ import annotations

from workbench.fusion.group_calls import call_edit, group_function
from workbench.fusion.grouping import Groups, merges
from workbench.fusion.naming import group_names, operators_by_group
from workbench.fusion.problem import fusion_problem
from workbench.ir import Graph


def grouped(graph: Graph) -> Graph:
    """The graph itself if a pass has grouped its operators; else a copy with groups by fusion kind."""
    if any(group_function(graph, node) for node in graph.nodes):
        return graph
    result = graph.copy()
    groups = Groups(fusion_problem(graph))
    for _ in merges(groups, past_products=True):  # kernels write into the parts of a Concat after them
        pass  # each merge changes `groups`
    names = group_names(graph, groups.group)
    for number, places in operators_by_group(groups.group).items():
        if len(places) > 1:
            members = [graph.nodes[place] for place in places]
            result.apply(call_edit(result, graph, members, names[number], [node.name for node in members]))
    return result
