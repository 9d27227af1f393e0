"""Folds a scale and a shift per channel into a linear operator with constant weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Constant, Graph, Node, constant, constant_shape, lazy_constant
from workbench.rewrite.core.rule import NoMatch

LINEAR = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True)
class Scaled:
    """A linear operator with scale and shift folded in. weight_count: the number of elements of its weights."""

    node: Node
    constants: dict[str, Constant]
    weight_count: int


def channel_axis(graph: Graph, node: Node) -> int | None:
    """The channel axis of the result; None if its rank is unknown."""
    if node.op in ("Conv", "ConvTranspose", "Gemm"):
        return 1
    rank = graph.rank_of(node.outputs[0])
    return None if rank is None else rank - 1


def channels(graph: Graph, node: Node) -> int:
    """The number of channels of the result. Raises NoMatch if the weights are computed, or not a matrix."""
    weight = _weight(graph, node)
    shape = constant_shape(weight)
    if node.op == "Conv":
        return shape[0]
    if node.op == "ConvTranspose":
        return shape[1] * int(node.attr("group"))
    if len(shape) != 2:
        raise NoMatch(f"the second operand of {node} is not a matrix: its shape is {list(shape)}")
    return shape[0] if node.op == "Gemm" and node.attr("transB") else shape[1]


def scaled(graph: Graph, node: Node, factor: np.ndarray, shift: np.ndarray) -> Scaled:
    """The operator with its result multiplied by `factor`, then shifted by `shift`, both [channels] and float64.

    Raises NoMatch if weights or bias are computed, or if the products exceed their element type.
    """
    weight = _weight(graph, node)
    if node.op == "MatMul" and shift.any() and graph.rank_of(node.inputs[0]) != 2:
        raise NoMatch(f"{node} has no bias, and Gemm, which has one, takes matrices only")
    dtype = weight.dtype.numpy()
    bias = _bias(graph, node)
    with np.errstate(over="ignore", invalid="ignore"):
        new_bias = (bias * factor + shift).astype(dtype)
    limit = float(np.finfo(dtype).max)
    largest = float(np.abs(weight.numpy()).max(initial=0.0)) * float(np.abs(factor).max(initial=0.0))
    if not (np.isfinite(new_bias).all() and np.isfinite(factor).all() and largest <= limit):
        raise NoMatch(f"the weights of {node} times the factors overflow {weight.dtype.name.lower()}")
    name, constants = node.inputs[1], dict[str, Constant]()
    if (factor != 1).any():
        name = graph.fresh(f"{name}_folded")
        constants[name] = _scaled_weight(weight, factor, node)
    inputs: tuple[str, ...] = (node.inputs[0], name)
    attributes = dict(node.attributes)
    if node.op != "MatMul" or new_bias.any():
        bias_name = graph.fresh(f"{node.name}_bias_folded", (name,))
        constants[bias_name] = constant(new_bias)
        inputs = (*inputs, bias_name)
    if node.op == "Gemm":
        attributes["beta"] = 1.0
    op = "Gemm" if node.op == "MatMul" and len(inputs) == 3 else node.op
    weight_count = int(np.prod(constant_shape(weight)))
    return Scaled(node.replace(op_type=op, inputs=inputs, attributes=attributes), constants, weight_count)


def _weight(graph: Graph, node: Node) -> Constant:
    weight = graph.constant(node.inputs[1])
    if weight is None:
        raise NoMatch(f"'{node.inputs[1]}' is not a constant")
    if not weight.dtype.is_floating_point():
        raise NoMatch(f"the weights of {node} are {weight.dtype.name.lower()}, not floating-point numbers")
    return weight


def _bias(graph: Graph, node: Node) -> np.ndarray:
    """The bias, [channels] or a scalar, float64; zero if there is none."""
    value = node.inputs[2] if len(node.inputs) > 2 else ""
    if not value:
        return np.zeros(())
    bias = graph.constant(value)
    if bias is None:
        raise NoMatch(f"'{value}' is not a constant")
    array = bias.numpy().astype(np.float64) * (node.attr("beta") if node.op == "Gemm" else 1.0)
    if array.ndim > 1 and array.shape[0] > 1:
        raise NoMatch(f"the bias of {node} differs from row to row")
    return array.reshape(-1) if array.ndim else array


def _scaled_weight(weight: Constant, factor: np.ndarray, node: Node) -> Constant:
    """The weights of each output channel times its factor; computed when read, to take no memory until then."""
    shape = constant_shape(weight)
    if node.op == "Conv":
        weight_factor = factor.reshape(-1, *(1,) * (len(shape) - 1))
    elif node.op == "ConvTranspose":  # [C, M/group, ...]; channels of a group are adjacent on the first axis
        groups = node.attr("group")
        by_group = np.repeat(factor.reshape(groups, -1), shape[0] // groups, axis=0)
        weight_factor = by_group.reshape(*shape[:2], *(1,) * (len(shape) - 2))
    else:
        weight_factor = factor.reshape(-1, 1) if node.op == "Gemm" and node.attr("transB") else factor

    def compute() -> np.ndarray:
        array = weight.numpy()
        return (array * weight_factor.astype(np.float64)).astype(array.dtype)

    return lazy_constant(compute, weight.dtype, shape)
