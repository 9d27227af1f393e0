"""Operators that give the same elements in another element type, and the types in which they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import prod

import numpy as np
from onnx import defs

from workbench.ir import DataType, Graph, Node
from workbench.rewrite.analyses.casts import keeps_numbers, require_plain, target_of, type_name
from workbench.rewrite.core.guards import require_constant
from workbench.rewrite.core.rule import NoMatch

# Operator -> the indices of the operands whose elements it moves or selects, None for all. Abs, Neg and Relu change no
# digit of them.
_MOVED: Mapping[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"), (0,)),
    **dict.fromkeys(("Slice", "Split", "Gather", "GatherElements", "GatherND", "Expand", "Tile"), (0,)),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth", "Abs", "Neg", "Relu"), (0,)),
    "Pad": (0, 2),
    "Where": (1, 2),
    **dict.fromkeys(("Concat", "Max", "Min"), None),
}
MOVERS = frozenset(_MOVED)
_NUMERIC = frozenset({"Abs", "Neg", "Relu", "Max", "Min"})
_SOME = 4096  # elements

_BFLOAT16 = frozenset({DataType.BFLOAT16})
_WITHOUT_16_BITS = frozenset({DataType.INT16, DataType.UINT16, DataType.BFLOAT16})
_BLOCKS = frozenset(
    {
        *(DataType.BOOL, DataType.INT16, DataType.INT32, DataType.INT64),
        *(DataType.UINT16, DataType.UINT32, DataType.UINT64, DataType.BFLOAT16),
    }
)
# Operator -> the types for which ONNX Runtime's CPU provider does not run it, although ONNX allows them.
# Found with ONNX Runtime 1.31; `tests/test_element_types.py` tries it, and the next list.
NO_KERNEL: Mapping[str, frozenset[DataType]] = {
    **dict.fromkeys(("Abs", "Neg", "Expand", "Tile"), _BFLOAT16),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _BLOCKS),
    **dict.fromkeys(("Pad", "Max", "Min"), _WITHOUT_16_BITS),
    "Where": _WITHOUT_16_BITS | {DataType.BOOL, DataType.UINT64},
    "Relu": frozenset({DataType.INT16, DataType.INT64, DataType.BFLOAT16}),
}

# It computes these of float16 in float, between Casts of its own. Where two Casts then meet, it leaves both out,
# although the first rounds.
NO_FLOAT16 = frozenset({"Abs", "Neg", "Relu", "Where", "Pad", "Tile", "DepthToSpace", "SpaceToDepth"})


def moved_operands(node: Node) -> tuple[str, ...]:
    """The operands whose elements the node moves or selects."""
    return tuple(node.inputs[index] for index in _moved_indices(node))


def with_operands(node: Node, new: Callable[[str], str], outputs: tuple[str, ...]) -> Node:
    """The node with `new` of each operand that it moves; its other operands, such as indices and shapes, stay."""
    moved = _moved_indices(node)
    inputs = tuple(new(value) if index in moved else value for index, value in enumerate(node.inputs))
    return node.replace(inputs=inputs, outputs=outputs)


def parameters(node: Node) -> tuple[str, ...]:
    """The operands that it does not move: indices, shapes, conditions."""
    moved = {*_moved_indices(node)}
    return tuple(value for index, value in enumerate(node.inputs) if value and index not in moved)


def _moved_indices(node: Node) -> tuple[int, ...]:
    indices = _MOVED[node.op]
    return tuple(i for i, value in enumerate(node.inputs) if value and (indices is None or i in indices))


def require_runs_in(graph: Graph, node: Node, dtype: DataType, rounds_float16: bool) -> None:
    """Raises NoMatch unless the node may read this type in place of its own, and ONNX Runtime's CPU runs that.

    rounds_float16: whether that may leave out a Cast to float16 before it.
    """
    name = type_name(dtype)
    schema = defs.get_schema(node.op_type, graph.opset_imports.get("", 0), "")
    if f"tensor({name})" not in schema.inputs[_moved_indices(node)[0]].types:
        raise NoMatch(f"ONNX defines no {node} of {name}")
    if dtype in NO_KERNEL.get(node.op, ()):
        raise NoMatch(f"ONNX Runtime has no kernel on the CPU for {node} of {name}")
    if dtype == DataType.FLOAT16 and node.op in NO_FLOAT16 and not rounds_float16:
        raise NoMatch(f"ONNX Runtime computes {node} of float16 in float, and a rounding before it may be lost")


def require_float16_held(graph: Graph, value: str) -> None:
    """Raises NoMatch if ONNX Runtime's CPU provider may keep this value of type float16 in float.

    It does so between operators that it computes in float, and leaves out a Cast to float16 that one of them reads.
    """
    producer = graph.producer(value)
    while producer is not None:
        if producer.op not in {"Cast", *MOVERS} - NO_FLOAT16 or graph.count_users(value) > 1:
            raise NoMatch(f"ONNX Runtime may keep '{value}' in float, without the rounding to float16")
        if producer.op == "Cast":
            return
        value = moved_operands(producer)[0]
        producer = graph.producer(value)


def require_same_rounding(graph: Graph, cast: Node, value: str) -> None:
    """Raises NoMatch if the Cast, when it reads this value, may round to float16 what it does not round where it is."""
    source = require_plain(graph, value)
    if source == DataType.FLOAT16:
        require_float16_held(graph, value)
    elif target_of(cast) == DataType.FLOAT16 and not keeps_numbers(source, DataType.FLOAT16):
        raise NoMatch(f"{cast} rounds to float16, which ONNX Runtime leaves out before some operators")


def require_same_in(graph: Graph, node: Node, dtype: DataType, own: DataType, rounds_float16: bool) -> None:
    """Raises NoMatch unless the node gives the same numbers in this type as in its own, to the last bit."""
    require_runs_in(graph, node, dtype, rounds_float16)
    name = type_name(dtype)
    if node.op in _NUMERIC and not keeps_numbers(dtype, own):
        raise NoMatch(f"{node} may give another number in {name} than in {type_name(own)}")
    if node.op == "Pad" and "value" in node.attributes:
        raise NoMatch(f"{node} fills with a number of no type of its own")  # before opset 11
    if node.op in ("Abs", "Neg") and not dtype.is_floating_point():
        raise NoMatch(f"{node} of the smallest {name} is not an {name}")
    if node.op in ("Max", "Min") and dtype.is_floating_point():
        raise NoMatch(f"{node} may give the other of 0 and -0 in {name}")  # seen in ONNX Runtime's float16 kernels


def require_no_larger(node: Node, dtype: DataType, own: DataType) -> None:
    """Raises NoMatch if the elements of this type take more bytes than those of the node's own."""
    if dtype.bitwidth > own.bitwidth:
        raise NoMatch(f"{node} would move elements of {type_name(dtype)}, which are larger than {type_name(own)}")


def represented(array: np.ndarray, dtype: DataType) -> np.ndarray | None:
    """The numbers in this type; None unless each is the same there, -0, infinities and NaN included."""
    first = array.reshape(-1)[:_SOME]
    if array.size > _SOME and represented(first, dtype) is None:  # large weights mostly differ at once
        return None
    with np.errstate(all="ignore"):
        result = array.astype(dtype.numpy())
        back = result.astype(array.dtype)
    if array.dtype.kind in "biu":
        return result if np.array_equal(back, array) else None
    same = (back == array) & (np.signbit(back) == np.signbit(array))
    return result if (same | (np.isnan(back) & np.isnan(array))).all() else None


def repetition(graph: Graph, node: Node) -> Fraction:
    """How many times as many elements the node gives as it reads, at least; 0 if that is not known."""
    before, after = (graph.shape(value) for value in (node.inputs[0], node.outputs[0]))
    if node.op == "Tile" and node.inputs[1] in graph.constants:
        return Fraction(prod(map(int, require_constant(graph, node.inputs[1], node))))
    if before is None or after is None:
        return Fraction(0)
    if node.op == "Gather":
        indices = graph.tensor_type(node.inputs[1])
        count, size = None if indices is None else indices.elements, before[node.attr("axis")] if before else None
        return Fraction(count, size) if count is not None and isinstance(size, int) and size else Fraction(0)
    repeated = [b for a, b in zip((*(1,) * (len(after) - len(before)), *before), after, strict=True) if a == 1]
    # A symbolic dim counts as 2: if it is 1 at runtime, the rewrite gains nothing, and is still correct.
    return Fraction(prod(size if isinstance(size, int) else 2 for size in repeated))
