"""Fold the arithmetic on shapes in models exported with dynamic sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from workbench.inference.sizes import FOLLOWED, Contents, Size, contents_of, may_be_followed, rest_of, shape_sizes
from workbench.ir import DataType, Edit, Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule

_END = np.iinfo(np.int64).max  # of a Slice: to the end of the axis, whatever its size
_COPIED, _REST = 0, -1  # in the shape of a Reshape: the operand's own dim, what is left


def _computed(graph: Graph, node: Node, index: int) -> Contents:
    """The known contents of a computed operand. Raises NoMatch if it is a constant, or nothing is known."""
    value = node.inputs[index] if len(node.inputs) > index else ""
    if not value or graph.constant(value) is not None:
        raise NoMatch(f"the sizes that {node} reads are already constant")
    contents = contents_of(graph, value)
    if contents is None:
        raise NoMatch(f"the numbers in '{value}', which {node} reads, are not computed from shapes")
    return contents


def _sizes(graph: Graph, value: str, node: Node) -> tuple[Size, ...]:
    sizes = shape_sizes(graph, value)
    if sizes is None:
        raise NoMatch(f"the rank of '{value}', which {node} reads, is not known")
    return sizes


def _with_numbers(graph: Graph, node: Node, index: int, numbers: Sequence[int], why: str, **attributes: int) -> Rewrite:
    """The rewrite that makes operand `index` of the node a constant."""
    name = graph.fresh(f"{node.outputs[0]}_{'ends' if node.op == 'Slice' else 'shape'}")
    inputs = tuple(name if i == index else value for i, value in enumerate(node.inputs))
    changed = node.replace(inputs=inputs, attributes={**node.attributes, **attributes})
    edit = Edit(remove=(node.name,), insert=(changed,), constants={name: constant(np.array(numbers, dtype=np.int64))})
    return Rewrite(edit, f"{why}; written as {list(numbers)}", (node.name,))


def match_known(graph: Graph, node: Node, options: Pass) -> Rewrite:
    contents = contents_of(graph, node.outputs[0])
    if contents is None:
        raise NoMatch(f"the result of {node} is not computed from shapes")
    known = contents.known
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
    array = array.reshape(()) if contents.is_scalar else array
    edit = Edit(remove=(node.name,), constants={node.outputs[0]: constant(array.astype(type_.dtype.numpy()))})
    return Rewrite(edit, f"{node} always computes {list(known)}, whatever the sizes of the inputs", (node.name,))


def match_part_of_shape(graph: Graph, node: Node, options: Pass) -> Rewrite:
    contents = contents_of(graph, node.outputs[0])
    if contents is None or contents.is_scalar or contents.known is not None:
        raise NoMatch(f"{node} does not compute sizes of axes")
    type_ = graph.tensor_type(node.outputs[0])
    if type_ is None or type_.dtype != DataType.INT64:
        raise NoMatch(f"{node} does not return 64-bit integers, as Shape does")
    for value in _asked(graph, node):
        sizes = shape_sizes(graph, value) or ()
        for start in range(len(sizes) - len(contents.sizes) + 1):
            end = start + len(contents.sizes)
            if sizes[start:end] != contents.sizes:
                continue
            shape = node.replace(op_type="Shape", inputs=(value,), attributes={"start": start, "end": end})
            axes = f"sizes of axes {start} to {end - 1}" if end - start > 1 else f"size of axis {start}"
            sentence = f"{node} computes the {axes} of '{value}'; written as Shape"
            return Rewrite(Edit(remove=(node.name,), insert=(shape,)), sentence, (node.name,))
    raise NoMatch(f"{node} computes sizes that are not adjacent in the shape of one value")


def _asked(graph: Graph, node: Node) -> Iterator[str]:
    """The values from whose shapes the node's result is computed."""
    seen: set[str] = set()
    waiting = [value for value in node.inputs if value]
    while waiting:
        value = waiting.pop()
        producer = graph.producer(value)
        if value in seen or producer is None or producer.op not in FOLLOWED:
            continue
        seen.add(value)
        if producer.op == "Shape":
            yield producer.inputs[0]
        else:
            waiting += [operand for operand in producer.inputs if operand]


def match_shape_of_reshape(graph: Graph, node: Node, options: Pass) -> Rewrite:
    wanted = _computed(graph, node, 1)
    own = _sizes(graph, node.inputs[0], node)
    numbers = [_of_reshape(size, own[axis] if axis < len(own) else None) for axis, size in enumerate(wanted.sizes)]
    known = [size.known for size in wanted.sizes]
    if node.attr("allowzero") and (0 in known or _REST in known):
        raise NoMatch(f"{node} may make an axis of size 0")
    open_ = [axis for axis, number in enumerate(numbers) if number is None]
    rest = rest_of(wanted.sizes, own)
    if rest is not None and open_:
        numbers[known.index(_REST)] = rest  # beside an empty axis the Reshape did not run before either
    if len(open_) == 1 and (rest is not None or all(number > 0 for number in numbers if number is not None)):
        numbers[open_[0]] = _REST  # only next to fixed sizes: beside an empty axis, -1 cannot be inferred
        open_ = []
    if open_:
        count = f"{len(open_)} of {len(known)} sizes"
        raise NoMatch(f"{count} of {node} are neither fixed nor those of the same axes of '{node.inputs[0]}'")
    why = f"the shape of {node} is computed from that of '{node.inputs[0]}'"
    attributes = {"allowzero": 0} if node.attr("allowzero") else {}
    return _with_numbers(graph, node, 1, [n for n in numbers if n is not None], why, **attributes)


def _of_reshape(size: Size, own: Size | None) -> int | None:
    if size.known is not None:
        return size.known
    return _COPIED if size == own else None


def match_shape_of_expand(graph: Graph, node: Node, options: Pass) -> Rewrite:
    wanted = _computed(graph, node, 1)
    own = _sizes(graph, node.inputs[0], node)
    missing = len(wanted.sizes) - len(own)
    numbers = []
    for axis, size in enumerate(wanted.sizes):
        is_own = axis >= missing and size == own[axis - missing]
        if size.known is None and not is_own:
            raise NoMatch(f"the size of axis {axis} of {node} is neither fixed nor that of '{node.inputs[0]}'")
        numbers.append(size.known if size.known is not None else 1)
    why = f"the shape of {node} is computed from that of '{node.inputs[0]}'"
    return _with_numbers(graph, node, 1, numbers, why)


def match_end_of_slice(graph: Graph, node: Node, options: Pass) -> Rewrite:
    ends = _computed(graph, node, 2)
    own = _sizes(graph, node.inputs[0], node)
    count = len(ends.sizes)
    axes, steps = _given(graph, node, 3, range(count)), _given(graph, node, 4, (1,) * count)
    if axes is None or steps is None or len(axes) != count or min(steps, default=1) < 1:
        raise NoMatch(f"the axes or steps of {node} are not known or not as many as its ends, or it goes backwards")
    numbers = []
    for axis, size in zip(axes, ends.sizes, strict=True):
        if not -len(own) <= axis < len(own):
            raise NoMatch(f"{node} names axis {axis}, and '{node.inputs[0]}' has {len(own)} axes")
        if size.known is None and size != own[axis]:
            raise NoMatch(f"{node} does not end at the end of axis {axis}")
        numbers.append(size.known if size.known is not None else int(_END))
    return _with_numbers(graph, node, 2, numbers, f"{node} ends at the end of '{node.inputs[0]}'")


def _given(graph: Graph, node: Node, index: int, default: Sequence[int]) -> Sequence[int] | None:
    """The numbers of an optional operand; None if unknown."""
    if len(node.inputs) <= index or not node.inputs[index]:
        return default
    contents = contents_of(graph, node.inputs[index])
    return None if contents is None else contents.known


@dataclass(frozen=True)
class FoldShapes(Pass):
    """Models exported with symbolic dims contain nodes that compute shapes: Shape, Gather, Concat and the like.

    Their results are tracked as polynomials in the symbolic dims. Cases:

    - numbers that are the same for all sizes become a constant;
    - a Concat of sizes that are adjacent in the shape of one value becomes one Shape;
    - the shape of a Reshape or an Expand, and the end of a Slice, that follow from the operand's own shape become a
      constant; a chain that only computes them is then dead.

    Must not write -1 into a Reshape next to a symbolic dim, where it had none: with an empty batch, -1 cannot be
    inferred, and the model would not run.

    Source: ONNX's operator definitions; onnxscript's optimizer tracks shapes in the same way.
    """

    title = "Fold arithmetic on shapes"

    rules = (
        Rule(
            "same for all sizes",
            tuple(FOLLOWED),
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
            may_match=may_be_followed,
            exactness=Exactness.BITS,
            law="for sizes: (n + m) + k == n + (m + k); n * m == m * n; n * (m + k) == n * m + n * k; "
            "(n + m) - m == n; (n * m) / m == n if m > 0",
        ),
        Rule(
            "side by side",
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
            may_match=may_be_followed,
            exactness=Exactness.BITS,
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
                    "the sizes that Reshape 'Reshape_y' reads are already constant",
                ),
                Refusal(
                    """g (float[A,B,C] x) => (float[C,A,B] y) <int64[3] i = {2, 0, 1}> {
                        s = Shape(x)
                        c = Gather(s, i)
                        y = Reshape(x, c)
                    }""",
                    "3 of 3 sizes of Reshape 'Reshape_y' are neither fixed nor those of the same axes of 'x'",
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
                    "1 of 2 sizes of Reshape 'Reshape_y' are neither fixed nor those of the same axes of 'x'",
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
            exactness=Exactness.BITS,
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
                    "the size of axis 0 of Expand 'Expand_y' is neither fixed nor that of 'x'",
                ),
            ),
            exactness=Exactness.BITS,
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
                    "Slice 'Slice_y' names axis 2, and 'x' has 2 axes",
                ),
                Refusal(
                    """g (float[N,S] x) => (float[N,T] y) <int64[1] one = {1}, int64[1] back = {-1}> {
                        e = Shape<start=1>(x)
                        y = Slice(x, e, one, one, back)
                    }""",
                    "the sizes that Slice 'Slice_y' reads are already constant",
                ),
                Refusal(
                    """g (float[N,S] x, int64[1] axis) => (float[N,T] y) <int64[1] one = {1}> {
                        e = Shape<start=1>(x)
                        y = Slice(x, one, e, axis)
                    }""",
                    "the axes or steps of Slice 'Slice_y' are not known or not as many as its ends, "
                    "or it goes backwards",
                ),
            ),
            exactness=Exactness.BITS,
            law="for sizes: min(n, n) == min(n + a, n)",
        ),
    )
