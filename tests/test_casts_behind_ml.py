"""Casts behind operators of ai.onnx.ml, whose types shape inference does not tell and their schemas do."""

import numpy as np
import onnx
import onnxruntime
import pytest

from workbench.formats.io import load_model
from workbench.formats.io.exporting import to_bytes
from workbench.interfaces import api

FLOAT = onnx.TensorProto.FLOAT


def model(operator, to, **attributes):
    maker = onnx.helper
    nodes = [
        maker.make_node(operator, ["x"], ["a"], domain="ai.onnx.ml", **attributes),
        maker.make_node("Cast", ["a"], ["b"], to=to),
        maker.make_node("Neg", ["b"], ["y"]),
    ]
    inputs, outputs = ([maker.make_tensor_value_info(n, t, s)] for n, t, s in (("x", FLOAT, ["N", 3]), ("y", to, None)))
    opsets = [maker.make_opsetid("", 23), maker.make_opsetid("ai.onnx.ml", 3)]
    return maker.make_model(maker.make_graph(nodes, "g", inputs, outputs), opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("Scaler", {"offset": [0.0, 1.0, 2.0], "scale": [1.0, 2.0, 3.0]}),
        ("Normalizer", {"norm": "L2"}),
        ("LinearRegressor", {"coefficients": [1.0, 2.0, 3.0], "intercepts": [0.5]}),
    ],
)
@pytest.mark.parametrize(("to", "goes"), [(FLOAT, True), (onnx.TensorProto.DOUBLE, False)])
def test_a_cast_to_the_type_that_the_schema_gives_goes(operator, attributes, to, goes, tmp_path):
    original = model(operator, to, **attributes)
    onnx.save(original, tmp_path / "m.onnx")
    simplified = api.optimize(load_model(tmp_path / "m.onnx"), preset="simplify").graph
    assert ("Cast" not in [node.op for node in simplified.nodes]) == goes
    x = {"x": np.array([[1, -2, 3], [0.5, 0, 7]], np.float32)}
    expected, found = (
        onnxruntime.InferenceSession(m).run(None, x) for m in (original.SerializeToString(), to_bytes(simplified))
    )
    np.testing.assert_array_equal(found, expected)


def test_a_result_of_several_types_is_not_told_by_its_schema(tmp_path):
    onnx.save(model("Imputer", FLOAT, imputed_value_floats=[1.0]), tmp_path / "m.onnx")
    simplified = api.optimize(load_model(tmp_path / "m.onnx"), preset="simplify").graph
    assert "Cast" in [node.op for node in simplified.nodes]
