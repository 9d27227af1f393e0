"""Shared by rules for an operator between DequantizeLinear and QuantizeLinear: conditions and operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.ir import DataType, Graph, Node
from workbench.rewrite.core.exactness import Exactness
from workbench.rewrite.core.guards import require_constant, require_no_other_users
from workbench.rewrite.core.rule import Example, NoMatch, Refusal, Rule
from workbench.rewrite.patterns.building import Constraint
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match

EIGHT_BITS = (DataType.UINT8, DataType.INT8)
_MAX_SCALE = 2.0**40  # with larger scales a product of two, divided by a third, may overflow or underflow


@dataclass(frozen=True)
class Quantization:
    """A number is scale * (integer - zero). axis: the axis with a scale per index; None if there is one scale."""

    dtype: DataType
    scale: np.ndarray
    zero: np.ndarray
    axis: int | None

    def equals(self, other: Quantization) -> bool:
        same_numbers = np.array_equal(self.scale.ravel(), other.scale.ravel())
        same_zeros = np.array_equal(self.zero.ravel(), other.zero.ravel())
        return self.dtype == other.dtype and self.axis == other.axis and same_numbers and same_zeros


def quantization_of(graph: Graph, node: Node) -> Quantization:
    """The quantization of a DequantizeLinear or a QuantizeLinear.

    Raises NoMatch unless scale and zero point are constants and the floats are float32.
    """
    integers, floats = node.inputs[0], node.outputs[0]
    if node.op == "QuantizeLinear":
        integers, floats = floats, integers
    types = [graph.tensor_type(value) for value in (integers, floats, node.inputs[1])]
    dtype, *of_floats = (None if type_ is None else type_.dtype for type_ in types)
    if dtype is None or set(of_floats) != {DataType.FLOAT}:
        raise NoMatch(f"{node} is not known to convert between integers and float32")
    if node.attr("block_size") or node.attr("precision") not in (None, 0, DataType.FLOAT):
        raise NoMatch(f"{node} has scales of blocks or another precision than float32")
    scale = require_constant(graph, node.inputs[1], node)
    zero = node.inputs[2] if len(node.inputs) > 2 else ""
    zeros = require_constant(graph, zero, node) if zero else np.zeros(scale.shape, dtype.numpy())
    if scale.ndim > 1 or zeros.ndim > 1:
        raise NoMatch(f"scale or zero point of {node} has several axes")
    if not ((scale >= 1 / _MAX_SCALE) & (scale <= _MAX_SCALE)).all():
        raise NoMatch(f"a scale of {node} is not between 2 ** -40 and 2 ** 40")
    if scale.size == 1:
        return Quantization(dtype, scale, zeros, None)
    axis, rank = node.attr("axis"), graph.rank_of(integers)
    if axis < 0 and rank is None:
        raise NoMatch(f"{node} counts its axis from the end, and the rank of '{integers}' is not known")
    return Quantization(dtype, scale, zeros, axis + (rank or 0) if axis < 0 else axis)


def in_one_kernel(source: str) -> str:
    """The sentence of a rewrite that computes with one integer kernel from this value of the pattern."""
    return (
        "{count} nodes, from {nodes[0]} to {root}, become one kernel of ONNX Runtime on integers, {new} of"
        f" '{{{source}}}'; {{fewer}} fewer"
    )


def _refuse_two_shapes(node: Node, quantization: Quantization) -> None:
    """Raises NoMatch unless scale and zero point have one shape: kernels of ONNX Runtime require it."""
    if quantization.scale.shape != quantization.zero.shape:
        shapes = f"{list(quantization.scale.shape)} and {list(quantization.zero.shape)}"
        raise NoMatch(f"scale and zero point of {node} have the shapes {shapes}")


def quantization_at(match: Match, name: str) -> Quantization:
    """The quantization of the node of this name in the pattern."""
    return quantization_of(match.graph, match.node(name))


def one_scale_of_8_bits(match: Match, name: str) -> Quantization:
    """The quantization of the node of this name. Raises NoMatch unless it has one scale and 8-bit integers."""
    result, node = quantization_at(match, name), match.node(name)
    if result.dtype not in EIGHT_BITS:
        raise NoMatch(f"the integers of {node} are {result.dtype.name.lower()}, not uint8 or int8")
    if result.axis is not None:
        raise NoMatch(f"{node} has {result.scale.size} scales, not one")
    _refuse_two_shapes(node, result)
    return result


def have_one_scale_and_type(*names: str) -> Constraint:
    """The constraint that the nodes of these names have one scale each, and the same 8-bit type."""

    def check(match: Match) -> None:
        first, *others = (one_scale_of_8_bits(match, name) for name in names)
        for name, other in zip(names[1:], others, strict=True):
            if other.dtype != first.dtype:
                types = f"{first.dtype.name.lower()} and {other.dtype.name.lower()}"
                raise NoMatch(f"{match.node(names[0])} and {match.node(name)} have integers of two types, {types}")

    return check


def read_in_match_only(*names: str) -> Constraint:
    """The constraint that only the match reads the results of these names."""

    def check(match: Match) -> None:
        for name in names:
            require_no_other_users(match.graph, match.node(name), match.nodes)

    return check


def zero_point(name: str) -> Callable[[Match], str | np.ndarray]:
    """The zero point of the node of this name: its operand, or zeros in the shape of the scale."""

    def operand_of(match: Match) -> str | np.ndarray:
        node = match.node(name)
        return node.inputs[2] if len(node.inputs) > 2 and node.inputs[2] else quantization_at(match, name).zero

    return operand_of


def require_weights(match: Match, name: str, axis: int, activation: DataType) -> Quantization:
    """The quantization of weights. Raises NoMatch if ONNX Runtime has no kernel for it and this type of activations.

    axis: the only axis along which there may be several scales.
    """
    result, node = quantization_at(match, name), match.node(name)
    if result.dtype not in EIGHT_BITS or (activation == DataType.INT8 and result.dtype != DataType.INT8):
        types = f"{activation.name.lower()} by {result.dtype.name.lower()}, which {node} gives"
        raise NoMatch(f"ONNX Runtime has no kernel for {types}")
    if result.axis not in (None, axis):
        raise NoMatch(f"{node} has scales along axis {result.axis}, not {axis}")
    if np.unique(result.zero).size > 1:
        raise NoMatch(f"{node} has several zero points")
    _refuse_two_shapes(node, result)
    return result


def require_bias(match: Match, name: str, unit: np.ndarray) -> None:
    """Raises NoMatch unless the bias of this name, if there is one, is int32 with the scale `unit`."""
    if match.get(name) is None:
        return
    result, node = quantization_at(match, name), match.node(name)
    if result.dtype != DataType.INT32 or result.zero.any() or match.graph.rank_of(match[name]) != 1:
        raise NoMatch(f"{node}, the bias, is not a vector of int32 with the zero point 0")
    scale = result.scale.ravel()
    expected = unit.ravel()
    if scale.size not in (1, expected.size) or not np.allclose(scale, expected, rtol=1e-5, atol=0):
        raise NoMatch(f"the scale of {node}, the bias, is not the product of the other operands' scales")


def rule_of_one_operand(
    name: str,
    op: str,
    attributes_before: str,
    attributes_after: str,
    example: Example,
    refusals: Sequence[Refusal],
    where: Sequence[Constraint] = (),
    computed: Mapping[str, Callable[[Match], Any]] | None = None,
) -> Rule:
    """The operator between a DequantizeLinear and a QuantizeLinear becomes com.microsoft.QLinear of it.

    attributes_before, attributes_after: text of attributes in the pattern and in its replacement, each after a comma.
    where, computed: as in `graph_rule`, added to those of all such rules.
    """
    return graph_rule(
        name,
        f"""
        operand = DequantizeLinear(x, sx, zx | None, **of_operand)
        c = {op}(operand{attributes_before})
        y = QuantizeLinear(c, sy, zy | None, **of_result)
        """,
        f"y = com.microsoft.QLinear{op}(x, sx, operand_zero, sy, result_zero{attributes_after})",
        in_one_kernel("x"),
        example,
        refusals=tuple(refusals),
        constants=("sx", "zx", "sy", "zy"),
        where=(read_in_match_only("c"), have_one_scale_and_type("operand", "y"), *where),
        computed={"operand_zero": zero_point("operand"), "result_zero": zero_point("y"), **(computed or {})},
        shared=True,
        exactness=Exactness.STEP,
    )
