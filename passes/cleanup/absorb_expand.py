"""Broadcast values as late as possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node, TensorType, constant
from workbench.ir.types import Dim, Shape
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import (
    broadcasts_into,
    is_same_shape,
    require_constant,
    require_integers,
    require_producer,
    require_single_use,
)

_BROADCASTING = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "PRelu", "Where", "Min", "Max", "Sum", "Mean"),
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor"),
        *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"),
    }
)


def _demand_broadcast(graph: Graph, reader: Node, expanded: str, shape: Shape) -> None:
    """Raises NoMatch if the result of the reader may get its shape from the expanded value."""
    if reader.op not in _BROADCASTING:
        raise NoMatch(f"{reader}, which reads '{expanded}', does not broadcast")
    if reader.op == "PRelu" and reader.inputs[0] == expanded:
        raise NoMatch(f"{reader} does not broadcast its first operand")
    others = [value for value in reader.inputs if value != expanded]
    if not any(broadcasts_into(shape, graph.shape(other)) for other in others):
        raise NoMatch(f"no other operand of {reader} is known to have every axis of '{expanded}'")


def _tiled_shape(graph: Graph, node: Node) -> tuple[Dim, ...]:
    """The shape of a Tile's result. Raises NoMatch if it repeats more than single elements."""
    shape, repeats = graph.shape(node.inputs[0]), require_constant(graph, node.inputs[1], node)
    if shape is None or any(size != 1 for size, times in zip(shape, repeats, strict=True) if times != 1):
        raise NoMatch(f"{node} may repeat an axis of '{node.inputs[0]}' that has more than one element")
    return tuple(size if times == 1 else int(times) for size, times in zip(shape, repeats, strict=True))


def match_expand(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    power = next((reader for reader in graph.users(node.outputs[0]) if reader.op == "Pow"), None)
    if power is not None:
        raise NoMatch(f"{power} may round differently if an operand is a scalar; another rule covers it")
    return match_expand_of_power(graph, node, pass_)


def match_expand_of_power(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    source, expanded = node.inputs[0], node.outputs[0]
    shape = _tiled_shape(graph, node) if node.op == "Tile" else graph.shape(expanded)
    if graph.is_output(expanded):
        raise NoMatch(f"'{expanded}' of {node} is an output of the graph")
    readers = graph.users(expanded)
    if not readers:
        raise NoMatch(f"{node} is unused")
    for reader in readers:
        _demand_broadcast(graph, reader, expanded, shape)
    type_ = graph.tensor_type(expanded)
    size = None if type_ is None else type_.elements
    gain = f"{size:,} elements no longer written" if size else "its result is no longer written"
    sentence = f"{readers[0] if len(readers) == 1 else f'each of {len(readers)} readers'} broadcasts '{source}' itself"
    edit = Edit(remove=(node.name,), replace={expanded: source})
    return Rewrite(edit, f"{sentence}; {node} is removed, {gain}", (node.name, *(reader.name for reader in readers)))


def match_axes_only(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    source, result = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
    added = 0 if source is None or result is None else len(result) - len(source)
    if source is None or added <= 0 or not is_same_shape((*(1,) * added, *source), result):
        raise NoMatch(f"{node} may do more than prepend axes of size 1")
    name = graph.fresh(f"{node.outputs[0]}_axes")
    unsqueeze = node.replace(op_type="Unsqueeze", inputs=(node.inputs[0], name))
    edit = Edit(
        remove=(node.name,),
        insert=(unsqueeze,),
        constants={name: constant(np.arange(added, dtype=np.int64), name)},
    )
    axes = f"{added} {'axis' if added == 1 else 'axes'}"
    sentence = f"{node} repeats nothing and prepends {axes} of size 1; written as Unsqueeze"
    return Rewrite(edit, sentence, (node.name,))


def _operand_of_broadcast_shape(graph: Graph, a: str, b: str) -> str | None:
    """Whichever of a and b has the shape to which both are broadcast; None if neither is known to."""
    if broadcasts_into(graph.shape(a), graph.shape(b)):
        return b
    return a if broadcasts_into(graph.shape(b), graph.shape(a)) else None


def _smallest_first(graph: Graph, node: Node) -> Rewrite:
    """(x + a) + b as x + (a + b) if a and b are both smaller than x."""
    value, b = node.inputs if node.inputs[0] != node.inputs[1] else ("", "")
    first = graph.producer(value)
    if first is None or first.op != node.op:
        value, b = b, value
    first = require_producer(graph, value, (node.op,), node)
    require_single_use(graph, node, first)
    large = _operand_of_broadcast_shape(graph, *first.inputs)
    a = first.inputs[0] if large == first.inputs[1] else first.inputs[1]
    larger_small = _operand_of_broadcast_shape(graph, a, b)
    if large is None or larger_small is None or _operand_of_broadcast_shape(graph, larger_small, large) != large:
        raise NoMatch(f"no operand of {first} and {node} is known to be the largest")
    if graph.shape(larger_small) == graph.shape(large):
        raise NoMatch(f"'{larger_small}' is as large as '{large}'")
    combined = graph.fresh(f"{node.outputs[0]}_small")
    first_combined = first.replace(inputs=(a, b), outputs=(combined,))
    then_large = node.replace(inputs=(large, combined))
    type_ = graph.tensor_type(larger_small)
    types = {} if type_ is None else {combined: TensorType(type_.dtype, type_.shape)}
    edit = Edit(remove=(first.name, node.name), insert=(first_combined, then_large), types=types)
    sentence = f"{first} combines '{a}' and '{b}', both smaller than '{large}'; {node} broadcasts the result"
    return Rewrite(edit, sentence, (first.name, node.name))


def match_integers_first(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    require_integers(graph, node.inputs[0], node)
    return _smallest_first(graph, node)


def match_smallest_first(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return _smallest_first(graph, node)


@dataclass(frozen=True)
class AbsorbExpand(Pass):
    """Three cases:

    - an Expand that only prepends axes of size 1 becomes an Unsqueeze, which other rules handle;
    - an Expand is removed if each of its readers broadcasts its operands, and has another operand with every
      axis of the Expand's result (up to rounding before a Pow, since runtimes compute a scalar exponent by
      products); so is a Tile that repeats axes of one element only;
    - (x + a) + b and (x * a) * b combine a and b first if both are smaller than x: bit for bit the same for
      integers, and for floating-point numbers in mode "fast", since digits may be lost or results overflow.

    Does not apply:

    - if a reader does not broadcast;
    - if the result of a reader may get its shape from the Expand because no other operand is known to be as large;
    - if x is not known to be the largest operand;
    - if its sum with a has other readers.

    Source: ONNX's multidirectional broadcasting (which is NumPy's), by which Expand itself is defined;
    associativity.
    """

    title = "Broadcast late"

    rules = (
        Rule(
            "axes only",
            ("Expand",),
            match_axes_only,
            Example(
                before="g (float[N,3] x) => (float[1,N,3] y) <int64[3] s = {1, 1, 1}> { a = Neg(x)  y = Expand(a, s) }",
                after="""g (float[N,3] x) => (float[1,N,3] y) <int64[1] y_axes = {0}> {
                    a = Neg(x)
                    y = Unsqueeze(a, y_axes)
                }""",
                sentences=("Expand 'Expand_y' repeats nothing and prepends 1 axis of size 1; written as Unsqueeze",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[2,N,3] y) <int64[3] s = {2, 1, 1}> { y = Expand(x, s) }",
                    "Expand 'Expand_y' may do more than prepend axes of size 1",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "broadcast anyway",
            ("Expand", "Tile"),
            match_expand,
            Example(
                before="""g (float[N,4,3] x, float[N,1,1] z) => (float[N,4,3] y) <int64[3] s = {1, 4, 1}> {
                    e = Expand(z, s)
                    y = Mul(e, x)
                }""",
                after="g (float[N,4,3] x, float[N,1,1] z) => (float[N,4,3] y) { y = Mul(z, x) }",
                sentences=(
                    "Mul 'Mul_y' broadcasts 'z' itself; Expand 'Expand_e' is removed, its result is no longer written",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[1,3] x, float[3] z) => (float[4,3] y) <int64[2] s = {4, 1}>"
                    " { e = Expand(z, s)  y = Mul(e, x) }",
                    "no other operand of Mul 'Mul_y' is known to have every axis of 'e'",
                ),
                Refusal(
                    "g (float[N,3] x, float[3] z, int64[2] s) => (float[M,3] y) { e = Expand(z, s)  y = Mul(e, x) }",
                    "no other operand of Mul 'Mul_y' is known to have every axis of 'e'",
                ),
                Refusal(
                    "g (float[4,3] x, float[3] z) => (float[4,3] y, float[4,3] w) <int64[2] s = {4, 1}>"
                    " { e = Expand(z, s)  y = Mul(e, x)  w = Relu(e) }",
                    "Relu 'Relu_w', which reads 'e', does not broadcast",
                ),
                Refusal(
                    "g (float[4,3] x, float[3] z) => (float[4,3] y) <int64[2] s = {4, 1}>"
                    " { e = Expand(z, s)  y = PRelu(e, x) }",
                    "PRelu 'PRelu_y' does not broadcast its first operand",
                ),
                Refusal(
                    "g (float[4,3] x, float[3] z) => (float[4,3] y, float[4,3] e) <int64[2] s = {4, 1}>"
                    " { e = Expand(z, s)  y = Mul(e, x) }",
                    "'e' of Expand 'Expand_e' is an output of the graph",
                ),
                Refusal(
                    "g (float[4,3] x, float[3] z) => (float[4,3] y) <int64[2] s = {4, 1}>"
                    " { e = Expand(z, s)  y = Relu(x) }",
                    "Expand 'Expand_e' is unused",
                ),
                Refusal(
                    "g (float[4,3] x, float z) => (float[4,3] y) <int64[2] s = {4, 3}>"
                    " { e = Expand(z, s)  y = Pow(x, e) }",
                    "Pow 'Pow_y' may round differently if an operand is a scalar; another rule covers it",
                ),
                Refusal(
                    "g (float[4,6] x, float[1,3] z) => (float[4,6] y) <int64[2] r = {4, 2}>"
                    " { t = Tile(z, r)  y = Mul(t, x) }",
                    "Tile 'Tile_t' may repeat an axis of 'z' that has more than one element",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "exponents broadcast anyway",
            ("Expand", "Tile"),
            match_expand_of_power,
            Example(
                before="""g (float[N,4] x, float z) => (float[N,4] y) <int64[2] s = {1, 4}> {
                    e = Expand(z, s)
                    y = Pow(x, e)
                }""",
                after="g (float[N,4] x, float z) => (float[N,4] y) { y = Pow(x, z) }",
                sentences=(
                    "Pow 'Pow_y' broadcasts 'z' itself; Expand 'Expand_e' is removed, 4 elements no longer written",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[4] x, float z) => (float[3,4] y) <int64[2] s = {3, 4}>"
                    " { e = Expand(z, s)  y = Pow(x, e) }",
                    "no other operand of Pow 'Pow_y' is known to have every axis of 'e'",
                ),
            ),
            exactness=Exactness.ROUNDING,
        ),
        Rule(
            "smallest integers first",
            ("Add", "Mul", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
            match_integers_first,
            Example(
                before="""g (int64[N,3] x, int64[3] a, int64 b) => (int64[N,3] y) {
                    s = Mul(x, a)
                    y = Mul(b, s)
                }""",
                after="""g (int64[N,3] x, int64[3] a, int64 b) => (int64[N,3] y) {
                    y_small = Mul(a, b)
                    y = Mul(x, y_small)
                }""",
                sentences=(
                    "Mul 'Mul_s' combines 'a' and 'b', both smaller than 'x'; Mul 'Mul_y' broadcasts the result",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, float[3] a, float b) => (float[N,3] y) { s = Mul(x, a)  y = Mul(b, s) }",
                    "'b', an operand of Mul 'Mul_y', is not known to hold integers",
                ),
                Refusal(
                    "g (int64[N,3] x, int64[M,1] a, int64 b) => (int64[N,3] y) { s = Mul(x, a)  y = Mul(b, s) }",
                    "no operand of Mul 'Mul_s' and Mul 'Mul_y' is known to be the largest",
                ),
                Refusal(
                    "g (int64[N,3] x, int64[N,3] a, int64 b) => (int64[N,3] y) { s = Mul(x, a)  y = Mul(b, s) }",
                    "'x' is as large as 'a'",
                ),
                Refusal(
                    "g (int64[N,3] x, int64 b) => (int64[N,3] y) { s = Add(x, x)  y = Mul(b, s) }",
                    "Mul 'Mul_y' does not follow a Mul",
                ),
                Refusal(
                    "g (int64[N,3] x, int64 b) => (int64[N,3] y, int64[N,3] s) { s = Add(x, b)  y = Add(s, b) }",
                    "'s' of Add 'Add_s' is an output of the graph",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for integers: (x + a) + b == x + (a + b); (x * a) * b == x * (a * b); (x & a) & b == x & (a & b); "
            "(x | a) | b == x | (a | b); (x ^ a) ^ b == x ^ (a ^ b)",
        ),
        Rule(
            "smallest first",
            ("Add", "Mul"),
            match_smallest_first,
            Example(
                before="""g (float[N,3] x, float[3] a, float b) => (float[N,3] y) {
                    s = Add(a, x)
                    y = Add(s, b)
                }""",
                after="""g (float[N,3] x, float[3] a, float b) => (float[N,3] y) {
                    y_small = Add(a, b)
                    y = Add(x, y_small)
                }""",
                sentences=(
                    "Add 'Add_s' combines 'a' and 'b', both smaller than 'x'; Add 'Add_y' broadcasts the result",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, float[3] a, float[N,3] b) => (float[N,3] y) { s = Add(a, x)  y = Add(s, b) }",
                    "'b' is as large as 'x'",
                ),
                Refusal(
                    "g (float[N,3] x, float[3] a, float b) => (float[N,3] y, float[N,3] s)"
                    " { s = Add(a, x)  y = Add(s, b) }",
                    "'s' of Add 'Add_s' is an output of the graph",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 1, "a": 1e8, "b": -1e8}, 0, 1, "1 is lost in 1e+08"),
            law="(x + a) + b == x + (a + b); (x * a) * b == x * (a * b)",
        ),
    )

    extra_examples = (
        Example(
            title="A Tile of axes of one element",
            before="""g (float[3,4] x, float[3,1] z) => (float[3,4] y) <int64[2] s = {1, 4}> {
                t = Tile(z, s)
                y = Mul(x, t)
            }""",
            after="g (float[3,4] x, float[3,1] z) => (float[3,4] y) { y = Mul(x, z) }",
            sentences=("Mul 'Mul_y' broadcasts 'z' itself; Tile 'Tile_t' is removed, 12 elements no longer written",),
        ),
    )
