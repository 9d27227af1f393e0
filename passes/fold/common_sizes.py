"""Compute sizes that are equal for all shapes once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from workbench.inference.sizes import FOLLOWED, Contents, contents_of, may_be_followed
from workbench.ir import DataType, Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule

from .fold_shapes import match_part_of_shape

Sizes = tuple[Contents, DataType]


def match_same_sizes(graph: Graph, node: Node, options: Pass) -> Rewrite:
    """For a single node; a run of the pass looks at the graph once."""
    return FirstBySizes().match(graph, node, options)


@dataclass(frozen=True)
class FirstBySizes:
    """The first value of a graph with given sizes. This pass adds no values, so it stays the first."""

    by_graph: WeakKeyDictionary[Graph, dict[Sizes, str]] = field(default_factory=WeakKeyDictionary)

    def match(self, graph: Graph, node: Node, options: Pass) -> Rewrite:
        made = _sizes(graph, node)
        if made is None:
            raise NoMatch(f"the result of {node} is not computed from symbolic dims, or is constant")
        if graph not in self.by_graph:
            self.by_graph[graph] = _first_values(graph)
        first = graph.producer(self.by_graph[graph].get(made, ""))
        if first is None or first.name == node.name:
            raise NoMatch(f"no node before {node} computes the same sizes")
        if graph.is_output(node.outputs[0]):
            raise NoMatch(f"{node} produces an output of the graph")
        edit = Edit(remove=(node.name,), replace={node.outputs[0]: first.outputs[0]})
        return Rewrite(
            edit, f"{node} computes the same sizes as {first}; computed once, 1 node less", (first.name, node.name)
        )


def _first_values(graph: Graph) -> dict[Sizes, str]:
    first: dict[Sizes, str] = {}
    for node in graph.nodes:
        made = _sizes(graph, node)
        if made is not None:
            first.setdefault(made, node.outputs[0])
    return first


def _sizes(graph: Graph, node: Node) -> Sizes | None:
    """The sizes that the node computes, if they depend on symbolic dims, else None."""
    type_ = graph.tensor_type(node.outputs[0])
    contents = None if type_ is None or node.op not in FOLLOWED else contents_of(graph, node.outputs[0])
    return None if type_ is None or contents is None or contents.known is not None else (contents, type_.dtype)


@dataclass(frozen=True)
class CommonSizes(Pass):
    """Two cases:

    - nodes that compute the same sizes from the shapes of two values of equal sizes, such as an anchor grid and the
      image that it covers: the first is kept;
    - sizes that are picked out of a shape are read by one Shape, whose `start` and `end` select a part of it.

    A size is a polynomial in symbolic dims, as in `fold_shapes`; a symbol has the same value everywhere.

    Must not act if the result is an output of the graph.

    Source: value numbering over symbolic shapes; ONNX's definition of a symbolic dim, which has one size per graph.
    """

    title = "Compute equal sizes once"

    def rules_of_run(self) -> tuple[Rule, ...]:
        same, *others = self.rules
        return replace(same, match=FirstBySizes().match), *others

    rules = (
        Rule(
            "same sizes",
            tuple(FOLLOWED),
            match_same_sizes,
            Example(
                before="""g (float[1,2,H,W] x, float[1,1,1,1] anchor) => (float[1,2,H,W] z, int64[2] y)
                    <int64[2] image = {2, 3}> {
                    s = Shape(x)
                    i = Gather(s, image)
                    n = Neg(i)
                    grid = Expand(anchor, s)
                    z = Neg(grid)
                    t = Shape<start=2>(grid)
                    y = Add(t, n)
                }""",
                after="""g (float[1,2,H,W] x, float[1,1,1,1] anchor) => (float[1,2,H,W] z, int64[2] y) {
                    s = Shape(x)
                    i = Shape<start=2, end=4>(x)
                    n = Neg(i)
                    grid = Expand(anchor, s)
                    z = Neg(grid)
                    y = Add(i, n)
                }""",
                sentences=(
                    "Gather 'Gather_i' computes the sizes of axes 2 to 3 of 'x'; written as Shape",
                    "Shape 'Shape_t' computes the same sizes as Shape 'Gather_i'; computed once, 1 node less",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,M] x) => (int64[1] y) { a = Shape<end=1>(x)  b = Shape<start=1>(x)  y = Add(a, b) }",
                    "no node before Shape 'Shape_a' computes the same sizes",
                ),
                Refusal(
                    "g (float[N] x) => (int64[1] y, int64[1] z) { a = Neg(x)  y = Shape(x)  z = Shape(a) }",
                    "Shape 'Shape_z' produces an output of the graph",
                ),
                Refusal(
                    "g (float[2] x) => (int64[1] y) { y = Shape(x) }",
                    "the result of Shape 'Shape_y' is not computed from symbolic dims, or is constant",
                ),
            ),
            may_match=may_be_followed,
            exactness=Exactness.BITS,
        ),
        Rule(
            "picked from a shape",
            ("Gather", "Slice", "Unsqueeze", "Reshape"),
            match_part_of_shape,
            Example(
                before="""g (float[N,C] x) => (int64[1] y) <int64 axis = {1}, int64[1] first = {0}> {
                    s = Shape(x)
                    c = Gather(s, axis)
                    u = Unsqueeze(c, first)
                    y = Neg(u)
                }""",
                after="""g (float[N,C] x) => (int64[1] y) <int64 axis = {1}> {
                    s = Shape(x)
                    c = Gather(s, axis)
                    u = Shape<start=1, end=2>(x)
                    y = Neg(u)
                }""",
                sentences=("Unsqueeze 'Unsqueeze_u' computes the size of axis 1 of 'x'; written as Shape",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,C] x) => (int64 y) <int64 axis = {1}> { s = Shape(x)  y = Gather(s, axis) }",
                    "Gather 'Gather_y' does not compute sizes of axes",
                ),
            ),
            may_match=may_be_followed,
            exactness=Exactness.BITS,
        ),
    )
