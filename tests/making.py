"""Small helpers of the tests: models made of nodes, their files, a hostile name, a pickle that runs code, passes in
folders of a test's own."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import passes as library

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
X, Y = helper.make_tensor_value_info("x", FLOAT, [1, 4]), helper.make_tensor_value_info("y", FLOAT, None)

HOSTILE = "<img src=x onerror=alert(1)>"


def node(op, inputs, outputs, **more):
    return helper.make_node(op, inputs.split(), outputs.split(), **more)


def model(nodes, inputs=(X,), outputs=(Y,), constants=(), domain=None):
    imports = [helper.make_opsetid("", 23), *([helper.make_opsetid(domain, 1)] if domain else [])]
    graph = helper.make_graph(nodes, "g", list(inputs), list(outputs), list(constants))
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def value(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name, numbers):
    return numpy_helper.from_array(np.array(numbers), name)


def saved(tmp_path, made, name="bad.onnx"):
    path = tmp_path / name
    path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    return str(path)


def hostile_model(folder: Path) -> Path:
    node = onnx.helper.make_node("Relu", ["x"], ["y"], name=HOSTILE)
    value = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 4]) for n in ("x", "y")]
    graph = onnx.helper.make_graph([node], HOSTILE, value[:1], value[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)], ir_version=10)
    onnx.save(model, folder / "hostile.onnx")
    return folder / "hostile.onnx"


class Bomb:
    """A pickle that makes a folder when it is opened."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return (os.mkdir, (str(self.target),))


def discover_again():
    """Passes came or went: a test changed the folders in which they are looked for."""
    library._modules.cache_clear()
    library._loaded.cache_clear()
