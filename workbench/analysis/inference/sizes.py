"""Symbolic elements of small integer values that are computed from shapes, as dynamic exports do.

A size is a polynomial in symbolic dims with integer coefficients: 2*N*S + 3. A dim
without a name is a symbol too, named after its value and axis.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import NamedTuple

import numpy as np

from workbench.ir import Graph, Node, constant_shape
from workbench.ir.types import DataType, Dim, TensorType
from workbench.support.reachability import reachable

_SMALL = 64  # largest number of elements of a value, and of terms of a size
_DEGREE = 16  # the largest number of symbols in a term; no shape has as many axes
_DEEPEST = 40  # longest chain of nodes that is followed
_MIN_INT64, _MAX_INT64 = (int(bound) for bound in (np.iinfo(np.int64).min, np.iinfo(np.int64).max))
_INTEGERS = frozenset(dtype for dtype in DataType if dtype.is_integer())

_Monomial = tuple[str, ...]  # a product of symbols, sorted


@dataclass(frozen=True)
class Size:
    """A polynomial: `terms` maps products of symbols to nonzero coefficients."""

    terms: tuple[tuple[_Monomial, int], ...]

    @staticmethod
    def of(terms: Mapping[_Monomial, int]) -> Size:
        return Size(tuple(sorted((term, factor) for term, factor in terms.items() if factor)))

    @staticmethod
    @lru_cache
    def number(value: int) -> Size:
        return Size((((), value),) if value else ())

    @staticmethod
    @lru_cache
    def symbol(name: str) -> Size:
        return Size((((name,), 1),))

    @cached_property
    def known(self) -> int | None:
        """The number; None if it depends on a symbol."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __add__(self, other: Size) -> Size:
        terms = dict(self.terms)
        for term, factor in other.terms:
            terms[term] = terms.get(term, 0) + factor
        return Size.of(terms)

    def __mul__(self, other: Size) -> Size:
        terms: dict[_Monomial, int] = {}
        for (a, x), (b, y) in itertools.product(self.terms, other.terms):
            term = tuple(sorted((*a, *b)))
            terms[term] = terms.get(term, 0) + x * y
        return Size.of(terms)

    def __sub__(self, other: Size) -> Size:
        return self + other * Size.number(-1)

    @cached_property
    def fits(self) -> bool:
        """Whether it is small enough: beyond 64 bits runtimes wrap around, and repeated products grow."""
        return len(self.terms) <= _SMALL and all(
            len(term) <= _DEGREE and _MIN_INT64 <= factor <= _MAX_INT64 for term, factor in self.terms
        )

    def divided_by(self, divisor: int) -> Size | None:
        """The quotient if every term is divisible, or if it is a nonnegative number; else None."""
        if divisor <= 0:
            return None
        if self.known is not None:
            return Size.number(self.known // divisor) if self.known >= 0 else None
        if any(factor % divisor for _, factor in self.terms):
            return None
        return Size.of({term: factor // divisor for term, factor in self.terms})

    @property
    def is_positive_or_zero(self) -> bool:
        """Whether it is a sum of dims with positive coefficients; dims are never negative."""
        return all(factor > 0 for _, factor in self.terms)


class SymbolicValue(NamedTuple):
    """The symbolic elements of a value of rank 0 or 1."""

    sizes: tuple[Size, ...]
    is_scalar: bool = False

    @property
    def known(self) -> tuple[int, ...] | None:
        """All elements; None if one depends on a symbol."""
        numbers = [size.known for size in self.sizes]
        return None if None in numbers else tuple(n for n in numbers if n is not None)


def _size_of_dim(value: str, axis: int, dim: Dim) -> Size:
    if isinstance(dim, int):
        return Size.number(dim)
    return Size.symbol(f"{value}[{axis}]" if dim is None else dim)


def inferred_dim(shape: Sequence[Size], operand_sizes: Sequence[Size]) -> int | None:
    """The size that -1 in the shape of a Reshape stands for, if it is the same for all dims; else, or without -1, None.

    shape, operand_sizes: the numbers in the shape, and the sizes of the operand's axes. If another axis has size 0, -1
    has no meaning and the Reshape does not run.
    """
    numbers = [size.known for size in shape]
    if -1 not in numbers or 0 in numbers[len(operand_sizes) :]:
        return None
    entries = [operand_sizes[axis] if size.known == 0 else size for axis, size in enumerate(shape) if size.known != -1]
    others, total = (reduce(operator.mul, sizes, Size.number(1)) for sizes in (entries, operand_sizes))
    if not (others.fits and total.fits and others.terms and total.terms):
        return None
    rest = total.terms[0][1] // others.terms[0][1]
    return rest if rest > 0 and others * Size.number(rest) == total else None


def shape_sizes(graph: Graph, value: str) -> tuple[Size, ...] | None:
    """The sizes of all axes; None if the rank is unknown."""
    shape = graph.shape(value)
    return None if shape is None else tuple([_size_of_dim(value, axis, dim) for axis, dim in enumerate(shape)])


def shape_sources(graph: Graph, node: Node) -> Iterator[str]:
    """The values whose shapes the node's result is computed from."""

    def operands(value: str) -> Iterable[str]:
        producer = graph.producer(value)
        is_arithmetic = producer is not None and producer.op in SHAPE_ARITHMETIC and producer.op != "Shape"
        return producer.operands if producer is not None and is_arithmetic else ()

    for value in reachable(node.operands, operands):
        producer = graph.producer(value)
        if producer is not None and producer.op == "Shape":
            yield producer.inputs[0]


def may_have_symbolic_value(graph: Graph, node: Node) -> bool:
    """A quick check: False only if the symbolic value of the node's first result is unknown."""
    return _may_be_size(graph, node.outputs[0])


def symbolic_value_of(graph: Graph, value: str) -> SymbolicValue | None:
    """The symbolic elements of `value`; None if unknown."""
    return _Query(graph, {}).symbolic(value)


class _Query(NamedTuple):
    """A backward traversal from one value. results: by value, so that each is computed once."""

    graph: Graph
    results: dict[str, SymbolicValue | None]
    depth: int = 0

    def symbolic(self, value: str) -> SymbolicValue | None:
        if value not in self.results:
            self.results[value] = _traced(self, value)
        return self.results[value]


def _traced(query: _Query, value: str) -> SymbolicValue | None:
    graph = query.graph
    tensor = graph.constant(value)
    if tensor is not None:
        shape = constant_shape(tensor)
        if len(shape) > 1 or math.prod(shape) > _SMALL or tensor.dtype not in _INTEGERS:
            return None
        numbers = tensor.numpy().reshape(-1).tolist()
        return SymbolicValue(tuple([Size.number(int(number)) for number in numbers]), not shape)
    node = graph.producer(value)
    follow = None if node is None else SHAPE_ARITHMETIC.get(node.op)
    if node is None or follow is None or query.depth > _DEEPEST or not _may_be_size(graph, value):
        return None
    result = follow(_Query(graph, query.results, query.depth + 1), node)
    if result is None or len(result.sizes) > _SMALL or not all(size.fits for size in result.sizes):
        return None
    return result


def _may_be_size(graph: Graph, value: str) -> bool:
    """Whether the type of a computed value may be that of a size or a list of sizes."""
    type_ = graph.types.get(value)
    if not isinstance(type_, TensorType):
        return True
    return (type_.shape is None or len(type_.shape) <= 1) and type_.dtype in _INTEGERS


def _multiplied(sizes: Iterable[Size]) -> Size | None:
    """The product; None if it grows too large."""
    product = Size.number(1)
    for size in sizes:
        product *= size
        if not product.fits:
            return None
    return product


def _operands(query: _Query, node: Node) -> list[SymbolicValue] | None:
    results = [query.symbolic(value) if value else None for value in node.inputs]
    operands = [symbolic for symbolic in results if symbolic is not None]
    return operands if operands and len(operands) == len(results) else None


def _numbers(query: _Query, node: Node, index: int) -> tuple[int, ...] | None:
    """The elements of an operand, if all are numbers."""
    if len(node.inputs) <= index or not node.inputs[index]:
        return None
    result = query.symbolic(node.inputs[index])
    return None if result is None else result.known


def _shape(query: _Query, node: Node) -> SymbolicValue | None:
    sizes = shape_sizes(query.graph, node.inputs[0])
    return None if sizes is None else SymbolicValue(sizes[node.attr("start") : node.attr("end")])


def _size(query: _Query, node: Node) -> SymbolicValue | None:
    sizes = shape_sizes(query.graph, node.inputs[0])
    product = None if sizes is None else _multiplied(sizes)
    return None if product is None else SymbolicValue((product,), is_scalar=True)


def _gather(query: _Query, node: Node) -> SymbolicValue | None:
    data, indices = query.symbolic(node.inputs[0]), query.symbolic(node.inputs[1])
    if data is None or data.is_scalar or indices is None or indices.known is None:
        return None
    count = len(data.sizes)
    if not all(-count <= index < count for index in indices.known):
        return None
    return SymbolicValue(tuple(data.sizes[index] for index in indices.known), indices.is_scalar)


def _slice(query: _Query, node: Node) -> SymbolicValue | None:
    data = query.symbolic(node.inputs[0])
    starts, ends = _numbers(query, node, 1), _numbers(query, node, 2)
    steps = _numbers(query, node, 4) if len(node.inputs) > 4 and node.inputs[4] else (1,)
    if data is None or starts is None or ends is None or steps is None or steps[0] <= 0:
        return None
    return SymbolicValue(data.sizes[starts[0] : ends[0] : steps[0]])


def _concat(query: _Query, node: Node) -> SymbolicValue | None:
    operands = _operands(query, node)
    return None if operands is None else SymbolicValue(tuple(size for operand in operands for size in operand.sizes))


def _unsqueeze(query: _Query, node: Node) -> SymbolicValue | None:
    data = query.symbolic(node.inputs[0])
    return SymbolicValue(data.sizes) if data is not None and data.is_scalar and len(node.inputs) > 1 else None


def _squeeze(query: _Query, node: Node) -> SymbolicValue | None:
    data = query.symbolic(node.inputs[0])
    return SymbolicValue(data.sizes, is_scalar=True) if data is not None and len(data.sizes) == 1 else None


def _reshape(query: _Query, node: Node) -> SymbolicValue | None:
    data, shape = query.symbolic(node.inputs[0]), _numbers(query, node, 1)
    if data is None or shape is None or len(shape) > 1:
        return None
    return SymbolicValue(data.sizes, is_scalar=not shape)


def _same(query: _Query, node: Node) -> SymbolicValue | None:
    type_ = query.graph.tensor_type(node.outputs[0])
    if type_ is None or type_.dtype.name not in ("INT64", "INT32"):
        return None
    return query.symbolic(node.inputs[0])


def _pairwise(query: _Query, node: Node) -> list[tuple[Size, Size]] | None:
    operands = _operands(query, node)
    if operands is None or len(operands) != 2:
        return None
    a, b = (operand.sizes for operand in operands)
    if len(a) != len(b) and 1 not in (len(a), len(b)):
        return None
    count = max(len(a), len(b)) if a and b else 0
    return list(zip(a * count if len(a) == 1 else a, b * count if len(b) == 1 else b, strict=True))


def _each(graph: Graph, node: Node, sizes: Sequence[Size | None] | None) -> SymbolicValue | None:
    if sizes is None or any(size is None for size in sizes):
        return None
    return SymbolicValue(tuple(s for s in sizes if s is not None), is_scalar=graph.rank_of(node.outputs[0]) == 0)


def _arithmetic(query: _Query, node: Node) -> SymbolicValue | None:
    pairs = _pairwise(query, node)
    if pairs is None or query.graph.rank_of(node.outputs[0]) is None:
        return None
    if node.op == "Add":
        return _each(query.graph, node, [a + b for a, b in pairs])
    if node.op == "Sub":
        return _each(query.graph, node, [a - b for a, b in pairs])
    if node.op == "Mul":
        return _each(query.graph, node, [a * b for a, b in pairs])
    return _each(query.graph, node, [None if b.known is None else a.divided_by(b.known) for a, b in pairs])


def _product(query: _Query, node: Node) -> SymbolicValue | None:
    data = query.symbolic(node.inputs[0])
    if data is None or data.is_scalar or node.attr("noop_with_empty_axes"):
        return None
    product = _multiplied(data.sizes)
    return None if product is None else SymbolicValue((product,), is_scalar=node.attr("keepdims") != 1)


def _where(query: _Query, node: Node) -> SymbolicValue | None:
    """torch's Expand: where(equal(shape, -1), ones, shape). A dim is never -1."""
    equal = query.graph.producer(node.inputs[0])
    yes, no = (query.symbolic(value) for value in node.inputs[1:])
    if equal is None or equal.op != "Equal" or yes is None or no is None:
        return None
    pairs = _pairwise(query, equal)
    if pairs is None or not len(pairs) == len(yes.sizes) == len(no.sizes):
        return None
    chosen = [
        None if same is None else (a if same else b)
        for same, a, b in zip((_is_equal(*pair) for pair in pairs), yes.sizes, no.sizes, strict=True)
    ]
    return _each(query.graph, node, chosen)


def _is_equal(a: Size, b: Size) -> bool | None:
    """Whether two sizes are equal for all dims; None if that depends on the dims."""
    difference = (a - b).known
    if difference is not None:
        return difference == 0
    for size, other in ((a, b), (b, a)):
        if size.is_positive_or_zero and other.known is not None and other.known < 0:
            return False
    return None


def _filled(query: _Query, node: Node) -> SymbolicValue | None:
    shape, value = _numbers(query, node, 0), node.attr("value")
    if shape is None or len(shape) != 1 or not 0 <= shape[0] <= _SMALL or value is None or not value.dtype.is_integer():
        return None
    return SymbolicValue((Size.number(int(value.numpy().reshape(-1)[0])),) * shape[0])


SHAPE_ARITHMETIC = {
    "Shape": _shape,
    "Size": _size,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Cast": _same,
    "Identity": _same,
    "Add": _arithmetic,
    "Sub": _arithmetic,
    "Mul": _arithmetic,
    "Div": _arithmetic,
    "ReduceProd": _product,
    "Where": _where,
    "ConstantOfShape": _filled,
}
