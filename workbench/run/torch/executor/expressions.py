"""Operators as one call of torch each, as Python text, where what their functions look at is known beforehand.

A contract's function looks at its operands in every run: at their types, their rank, axes that are in tensors. Where
that is known from the graph, the call that the function would make can be written down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.ir import DataType, Graph, Node, TensorType, constant_shape
from workbench.ops.contract import Call
from workbench.ops.elementwise import BINARY, UNARY
from workbench.ops.windows import Window

_FLOATS = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)
_SIGNED = (*_FLOATS, DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64, DataType.BOOL)
_MOST_NUMBERS = 16  # of a constant operand


@dataclass(frozen=True)
class Known:
    """A call, and of each operand its type and, if it is constant, its integers, as the graph says."""

    call: Call
    types: Sequence[TensorType | None]
    numbers: Sequence[tuple[int, ...] | None]

    def attr(self, name: str, default: Any = None) -> Any:
        return self.call.attr(name, default)

    def are(self, dtypes: Sequence[DataType]) -> bool:
        """Whether each operand that is there has one of these element types, all the same."""
        given = (type_ for value, type_ in zip(self.call.node.inputs, self.types, strict=True) if value)
        results = {None if type_ is None else type_.dtype for type_ in given}
        return len(results) == 1 and results <= {*dtypes}

    def shape(self, place: int) -> tuple[int, ...] | None:
        """Of an operand, if it is known as a whole."""
        type_ = self.types[place] if place < len(self.types) else None
        return None if type_ is None else type_.static_shape

    def dtype(self, place: int) -> DataType | None:
        type_ = self.types[place]
        return None if type_ is None else type_.dtype

    def rank(self, place: int) -> int | None:
        type_ = self.types[place]
        return None if type_ is None or type_.shape is None else len(type_.shape)


_Expression = Callable[..., "str | None"]
_TABLE: dict[str, _Expression] = {}


def expression_of(graph: Graph, call: Call, operands: Sequence[str]) -> str | None:
    """The operator on operands of these names; None if it is not one call, or that is not known.

    In the text `torch` and `F` are torch and torch.nn.functional. It computes what the contract's function computes.
    Attributes stand in it as literals (repr), since a file may hold any text in the place of a number.
    """
    node = call.node
    write = _TABLE.get(node.op)
    if write is None or len(node.outputs) != 1:
        return None
    known = Known(call, [_type(graph, value) for value in node.inputs], _numbers(graph, node))
    return write(known, *operands)


def _type(graph: Graph, value: str) -> TensorType | None:
    return graph.tensor_type(value) if value else None


def _numbers(graph: Graph, node: Node) -> list[tuple[int, ...] | None]:
    results: list[tuple[int, ...] | None] = []
    for value in node.inputs:
        tensor = graph.constants.get(value)
        is_short = tensor is not None and tensor.dtype.is_integer() and constant_shape(tensor) in _SHORT
        results.append(tuple(tensor.numpy().reshape(-1).tolist()) if tensor is not None and is_short else None)
    return results


_SHORT = ((), *((length,) for length in range(_MOST_NUMBERS)))


def _expression(*ops: str) -> Callable[[_Expression], _Expression]:
    def enter(write: _Expression) -> _Expression:
        _TABLE.update(dict.fromkeys(ops, write))
        return write

    return enter


# ---- elementwise ---------------------------------------------------------------------


def _method(name: str, dtypes: Sequence[DataType]) -> _Expression:
    """A method of the first operand, which is found sooner than torch's function of that name."""
    return lambda known, x, *others: f"{x}.{name}({', '.join(others)})" if known.are(dtypes) else None


_TABLE |= {op: _method(name, _FLOATS) for op, name in UNARY.items()}
_TABLE |= {op: _method(name, _SIGNED) for op, name in BINARY.items()}
_TABLE |= {op: _method(name, _FLOATS) for op, name in (("Div", "div"), ("Pow", "pow"))}
_TABLE |= {op: _method(op.lower(), _FLOATS) for op in ("Relu", "Sigmoid", "Tanh")}


@_expression("Where")
def _where(known: Known, condition: str, a: str, b: str) -> str | None:
    return f"torch.where({condition}, {a}, {b})"


@_expression("Identity")
def _identity(known: Known, x: str) -> str | None:
    return x


@_expression("Softmax")
def _softmax(known: Known, x: str) -> str | None:
    return f"{x}.softmax({known.attr('axis', -1)!r})"


# ---- products and windows --------------------------------------------------------------


@_expression("MatMul")
def _matmul(known: Known, a: str, b: str) -> str | None:
    return f"{a}.matmul({b})" if known.are(_FLOATS) else None


@_expression("Gemm")
def _gemm(known: Known, a: str, b: str, c: str | None = None) -> str | None:
    """torch's linear layer, if it is one: addmm of the weights turned, without a view of them in each run."""
    plain = known.attr("alpha") == known.attr("beta") == 1.0 and not known.attr("transA")
    if not plain or not known.attr("transB") or not known.are(_FLOATS) or c is None or known.rank(2) != 1:
        return None
    width = known.shape(1)
    return f"F.linear({a}, {b}, {c})" if width is not None and known.shape(2) == width[:1] else None


@_expression("Conv")
def _conv(known: Known, x: str, weight: str, bias: str = "None") -> str | None:
    shape = known.shape(1)
    if shape is None or len(shape) not in (3, 4, 5) or known.attr("auto_pad") not in ("NOTSET", "VALID"):
        return None
    window = Window.of(known.call, shape[2:], shape[2:])  # its pads do not depend on the image
    if window.begins != window.ends:
        return None
    rank, group = len(shape) - 2, known.attr("group")
    return f"F.conv{rank}d({x}, {weight}, {bias}, {window.strides}, {window.begins}, {window.dilations}, {group!r})"


@_expression("GlobalAveragePool")
def _global_average_pool(known: Known, x: str) -> str | None:
    rank = known.rank(0)
    return None if rank is None else f"{x}.mean({tuple(range(2, rank))}, keepdim=True)"


@_expression("LayerNormalization")
def _layer_normalization(known: Known, x: str, scale: str, bias: str = "None") -> str | None:
    rank, shape = known.rank(0), known.shape(1)
    if rank is None or shape is None or len(shape) != rank - known.attr("axis") % rank:
        return None
    own = known.shape(0)
    if own is None or own[rank - len(shape) :] != shape or (bias != "None" and known.shape(2) != shape):
        return None
    return f"F.layer_norm({x}, {shape}, {scale}, {bias}, {known.attr('epsilon')!r})"


# ---- movement ----------------------------------------------------------------------------


@_expression("Gather")
def _gather(known: Known, x: str, indices: str) -> str | None:
    """A view, if it is by one number."""
    number = known.call.number(1)
    return None if number is None else f"{x}.select({known.attr('axis')!r}, {number})"


@_expression("Unsqueeze")
def _unsqueeze(known: Known, x: str, axes: str) -> str | None:
    numbers, rank = known.numbers[1], known.rank(0)
    if numbers is None or rank is None:
        return None
    return x + "".join(f".unsqueeze({axis})" for axis in sorted(axis % (rank + len(numbers)) for axis in numbers))


@_expression("Squeeze")
def _squeeze(known: Known, x: str, axes: str | None = None) -> str | None:
    numbers = None if axes is None else known.numbers[1]
    return None if numbers is None else f"{x}.squeeze({numbers})"


@_expression("Reshape")
def _reshape(known: Known, x: str, shape: str) -> str | None:
    """A size of 0 is that of the operand, unless zeros are allowed."""
    numbers = known.numbers[1]
    if numbers is None or (0 in numbers and known.attr("allowzero")):
        return None
    sizes = ", ".join(str(size) if size else f"{x}.shape[{place}]" for place, size in enumerate(numbers))
    return f"{x}.reshape(({sizes},))" if numbers else None


@_expression("Transpose")
def _transpose(known: Known, x: str) -> str | None:
    """A copy, if axes longer than 1 change places, as they do whatever the sizes that are not known."""
    type_ = known.types[0]
    if type_ is None or type_.shape is None:
        return None
    sizes = type_.shape
    perm = known.attr("perm") or tuple(reversed(range(len(sizes))))
    long = [axis for axis in perm if isinstance(size := sizes[axis], int) and size > 1]
    return f"{x}.permute({tuple(perm)}).contiguous()" if long != sorted(long) else None


@_expression("Concat")
def _concat(known: Known, *operands: str) -> str | None:
    return f"torch.cat(({', '.join(operands)},), {known.attr('axis')!r})"


@_expression("ReduceSum", "ReduceMean")
def _reduce(known: Known, x: str, axes: str = "") -> str | None:
    shape, numbers = known.shape(0), known.numbers[1] if axes else ()
    if not shape or 0 in shape or not numbers or known.dtype(0) not in _FLOATS:
        return None
    name = known.call.node.op_type.removeprefix("Reduce").lower()
    chosen = numbers[0] if len(numbers) == 1 else numbers
    return f"{x}.{name}({chosen}, True)" if known.attr("keepdims") == 1 else f"{x}.{name}({chosen})"
