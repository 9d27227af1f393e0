"""Compute once the sizes that several nodes compute, equal whatever the symbolic dims are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from workbench.analysis.inference.sizes import (
    SHAPE_ARITHMETIC,
    SymbolicValue,
    may_have_symbolic_value,
    symbolic_value_of,
)
from workbench.ir import DataType, Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule

from .fold_shapes import match_part_of_shape

SizesKey = tuple[SymbolicValue, DataType]


def match_same_sizes(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """Match one node, with a table for this node alone; a run of the pass shares one table (`rules_of_run`)."""
    return FirstBySizes().match(graph, node, pass_)


@dataclass(frozen=True)
class FirstBySizes:
    """By graph, the first value with each tuple of sizes.

    The pass adds no values, so the table stays true while it runs.
    """

    by_graph: WeakKeyDictionary[Graph, dict[SizesKey, str]] = field(default_factory=WeakKeyDictionary)

    def match(self, graph: Graph, node: Node, pass_: Pass) -> Rewrite:
        sizes = _sizes(graph, node)
        if sizes is None:
            raise NoMatch(f"the result of {node} is not computed from symbolic dims, or is constant")
        if graph not in self.by_graph:
            self.by_graph[graph] = _first_values(graph)
        first = graph.producer(self.by_graph[graph].get(sizes, ""))
        if first is None or first.name == node.name:
            raise NoMatch(f"no node before {node} computes the same sizes")
        if graph.is_output(node.outputs[0]):
            raise NoMatch(f"{node} produces an output of the graph")
        edit = Edit(remove=(node.name,), replace={node.outputs[0]: first.outputs[0]})
        return Rewrite(
            edit, f"{node} computes the same sizes as {first}; computed once, 1 node fewer", (first.name, node.name)
        )


def _first_values(graph: Graph) -> dict[SizesKey, str]:
    first: dict[SizesKey, str] = {}
    for node in graph.nodes:
        sizes = _sizes(graph, node)
        if sizes is not None:
            first.setdefault(sizes, node.outputs[0])
    return first


def _sizes(graph: Graph, node: Node) -> SizesKey | None:
    """The sizes that the node computes, if they depend on symbolic dims, else None."""
    type_ = graph.tensor_type(node.outputs[0])
    symbolic = None if type_ is None or node.op not in SHAPE_ARITHMETIC else symbolic_value_of(graph, node.outputs[0])
    return None if type_ is None or symbolic is None or symbolic.known is not None else (symbolic, type_.dtype)


@dataclass(frozen=True)
class CommonSizes(Pass):
    """Two cases:

    - nodes that compute the same sizes from the shapes of two values of equal sizes, such as an anchor grid and the
      image that it covers: the first is kept;
    - sizes that are picked out of a shape are read by one Shape, whose `start` and `end` select a part of it.

    A size is a polynomial in symbolic dims, as in `fold_shapes`; a symbol has the same value everywhere.

    Does not apply if the result is an output of the graph.

    Source: value numbering over symbolic shapes; ONNX's definition of a symbolic dim, which has one size per graph.
    """

    title = "Compute equal sizes once"

    def rules_of_run(self) -> tuple[Rule, ...]:
        same, *others = self.rules
        return replace(same, match=FirstBySizes().match), *others

    rules = (
        Rule(
            "same sizes",
            tuple(SHAPE_ARITHMETIC),
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
                    "Shape 'Shape_t' computes the same sizes as Shape 'Gather_i'; computed once, 1 node fewer",
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
            may_match=may_have_symbolic_value,
            exactness=Exactness.BIT_EXACT,
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
            may_match=may_have_symbolic_value,
            exactness=Exactness.BIT_EXACT,
        ),
    )
