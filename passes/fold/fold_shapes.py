"""Fold the arithmetic on shapes in models exported with dynamic sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.analysis.inference.sizes import (
    SHAPE_ARITHMETIC,
    Size,
    SymbolicValue,
    inferred_dim,
    may_have_symbolic_value,
    shape_sizes,
    shape_sources,
    symbolic_value_of,
)
from workbench.ir import DataType, Edit, Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule

_END = np.iinfo(np.int64).max  # as the end in a Slice: to the end of the axis, whatever its size
_COPIED, _INFERRED = 0, -1  # special values in the shape of a Reshape: 0 copies the input's dim, -1 is inferred


def _symbolic_operand(graph: Graph, node: Node, index: int) -> SymbolicValue:
    """The symbolic value of a computed operand. Raises NoMatch if it is a constant, missing or unknown."""
    value = node.inputs[index] if len(node.inputs) > index else ""
    if not value:
        raise NoMatch(f"{node} has no operand {index}, from which it would read sizes")
    if graph.constant(value) is not None:
        raise NoMatch(f"'{value}', from which {node} reads sizes, is already constant")
    symbolic = symbolic_value_of(graph, value)
    if symbolic is None:
        raise NoMatch(f"the numbers in '{value}', which {node} reads, are not computed from shapes")
    return symbolic


def _sizes(graph: Graph, value: str, node: Node) -> tuple[Size, ...]:
    sizes = shape_sizes(graph, value)
    if sizes is None:
        raise NoMatch(f"the rank of '{value}', which {node} reads, is not known")
    return sizes


def _with_constant_operand(
    graph: Graph, node: Node, index: int, numbers: Sequence[int], reason: str, **attributes: int
) -> Rewrite:
    """The rewrite that makes operand `index` of the node a constant."""
    name = graph.fresh(f"{node.outputs[0]}_{'ends' if node.op == 'Slice' else 'shape'}")
    inputs = tuple(name if i == index else value for i, value in enumerate(node.inputs))
    changed = node.replace(inputs=inputs, attributes={**node.attributes, **attributes})
    edit = Edit(remove=(node.name,), insert=(changed,), constants={name: constant(np.array(numbers, dtype=np.int64))})
    return Rewrite(edit, f"{reason}; written as {list(numbers)}", (node.name,))


def match_known(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    symbolic = symbolic_value_of(graph, node.outputs[0])
    if symbolic is None:
        raise NoMatch(f"the result of {node} is not computed from shapes")
    known = symbolic.known
    if known is None:
        raise NoMatch(f"the result of {node} depends on the sizes of the inputs")
    if graph.is_output(node.outputs[0]):
        raise NoMatch(f"{node} produces an output of the graph")
    type_ = graph.tensor_type(node.outputs[0])
    if type_ is None or type_.dtype not in (DataType.INT64, DataType.INT32):
        raise NoMatch(f"the type of the result of {node} is not known")
    array = np.array(known, dtype=np.int64)
    if array.size and type_.dtype == DataType.INT32 and abs(array).max() > np.iinfo(np.int32).max:
        raise NoMatch(f"the result of {node} overflows 32 bits")
    array = array.reshape(()) if symbolic.is_scalar else array
    edit = Edit(remove=(node.name,), constants={node.outputs[0]: constant(array.astype(type_.dtype.numpy()))})
    return Rewrite(edit, f"{node} always computes {list(known)}, whatever the sizes of the inputs", (node.name,))


def match_part_of_shape(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    symbolic = symbolic_value_of(graph, node.outputs[0])
    if symbolic is None or symbolic.is_scalar or symbolic.known is not None:
        raise NoMatch(f"{node} does not compute sizes of axes")
    type_ = graph.tensor_type(node.outputs[0])
    if type_ is None or type_.dtype != DataType.INT64:
        raise NoMatch(f"{node} is not known to return 64-bit integers, as Shape does")
    for value in shape_sources(graph, node):
        sizes = shape_sizes(graph, value) or ()
        for start in range(len(sizes) - len(symbolic.sizes) + 1):
            end = start + len(symbolic.sizes)
            if sizes[start:end] != symbolic.sizes:
                continue
            shape = node.replace(op_type="Shape", inputs=(value,), attributes={"start": start, "end": end})
            axes = f"sizes of axes {start} to {end - 1}" if end - start > 1 else f"size of axis {start}"
            sentence = f"{node} computes the {axes} of '{value}'; written as Shape"
            return Rewrite(Edit(remove=(node.name,), insert=(shape,)), sentence, (node.name,))
    raise NoMatch(f"{node} computes sizes that are not adjacent in the shape of one value")


def match_shape_of_reshape(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    target = _symbolic_operand(graph, node, 1)
    source = _sizes(graph, node.inputs[0], node)
    numbers = [_reshape_entry(size, source[i] if i < len(source) else None) for i, size in enumerate(target.sizes)]
    known = [size.known for size in target.sizes]
    if node.attr("allowzero") and (0 in known or _INFERRED in known):
        raise NoMatch(f"{node} may make an axis of size 0")
    unresolved = [axis for axis, number in enumerate(numbers) if number is None]
    inferred = inferred_dim(target.sizes, source)
    if inferred is not None and unresolved:
        numbers[known.index(_INFERRED)] = inferred  # if another dim is 0, the Reshape with -1 was invalid before too
    if len(unresolved) == 1 and (inferred is not None or all(number > 0 for number in numbers if number is not None)):
        # -1 only if the Reshape had it, or all other dims are positive constants: beside a 0 it cannot be inferred.
        numbers[unresolved[0]] = _INFERRED
        unresolved = []
    if unresolved:
        count = f"{len(unresolved)} of {len(known)} sizes"
        raise NoMatch(f"{count} of {node} are neither constant nor equal to the same axis of '{node.inputs[0]}'")
    reason = f"the shape of {node} is computed from that of '{node.inputs[0]}'"
    attributes = {"allowzero": 0} if node.attr("allowzero") else {}
    return _with_constant_operand(graph, node, 1, [n for n in numbers if n is not None], reason, **attributes)


def _reshape_entry(size: Size, operand_size: Size | None) -> int | None:
    if size.known is not None:
        return size.known
    return _COPIED if size == operand_size else None


def match_shape_of_expand(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """An axis of size n that is expanded to n may be written as 1, which leaves it as it is."""
    target = _symbolic_operand(graph, node, 1)
    operand_sizes = _sizes(graph, node.inputs[0], node)
    missing = len(target.sizes) - len(operand_sizes)
    numbers = []
    for axis, size in enumerate(target.sizes):
        is_operand_size = axis >= missing and size == operand_sizes[axis - missing]
        if size.known is None and not is_operand_size:
            raise NoMatch(f"the size of axis {axis} of {node} is neither constant nor that of '{node.inputs[0]}'")
        numbers.append(size.known if size.known is not None else 1)
    reason = f"the shape of {node} is computed from that of '{node.inputs[0]}'"
    return _with_constant_operand(graph, node, 1, numbers, reason)


def match_end_of_slice(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """An end beyond the axis is clamped to the size of the axis."""
    ends = _symbolic_operand(graph, node, 2)
    operand_sizes = _sizes(graph, node.inputs[0], node)
    count = len(ends.sizes)
    axes, steps = _optional_numbers(graph, node, 3, range(count)), _optional_numbers(graph, node, 4, (1,) * count)
    if axes is None or steps is None:
        raise NoMatch(f"the axes or steps of {node} are not known")
    if len(axes) != count:
        raise NoMatch(f"{node} has {count} ends, but {len(axes)} axes")
    if min(steps, default=1) < 1:
        raise NoMatch(f"{node} has a negative step")
    numbers = []
    for axis, size in zip(axes, ends.sizes, strict=True):
        if not -len(operand_sizes) <= axis < len(operand_sizes):
            raise NoMatch(f"axis {axis} of {node} is out of range: '{node.inputs[0]}' has {len(operand_sizes)} axes")
        if size.known is None and size != operand_sizes[axis]:
            raise NoMatch(f"{node} does not end at the end of axis {axis}")
        numbers.append(size.known if size.known is not None else int(_END))
    return _with_constant_operand(graph, node, 2, numbers, f"{node} ends at the end of '{node.inputs[0]}'")


def _optional_numbers(graph: Graph, node: Node, index: int, default: Sequence[int]) -> Sequence[int] | None:
    """The numbers of an optional operand; None if unknown."""
    if len(node.inputs) <= index or not node.inputs[index]:
        return default
    symbolic = symbolic_value_of(graph, node.inputs[index])
    return None if symbolic is None else symbolic.known


@dataclass(frozen=True)
class FoldShapes(Pass):
    """Models exported with symbolic dims contain nodes that compute shapes: Shape, Gather, Concat and the like.

    Their results are tracked as polynomials in the symbolic dims. Cases:

    - numbers that are the same for all sizes become a constant;
    - a Concat of sizes that are adjacent in the shape of one value becomes one Shape;
    - the shape input of a Reshape or Expand, or the end of a Slice, becomes a constant if the shape of the data input
      determines it. The nodes that computed it become dead.

    Does not add a -1 that a Reshape did not have if another dim is symbolic: that dim may be 0, as in an empty batch,
    and -1 could then not be inferred.

    Source: ONNX's operator definitions; onnxscript's optimizer tracks shapes in the same way.
    """

    title = "Fold arithmetic on shapes"

    rules = (
        Rule(
            "same for all sizes",
            tuple(SHAPE_ARITHMETIC),
            match_known,
            Example(
                before="""g (float[N,3] x) => (int64[1] y) <int64[1] i = {1}> {
                    s = Shape(x)
                    c = Gather(s, i)
                    y = Neg(c)
                }""",
                after="g (float[N,3] x) => (int64[1] y) <int64[1] c = {3}> { s = Shape(x)  y = Neg(c) }",
                sentences=("Gather 'Gather_c' always computes [3], whatever the sizes of the inputs",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (int64[2] y) { s = Shape(x)  y = Neg(s) }",
                    "the result of Shape 'Shape_s' depends on the sizes of the inputs",
                ),
                Refusal(
                    "g (float[N,3] x) => (int64[1] y) <int64[1] i = {1}> { s = Shape(x)  y = Gather(s, i) }",
                    "Gather 'Gather_y' produces an output of the graph",
                ),
                Refusal(
                    "g (int64[1] x) => (int64[1] y) { a = Add(x, x)  y = Neg(a) }",
                    "the result of Add 'Add_a' is not computed from shapes",
                ),
            ),
            may_match=may_have_symbolic_value,
            exactness=Exactness.BIT_EXACT,
            law="for sizes: (n + m) + k == n + (m + k); n * m == m * n; n * (m + k) == n * m + n * k; "
            "(n + m) - m == n; (n * m) / m == n if m > 0",
        ),
        Rule(
            "adjacent sizes",
            ("Concat",),
            match_part_of_shape,
            Example(
                before="""g (float[N,C,H,W] x) => (int64[2] y) <int64[1] a = {2}, int64[1] b = {3}> {
                    s = Shape(x)
                    h = Gather(s, a)
                    w = Gather(s, b)
                    c = Concat<axis=0>(h, w)
                    y = Neg(c)
                }""",
                after="""g (float[N,C,H,W] x) => (int64[2] y) <int64[1] a = {2}, int64[1] b = {3}> {
                    s = Shape(x)
                    h = Gather(s, a)
                    w = Gather(s, b)
                    c = Shape<start=2, end=4>(x)
                    y = Neg(c)
                }""",
                sentences=("Concat 'Concat_c' computes the sizes of axes 2 to 3 of 'x'; written as Shape",),
            ),
            refusals=(
                Refusal(
                    """g (float[N,C,H,W] x) => (int64[2] y) <int64[1] a = {3}, int64[1] b = {2}> {
                        s = Shape(x)
                        w = Gather(s, a)
                        h = Gather(s, b)
                        c = Concat<axis=0>(w, h)
                        y = Neg(c)
                    }""",
                    "Concat 'Concat_c' computes sizes that are not adjacent in the shape of one value",
                ),
                Refusal(
                    "g (float[N,C] x) => (float[M,C] y) { y = Concat<axis=0>(x, x) }",
                    "Concat 'Concat_y' does not compute sizes of axes",
                ),
            ),
            may_match=may_have_symbolic_value,
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "shape of a Reshape",
            ("Reshape",),
            match_shape_of_reshape,
            Example(
                before="""g (float[N,S,6] x) => (float[N,S,2,3] y) <int64[2] heads = {2, 3}> {
                    s = Shape<end=2>(x)
                    c = Concat<axis=0>(s, heads)
                    y = Reshape(x, c)
                }""",
                after="""g (float[N,S,6] x) => (float[N,S,2,3] y)
                    <int64[2] heads = {2, 3}, int64[4] y_shape = {0, 0, 2, 3}> {
                    s = Shape<end=2>(x)
                    c = Concat<axis=0>(s, heads)
                    y = Reshape(x, y_shape)
                }""",
                sentences=("the shape of Reshape 'Reshape_y' is computed from that of 'x'; written as [0, 0, 2, 3]",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,6] x, int64[2] s) => (float[A,B] y) { y = Reshape(x, s) }",
                    "the numbers in 's', which Reshape 'Reshape_y' reads, are not computed from shapes",
                ),
                Refusal(
                    "g (float[N,6] x) => (float[N,6] y) <int64[2] s = {0, 6}> { y = Reshape(x, s) }",
                    "'s', from which Reshape 'Reshape_y' reads sizes, is already constant",
                ),
                Refusal(
                    """g (float[A,B,C] x) => (float[C,A,B] y) <int64[3] i = {2, 0, 1}> {
                        s = Shape(x)
                        c = Gather(s, i)
                        y = Reshape(x, c)
                    }""",
                    "3 of 3 sizes of Reshape 'Reshape_y' are neither constant nor equal to the same axis of 'x'",
                ),
                Refusal(
                    """g (float[N,A,B] x) => (float[N,M] y) <int64[1] zero = {0}, int64[1] rest = {1}> {
                        s = Shape(x)
                        n = Gather(s, zero)
                        t = Shape<start=1>(x)
                        m = ReduceProd<keepdims=1>(t)
                        c = Concat<axis=0>(n, m)
                        y = Reshape(x, c)
                    }""",
                    "1 of 2 sizes of Reshape 'Reshape_y' are neither constant nor equal to the same axis of 'x'",
                ),
                Refusal(
                    """g (float[N,3] x) => (float[N,0] y) <int64[1] zero = {0}> {
                        n = Shape<end=1>(x)
                        c = Concat<axis=0>(n, zero)
                        y = Reshape<allowzero=1>(x, c)
                    }""",
                    "Reshape 'Reshape_y' may make an axis of size 0",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for sizes: (n * m * k) / (m * k) == n if m > 0 and k > 0",
        ),
        Rule(
            "shape of an Expand",
            ("Expand",),
            match_shape_of_expand,
            Example(
                before="""g (float[N,1,3] x) => (float[N,4,3] y) <int64[2] rest = {4, 3}> {
                    n = Shape<end=1>(x)
                    c = Concat<axis=0>(n, rest)
                    y = Expand(x, c)
                }""",
                after="""g (float[N,1,3] x) => (float[N,4,3] y) <int64[2] rest = {4, 3}, int64[3] y_shape = {1, 4, 3}> {
                    n = Shape<end=1>(x)
                    c = Concat<axis=0>(n, rest)
                    y = Expand(x, y_shape)
                }""",
                sentences=("the shape of Expand 'Expand_y' is computed from that of 'x'; written as [1, 4, 3]",),
            ),
            refusals=(
                Refusal(
                    "g (float[1,3] x, float[N,3] z) => (float[N,3] y) { s = Shape(z)  y = Expand(x, s) }",
                    "the size of axis 0 of Expand 'Expand_y' is neither constant nor that of 'x'",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for sizes: where(1 == 1, n, 1) == where(n == 1, n, n)",
        ),
        Rule(
            "end of a Slice",
            ("Slice",),
            match_end_of_slice,
            Example(
                before="""g (float[N,S] x) => (float[1,1] y) <int64[1] one = {1}> {
                    e = Shape<start=1>(x)
                    t = Slice(x, one, e, one)
                    y = ReduceMax(t)
                }""",
                after="""g (float[N,S] x) => (float[1,1] y)
                    <int64[1] one = {1}, int64[1] t_ends = {9223372036854775807}> {
                    e = Shape<start=1>(x)
                    t = Slice(x, one, t_ends, one)
                    y = ReduceMax(t)
                }""",
                sentences=("Slice 'Slice_t' ends at the end of 'x'; written as [9223372036854775807]",),
            ),
            refusals=(
                Refusal(
                    """g (float[N,S] x) => (float[N,T] y) <int64[1] one = {1}> {
                        e = Shape<end=1>(x)
                        y = Slice(x, one, e, one)
                    }""",
                    "Slice 'Slice_y' does not end at the end of axis 1",
                ),
                Refusal(
                    """g (float[N,S] x) => (float[N,T] y) <int64[1] one = {1}, int64[1] two = {2}> {
                        e = Shape<start=1>(x)
                        y = Slice(x, one, e, two)
                    }""",
                    "axis 2 of Slice 'Slice_y' is out of range: 'x' has 2 axes",
                ),
                Refusal(
                    """g (float[N,S] x) => (float[N,T] y) <int64[1] one = {1}, int64[1] back = {-1}> {
                        e = Shape<start=1>(x)
                        y = Slice(x, e, one, one, back)
                    }""",
                    "'one', from which Slice 'Slice_y' reads sizes, is already constant",
                ),
                Refusal(
                    """g (float[N,S] x, int64[1] axis) => (float[N,T] y) <int64[1] one = {1}> {
                        e = Shape<start=1>(x)
                        y = Slice(x, one, e, axis)
                    }""",
                    "the axes or steps of Slice 'Slice_y' are not known",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for sizes: min(n, n) == min(n + a, n)",
        ),
    )
