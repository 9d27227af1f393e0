"""What rounding explains of a difference between two results, element by element.

Two graphs that compute the same round differently. How much that is depends on the model, so it is measured: every
weight, input and result of a node is moved by a few roundings of its type, and how far the model's results then move
bounds what another order of operations does (Stott Parker, "Monte Carlo Arithmetic", UCLA 1997).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

from workbench.checker.drawing import Array
from workbench.checker.types import PlainType, is_tensor

# The largest difference that is rounding, as a part of the largest element of a result.
ROUNDING = {"float16": 1e-2, "float32": 1e-3, "float64": 1e-9}
_NOISE = 8  # the standard deviation of what moves, in distances of two neighbours
_TIMES_MOVED = 16
_OF_LARGEST = 4  # distances of two neighbours at the largest element, which is always rounding
_OF_ONE = 8  # the same at 1, of small results that move: a kernel of Sigmoid is off by so much where it is almost 0
_MOVED = (TensorProto.FLOAT, TensorProto.DOUBLE)
_WITHOUT_NORMAL_NUMBERS = 22  # the first opset for which ONNX Runtime has no kernel of RandomNormalLike on a CPU
# Operators whose further operands are sizes, or an exponent: a negative number to the power of 2.0001 is NaN.
_READ_EXACTLY = ("Resize", "Upsample", "Range", "Pow")


def with_noise(proto: ModelProto, types: Mapping[str, PlainType], random: np.random.Generator) -> ModelProto:
    """The model with its weights moved, in which every float result of a node of the main graph moves in each run.

    types: of the values of the main graph. The weights are in the message.
    """
    noisy = ModelProto()
    noisy.CopyFrom(proto)
    still = {name for node in proto.graph.node if node.op_type in _READ_EXACTLY for name in node.input[1:]}
    for tensor in noisy.graph.initializer:
        if tensor.data_type in _MOVED and tensor.name not in still:
            tensor.CopyFrom(numpy_helper.from_array(moved_array(numpy_helper.to_array(tensor), random), tensor.name))
    opset = next((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 0)
    del noisy.graph.node[:]
    for node in proto.graph.node:
        moving = _moving(node.output, types, still)
        copy = noisy.graph.node.add()
        copy.CopyFrom(node)
        copy.output[:] = [f"workbench.still {name}" if name in moving else name for name in node.output]
        for name, dtype in moving.items():
            _add_noise(noisy.graph, name, dtype, opset)
    return noisy


def _add_noise(graph: GraphProto, name: str, dtype: Any, opset: int) -> None:
    """Compute a value from its exact one. From opset 22 on ONNX Runtime draws no normal numbers on a CPU, so there the
    value moves as far in one of two directions: what a Dropout in training gives is 0 or twice the value."""
    exact, noise, share = f"workbench.still {name}", f"workbench.noise {name}", _deviation(dtype)
    if opset < _WITHOUT_NORMAL_NUMBERS:
        graph.node.append(helper.make_node("RandomNormalLike", [exact], [noise], mean=1.0, scale=share))
        graph.node.append(helper.make_node("Mul", [exact, noise], [name]))
        return
    numbers = {
        "half": np.float32(0.5),
        "training": np.bool_(True),
        "share": dtype.type(share),
        "rest": dtype.type(1 - share),
    }
    made = {what: f"{noise} {what}" for what in (*numbers, "doubled", "part", "remainder")}
    graph.initializer.extend(
        numpy_helper.from_array(np.asarray(number), made[what]) for what, number in numbers.items()
    )
    graph.node.append(helper.make_node("Dropout", [exact, made["half"], made["training"]], [made["doubled"]]))
    graph.node.append(helper.make_node("Mul", [made["doubled"], made["share"]], [made["part"]]))
    graph.node.append(helper.make_node("Mul", [exact, made["rest"]], [made["remainder"]]))
    graph.node.append(helper.make_node("Add", [made["part"], made["remainder"]], [name]))


def _moving(values: Sequence[str], types: Mapping[str, PlainType], still: set[str]) -> dict[str, Any]:
    """The values that are moved, each with its type in numpy."""
    moving: dict[str, Any] = {}
    for name in values:
        type_: PlainType = types.get(name)
        if name and name not in still and is_tensor(type_) and type_[0] in _MOVED:
            moving[name] = helper.tensor_dtype_to_np_dtype(type_[0])
    return moving


def moved_array(array: Array, random: np.random.Generator) -> Array:
    """The array with each float moved."""
    if array.dtype not in (np.float32, np.float64):
        return array
    factor = 1.0 + _deviation(array.dtype) * random.standard_normal(array.shape)
    with np.errstate(over="ignore"):
        return np.asarray(array * factor, array.dtype)


def _deviation(dtype: Any) -> float:
    return _NOISE * float(np.finfo(dtype).eps)


def largest_rounding(expected: Array, moved: Sequence[Any]) -> Array:
    """How far rounding may move each element of a result of floats, but for those that are not finite.

    moved: the same result of runs with noise. Those of other shapes say nothing.
    """
    right = np.where(np.isfinite(expected), expected, 0).astype(np.float64)
    size = np.abs(right)
    most = ROUNDING[str(expected.dtype)] * size.max(initial=0.0)
    movements = [_movement(right, one) for one in moved if isinstance(one, np.ndarray) and one.shape == right.shape]
    if not movements:
        rms = float(np.sqrt(np.mean(np.square(size)))) if size.size else 0.0
        return np.asarray(np.minimum(ROUNDING[str(expected.dtype)] * (size + rms), most))
    movement = np.max(movements, axis=0)
    usual = float(np.median(movement[movement > 0])) if (movement > 0).any() else 0.0
    place = float(np.finfo(expected.dtype).eps)
    most = max(most, min(_TIMES_MOVED * usual, _OF_ONE * place))
    least = _OF_LARGEST * place * size.max(initial=0.0)
    return np.asarray(np.minimum(np.maximum(_TIMES_MOVED * np.maximum(movement, usual), least), most))


def _movement(right: Array, moved: Array) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.nan_to_num(np.abs(moved.astype(np.float64) - right), nan=0.0, posinf=0.0, neginf=0.0))
