"""Deliberately wrong optimizers, each with a few nodes on which it goes wrong: what `reduce` must find again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from workbench.formats.io.checks import every_node

Arrays = Mapping[str, np.ndarray]
Wrong = Callable[[ModelProto], None]  # changes the model in place


@dataclass(frozen=True)
class Fault:
    """nodes: in ONNX's text, that read `x` and make `y`, a float tensor of x's shape; constants: beside SHAPES."""

    name: str
    wrong: Wrong
    nodes: str
    constants: Mapping[str, Any] = field(default_factory=dict)


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def with_attribute(node: NodeProto, name: str, value: Any) -> None:
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, *([] if value is None else [helper.make_attribute(name, value)])])


def each(op: str, change: Callable[[NodeProto, Arrays], None]) -> Wrong:
    """A rewrite of every node of an operator, in bodies and functions too, which sees the model's constants."""

    def wrong(model: ModelProto) -> None:
        arrays = constants_of(model)
        for node in every_node(model):
            if node.op_type == op:
                change(node, arrays)

    return wrong


def constants_of(model: ModelProto) -> dict[str, np.ndarray]:
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and attribute(node, "value") is not None:
            found[node.output[0]] = numpy_helper.to_array(attribute(node, "value"))
    return found


def becomes(node: NodeProto, op: str, inputs: list[str], **attributes: Any) -> None:
    node.CopyFrom(helper.make_node(op, inputs, list(node.output), node.name, **attributes))


def sets(name: str, value: Any) -> Callable[[NodeProto, Arrays], None]:
    return lambda node, _: with_attribute(node, name, value)


def order_of(*places: int) -> Callable[[NodeProto, Arrays], None]:
    """Other operands, by their places."""

    def change(node: NodeProto, _: Arrays) -> None:
        operands = [node.input[at] for at in places]
        del node.input[:]
        node.input.extend(operands)

    return change


def _inverted(node: NodeProto, _: Arrays) -> None:
    perm = attribute(node, "perm")
    if perm:
        with_attribute(node, "perm", [int(at) for at in np.argsort(perm)])


def _not_backward(node: NodeProto, arrays: Arrays) -> None:
    if len(node.input) == 5 and node.input[4] in arrays and (arrays[node.input[4]] < 0).all():
        becomes(node, "Identity", [node.input[0]])


def _first_row(model: ModelProto) -> None:
    """A negative constant index is taken for 0."""
    arrays = constants_of(model)
    for node in list(model.graph.node):
        if node.op_type == "Gather" and node.input[1] in arrays and (arrays[node.input[1]] < 0).any():
            name = f"{node.input[1]}_0"
            model.graph.initializer.append(numpy_helper.from_array(np.maximum(arrays[node.input[1]], 0), name))
            node.input[1] = name


def _always_squared(node: NodeProto, _: Arrays) -> None:
    becomes(node, "Mul", [node.input[0]] * 2)


def _other_way_round(node: NodeProto, _: Arrays) -> None:
    operands = list(node.input)[::-1]
    del node.input[:]
    node.input.extend(operands)


def _begin_is_end(node: NodeProto, _: Arrays) -> None:
    pads = list(attribute(node, "pads", []))
    half = len(pads) // 2
    if pads[:half] != pads[half:]:
        with_attribute(node, "pads", pads[half:] + pads[:half])


def _saturated(model: ModelProto) -> None:
    """Exp is computed in half precision that saturates: of at most 11, of which it is below 65,504."""
    nodes = []
    for node in model.graph.node:
        if node.op_type == "Exp":
            limit, low = f"{node.output[0]}_limit", f"{node.output[0]}_low"
            nodes.append(helper.make_node("Constant", [], [limit], value=numpy_helper.from_array(np.float32(11))))
            nodes.append(helper.make_node("Min", [node.input[0], limit], [low]))
            becomes(node, "Exp", [low])
        nodes.append(node)
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def pairs(model: ModelProto, first: str, second: str) -> Iterator[tuple[NodeProto, NodeProto]]:
    """Nodes of an operator whose first operand is the result of a node of another, which nothing else reads."""
    made = {value: node for node in model.graph.node for value in node.output}
    read = [value for node in model.graph.node for value in node.input] + [o.name for o in model.graph.output]
    for node in model.graph.node:
        earlier = made.get(node.input[0]) if node.op_type == second else None
        if earlier is not None and earlier.op_type == first and read.count(earlier.output[0]) == 1:
            yield earlier, node


def _merged_transposes(model: ModelProto) -> None:
    """Two permutations are composed in the wrong order."""
    for earlier, node in list(pairs(model, "Transpose", "Transpose")):
        a, b = attribute(earlier, "perm"), attribute(node, "perm")
        becomes(node, "Transpose", [earlier.input[0]], perm=[int(b[at]) for at in a])


def _factor_of_the_sum(model: ModelProto) -> None:
    """(x + a) * b becomes x * b + a."""
    for earlier, node in list(pairs(model, "Add", "Mul")):
        x, a, b = earlier.input[0], earlier.input[1], node.input[1]
        becomes(earlier, "Mul", [x, b])
        becomes(node, "Add", [node.input[0], a])


MEAN = "s = ReduceMean<keepdims=1>(p) y = Add(x, s)"  # what has another shape goes into the sum as its mean
FEW = "u = Reshape(x, flat) f = Slice(u, zero, most, zero) g = Reshape(f, few)"  # 24 of the elements, in a given shape
FIRST = (
    f"q = Slice(t, zero, one, zero) p = Slice(q, zero, one, one) {MEAN}"  # of what, as its order, a mean knows nothing
)
SHAPES: Mapping[str, Any] = {
    "flat": np.array([-1]),
    "row": np.array([1, -1]),
    "zero": np.array([0]),
    "one": np.array([1]),
    "last": np.array([-1]),
    "most": np.array([24]),
}


def few(*shape: int) -> dict[str, np.ndarray]:
    return {"few": np.array(shape)}


FAULTS = (
    Fault(
        "a factor taken into a sum wrongly",
        _factor_of_the_sum,
        "p = Add(x, c) y = Mul(p, k)",
        {"c": np.float32(0.5), "k": np.float32(1.5)},
    ),
    Fault("Gather of a negative index", _first_row, f"p = Gather<axis=-1>(x, last) {MEAN}"),
    Fault("Sub the other way round", each("Sub", order_of(1, 0)), "y = Sub(x, c)", {"c": np.float32(0.5)}),
    Fault(
        "two Transposes merged wrongly",
        _merged_transposes,
        f"{FEW} m = Transpose<perm=[1,2,0]>(g) t = Transpose<perm=[0,2,1]>(m) {FIRST}",
        few(2, 3, 4),
    ),
    Fault(
        "Exp saturates at 11",
        _saturated,
        "l = Mul(x, x) h = Clip(l, low, high) p = Exp(h) s = Mul(p, k) y = Add(x, s)",
        {"low": np.float32(12), "high": np.float32(13), "k": np.float32(1e-5)},
    ),
    Fault(
        "LeakyRelu is Relu",
        each("LeakyRelu", lambda n, _: becomes(n, "Relu", [n.input[0]])),
        "y = LeakyRelu<alpha=0.3>(x)",
    ),
    Fault(
        "BatchNormalization without epsilon",
        each("BatchNormalization", sets("epsilon", 1e-9)),
        f"{FEW} p = BatchNormalization<epsilon=0.5>(g, o, o, o, v) {MEAN}",
        {**few(4, 2, 3), "o": np.ones(2, np.float32), "v": np.full(2, 0.1, np.float32)},
    ),
    Fault("Softmax over the last axis", each("Softmax", sets("axis", -1)), "y = Softmax<axis=1>(x)"),
    Fault(
        "MaxPool without ceil_mode",
        each("MaxPool", sets("ceil_mode", 0)),
        f"{FEW} p = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(g) {MEAN}",
        few(1, 1, 3, 8),
    ),
    Fault(
        "Slice never backward",
        each("Slice", _not_backward),
        "y = Slice(x, last, e, last, last)",
        {"e": np.array([-(2**31)])},
    ),
    Fault(
        "ReduceMean over axis 1",
        each("ReduceMean", sets("axes", [1])),
        "s = ReduceMean<axes=[-1], keepdims=1>(x) y = Sub(x, s)",
    ),
    Fault(
        "Concat the other way round",
        each("Concat", _other_way_round),
        "n = Neg(x) p = Concat<axis=-1>(x, n) q = Slice(p, zero, one, last) y = Add(x, q)",
    ),
    Fault(
        "Clip without its upper bound",
        each("Clip", order_of(0, 1)),
        "y = Clip(x, l, h)",
        {"l": np.float32(-1), "h": np.float32(0.1)},
    ),
    Fault("Pow is always a square", each("Pow", _always_squared), "y = Pow(x, c)", {"c": np.float32(3)}),
    Fault(
        "Transpose by the inverse",
        each("Transpose", _inverted),
        f"{FEW} t = Transpose<perm=[2,0,1]>(g) {FIRST}",
        few(2, 3, 4),
    ),
    Fault(
        "Resize rounds otherwise",
        each("Resize", sets("nearest_mode", "ceil")),
        f'{FEW} t = Resize<mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric">(g, o, c) p = Mul(t, w) {MEAN}',
        {
            **few(1, 1, 2, 12),
            "o": np.zeros(0, np.float32),
            "c": np.array([1, 1, 1.5, 1], np.float32),
            "w": np.arange(3, dtype=np.float32).reshape(1, 1, 3, 1),
        },
    ),
    Fault(
        "DequantizeLinear without its zero point",
        each("DequantizeLinear", order_of(0, 1)),
        "q = QuantizeLinear(x, c, z) y = DequantizeLinear(q, c, z)",
        {"c": np.float32(0.05), "z": np.uint8(100)},
    ),
    Fault(
        "Gemm without alpha",
        each("Gemm", sets("alpha", 1.0)),
        f"u = Reshape(x, row) p = Gemm<alpha=0.25, transB=1>(u, u) {MEAN}",
    ),
    Fault(
        "Conv with pads the other way round",
        each("Conv", _begin_is_end),
        f"{FEW} p = Conv<kernel_shape=[1,3], pads=[0,2,0,0]>(g, w) {MEAN}",
        {**few(1, 1, 1, 24), "w": np.array([1, 2, 4], np.float32).reshape(1, 1, 1, 3)},
    ),
    Fault(
        "Pad by zeros, never by reflection",
        each("Pad", sets("mode", "constant")),
        f'u = Reshape(x, row) p = Pad<mode="reflect">(u, w) {MEAN}',
        {"w": np.array([0, 3, 0, 0])},
    ),
    Fault(
        "Where the other way round",
        each("Where", order_of(0, 2, 1)),
        "b = Greater(x, c) n = Neg(x) y = Where(b, n, x)",
        {"c": np.float32(0.2)},
    ),
)
