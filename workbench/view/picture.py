"""The picture of a graph: boxes coloured by layout, edges with the layout that they carry.

Everything that draws a graph goes through `draw`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import graphviz

from workbench.ir import Graph, Node
from workbench.layout.classes import class_of
from workbench.layout.cost import bound_shape, count
from workbench.layout.infer import TENSOR, is_cnn
from workbench.layout.profile import Profile
from workbench.ops.blocked import block_of
from workbench.view.diff import Diff

MOST_BOXES = 60  # more than this is neither quick to place nor legible in a static picture
SMALL = 24  # a graph of so many boxes is drawn whole
_CONTEXT = 3  # boxes drawn before the first that the picture is about
_LABEL = 34  # characters of a name that are shown
_GREY = "#808080"  # legible on a light and on a dark page
_INK = "#222222"  # on the boxes, whose fills are light

OWN, TARGET, PLAIN = "own", "target", "tensor"


@dataclass(frozen=True)
class Look:
    """How a kind of value is drawn: colour, border, and words, so that colour alone is not needed."""

    fill: str
    border: str
    words: str


# Colours of the NPU layout document.
LOOKS: Mapping[str, Look] = {
    OWN: Look("#EEE8AA", "solid", "CNN, the model's own layout"),
    TARGET: Look("#FFDAB9", "bold", "CNN, the target's layout"),
    PLAIN: Look("#D3D3D3", "dotted", "Tensor"),
}
MARKS: Mapping[str, tuple[str, str]] = {
    "-": ("#C62828", "removed"),
    "+": ("#2E7D32", "added"),
    "~": ("#B26A00", "changed"),
}


@dataclass(frozen=True)
class Picture:
    """Graphviz source, and which of the graph's nodes are drawn: `drawn` of them, from number `start` on."""

    dot: str
    start: int
    drawn: int
    nodes: int


def kind_of(layout: str, target: Profile) -> str:
    """ "own", "target" or "tensor"."""
    if not is_cnn(layout):
        return PLAIN
    wanted = target.layout if block_of(target.layout) else target.layout_for(len(layout))
    return TARGET if layout == wanted else OWN


def draw(
    graph: Graph,
    layouts: Mapping[str, str],
    target: Profile,
    *,
    marks: Diff | None = None,
    focus: Iterable[str] = (),
    limit: int = MOST_BOXES,
    classes: bool = False,
) -> Picture:
    """The graph as Graphviz source, at most `limit` boxes, from the first of `focus` on; edges say the shape.

    Boxes say the layout, or with `classes` which of TVM's three classes the operator is in.
    Names are text: whatever stands in them is shown as it is, cut to a length.
    """
    start = first_box(graph, focus, limit)
    shown = list(graph.nodes[start : start + limit])
    names = {node.name for node in shown}
    ids = {node.name: f"n{i}" for i, node in enumerate(graph.nodes)}
    dot = graphviz.Digraph(graph_attr={"rankdir": "TB", "nodesep": "0.15", "ranksep": "0.25", "bgcolor": "transparent"})
    dot.attr("node", shape="box", style="filled", fontname="Helvetica", fontsize="10", margin="0.1,0.04", height="0.25")
    dot.attr("node", fontcolor=_INK, color=_GREY)
    dot.attr("edge", fontname="Helvetica", fontsize="8", color=_GREY, fontcolor=_GREY, arrowsize="0.5")
    sources: dict[str, str] = {}
    for i, value in enumerate(graph.inputs):
        if any(user.name in names for user in graph.users(value)):
            sources[value] = f"i{i}"
            _ellipse(dot, sources[value], value, layouts, target)
    for node in shown:
        layout = layouts.get(node.outputs[0], TENSOR) if node.outputs else TENSOR
        detail = _class(node, target) if classes and node.op != "Transpose" else _detail(node, layout, layouts)
        look = LOOKS[kind_of(layout, target)]
        _box(dot, ids[node.name], node, detail, look, "" if marks is None else marks.mark(node.name))
    for node in shown:
        for value in dict.fromkeys(node.uses):
            maker = graph.producer(value)
            source = sources.get(value) if maker is None else ids[maker.name]
            if source is None:
                continue
            if maker is not None and maker.name not in names:
                _stub(dot, source, maker)
            dot.edge(source, ids[node.name], label=_shape(graph, value))
    for i, value in enumerate(graph.outputs):
        maker = graph.producer(value)
        if maker is not None and maker.name in names:
            _ellipse(dot, f"o{i}", value, layouts, target)
            dot.edge(ids[maker.name], f"o{i}", label=_shape(graph, value))
    return Picture(dot.source, start, len(shown), len(graph))


def first_box(graph: Graph, focus: Iterable[str], limit: int) -> int:
    """The number of the first node to draw: just before the first of `focus`; 0 in a small graph."""
    wanted = set(focus)
    if len(graph) <= min(SMALL, limit) or not wanted:
        return 0
    first = next((i for i, node in enumerate(graph.nodes) if node.name in wanted), 0)
    return max(0, first - _CONTEXT)


def _box(dot: graphviz.Digraph, id_: str, node: Node, detail: str, look: Look, mark: str) -> None:
    colour, _ = MARKS.get(mark, (_GREY, ""))
    op = node.op.removeprefix("workbench.")
    name = "" if node.op == node.name else _short(node.name)
    lines = [f"{mark} {op}  {name}".strip(), detail]
    style = {"-": "filled,dashed", "+": "filled,bold", "~": "filled,bold"}.get(mark, f"filled,{look.border}")
    dot.node(
        id_,
        label="\n".join(_text(line) for line in lines if line),
        fillcolor=look.fill,
        style=style,
        color=colour,
        penwidth="2.5" if mark else "1",
        tooltip=_text(f"{node.op} {node.name}"),
    )


def _class(node: Node, target: Profile) -> str:
    return class_of(node, target) or "keeps its order of axes"


def _detail(node: Node, layout: str, layouts: Mapping[str, str]) -> str:
    if node.op == "Transpose":
        return f"{layout}  perm {list(node.attr('perm', ()))}"
    if node.bodies:
        return f"{layout}  with {sum(count(body).nodes for body in node.bodies.values()):,} nodes inside"
    weights = next((layouts[v] for v in node.inputs[1:2] if layouts.get(v, "")[:1] in ("O", "I", "H")), "")
    return f"{layout}  weights {weights}" if weights else layout


def _ellipse(dot: graphviz.Digraph, id_: str, value: str, layouts: Mapping[str, str], target: Profile) -> None:
    layout = layouts.get(value, TENSOR)
    look = LOOKS[kind_of(layout, target)]
    label = _text(f"{_short(value)}  {layout}")
    dot.node(
        id_, label=label, shape="ellipse", fillcolor=look.fill, style=f"filled,{look.border}", tooltip=_text(value)
    )


def _stub(dot: graphviz.Digraph, id_: str, node: Node) -> None:
    """A producer outside the picture: its name in small print."""
    dot.node(id_, label=_text(f"... {node.op}"), shape="plaintext", style="", fontsize="9", tooltip=_text(node.name))


def _shape(graph: Graph, value: str) -> str:
    """The value's shape as an edge says it, symbolic dims bound: "1x3x224x224"; "?" is what is not known."""
    type_ = graph.tensor_type(value)
    shape = bound_shape(graph, value) or (None if type_ is None else type_.shape)
    if not shape:
        return ""
    return " " + "x".join(str(d if isinstance(d, int) else graph.dims.get(str(d), "?")) for d in shape)


def _short(name: str) -> str:
    return name if len(name) <= _LABEL else f"{name[: _LABEL // 2 - 1]}...{name[-(_LABEL // 2 - 2) :]}"


def _text(text: str) -> str:
    """Text as text: no escape sequences, no HTML-like label, no control characters."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return graphviz.nohtml(graphviz.escape(printable))
