"""Generated models: a BERT of any number of nodes, and a model larger than 2 GB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

VOCABULARY = 100
MAX_POSITIONS = 128  # positions
HEADS = 4
OPSET = 17
NODES_AROUND = 24  # nodes outside the layers, without Constant nodes
PER_LAYER = 78
BLOCK = 2**24  # elements of a large weight that are generated at once


class _Builder:
    """A graph under construction; nodes are named by their scope, as in exports of TorchScript."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self.scope = ""
        self._random = np.random.default_rng(0)

    def node(self, op: str, *reads: str, **attributes: object) -> str:
        name = f"{self.scope}/{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(reads), [f"{name}_output_0"], name=name, **attributes))
        return f"{name}_output_0"

    def number(self, value: float | int | list[int]) -> str:
        """A Constant node; floats are float32, whole numbers int64."""
        dtype = np.float32 if isinstance(value, float) else np.int64
        return self.node("Constant", value=numpy_helper.from_array(np.array(value, dtype)))

    def weight(self, *shape: int, scale: float = 1.0, around: float = 0.0) -> str:
        values = around + scale * self._random.standard_normal(shape)
        name = f"{self.scope.strip('/').replace('/', '.')}.weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def linear(self, x: str, in_features: int, out_features: int) -> str:
        product = self.node("MatMul", x, self.weight(in_features, out_features, scale=in_features**-0.5))
        return self.node("Add", self.weight(out_features, scale=0.1), product)

    def layer_norm(self, x: str) -> str:
        centered = self.node("Sub", x, self.node("ReduceMean", x, axes=[-1]))
        variance = self.node("ReduceMean", self.node("Pow", centered, self.number(2.0)), axes=[-1])
        deviation = self.node("Sqrt", self.node("Add", variance, self.number(1e-12)))
        scaled = self.node("Mul", self.node("Div", centered, deviation), self.weight(self.width, scale=0.1, around=1.0))
        return self.node("Add", scaled, self.weight(self.width, scale=0.1))

    def gelu(self, x: str) -> str:
        erf = self.node("Erf", self.node("Div", x, self.number(2.0**0.5)))
        product = self.node("Mul", x, self.node("Add", erf, self.number(1.0)))
        return self.node("Mul", product, self.number(0.5))

    def size(self, x: str, axis: int) -> str:
        return self.node("Gather", self.node("Shape", x), self.number(axis), axis=0)

    def shaped(self, x: str, like: str, *rest: int) -> str:
        """x reshaped to the first two dims of `like`, then `rest`."""
        dims = [self.node("Unsqueeze", self.size(like, axis), self.number([0])) for axis in (0, 1)]
        return self.node("Reshape", x, self.node("Concat", *dims, *(self.number([dim]) for dim in rest), axis=0))


def bert(layers: int, width: int = 32) -> ModelProto:
    """A BERT with random weights and symbolic batch and length; norms and Gelus are decomposed, as TorchScript does."""
    build = _Builder(width)
    x, mask = _embedded(build), _mask(build)
    for layer in range(layers):
        build.scope = f"/encoder/layer.{layer}"
        x = _encoded(build, x, mask)
    build.scope = "/pooler"
    first = build.node("Gather", x, build.number(0), axis=1)
    weight, bias = build.weight(width, width, scale=width**-0.5), build.weight(width, scale=0.1)
    pooled = build.node("Tanh", build.node("Gemm", first, weight, bias, transB=1))
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])
    attention = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "sequence"])
    shapes = {x: ["batch", "sequence", width], pooled: ["batch", width]}
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(build.nodes, "bert", [ids, attention], outputs, build.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def bert_of(nodes: int) -> ModelProto:
    """A BERT of about this number of nodes, without Constant nodes."""
    return bert(max(1, round((nodes - NODES_AROUND) / PER_LAYER)))


def _embedded(build: _Builder) -> str:
    build.scope = "/embeddings"
    tokens = build.node("Gather", build.weight(VOCABULARY, build.width), "input_ids")
    end = build.node("Unsqueeze", build.size("input_ids", 1), build.number([0]))
    table = build.node("Constant", value=numpy_helper.from_array(np.arange(MAX_POSITIONS)[None]))
    bounds = (build.number([0]), end, build.number([1]), build.number([1]))
    positions = build.node("Gather", build.weight(MAX_POSITIONS, build.width), build.node("Slice", table, *bounds))
    return build.layer_norm(build.node("Add", tokens, positions))


def _mask(build: _Builder) -> str:
    """0 at a token, else the smallest float: [batch, 1, 1, sequence]."""
    build.scope = ""
    inner = build.node("Unsqueeze", "attention_mask", build.number([1]))
    wide = build.node("Cast", build.node("Unsqueeze", inner, build.number([2])), to=TensorProto.FLOAT)
    masked = build.node("Sub", build.number(1.0), wide)
    return build.node("Mul", masked, build.number(float(np.finfo(np.float32).min)))


def _encoded(build: _Builder, x: str, mask: str) -> str:
    layer, width = build.scope, build.width
    build.scope = f"{layer}/attention/self"
    heads = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):  # queries, keys, values
        flat = build.linear(x, width, width)
        heads.append(build.node("Transpose", build.shaped(flat, flat, HEADS, width // HEADS), perm=order))
    query, key, value = heads
    scores = build.node("Div", build.node("MatMul", query, key), build.number(float((width // HEADS) ** 0.5)))
    weights = build.node("Softmax", build.node("Add", scores, mask), axis=-1)
    mixed = build.node("Transpose", build.node("MatMul", weights, value), perm=[0, 2, 1, 3])
    flat = build.shaped(mixed, mixed, width)
    build.scope = f"{layer}/attention/output"
    x = build.layer_norm(build.node("Add", build.linear(flat, width, width), x))
    build.scope = f"{layer}/output"
    wide = build.gelu(build.linear(x, width, 4 * width))
    return build.layer_norm(build.node("Add", build.linear(wide, 4 * width, width), x))


# ---- larger than 2 GB ------------------------------------------------------------------


def write_large(path: Path, layers: int, width: int) -> None:
    """Write a model of `layers` square weights in a separate file, which is written in blocks to use little memory.

    Each layer is a Gemm, or a MatMul and an Add, with leftovers of an export: Identity, Dropout, and a Reshape to a
    shape that is computed from the value.
    """
    data = path.with_name(path.name + ".data")
    build = _Builder(width)
    x = "x"
    for layer in range(layers):
        build.scope = f"/layer.{layer}"
        x = _wide_layer(build, x, _external(data.name, layer, width), gemm=layer % 2 == 0)
    input_info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", width])
    output_info = helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch", width])
    graph = helper.make_graph(build.nodes, "large", [input_info], [output_info], build.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    with data.open("wb") as file:
        for block in _random_blocks(layers * width * width, width**-0.5):
            file.write(block)


def _wide_layer(build: _Builder, x: str, weight: TensorProto, gemm: bool) -> str:
    build.weights.append(weight)
    bias = build.weight(build.width, scale=0.1)
    if gemm:
        x = build.node("Gemm", x, weight.name, bias, transB=1)
    else:
        x = build.node("Add", build.node("MatMul", x, weight.name), bias)
    shape = build.node("Concat", build.node("Shape", x, end=1), build.number([build.width]), axis=0)
    x = build.node("Reshape", build.node("Identity", x), shape)
    return build.node("Dropout", build.node("Relu", x))


def _external(file: str, layer: int, width: int) -> TensorProto:
    size = 4 * width * width
    tensor = TensorProto(name=f"layer.{layer}.weight", data_type=TensorProto.FLOAT, dims=[width, width])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", file), ("offset", layer * size), ("length", size)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _random_blocks(count: int, scale: float) -> Iterator[bytes]:
    random = np.random.default_rng(0)
    for start in range(0, count, BLOCK):
        block = random.standard_normal(min(BLOCK, count - start), np.float32)
        block *= np.float32(scale)
        yield block.tobytes()
