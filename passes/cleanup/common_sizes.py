"""Numbers that follow from shapes in the same way are computed once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from workbench.inference.sizes import FOLLOWED, Contents, contents_of
from workbench.ir import DataType, Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule

from ..fold.fold_shapes import match_part_of_shape

Sizes = tuple[Contents, DataType]


def match_same_sizes(graph: Graph, node: Node, options: Pass) -> Rewrite:
    """Of one node alone; a run looks at the graph once."""
    return FirstMade().match(graph, node, options)


@dataclass(frozen=True)
class FirstMade:
    """The first value of a graph that has certain sizes. Rewrites of this pass make no new values, so it stays."""

    by_graph: WeakKeyDictionary[Graph, dict[Sizes, str]] = field(default_factory=WeakKeyDictionary)

    def match(self, graph: Graph, node: Node, options: Pass) -> Rewrite:
        made = _sizes(graph, node)
        if made is None:
            raise NoMatch(f"the numbers that {node} makes do not follow from shapes, or are always the same")
        if graph not in self.by_graph:
            self.by_graph[graph] = _first_values(graph)
        first = graph.producer(self.by_graph[graph].get(made, ""))
        if first is None or first.name == node.name:
            raise NoMatch(f"no node before {node} makes the same sizes")
        if graph.is_output(node.outputs[0]):
            raise NoMatch(f"{node} makes an output of the graph")
        edit = Edit(remove=(node.name,), replace={node.outputs[0]: first.outputs[0]})
        return Rewrite(
            edit, f"{node} makes the same sizes as {first}; computed once, 1 node less", (first.name, node.name)
        )


def _first_values(graph: Graph) -> dict[Sizes, str]:
    first: dict[Sizes, str] = {}
    for node in graph.nodes:
        made = _sizes(graph, node)
        if made is not None:
            first.setdefault(made, node.outputs[0])
    return first


def _sizes(graph: Graph, node: Node) -> Sizes | None:
    """What the node makes, if it depends on symbolic dims."""
    type_ = graph.tensor_type(node.outputs[0])
    contents = None if type_ is None or node.op not in FOLLOWED else contents_of(graph, node.outputs[0])
    return None if type_ is None or contents is None or contents.known is not None else (contents, type_.dtype)


@dataclass(frozen=True)
class CommonSizes(Pass):
    """Two cases:

    - nodes that ask for the shapes of two values and compute with them make the same numbers, since the values
      have the same sizes: an anchor grid has those of the image that it lies on. The first is kept;
    - sizes that are picked from a shape are asked for at once, since Shape takes a part of it.

    A size is a polynomial in symbolic dims, as `fold_shapes` follows them; one symbol is one size everywhere.

    Must not act where the result is an output of the graph.

    Source: value numbering over symbolic shapes; ONNX's definition of a symbolic dim, which has one size a graph.
    """

    title = "Compute equal sizes once"

    def rules_of_run(self) -> tuple[Rule, ...]:
        same, *others = self.rules
        return replace(same, match=FirstMade().match), *others

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
                    "Gather 'Gather_i' makes the sizes of axes 2 to 3 of 'x'; asked for at once",
                    "Shape 'Shape_t' makes the same sizes as Shape 'Gather_i'; computed once, 1 node less",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,M] x) => (int64[1] y) { a = Shape<end=1>(x)  b = Shape<start=1>(x)  y = Add(a, b) }",
                    "no node before Shape 'Shape_a' makes the same sizes",
                ),
                Refusal(
                    "g (float[N] x) => (int64[1] y, int64[1] z) { a = Neg(x)  y = Shape(x)  z = Shape(a) }",
                    "Shape 'Shape_z' makes an output of the graph",
                ),
                Refusal(
                    "g (float[2] x) => (int64[1] y) { y = Shape(x) }",
                    "the numbers that Shape 'Shape_y' makes do not follow from shapes, or are always the same",
                ),
            ),
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
                sentences=("Unsqueeze 'Unsqueeze_u' makes the size of axis 1 of 'x'; asked for at once",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,C] x) => (int64 y) <int64 axis = {1}> { s = Shape(x)  y = Gather(s, axis) }",
                    "Gather 'Gather_y' does not make sizes of axes",
                ),
            ),
            exactness=Exactness.BITS,
        ),
    )
