"""Upgrades: calls in the form that an opset gave to their operator.

The key of each entry is an operator and the opset that changed it. Its function returns equivalent calls that are valid
from that opset on, or raises NoNewerForm. A change that leaves older calls valid as they are needs no entry
(`signature_changes.py`). `formats/opsets/downgrades.py` leads back.
Source: ONNX's schemas and its changelog (https://github.com/onnx/onnx/blob/main/docs/Changelog.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from workbench.ir.signature_changes import is_valid_unchanged

Upgrade = Callable[[NodeProto, "CallScope"], Iterable[NodeProto]]
_LARGEST_FLOAT = float(np.finfo(np.float32).max)  # the bounds that Clip had by default


class NoNewerForm(Exception):
    """The operator's newer form cannot express the call; the message, "it ...", says why."""


@dataclass
class CallScope:
    """What the upgrade of a call may know of the graph or function around it.

    types:   of values, at the model's opset.
    tensors: constants whose elements are in the message.
    read:    the values that a node reads or that a graph returns.
    fresh:   a new name for a value, which begins with the given one.
    """

    types: Mapping[str, TypeProto]
    tensors: dict[str, TensorProto]
    read: Collection[str]
    fresh: Callable[[str], str]
    constants: list[NodeProto] = field(default_factory=list)

    def shape(self, value: str) -> list[int | str | None] | None:
        """A number, a symbol or None for each axis; None if the rank is not known."""
        type_ = self.types.get(value)
        if type_ is None or not type_.HasField("tensor_type") or not type_.tensor_type.HasField("shape"):
            return None
        dims = type_.tensor_type.shape.dim
        return [getattr(dim, dim.WhichOneof("value")) if dim.WhichOneof("value") else None for dim in dims]

    def element_type(self, value: str) -> int:
        """The number of the element type. Raises NoNewerForm if it is not known."""
        type_ = self.types.get(value)
        result = 0 if type_ is None else type_.tensor_type.elem_type
        if not result:
            raise NoNewerForm(f"it reads '{value}', whose element type is not known")
        return result

    def elements(self, value: str) -> np.ndarray | None:
        """The elements of a constant; None if they are computed."""
        tensor = self.tensors.get(value)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def constant(self, node: NodeProto, role: str, array: np.ndarray) -> str:
        """The name of a new constant, named after the node's result."""
        tensor = numpy_helper.from_array(array)
        name = self._add(node, role, value=tensor)
        self.tensors[name] = tensor
        return name

    def operand(self, node: NodeProto, attribute: AttributeProto, dtype: Any = np.int64) -> str:
        """A constant with the numbers of an attribute, which may refer to an attribute of the function around it."""
        if not attribute.ref_attr_name:
            return self.constant(node, attribute.name, np.array(helper.get_attribute_value(attribute), dtype))
        kinds = {
            AttributeProto.INT: "value_int",
            AttributeProto.INTS: "value_ints",
            AttributeProto.FLOAT: "value_float",
            AttributeProto.FLOATS: "value_floats",
        }
        kind = kinds.get(attribute.type)
        if kind is None or np.dtype(dtype) != (np.int64 if "int" in kind else np.float32):
            raise NoNewerForm(f"its attribute '{attribute.name}' is one of the function around it")
        name = self._add(node, attribute.name)
        self.constants[-1].attribute.add(name=kind, type=attribute.type, ref_attr_name=attribute.ref_attr_name)
        return name

    def _add(self, node: NodeProto, role: str, **attributes: Any) -> str:
        name = self.fresh(f"{node.output[0]}_{role}")
        self.constants.append(helper.make_node("Constant", [], [name], **attributes))
        return name


def taken(node: NodeProto, name: str) -> AttributeProto | None:
    """The attribute, which is removed from the node; None if there is none."""
    for index, attribute in enumerate(node.attribute):
        if attribute.name == name:
            result: AttributeProto = AttributeProto.FromString(attribute.SerializeToString())
            del node.attribute[index]
            return result
    return None


def _found(node: NodeProto, name: str) -> AttributeProto | None:
    """The attribute. Raises NoNewerForm if it refers to one of the function around the call."""
    result = next((attribute for attribute in node.attribute if attribute.name == name), None)
    if result is not None and result.ref_attr_name:
        raise NoNewerForm(f"its attribute '{name}' is one of the function around it")
    return result


def _integer(node: NodeProto, name: str, default: int) -> int:
    attribute = _found(node, name)
    return default if attribute is None else attribute.i


def _text(node: NodeProto, name: str, default: str) -> str:
    attribute = _found(node, name)
    return default if attribute is None else attribute.s.decode(errors="replace")


def _scalar(node: NodeProto, scope: CallScope, name: str) -> str:
    """A scalar with the attribute's number, in the element type of the first operand; "" without the attribute."""
    attribute = taken(node, name)
    if attribute is None:
        return ""
    return scope.operand(node, attribute, helper.tensor_dtype_to_np_dtype(scope.element_type(node.input[0])))


# ---- attributes that became operands --------------------------------------------------------------


def _axes_as_operand(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    axes = taken(node, "axes")
    if axes is not None and (axes.ref_attr_name or axes.ints):
        node.input.append(scope.operand(node, axes))
    return [node]


def _operands_from(*names: str) -> Upgrade:
    """Lists of integers that became operands in this order; trailing ones may be missing."""

    def upgrade(node: NodeProto, scope: CallScope) -> list[NodeProto]:
        attributes = [taken(node, name) for name in names]
        node.input.extend(scope.operand(node, attribute) for attribute in attributes if attribute is not None)
        return [node]

    return upgrade


def _clip_11(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    """Without an attribute there was a bound too, the largest number of float32."""
    dtype = helper.tensor_dtype_to_np_dtype(scope.element_type(node.input[0]))
    bounds = []
    for name, default in (("min", -_LARGEST_FLOAT), ("max", _LARGEST_FLOAT)):
        attribute = taken(node, name)
        if attribute is not None:
            bounds.append(scope.operand(node, attribute, dtype))
        else:
            bounds.append(scope.constant(node, name, np.array(default, dtype)) if dtype.itemsize > 2 else "")
    node.input.extend(bounds if bounds[1] else filter(None, bounds[:1]))
    return [node]


def _pad_11(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    pads, value = taken(node, "pads"), None
    if _text(node, "mode", "constant") == "constant":
        value = _scalar(node, scope, "value")
    taken(node, "value")  # other modes do not read it
    if pads is not None:
        node.input.append(scope.operand(node, pads))
    node.input.extend([value] if value else [])
    return [node]


def _top_k_10(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    k = taken(node, "k")
    if k is None or k.ref_attr_name:
        raise NoNewerForm("its attribute 'k' is one of the function around it")
    node.input.append(scope.constant(node, "k", np.array([k.i], np.int64)))
    return [node]


def _upsample_9(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    scales = taken(node, "scales")
    if scales is not None:
        node.input.append(scope.operand(node, scales, np.float32))
    return [node]


def _dft_20(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    axis = taken(node, "axis")
    length = [*node.input[1:2], ""][0]
    place = scope.constant(node, "axis", np.array(1, np.int64)) if axis is None else scope.operand(node, axis)
    node.input[:] = [node.input[0], length, place]
    return [node]


def _dropout(changes_mask: bool) -> Upgrade:
    """changes_mask: whether the mask gets another element type."""

    def upgrade(node: NodeProto, scope: CallScope) -> list[NodeProto]:
        if len(node.output) > 1 and node.output[1] in scope.read:
            raise NoNewerForm("its mask is read, which ONNX Runtime fills with False, and since opset 12 with True")
        del node.output[1:]
        ratio = None if changes_mask else taken(node, "ratio")
        node.input.extend([] if ratio is None else [scope.operand(node, ratio, np.float32)])
        return [node]

    return upgrade


def _split_18(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    if len(node.input) < 2 or not node.input[1]:
        node.attribute.append(helper.make_attribute("num_outputs", len(node.output)))
    return [node]


# ---- other meanings -------------------------------------------------------------------------------


def _over_one_axis(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    """Before opset 13 a Softmax was over its axis and all after it, as one axis."""
    (x,), (y,) = node.input, node.output
    shape, axis = scope.shape(x), next((a for a in node.attribute if a.name == "axis"), None)
    first, is_known = 1 if axis is None else axis.i, axis is None or not axis.ref_attr_name
    if shape is not None and is_known and not -len(shape) <= first < max(len(shape), 1):
        raise NoNewerForm(f"its axis is {first}, and '{x}' has rank {len(shape)}")
    if first == -1 and is_known:
        return [node]  # there is none after the last one
    if shape is not None and is_known:
        first %= max(len(shape), 1)
        longer = [place for place in range(first, len(shape)) if shape[place] != 1]
        if len(longer) < 2 or 0 in shape:
            taken(node, "axis")
            place = longer[0] if longer else max(len(shape) - 1, 0)
            node.attribute.append(helper.make_attribute("axis", place))
            return [node]
    flat, result = scope.fresh(f"{y}_flat"), scope.fresh(f"{y}_of_flat")
    flatten = helper.make_node("Flatten", [x], [flat])
    flatten.attribute.extend([] if axis is None else [axis])
    if shape is not None and all(isinstance(size, int) for size in shape):
        before, sizes = [], scope.constant(node, "shape", np.array(shape, np.int64))
    else:
        sizes = scope.fresh(f"{y}_shape")
        before = [helper.make_node("Shape", [x], [sizes])]
    name = node.name or f"{node.op_type}_{y}"
    softmax = helper.make_node(node.op_type, [flat], [result], name=name, axis=-1)
    return [*before, flatten, softmax, helper.make_node("Reshape", [result, sizes], [y])]


def _batch_normalization_9(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    if _integer(node, "spatial", 1) != 1:
        raise NoNewerForm("it has statistics for each element, not for each channel")
    taken(node, "spatial")
    return [node]


def _batch_normalization_14(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    """More than one result said that it trains."""
    if any(value in scope.read for value in node.output[3:]):
        raise NoNewerForm("its saved statistics are read, which newer forms do not return")
    del node.output[3:]
    if len(node.output) > 1:
        node.attribute.append(helper.make_attribute("training_mode", 1))
    return [node]


def _resize_11(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    """Opset 10 had one coordinate mode, and for downscaling by nearest neighbours another rounding."""
    scales = scope.elements(node.input[1])
    if _text(node, "mode", "nearest") == "nearest" and (scales is None or bool((scales < 1).any())):
        raise NoNewerForm("it may shrink images, with a rounding that only opset 10 has")
    node.op_type = "Resize"
    node.input[:] = [node.input[0], "", node.input[1]]
    modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    node.attribute.extend(helper.make_attribute(name, mode) for name, mode in modes.items())
    return [node]


def _resize_13(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    if _text(node, "coordinate_transformation_mode", "half_pixel") == "tf_half_pixel_for_nn":
        raise NoNewerForm("it has a coordinate mode that was removed since")
    return [node]


def _renamed(op_type: str) -> Upgrade:
    def upgrade(node: NodeProto, scope: CallScope) -> list[NodeProto]:
        node.op_type = op_type
        return [node]

    return upgrade


def _roi_align_16(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "output_half_pixel"))
    return [node]


def _grid_sample_20(node: NodeProto, scope: CallScope) -> list[NodeProto]:
    mode = _text(node, "mode", "bilinear")
    taken(node, "mode")
    newer = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    node.attribute.append(helper.make_attribute("mode", newer))
    return [node]


def _refused(reason: str) -> Upgrade:
    def upgrade(node: NodeProto, scope: CallScope) -> list[NodeProto]:
        raise NoNewerForm(reason)

    return upgrade


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
UPGRADES: Mapping[tuple[str, int], Upgrade] = {
    **{(f"Reduce{name}", 18): _axes_as_operand for name in _REDUCTIONS},
    **{(name, 13): _axes_as_operand for name in ("ReduceSum", "Squeeze", "Unsqueeze")},
    **{(name, 13): _over_one_axis for name in ("Softmax", "LogSoftmax", "Hardmax")},
    ("BatchNormalization", 9): _batch_normalization_9,
    ("BatchNormalization", 14): _batch_normalization_14,
    ("Clip", 11): _clip_11,
    ("DFT", 20): _dft_20,
    ("Dropout", 10): _dropout(changes_mask=True),
    ("Dropout", 12): _dropout(changes_mask=False),
    ("GridSample", 20): _grid_sample_20,
    ("GroupNormalization", 21): _refused("it scales groups in the model's opset, and channels in newer ones"),
    ("Pad", 11): _pad_11,
    ("Resize", 11): _resize_11,
    ("Resize", 13): _resize_13,
    ("RoiAlign", 16): _roi_align_16,
    ("Scan", 9): _refused("it has a batch axis in the model's opset"),
    ("Scatter", 11): _renamed("ScatterElements"),
    ("Slice", 10): _operands_from("starts", "ends", "axes"),
    ("Split", 13): _operands_from("split"),
    ("Split", 18): _split_18,
    ("TopK", 10): _top_k_10,
    ("Upsample", 9): _upsample_9,
    ("Upsample", 10): _renamed("Resize"),
}


def upgraded(node: NodeProto, scope: CallScope, present: int, opset: int) -> list[NodeProto]:
    """The calls at `opset` that are equivalent to a call valid at `present`. Raises NoNewerForm.

    New constants are added to the scope. The node is changed.
    """
    since = _next_change(node.op_type, present, opset)
    if since is None:
        return [node]
    upgrade = UPGRADES.get((node.op_type, since))
    if not onnx.defs.has(node.op_type, present, ""):
        raise NoNewerForm(f"it is not ONNX's operator of that name, which came with opset {since}")
    if upgrade is None:
        raise NoNewerForm(f"it has another form since opset {since}")
    calls = upgrade(node, scope)
    return [other for call in calls for other in upgraded(call, scope, since, opset)]


def changes(op_type: str, present: int, opset: int) -> bool:
    """Whether calls of the operator, valid at `present`, may have another form at `opset`."""
    return _next_change(op_type, present, opset) is not None


@cache
def _next_change(op_type: str, present: int, opset: int) -> int | None:
    """The first opset after `present`, up to `opset`, that gave the operator another form, or introduced it."""
    result, version = None, opset
    while version > present and onnx.defs.has(op_type, version, ""):
        version = onnx.defs.get_schema(op_type, version, "").since_version
        if version > present and ((op_type, version) in UPGRADES or not _is_kept(op_type, version)):
            result = version
        version -= 1
    return result


def _is_kept(op_type: str, since: int) -> bool:
    return is_valid_unchanged(op_type, since - 1, since)
