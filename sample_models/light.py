"""The light models of the `onnx` package with random weights.

The package has nine published networks in which all elements of a weight are equal (ConstantOfShape). All elements of
an output are then equal too, so that a wrong optimization would not show. Here each weight is a seeded random
initializer, scaled so that activations neither vanish nor explode.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

LIGHT_MODELS = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
_PASSED_THROUGH = ("Unsqueeze", "Reshape")  # between a weight and the operator that uses it
_BRANCH_GAIN = 0.4  # of the last scale in a residual branch, so that sums of many branches stay small


def random_light(name: str, seed: int = 0, narrow: int = 1, classes: int | None = None) -> ModelProto:
    """The light model of that name with random weights.

    narrow:  divide every channel count by this, except the image's 3 channels.
    classes: number of outputs of the last layer, instead of 1,000.
    """
    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    model = onnx.load(folder / f"light_{name}.onnx")
    graph = model.graph
    shapes = _weight_shapes(graph)
    users = _users(graph)
    if narrow > 1 or classes:
        shapes = {n: _narrowed(s, n, users, narrow, classes) for n, s in shapes.items()}
    kept = [_narrowed_shape(t, narrow) for t in graph.initializer if t.name not in shapes and users.get(t.name)]
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    read = {value for node in nodes for value in node.input}
    weights = [_random(n, s, users, seed) for n, s in sorted(shapes.items())]
    initializers = [t for t in (*kept, *weights) if t.name in read]
    constants = {t.name for t in graph.initializer}
    inputs = [i for i in graph.input if i.name not in constants]
    for field, values in (("node", nodes), ("initializer", initializers), ("input", inputs)):
        copies = [type(v).FromString(v.SerializeToString()) for v in values]
        del getattr(graph, field)[:]
        getattr(graph, field).extend(copies)
    if classes:
        graph.output[0].type.tensor_type.shape.dim[1].dim_value = classes
    model.ir_version = 8
    return model


def _weight_shapes(graph: GraphProto) -> dict[str, tuple[int, ...]]:
    """By name, the shape of every float weight: results of ConstantOfShape, and float initializers."""
    numbers = {t.name: t for t in graph.initializer}
    shapes = {t.name: tuple(t.dims) for t in graph.initializer if t.data_type == TensorProto.FLOAT}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shapes[node.output[0]] = tuple(int(d) for d in numpy_helper.to_array(numbers[node.input[0]]))
    return shapes


def _users(graph: GraphProto) -> dict[str, list[tuple[NodeProto, int]]]:
    users: dict[str, list[tuple[NodeProto, int]]] = {}
    for node in graph.node:
        for index, value in enumerate(node.input):
            users.setdefault(value, []).append((node, index))
    return users


def _role(name: str, users: dict[str, list[tuple[NodeProto, int]]]) -> tuple[str, int]:
    """The operator that uses the weight, and the operand's index."""
    node, index = _user(name, users)
    return node.op_type, index


def _user(name: str, users: dict[str, list[tuple[NodeProto, int]]]) -> tuple[NodeProto, int]:
    node, index = users.get(name, [(NodeProto(), 0)])[0]
    while node.op_type in _PASSED_THROUGH and index == 0:
        node, index = users[node.output[0]][0]
    return node, index


def _before_gemm(name: str, users: dict[str, list[tuple[NodeProto, int]]]) -> bool:
    """Whether a Gemm follows the layer that uses this weight, directly or after other nodes."""
    node, _ = _user(name, users)
    while following := users.get(node.output[0]) if node.output else None:
        node, _ = following[0]
        if node.op_type == "Gemm":
            return True
    return False


def _before_relu(name: str, users: dict[str, list[tuple[NodeProto, int]]]) -> bool:
    """Whether a Relu follows the layer that uses this weight, directly or after a normalization and a scale."""
    node, _ = users.get(name, [(NodeProto(), 0)])[0]
    while node.op_type in ("Conv", "Gemm", "BatchNormalization", "Mul", "Add"):
        node, _ = users.get(node.output[0], [(NodeProto(), 0)])[0]
    return node.op_type == "Relu"


def _feeds_sum(name: str, users: dict[str, list[tuple[NodeProto, int]]]) -> bool:
    """Whether a Sum reads the result of the normalization that uses this weight."""
    node, _ = users.get(name, [(NodeProto(), 0)])[0]
    if node.op_type != "BatchNormalization":
        return False
    return any(user.op_type == "Sum" for user, _ in users.get(node.output[0], ()))


def _random(name: str, shape: tuple[int, ...], users: dict[str, list[tuple[NodeProto, int]]], seed: int) -> TensorProto:
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    match _role(name, users):
        case ("Conv" | "Gemm", 1):  # He initialization, with gain 2 before a Relu
            gain = 2.0 if _before_relu(name, users) else 1.0
            values = random.standard_normal(shape, np.float32) * np.float32(math.sqrt(gain / math.prod(shape[1:])))
        case ("BatchNormalization", 1) | ("Mul", _):
            values = random.uniform(0.8, 1.2, shape) * (_BRANCH_GAIN if _feeds_sum(name, users) else 1.0)
        case ("BatchNormalization", 4):
            values = np.exp(random.uniform(-0.25, 0.25, shape))  # a variance
        case _:
            values = random.normal(0.0, 0.1, shape)
    return numpy_helper.from_array(values.astype(np.float32), name)


def _narrowed(
    shape: tuple[int, ...],
    name: str,
    users: dict[str, list[tuple[NodeProto, int]]],
    narrow: int,
    classes: int | None,
) -> tuple[int, ...]:
    def channels(size: int) -> int:
        return size if size == 3 else size // narrow

    def features(size: int) -> int:
        return channels(size) if _before_gemm(name, users) else classes or size

    match _role(name, users):
        case ("Conv", 1):
            return (channels(shape[0]), channels(shape[1]), *shape[2:])
        case ("Gemm", 1):
            return (*shape[:-2], features(shape[-2]), channels(shape[-1]))
        case ("Gemm", 2):
            return (features(shape[0]),)
        case _:
            return tuple(channels(size) for size in shape)


def _narrowed_shape(tensor: TensorProto, narrow: int) -> TensorProto:
    """The shape operand of the last Reshape, [batch, channels], narrowed."""
    if narrow == 1 or tensor.dims != [2]:
        return tensor
    batch, channels = numpy_helper.to_array(tensor)
    return numpy_helper.from_array(np.array([batch, channels // narrow]), tensor.name)


def light_paths(folder: Path) -> Iterator[Path]:
    """Write every light model with random weights into `folder`, one at a time."""
    for name in LIGHT_MODELS:
        path = folder / f"{name}.onnx"
        path.write_bytes(random_light(name).SerializeToString())
        yield path
