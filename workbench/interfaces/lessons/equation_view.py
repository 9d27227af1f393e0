"""Histories in which a box is an equation: a box of a lesson on algebra shows one value, and what it is computed from.

A rewrite keeps the names of nodes where it can, so that a layout pass changes a convolution and does not replace it.
In algebra the node of a name may compute something else afterwards. There a box stands for a value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from workbench.interfaces.lessons.stop_text import equation
from workbench.ir import Graph, Node
from workbench.planning.layout.profile import Profile
from workbench.presentation.view.timeline import Timeline, Version, timeline_of
from workbench.rewrite import AppliedRewrite, History


def equation_timeline(history: History, target: Profile) -> Timeline:
    """The union of the history's moments, where each box has the equation of its value.

    Values that the file names keep these names; others are written out.
    """
    named = _named_by_value(history)
    timeline = timeline_of(named, target)
    moments = [named.initial, *(named.at(step, n + 1) for step in range(len(named)) for n in _counted(named, step))]
    in_the_file = frozenset(value for node in named.initial.nodes for value in node.outputs)
    versions = {
        name: [_with_equation(version, moments[version.born], in_the_file) for version in forms]
        for name, forms in timeline.versions.items()
    }
    return replace(timeline, versions=versions)


def _counted(history: History, step: int) -> range:
    return range(len(history[step].rewrites))


def _with_equation(version: Version, graph: Graph, in_the_file: Collection[str]) -> Version:
    node, style = version.node, version.style
    name = "" if node.name in node.outputs or node.outputs[0] not in in_the_file else style.name
    return replace(version, style=replace(style, name=name, detail=equation(graph, node, in_the_file)))


def _named_by_value(history: History) -> History:
    """The history, where a node has a new name as soon as it computes another value."""
    graph, names = history.initial.copy(), {node.name: node.name for node in history.initial.nodes}
    steps = []
    for step in history.steps:
        rewrites = tuple(_renamed(rewrite, graph, names) for rewrite in step.rewrites)
        steps.append(replace(step, rewrites=rewrites))
    return replace(history, steps=steps)


def _renamed(rewrite: AppliedRewrite, graph: Graph, names: dict[str, str]) -> AppliedRewrite:
    """The rewrite with nodes as in `names`, by name; applies it to the graph, and takes its own names into `names`."""
    edit, before = rewrite.edit, _values(graph)
    matched, removed = (tuple(names[name] for name in some) for some in (rewrite.nodes, edit.remove))
    graph.apply(edit)
    after = _values(graph)
    for node in edit.insert:
        if before.get(node.name) != after[node.name]:
            names[node.name] = _unused(after[node.name] if node.name in before else node.name, names)
    inserted = tuple(_named(node, names) for node in edit.insert)
    return replace(rewrite, nodes=matched, edit=replace(edit, remove=removed, insert=inserted))


def _values(graph: Graph) -> Mapping[str, str]:
    """The first result of each node, by the node's name."""
    return {node.name: node.outputs[0] for node in graph.nodes}


def _unused(name: str, names: Mapping[str, str]) -> str:
    return _unused(f"{name}_", names) if name in names.values() else name


def _named(node: Node, names: Mapping[str, str]) -> Node:
    return node.replace(name=names[node.name])
