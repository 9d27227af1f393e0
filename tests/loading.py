"""Small helpers of the loading tests: a model's file from text, the sentence that refuses one, a large weight."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from workbench.errors import UserError
from workbench.formats.io import LoadError, load_model

HEADER = '<ir_version: 8, opset_import: ["": 17]>\n'


def saved(tmp_path: Path, text: str, name: str = "model.onnx", header: str = HEADER) -> Path:
    path = tmp_path / name
    path.write_bytes(parser.parse_model(header + text).SerializeToString())
    return path


def refusal(path: Path, **given) -> str:
    """The sentence with which the file is refused."""
    with pytest.raises(LoadError) as caught:
        load_model(path, **given)
    assert isinstance(caught.value, UserError)
    told = str(caught.value)
    assert "\n" not in told and "Traceback" not in told
    return told


def run(path: str | Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options).run(None, inputs)


def big_model(values: np.ndarray, form: str) -> onnx.ModelProto:
    """A model whose weight is stored as raw data, as typed data, or in a Constant node."""
    weight = numpy_helper.from_array(values, "w")
    if form == "typed":
        weight = helper.make_tensor("w", TensorProto.FLOAT, values.shape, values.ravel().tolist())
    node = helper.make_node("Add", ["x", "w"], ["y"], name="add")
    nodes = [helper.make_node("Constant", [], ["w"], value=weight), node] if form == "node" else [node]
    info = [helper.make_tensor_value_info(v, TensorProto.FLOAT, values.shape) for v in ("x", "y")]
    graph = helper.make_graph(nodes, "big", info[:1], info[1:], [] if form == "node" else [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
