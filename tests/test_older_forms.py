"""A call that has no form but that of its older opset, beside others that were converted: the executor gives what ONNX
Runtime gives."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.interfaces import api

FLOATS = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
# Each at opset 11, beside a Resize in a mode that was removed in opset 13, so that the file stays at its opset.
OLDER = {
    "Softmax": [helper.make_node("Softmax", ["x"], ["y"])],
    "LogSoftmax": [helper.make_node("LogSoftmax", ["x"], ["y"])],
    "Hardmax": [helper.make_node("Hardmax", ["x"], ["y"], axis=1)],
    "ReduceMean": [helper.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=0)],
    "ReduceSum": [helper.make_node("ReduceSum", ["x"], ["y"], axes=[2])],
    "Split": [helper.make_node("Split", ["x"], ["y", "z"], axis=2, split=[1, 3])],
    "Unsqueeze": [helper.make_node("Unsqueeze", ["x"], ["y"], axes=[0])],
    "Squeeze": [
        helper.make_node("Unsqueeze", ["x"], ["u"], axes=[0]),
        helper.make_node("Squeeze", ["u"], ["y"], axes=[0]),
    ],
    "Clip": [helper.make_node("Clip", ["x", "", "one"], ["y"])],
    "Pad": [helper.make_node("Pad", ["x", "pads"], ["y"])],
    "TopK": [helper.make_node("TopK", ["x", "k"], ["y", "places"], axis=2)],
}


def model_of(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    constants = {
        "one": np.array(1, np.float32),
        "pads": np.array([0, 1, 0, 0, 0, 1], np.int64),
        "k": np.array([2], np.int64),
        "roi": np.array([], np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    resize = helper.make_node(
        "Resize",
        ["image", "roi", "scales"],
        ["larger"],
        mode="nearest",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
    )
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "larger")]
    graph = helper.make_graph(
        [*nodes, resize],
        "older",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4]),
            helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 3, 3]),
        ],
        outputs,
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)


@pytest.mark.parametrize("name", OLDER)
def test_the_older_form_is_run_as_it_was_meant(name, tmp_path):
    onnx.save(model_of(OLDER[name]), tmp_path / "older.onnx")
    inputs = {"x": FLOATS, "image": np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)}
    wanted = ort.InferenceSession(str(tmp_path / "older.onnx")).run(["y", "larger"], inputs)
    graph = api.load(tmp_path / "older.onnx")
    assert graph.opset_imports == {"": 23, "ai.onnx.opset11": 11}
    assert graph.node("Resize_larger").op == "ai.onnx.opset11.Resize"
    executor = TorchExecutor(graph)
    ran = executor.run(inputs)
    for value, expected in zip(("y", "larger"), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(ran[value]), expected, rtol=1e-6)
    assert executor.fallbacks == {"ai.onnx.opset11.Resize": "it has the form of opset 11"}
