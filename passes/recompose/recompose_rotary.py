"""Recompose RotaryEmbedding from the slices, products and sums that exporters write for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rule
from workbench.rewrite.core.guards import is_same_axis, is_same_shape, require_constant
from workbench.rewrite.patterns.building import Constraint
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import is_float32, recomposed

_SPLIT = "first, second = Split(x, sizes | None, axis=-1, **others)"
_SLICED = """first = Slice(x, starts, ends, axes, steps | None)
second = Slice(x, starts_of_second, ends_of_second, axes_of_second, steps_of_second | None)"""
_ROTATE_HALF = "y = Add(Mul(x, cos), Mul(Concat(Neg(second), first, axis=-1), sin))"
_BY_HALVES = """real = Sub(Mul(first, cos), Mul(second, sin))
y = Concat(real, Add(Mul(second, cos), Mul(first, sin)), axis=-1)"""
_WITH_WHOLE_TABLES = """y = RotaryEmbedding(x, Slice(Squeeze(cos, heads), start, half, last),
                    Slice(Squeeze(sin, heads), start, half, last))"""
_WITH_HALF_TABLES = "y = RotaryEmbedding(x, Squeeze(cos, heads), Squeeze(sin, heads))"


def are_halves(match: Match) -> None:
    """Raises NoMatch unless `first` and `second` are the halves of the last axis of x, in order."""
    graph, x = match.graph, match["x"]
    shape = graph.shape(x) or ()
    size = shape[-1] if len(shape) == 4 else None
    if not isinstance(size, int) or size < 2 or size % 2:
        raise NoMatch(f"'{x}' does not have four axes with a last axis of known, even size")
    for name, start in (("first", 0), ("second", size // 2)):
        node = match.node(name)
        if node.op == "Slice":
            _refuse_other_slice(graph, node, start, size)
        elif (graph.shape(match[name]) or (None,))[-1] != size // 2:
            raise NoMatch(f"'{match[name]}' is not known to be half of the last axis of '{x}'")


def _refuse_other_slice(graph: Graph, node: Node, start: int, size: int) -> None:
    bounds = (require_constant(graph, value, node).reshape(-1).tolist() for value in node.inputs[1:])
    starts, ends, axes, *steps = bounds
    if [axis % 4 for axis in axes] == [3] and steps in ([], [[1]]):
        indices = range(size)[slice(starts[0], ends[0])]
        if indices == range(start, start + size // 2):
            return
    raise NoMatch(f"{node} does not cut half of the last axis, from {start} on")


def has_angles_of_x(size_of: str) -> Constraint:
    """A condition that cos and sin are the same for all heads, with the last axis of the value `size_of`."""

    def demand(match: Match) -> None:
        shape, angles = match.graph.shape(match["x"]) or (), match.graph.shape(match[size_of]) or ()
        for value in (match["cos"], match["sin"]):
            if not is_same_shape(match.graph.shape(value), (*shape[:1], 1, *shape[2:3], *angles[-1:])):
                raise NoMatch(
                    f"'{value}' is not known to have the axes of '{match['x']}', with one number for all heads"
                )

    return demand


def repeats_its_half(match: Match) -> None:
    for value in (match["cos"], match["sin"]):
        if not _is_repeated(match.graph, value):
            raise NoMatch(f"the second half of '{value}' is not known to repeat the first, as in RotaryEmbedding")


def _is_repeated(graph: Graph, value: str) -> bool:
    """Whether the last axis is known to have two equal halves: a constant, or computed elementwise from a Concat."""
    while (node := graph.producer(value)) is not None:
        if node.op == "Concat":
            is_twice = len(node.inputs) == 2 and node.inputs[0] == node.inputs[1]
            return is_twice and is_same_axis(node.attr("axis"), -1, graph.rank_of(value))
        if node.op not in ("Cos", "Sin", "Cast", "Identity", "Unsqueeze", "Mul", "Gather"):
            return False
        source = node.inputs[0]
        if node.op == "Mul":
            others = [operand for operand in node.inputs if graph.shape(operand) not in ((), (1,))]
            source = others[0] if len(others) == 1 else ""
        if node.op == "Gather" and is_same_axis(node.attr("axis"), -1, graph.rank_of(source)):
            return False
        if not source or (graph.shape(source) or (None,))[-1] != (graph.shape(value) or ())[-1]:
            return False
        value = source
    tensor = graph.constant(value)
    if tensor is None:
        return False
    first, second = np.split(tensor.numpy(), 2, axis=-1)
    return np.array_equal(first, second)


def _int64(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


_NUMBERS = {
    "heads": lambda match: _int64(1),
    "start": lambda match: _int64(0),
    "last": lambda match: _int64(-1),
    "half": lambda match: _int64(match.graph.shape(match["x"])[-1] // 2),
}


def _rule(
    name: str, body: str, after: str, where: tuple[Constraint, ...], example: Example, refusals: tuple[Refusal, ...]
) -> Rule:
    return graph_rule(
        name,
        f"{_SPLIT}\n{body}",
        after,
        recomposed("x"),
        example,
        refusals,
        further=((f"{_SLICED}\n{body}", after),),
        where=(are_halves, *where, is_float32("x")),
        computed=_NUMBERS,
        exactness=Exactness.ROUNDING,
    )


_HALVED = "first, second = Split<axis=-1, num_outputs=2>(x)"
_ROTATE_NODES = "n = Neg(second)  t = Concat<axis=-1>(n, first)  b = Mul(t, sin)  a = Mul(x, cos)  y = Add(a, b)"
_ANGLES = "float[2,1,3,4] cos, float[2,1,3,4] sin"


def _rotate_graph(angles: str = _ANGLES, halves: str = _HALVED, x: str = "float[2,5,3,4] x") -> str:
    return f"g ({x}, {angles}) => (float[2,5,3,4] y) {{ {halves}  {_ROTATE_NODES} }}"


@dataclass(frozen=True)
class RecomposeRotary(Pass):
    """Two cases, for x of float32 with the axes batch, heads, position and size, and the halves x1 and x2 of its last
    axis, cut by a Split or two Slices; cos and sin have the axes batch, 1, position and size. They become
    RotaryEmbedding:

    - x * cos + concat(-x2, x1) * sin, as in Llama, if the second half of cos and sin is known to repeat the first:
      they are constants, or computed elementwise from a Concat of a value with itself;
    - concat(x1 * cos - x2 * sin, x2 * cos + x1 * sin), with cos and sin of half the size.

    Does not apply:

    - if cos and sin are broadcast along the batch;
    - if anything else reads an intermediate value;
    - before opset 23.

    Interleaved pairs, as in GPT-J, are not recomposed.

    Source: ONNX's definition of RotaryEmbedding; Su et al., "RoFormer: Enhanced Transformer with Rotary Position
    Embedding", 2021, https://arxiv.org/abs/2104.09864
    """

    title = "Recompose RotaryEmbedding"

    rules = (
        _rule(
            "rotate half",
            _ROTATE_HALF,
            _WITH_WHOLE_TABLES,
            (has_angles_of_x("x"), repeats_its_half),
            Example(
                before="""g (float[N,5,3,4] x, float[N,3,2] f) => (float[N,5,3,4] y)
                    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] last = {3},
                     int64[1] end = {9223372036854775807}> {
                    e = Concat<axis=-1>(f, f)
                    c = Cos(e)
                    cos = Unsqueeze(c, one)
                    s = Sin(e)
                    sin = Unsqueeze(s, one)
                    first = Slice(x, zero, two, last, one)
                    second = Slice(x, two, end, last)
                    n = Neg(second)
                    t = Concat<axis=-1>(n, first)
                    a = Mul(x, cos)
                    b = Mul(t, sin)
                    y = Add(a, b)
                }""",
                after="""g (float[N,5,3,4] x, float[N,3,2] f) => (float[N,5,3,4] y)
                    <int64[1] one = {1}, int64[1] y_heads = {1}, int64[1] y_start = {0}, int64[1] y_half = {2},
                     int64[1] y_last = {-1}> {
                    e = Concat<axis=-1>(f, f)
                    c = Cos(e)
                    cos = Unsqueeze(c, one)
                    y_squeeze = Squeeze(cos, y_heads)
                    y_slice = Slice(y_squeeze, y_start, y_half, y_last)
                    s = Sin(e)
                    sin = Unsqueeze(s, one)
                    y_squeeze_1 = Squeeze(sin, y_heads)
                    y_slice_1 = Slice(y_squeeze_1, y_start, y_half, y_last)
                    y = RotaryEmbedding(x, y_slice, y_slice_1)
                }""",
                sentences=("7 nodes, from Mul 'Mul_a' to Add 'Add_y', compute RotaryEmbedding of 'x'; 2 nodes fewer",),
            ),
            (
                Refusal(
                    _rotate_graph(),
                    "the second half of 'cos' is not known to repeat the first, as in RotaryEmbedding",
                ),
                Refusal(
                    _rotate_graph("float[1,3,4] cos, float[1,3,4] sin"),
                    "'cos' is not known to have the axes of 'x', with one number for all heads",
                ),
                Refusal(
                    _rotate_graph(x="float[5,3,4] x"),
                    "'x' does not have four axes with a last axis of known, even size",
                ),
                Refusal(
                    _rotate_graph(halves="first, second = Split<axis=-2, num_outputs=2>(x)"),
                    "Split 'Split_first' has axis=2, not 3",
                ),
            ),
        ),
        _rule(
            "products of halves",
            _BY_HALVES,
            _WITH_HALF_TABLES,
            (has_angles_of_x("first"),),
            Example(
                before="""g (float[2,5,3,4] x, float[2,3,2] c, float[2,3,2] s) => (float[2,5,3,4] y)
                    <int64[1] one = {1}> {
                    cos = Unsqueeze(c, one)
                    sin = Unsqueeze(s, one)
                    first, second = Split<axis=3, num_outputs=2>(x)
                    a = Mul(first, cos)
                    b = Mul(second, sin)
                    d = Sub(a, b)
                    e = Mul(second, cos)
                    f = Mul(sin, first)
                    h = Add(e, f)
                    y = Concat<axis=-1>(d, h)
                }""",
                after="""g (float[2,5,3,4] x, float[2,3,2] c, float[2,3,2] s) => (float[2,5,3,4] y)
                    <int64[1] one = {1}, int64[1] y_heads = {1}> {
                    cos = Unsqueeze(c, one)
                    sin = Unsqueeze(s, one)
                    y_squeeze_1 = Squeeze(sin, y_heads)
                    y_squeeze = Squeeze(cos, y_heads)
                    y = RotaryEmbedding(x, y_squeeze, y_squeeze_1)
                }""",
                sentences=(
                    "8 nodes, from Split 'Split_first' to Concat 'Concat_y', compute RotaryEmbedding of 'x'; 5 "
                    "nodes fewer",
                ),
            ),
            (
                Refusal(
                    """g (float[2,5,3,4] x, float[2,1,3,2] cos, float[2,1,3,2] sin) => (float[2,5,3,4] y)
                        <int64[1] zero = {0}, int64[1] two = {2}, int64[1] end = {4}, int64[1] last = {3},
                         int64[1] one = {1}> {
                        first = Slice(x, zero, end, last, two)
                        second = Slice(x, two, end, last)
                        a = Mul(first, cos)  b = Mul(second, sin)  d = Sub(a, b)
                        e = Mul(second, cos)  f = Mul(sin, first)  h = Add(e, f)
                        y = Concat<axis=-1>(d, h)
                    }""",
                    "Slice 'Slice_first' does not cut half of the last axis, from 0 on",
                ),
            ),
        ),
    )
