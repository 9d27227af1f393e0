"""Residual networks with bottlenecks, as ONNX, with seeded random weights: ResNet-101 and smaller ones.

Source: He et al., "Deep Residual Learning for Image Recognition" (CVPR 2016), table 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

RESNET_101 = (3, 4, 23, 3)
OPSET = 17
_EXPANSION = 4
_BRANCH_GAIN = 0.3  # factor of the last scale in a branch, so that sums of many branches stay small


class _Writer:
    """A graph under construction; methods return the name of the added value."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def weight(self, name: str, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def add(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def convolution(self, x: str, name: str, channels: tuple[int, int], kernel: int, stride: int, gain: float) -> str:
        """Add a Conv and a BatchNormalization. channels: of the operand and the result."""
        in_channels, out_channels = channels
        deviation = np.sqrt(2 / (in_channels * kernel * kernel))
        kernels = self.random.standard_normal((out_channels, in_channels, kernel, kernel)) * deviation
        pads = [kernel // 2] * 4
        y = self.add(
            "Conv", [x, self.weight(f"{name}.w", kernels)], f"{name}.conv",
            kernel_shape=[kernel, kernel], strides=[stride, stride], pads=pads,
        )  # fmt: skip
        near_one = self.random.uniform(0.9, 1.1, (2, out_channels))
        near_zero = self.random.uniform(-0.1, 0.1, (2, out_channels))
        numbers = (near_one[0] * gain, near_zero[0], near_zero[1], near_one[1])
        names = [self.weight(f"{name}.{k}", n) for k, n in zip("sbmv", numbers, strict=True)]
        return self.add("BatchNormalization", [y, *names], f"{name}.norm")

    def bottleneck(self, x: str, name: str, in_channels: int, width: int, stride: int) -> str:
        out_channels = width * _EXPANSION
        y = self.add("Relu", [self.convolution(x, f"{name}.1", (in_channels, width), 1, 1, 1)], f"{name}.1.relu")
        y = self.add("Relu", [self.convolution(y, f"{name}.2", (width, width), 3, stride, 1)], f"{name}.2.relu")
        y = self.convolution(y, f"{name}.3", (width, out_channels), 1, 1, _BRANCH_GAIN)
        if in_channels != out_channels or stride != 1:
            x = self.convolution(x, f"{name}.short", (in_channels, out_channels), 1, stride, 1)
        return self.add("Relu", [self.add("Add", [y, x], f"{name}.sum")], f"{name}.relu")


def resnet(stages: tuple[int, ...] = RESNET_101, side: int = 224, width: int = 64, classes: int = 1000) -> ModelProto:
    """A network for images [N, 3, side, side]. stages: blocks of each stage; width: channels of the first."""
    writer = _Writer(seed=0)
    x = writer.add("Relu", [writer.convolution("image", "stem", (3, width), 7, 2, 1)], "stem.relu")
    x = writer.add("MaxPool", [x], "stem.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    in_channels = width
    for stage, blocks in enumerate(stages):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            x = writer.bottleneck(x, f"stage{stage + 1}.{block}", in_channels, width << stage, stride)
            in_channels = (width << stage) * _EXPANSION
    x = writer.add("Flatten", [writer.add("GlobalAveragePool", [x], "pool")], "flat")
    head = writer.weight("head.w", writer.random.standard_normal((classes, in_channels)) / np.sqrt(in_channels))
    writer.add("Gemm", [x, head, writer.weight("head.b", np.zeros(classes))], "scores", transB=1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, side, side])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", classes])
    graph = helper.make_graph(writer.nodes, "resnet", [image], [scores], writer.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
