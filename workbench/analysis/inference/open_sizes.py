"""Sizes that ONNX's shape inference leaves unknown although they follow from the sizes of other values.

ONNX's inference gives such a dim a new symbol, "unk__7", and propagates it. The size is known

- for a Range from 0 by steps of 1, whose length is its limit;
- for a Reshape with -1 and a symbolic dim: [N, 6] reshaped to [0, 2, -1] has 3 elements along the last axis;
- for a broadcast of two values with equal sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from workbench.analysis.inference.shapes import is_generated_symbol
from workbench.analysis.inference.sizes import Size, symbolic_value_of
from workbench.ir import Graph, Node, TensorType
from workbench.ir.types import Dim

_BROADCAST = (
    "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod",
    "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor",
)  # fmt: skip

_Sizes = tuple[Size | None, ...]


def types_with_open_sizes(graph: Graph) -> dict[str, TensorType]:
    """For each value, types in which a symbol of inference is replaced by the size that follows for it.

    Axes by whose size a Reshape divides are assumed to be nonempty: with -1 and an empty axis no runtime runs it.
    """
    input_dims = {dim for value in graph.inputs for dim in graph.shape(value) or ()}
    known: dict[str, Size] = {}
    for node in graph.nodes_of(("Range", "Reshape", *_BROADCAST)):
        shape = graph.shape(node.outputs[0]) or ()
        if not any(_is_open(dim, input_dims, known) for dim in shape):
            continue
        for dim, size in zip(shape, _result_sizes(graph, node, known), strict=False):
            if size is not None and isinstance(dim, str) and _is_open(dim, input_dims, known):
                known[dim] = size
    dims = {symbol: dim for symbol, size in known.items() if (dim := _dim(size)) is not None and dim != symbol}
    return _renamed(graph, dims) if dims else {}


def _is_open(dim: Dim, input_dims: set[Dim], known: Mapping[str, Size]) -> bool:
    return is_generated_symbol(dim) and dim not in input_dims and dim not in known


def _dim(size: Size) -> Dim:
    """The size as a dim; None if it is neither a number nor a symbol."""
    if size.known is not None:
        return size.known
    term, factor = size.terms[0]
    return term[0] if len(size.terms) == 1 and len(term) == 1 and factor == 1 else None


def _renamed(graph: Graph, dims: Mapping[str, Dim]) -> dict[str, TensorType]:
    renamed = {}
    for value, type_ in graph.types.items():
        if isinstance(type_, TensorType) and not dims.keys().isdisjoint(type_.shape or ()):
            renamed[value] = type_.with_shape(
                tuple(dims.get(dim, dim) if isinstance(dim, str) else dim for dim in type_.shape or ())
            )
    return renamed


def _result_sizes(graph: Graph, node: Node, known: Mapping[str, Size]) -> _Sizes:
    """The sizes of the node's result, None for a size that does not follow; () if none follows."""
    if node.op == "Range":
        return _range_sizes(graph, node, known)
    if node.op == "Reshape":
        return _reshape_entry(graph, node, known)
    return _broadcast([_sizes(graph, value, known) for value in node.inputs])


def _sizes(graph: Graph, value: str, known: Mapping[str, Size]) -> _Sizes | None:
    """The known sizes of the value's axes; None if its rank is unknown."""
    shape = graph.shape(value)
    return None if shape is None else tuple(_size(dim, known) for dim in shape)


def _size(dim: Dim, known: Mapping[str, Size]) -> Size | None:
    if dim is None:
        return None
    return Size.number(dim) if isinstance(dim, int) else known.get(dim, Size.symbol(dim))


def _contents(graph: Graph, value: str, known: Mapping[str, Size]) -> _Sizes | None:
    """The elements of a value of small integers; None if they are not known."""
    symbolic = symbolic_value_of(graph, value)
    return None if symbolic is None else tuple(_substituted(size, known) for size in symbolic.sizes)


def _substituted(size: Size, known: Mapping[str, Size]) -> Size:
    """The size with known sizes in place of its symbols."""
    total = Size.number(0)
    for symbols, factor in size.terms:
        product = Size.number(factor)
        for symbol in symbols:
            product *= known.get(symbol, Size.symbol(symbol))
        total += product
    return total


def _range_sizes(graph: Graph, node: Node, known: Mapping[str, Size]) -> _Sizes:
    start, limit, step = (_contents(graph, value, known) for value in node.inputs)
    if start != (Size.number(0),) or step != (Size.number(1),) or limit is None:
        return ()
    (length,) = limit
    return (length,) if length is not None and length.is_positive_or_zero else ()


def _reshape_entry(graph: Graph, node: Node, known: Mapping[str, Size]) -> _Sizes:
    operand_sizes, shape = _sizes(graph, node.inputs[0], known), _contents(graph, node.inputs[1], known)
    numbers = [None if size is None else size.known for size in shape or ()]
    if operand_sizes is None or shape is None or node.attr("allowzero") or numbers.count(-1) > 1:
        return ()
    if any(number == 0 and axis >= len(operand_sizes) for axis, number in enumerate(numbers)):
        return ()
    sizes = [operand_sizes[axis] if number == 0 else shape[axis] for axis, number in enumerate(numbers)]
    if -1 in numbers:
        axis_of_rest = numbers.index(-1)
        sizes[axis_of_rest] = _quotient(operand_sizes, [*sizes[:axis_of_rest], *sizes[axis_of_rest + 1 :]])
    return tuple(sizes)


def _quotient(sizes: _Sizes, divisors: Sequence[Size | None]) -> Size | None:
    """The product of `sizes` divided by the product of `divisors`; None if it does not follow."""
    if None in sizes or None in divisors:
        return None
    remaining, divisor, product = [size for size in sizes if size], 1, Size.number(1)
    for size in filter(None, divisors):
        if size in remaining:
            remaining.remove(size)
        elif size.known is None:
            return None
        else:
            divisor *= size.known
    for size in remaining:
        product *= size
        if not product.fits:
            return None
    return product.divided_by(divisor)


def _broadcast(operands: Sequence[_Sizes | None]) -> _Sizes:
    """The sizes of values broadcast against each other; None for an axis with two different sizes other than 1."""
    known = [sizes for sizes in operands if sizes is not None]
    if len(known) < len(operands):
        return ()
    axes = zip_longest(*(reversed(sizes) for sizes in known), fillvalue=Size.number(1))
    return tuple(_common(sizes) for sizes in axes)[::-1]


def _common(sizes: Sequence[Size | None]) -> Size | None:
    others = {size for size in sizes if size is None or size.known != 1}
    if not others:
        return Size.number(1)
    return others.pop() if len(others) == 1 else None
