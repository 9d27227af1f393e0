"""A graph as Graphviz's DOT: nodes in the colours of their layouts, bodies of control flow as clusters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from graphviz import Digraph, escape, nohtml

from workbench.ir import Graph, Node
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.profile import Profile
from workbench.presentation.view import ids
from workbench.presentation.view.node_style import OWN, PLAIN, TARGET, NodeStyle, shape_text, style_of
from workbench.presentation.view.value_types import ValueLabel, value_label, widths_of
from workbench.rewrite.core.bodies import opened_body

_FILLS = {OWN: "palegoldenrod", TARGET: "peachpuff", PLAIN: "lightgrey"}
_BORDERS = {OWN: ("filled", "1"), TARGET: ("filled", "2.6"), PLAIN: ("filled,dotted", "1.4")}

_DOUBLE = "black:invis:black"  # two lines: of a narrower element type

_DotEdge = tuple[str, str, ValueLabel]  # source, target, label


def dot_of(graph: Graph, target: Profile) -> Digraph:
    """The graph with its inputs and outputs, without constants.

    Nodes are called n0, n1, ..., since DOT reads names with colons as ports. The tooltip has the node's name, or
    "in:x", "out:y" for an input or output. A body of If, Loop or Scan is a cluster beside its node, with edges from
    the values that it captures. If the values have several floating-point or quantized element types, each edge names
    its own, and those of narrower types are double lines.
    """
    dot = Digraph(
        escape(graph.name), node_attr={"shape": "box", "fontname": "Helvetica"}, edge_attr={"fontname": "Helvetica"}
    )
    numbers = (f"n{number}" for number in itertools.count())
    edges = _draw(dot, graph, target, {}, numbers)
    widths = widths_of(label for *_, label in edges)
    for source, reader, label in edges:
        more = {"color": _DOUBLE} if widths.is_narrow(label) else {}
        dot.edge(source, reader, label=escape(widths.text(label)), **more)
    return dot


def _draw(
    dot: Digraph, graph: Graph, target: Profile, outer_producers: Mapping[str, str], numbers: Iterator[str]
) -> list[_DotEdge]:
    """Draw the boxes; returns the edges, since an edge drawn in a cluster would pull both its ends into it.

    outer_producers: by value of the enclosing graph, the box that produces it.
    """
    layouts = infer_layouts(graph)
    producers = dict(outer_producers)
    edges: list[_DotEdge] = []
    for value in graph.inputs:
        if value not in outer_producers:
            producers[value] = next(numbers)
            _public(dot, producers[value], graph, value, ids.INPUT_ID)
    for node in graph.nodes:
        number = next(numbers)
        style = style_of(graph, node, layouts, target)
        producers |= dict.fromkeys(filter(None, node.outputs), number)
        edges += [(producers[v], number, value_label(graph, v, layouts, target)) for v in node.inputs if v in producers]
        if not node.bodies:
            _box(dot, number, node, style)
            continue
        with dot.subgraph(name=f"cluster_{number}", graph_attr={"label": _lines(str(node))}) as cluster:
            _box(cluster, number, node, style)
            for index, (key, body) in enumerate(node.bodies.items()):
                name, attributes = f"cluster_{number}_{index}", {"label": _lines(key), "style": "dashed"}
                with cluster.subgraph(name=name, graph_attr=attributes) as inner:
                    edges += _draw(inner, opened_body(graph, body), target, producers, numbers)
    for value in graph.outputs:
        number = next(numbers)
        _public(dot, number, graph, value, ids.OUTPUT_ID)
        edges += [(producers[value], number, value_label(graph, value, layouts, target))] if value in producers else []
    return edges


def _box(dot: Digraph, number: str, node: Node, style: NodeStyle) -> None:
    border, width = _BORDERS[style.layout]
    label = _lines(style.op, style.name, style.detail)
    dot.node(number, label, tooltip=escape(node.name), fillcolor=_FILLS[style.layout], style=border, penwidth=width)


def _public(dot: Digraph, number: str, graph: Graph, value: str, prefix: str) -> None:
    """The box of an input or output."""
    label = _lines(value, shape_text(graph, value))
    dot.node(number, label, tooltip=escape(prefix + value), fillcolor="white", style="rounded,filled")


def _lines(*lines: str) -> str:
    """A label of these lines, escaped so that DOT reads neither escapes nor markup in them."""
    return str(nohtml(r"\n".join(escape(line) for line in lines if line)))
