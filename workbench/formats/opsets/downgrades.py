"""Downgrades: calls in the form that an operator had before an opset changed it.

The key of each entry is an operator and the opset that changed it. Its function returns equivalent calls that are
valid before that opset, or raises NoOlderForm. Changes that only add attributes or types need no entry (`forms.py`).
Source: ONNX's schemas and its changelog (https://github.com/onnx/onnx/blob/main/docs/Changelog.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
from onnx import AttributeProto

from workbench.formats.opsets.scope import NoOlderForm, Scope
from workbench.ir import Node
from workbench.ir.node import AttrRef

Downgrade = Callable[[Node, Scope], Iterable[Node]]
_TO_THE_END = 2**63 - 1  # a Slice's end


def _operand(node: Node, index: int) -> str:
    """The operand's name; "" if it is omitted."""
    return node.inputs[index] if index < len(node.inputs) else ""


def _attribute(node: Node, name: str, default: Any = None) -> Any:
    """The attribute's value. Raises NoOlderForm if it refers to an attribute of the function around it."""
    value = node.attr(name, default)
    if isinstance(value, AttrRef):
        raise NoOlderForm
    return value


def _as_attribute(scope: Scope, value: str) -> tuple[int, ...] | AttrRef:
    """The integers of an operand as an attribute, which may refer to one of the function around the call."""
    return scope.reference(value, AttributeProto.INTS) or _numbers(scope, value)


def _numbers(scope: Scope, value: str) -> tuple[int, ...]:
    return tuple(int(number) for number in np.atleast_1d(scope.array(value)))


def _number(scope: Scope, value: str) -> float:
    """The number of a scalar constant, as a float attribute. Raises NoOlderForm if float32 does not represent it."""
    number = float(scope.array(value).reshape(()))
    _refuse_unless(float(np.float32(number)) == number or np.isnan(number))
    return number


def _changed(node: Node, operands: int, remove: Collection[str] = (), add: Mapping[str, Any] | None = None) -> Node:
    """The call with its first operands, without the attributes `remove`, and with those of `add`."""
    attributes = {key: value for key, value in node.attributes.items() if key not in remove}
    return node.replace(inputs=node.inputs[:operands], attributes={**attributes, **(add or {})})


def _refuse_unless(holds: bool) -> None:
    if not holds:
        raise NoOlderForm


# ---- axes, and other operands that were attributes ------------------------------------------------


def _axes_as_attribute(node: Node, scope: Scope) -> list[Node]:
    noop = _attribute(node, "noop_with_empty_axes")
    axes = _as_attribute(scope, _operand(node, 1)) if _operand(node, 1) else ()
    _refuse_unless(bool(axes) or (not noop and not _operand(node, 1)))
    return [_changed(node, 1, ("noop_with_empty_axes",), {"axes": axes} if axes else None)]


def _nonnegative_axes(node: Node, scope: Scope) -> list[Node]:
    entries = {key: node.attributes[key] for key in ("axis", "axes") if key in node.attributes}
    if scope.file_opset is not None and scope.file_opset < 11:  # a function's attribute was no negative axis there
        entries = {key: value for key, value in entries.items() if not isinstance(value, AttrRef)}
    _refuse_unless(not any(isinstance(value, AttrRef) for value in entries.values()))
    if all(axis >= 0 for value in entries.values() for axis in np.atleast_1d(value)):
        return [node]
    rank = scope.rank(node.inputs[0]) + (len(entries["axes"]) if node.op_type == "Unsqueeze" else 0)
    counted = {k: v % rank if isinstance(v, int) else tuple(a % rank for a in v) for k, v in entries.items()}
    return [_changed(node, len(node.inputs), add=counted)]


def _gather(node: Node, scope: Scope) -> list[Node]:
    """Negative indices came with opset 11; computed indices are assumed to be nonnegative."""
    indices = scope.known(_operand(node, 1))
    _refuse_unless(indices is None or bool((indices >= 0).all()))
    return _nonnegative_axes(node, scope)


def _scatter(node: Node, scope: Scope) -> list[Node]:
    return [_nonnegative_axes(node, scope)[0].replace(op_type="Scatter")]


def _split_18(node: Node, scope: Scope) -> list[Node]:
    """Before opset 18 a Split without sizes was into equal parts; num_outputs allows a smaller last part."""
    count = _attribute(node, "num_outputs")
    if count is None:
        return [node]
    shape = scope.shape(node.inputs[0])
    size = None if shape is None else shape[_attribute(node, "axis")]
    if isinstance(size, int) and size % count:
        part = -(-size // count)
        sizes = [part] * (count - 1) + [size - part * (count - 1)]
        split = scope.new_constant(f"{node.name}_split", np.array(sizes, np.int64))
        return [_changed(node.replace(inputs=(node.inputs[0], split)), 2, ("num_outputs",))]
    _refuse_unless(isinstance(size, int) or (scope.file_opset or 18) < 18)
    return [_changed(node, 1, ("num_outputs",))]


def _split_13(node: Node, scope: Scope) -> list[Node]:
    split = _operand(node, 1)
    return [_changed(node, 1, add={"split": _as_attribute(scope, split)} if split else None)]


def _clip_11(node: Node, scope: Scope) -> list[Node]:
    bounds = {key: _operand(node, index) for index, key in ((1, "min"), (2, "max"))}
    numbers = {key: _number(scope, value) for key, value in bounds.items() if value}
    return [_changed(node, 1, add=numbers)]


def _pad_18(node: Node, scope: Scope) -> list[Node]:
    """The pads of some axes become those of all axes, with zeros."""
    if not _operand(node, 3):
        return [_changed(node, 3)]
    axes, pads = _numbers(scope, node.inputs[3]), _numbers(scope, node.inputs[1])
    rank = scope.rank(node.inputs[0])
    pads_of_all = np.zeros((2, rank), np.int64)
    pads_of_all[:, [axis % rank for axis in axes]] = np.reshape(pads, (2, len(axes)))
    filled = scope.new_constant(f"{node.name}_pads", pads_of_all.reshape(-1))
    inputs = (node.inputs[0], filled, *node.inputs[2:3])
    return [node.replace(inputs=inputs if inputs[-1] else inputs[:2])]


def _pad_11(node: Node, scope: Scope) -> list[Node]:
    value = {"value": _number(scope, node.inputs[2])} if _operand(node, 2) else {}
    return [_changed(node, 1, add={"pads": _as_attribute(scope, node.inputs[1]), **value})]


def _slice_10(node: Node, scope: Scope) -> list[Node]:
    starts, ends = (_numbers(scope, node.inputs[index]) for index in (1, 2))
    axes = _numbers(scope, _operand(node, 3)) if _operand(node, 3) else tuple(range(len(starts)))
    _refuse_unless(not _operand(node, 4) or set(_numbers(scope, node.inputs[4])) <= {1})
    return _nonnegative_axes(_changed(node, 1, add={"starts": starts, "ends": ends, "axes": axes}), scope)


def _top_k_10(node: Node, scope: Scope) -> list[Node]:
    return [_changed(node, 1, add={"k": _numbers(scope, node.inputs[1])[0]})]


def _dropout_12(node: Node, scope: Scope) -> list[Node]:
    _refuse_unless(not _operand(node, 2) or not scope.array(node.inputs[2]).any())
    ratio = float(scope.array(node.inputs[1]).reshape(())) if _operand(node, 1) else 0.5
    return [_changed(node, 1, ("seed",), {"ratio": ratio})]


def _dft_20(node: Node, scope: Scope) -> list[Node]:
    held = scope.reference(_operand(node, 2), AttributeProto.INT)
    axis = -2 if not _operand(node, 2) else held or _numbers(scope, node.inputs[2])[0]
    axis = axis % scope.rank(node.inputs[0]) if isinstance(axis, int) and axis < 0 else axis
    return [_changed(node, 2 if _operand(node, 1) else 1, add={"axis": axis})]


# ---- meanings ------------------------------------------------------------------------------------


def _over_the_last_axes(node: Node, scope: Scope) -> list[Node]:
    """Before opset 13 a Softmax was over its axis and all after it: the same if those after it have size 1, or if there
    are no elements."""
    axis = _attribute(node, "axis", -1)
    if axis == -1:
        return [_changed(node, 1, add={"axis": -1})]
    shape = scope.shape(node.inputs[0])
    if shape is None or (0 not in shape and any(size != 1 for size in shape[axis % len(shape) + 1 :])):
        raise NoOlderForm
    return [_changed(node, 1, add={"axis": axis})]


def _shape_15(node: Node, scope: Scope) -> list[Node]:
    """Shape with start and end becomes a Slice of all dims, with the number of these as its end if that is known."""
    start, end = _attribute(node, "start"), _attribute(node, "end")
    if start == 0 and end is None:
        return [_changed(node, 1, ("start",))]
    dims = scope.names.fresh(f"{node.outputs[0]}_dims")
    shape = scope.shape(node.inputs[0])
    to_the_end = _TO_THE_END if shape is None else len(shape)
    bounds = {"start": start, "end": to_the_end if end is None else end}
    operands = [scope.new_constant(f"{dims}_{key}", np.array([number], np.int64)) for key, number in bounds.items()]
    all_dims = _changed(node, 1, ("start", "end")).replace(name=scope.names.fresh(f"{node.name}_dims"), outputs=(dims,))
    return [all_dims, node.replace(op_type="Slice", inputs=(dims, *operands), attributes={})]


def _reshape_14(node: Node, scope: Scope) -> list[Node]:
    """With allowzero a 0 in the shape is a size; without a 0 there is no difference."""
    _refuse_unless(not _attribute(node, "allowzero") or 0 not in _numbers(scope, node.inputs[1]))
    return [_changed(node, 2, ("allowzero",))]


def _batch_normalization_14(node: Node, scope: Scope) -> list[Node]:
    """Five results said that it trains."""
    trains = _attribute(node, "training_mode", 0)
    missing = 5 - len(node.outputs) if trains else 0
    outputs = (*node.outputs, *(scope.names.fresh(f"{node.outputs[0]}_statistic") for _ in range(missing)))
    return [_changed(node, len(node.inputs), ("training_mode",)).replace(outputs=outputs)]


def _cast_like_15(node: Node, scope: Scope) -> list[Node]:
    target_type = scope.type(node.inputs[1])
    if target_type is None:
        raise NoOlderForm
    return [_changed(node, 1, add={"to": int(target_type.dtype)}).replace(op_type="Cast")]


def _without_axis(node: Node, scope: Scope) -> list[Node]:
    """Before opset 13 there was one scale for the whole tensor."""
    shape = scope.shape(node.inputs[1])
    _refuse_unless(shape in ((), (1,)))
    return [_changed(node, 3, ("axis",))]


def _roi_align_16(node: Node, scope: Scope) -> list[Node]:
    _refuse_unless(_attribute(node, "coordinate_transformation_mode", "half_pixel") == "output_half_pixel")
    return [_changed(node, 3, ("coordinate_transformation_mode",))]


def _grid_sample_20(node: Node, scope: Scope) -> list[Node]:
    _refuse_unless(scope.rank(node.inputs[0]) == 4)
    mode = _attribute(node, "mode", "linear")
    return [_changed(node, 2, add={"mode": {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)})]


def _equal_shapes(node: Node, scope: Scope) -> list[Node]:
    """Before opset 8 these operators did not broadcast."""
    shapes = {scope.shape(value) for value in node.inputs}
    _refuse_unless(len(shapes) == 1 and None not in shapes and all(isinstance(d, int) for s in shapes for d in s or ()))
    return [node]


def _without(attribute: str, *values: str) -> Downgrade:
    """A downgrade for an attribute that did not have these values yet."""

    def downgrade(node: Node, scope: Scope) -> list[Node]:
        _refuse_unless(_attribute(node, attribute) not in values)
        return [node]

    return downgrade


# ---- sizes of images -------------------------------------------------------------------------------


def _resize_13(node: Node, scope: Scope) -> list[Node]:
    """Before opset 13 an omitted operand was an empty tensor."""
    operands = [_operand(node, index) for index in range(4)]
    missing = [index for index in (1, 2) if not operands[index]]
    if missing:
        empty = scope.new_constant(f"{node.name}_none", np.zeros(0, np.float32))
        operands = [empty if index in missing else value for index, value in enumerate(operands)]
    return [node.replace(inputs=tuple(operands) if operands[3] else tuple(operands[:3]))]


_OF_RESIZE_11 = (
    "coordinate_transformation_mode",
    "nearest_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "extrapolation_value",
)


def _resize_11(node: Node, scope: Scope) -> list[Node]:
    """Opset 10 had one coordinate mode, and for downscaling by nearest neighbours another rounding."""
    mode = _attribute(node, "mode")
    _refuse_unless(mode in ("nearest", "linear") and not _operand(node, 3))
    _refuse_unless(_attribute(node, "coordinate_transformation_mode") == "asymmetric")
    if mode == "nearest":
        _refuse_unless(_attribute(node, "nearest_mode") == "floor" and bool((scope.array(node.inputs[2]) >= 1).all()))
    return [_changed(node, 3, _OF_RESIZE_11).replace(inputs=(node.inputs[0], node.inputs[2]))]


def _resize_10(node: Node, scope: Scope) -> list[Node]:
    _refuse_unless(bool((scope.array(node.inputs[1]) >= 1).all()))
    return [node.replace(op_type="Upsample")]


def _upsample_9(node: Node, scope: Scope) -> list[Node]:
    return [_changed(node, 1, add={"scales": tuple(map(float, scope.array(node.inputs[1])))})]


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
_NONNEGATIVE_AXES = (
    *(f"Reduce{name}" for name in (*_REDUCTIONS, "Sum")),
    *("ArgMax", "ArgMin", "Compress", "Concat", "Flatten", "Hardmax", "LogSoftmax", "Softmax", "Split"),
    *("Squeeze", "Unsqueeze"),
)
DOWNGRADES: Mapping[tuple[str, int], Downgrade] = {
    **{(f"Reduce{name}", 18): _axes_as_attribute for name in _REDUCTIONS},
    **{(name, 13): _axes_as_attribute for name in ("ReduceSum", "Squeeze", "Unsqueeze")},
    **{(name, 11): _nonnegative_axes for name in _NONNEGATIVE_AXES},
    **{(name, 13): _over_the_last_axes for name in ("Softmax", "LogSoftmax", "Hardmax")},
    **{(name, 13): _without_axis for name in ("QuantizeLinear", "DequantizeLinear")},
    **{(name, 8): _equal_shapes for name in ("Max", "Min", "Sum", "Mean")},
    **{(name, 18): _without("reduction", "max", "min") for name in ("ScatterElements", "ScatterND")},
    ("BatchNormalization", 14): _batch_normalization_14,
    ("CastLike", 15): _cast_like_15,
    ("Clip", 11): _clip_11,
    ("DFT", 20): _dft_20,
    ("Dropout", 12): _dropout_12,
    ("Gather", 11): _gather,
    ("GridSample", 20): _grid_sample_20,
    ("Pad", 19): _without("mode", "wrap"),
    ("Pad", 18): _pad_18,
    ("Pad", 11): _pad_11,
    ("Reshape", 14): _reshape_14,
    ("Resize", 19): _without("coordinate_transformation_mode", "half_pixel_symmetric"),
    ("Resize", 13): _resize_13,
    ("Resize", 11): _resize_11,
    ("Resize", 10): _resize_10,
    ("RoiAlign", 16): _roi_align_16,
    ("ScatterElements", 11): _scatter,
    ("Shape", 15): _shape_15,
    ("Slice", 10): _slice_10,
    ("Split", 18): _split_18,
    ("Split", 13): _split_13,
    ("TopK", 10): _top_k_10,
    ("Upsample", 9): _upsample_9,
}
