"""Sizes that ONNX's shape inference leaves open, and that follow from the sizes of other values.

ONNX's inference gives such a dim a new symbol, "unk__7", and passes it on. It stands for a size that is known

- of a Range from 0 by steps of 1, whose length is its limit;
- of a Reshape with -1 beside a symbolic dim: [N, 6] reshaped to [0, 2, -1] has 3 elements along the last axis;
- where two values are broadcast whose sizes turn out to be the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from workbench.inference.shapes import is_made_up
from workbench.inference.sizes import Size, contents_of
from workbench.ir import Graph, Node, TensorType
from workbench.ir.types import Dim

_BROADCAST = (
    "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod",
    "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor",
)  # fmt: skip

_Sizes = tuple[Size | None, ...]


def types_with_open_sizes(graph: Graph) -> dict[str, TensorType]:
    """The types, by value, that contain a symbol of inference whose size follows, with that size in its place.

    No axis is assumed to be empty where a Reshape divides by its size: with -1 beside it no runtime runs.
    """
    given = {dim for value in graph.inputs for dim in graph.shape(value) or ()}
    results: dict[str, Size] = {}
    for node in graph.nodes_of(("Range", "Reshape", *_BROADCAST)):
        shape = graph.shape(node.outputs[0]) or ()
        if not any(_is_open(dim, given, results) for dim in shape):
            continue
        for dim, size in zip(shape, _follows(graph, node, results), strict=False):
            if size is not None and isinstance(dim, str) and _is_open(dim, given, results):
                results[dim] = size
    dims = {symbol: dim for symbol, size in results.items() if (dim := _dim(size)) is not None and dim != symbol}
    return _renamed(graph, dims) if dims else {}


def _is_open(dim: Dim, given: set[Dim], results: Mapping[str, Size]) -> bool:
    return is_made_up(dim) and dim not in given and dim not in results


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


def _follows(graph: Graph, node: Node, results: Mapping[str, Size]) -> _Sizes:
    """The sizes of the node's result, None for those that do not follow; () if none does."""
    if node.op == "Range":
        return _of_range(graph, node, results)
    if node.op == "Reshape":
        return _of_reshape(graph, node, results)
    return _broadcast([_sizes(graph, value, results) for value in node.inputs])


def _sizes(graph: Graph, value: str, results: Mapping[str, Size]) -> _Sizes | None:
    """The sizes of the value as far as known; None if its rank is not."""
    shape = graph.shape(value)
    return None if shape is None else tuple(_size(dim, results) for dim in shape)


def _size(dim: Dim, results: Mapping[str, Size]) -> Size | None:
    if dim is None:
        return None
    return Size.number(dim) if isinstance(dim, int) else results.get(dim, Size.symbol(dim))


def _contents(graph: Graph, value: str, results: Mapping[str, Size]) -> _Sizes | None:
    """The elements of a value of small integers; None if they are not known."""
    contents = contents_of(graph, value)
    return None if contents is None else tuple(_replaced(size, results) for size in contents.sizes)


def _replaced(size: Size, results: Mapping[str, Size]) -> Size:
    """The size with what is found in place of its symbols."""
    total = Size.number(0)
    for symbols, factor in size.terms:
        product = Size.number(factor)
        for symbol in symbols:
            product *= results.get(symbol, Size.symbol(symbol))
        total += product
    return total


def _of_range(graph: Graph, node: Node, results: Mapping[str, Size]) -> _Sizes:
    start, limit, step = (_contents(graph, value, results) for value in node.inputs)
    if start != (Size.number(0),) or step != (Size.number(1),) or limit is None:
        return ()
    (length,) = limit
    return (length,) if length is not None and length.is_positive_or_zero else ()


def _of_reshape(graph: Graph, node: Node, results: Mapping[str, Size]) -> _Sizes:
    own, wanted = _sizes(graph, node.inputs[0], results), _contents(graph, node.inputs[1], results)
    numbers = [None if size is None else size.known for size in wanted or ()]
    if own is None or wanted is None or node.attr("allowzero") or numbers.count(-1) > 1:
        return ()
    if any(number == 0 and axis >= len(own) for axis, number in enumerate(numbers)):
        return ()
    sizes = [own[axis] if number == 0 else wanted[axis] for axis, number in enumerate(numbers)]
    if -1 in numbers:
        place = numbers.index(-1)
        sizes[place] = _quotient(own, [*sizes[:place], *sizes[place + 1 :]])
    return tuple(sizes)


def _quotient(sizes: _Sizes, divisors: Sequence[Size | None]) -> Size | None:
    """The product of the sizes, divided by that of the others; None if it does not follow."""
    if None in sizes or None in divisors:
        return None
    left, divisor, product = [size for size in sizes if size], 1, Size.number(1)
    for size in filter(None, divisors):
        if size in left:
            left.remove(size)
        elif size.known is None:
            return None
        else:
            divisor *= size.known
    for size in left:
        product *= size
        if not product.fits:
            return None
    return product.divided_by(divisor)


def _broadcast(operands: Sequence[_Sizes | None]) -> _Sizes:
    """The sizes of values broadcast against each other; None where two differ and neither is 1."""
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
