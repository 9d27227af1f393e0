"""A file that keeps an old opset, since one operator has no conversion: all others are converted, and written back."""

import numpy as np
import onnx
import pytest

from tests.running import outputs
from workbench.interfaces import api

_TEXT = """<ir_version: 8, opset_import: ["" : 12]>
g (float[2,3,8,8] x, float[2,2,4,4] z) => (float[2,4,1,1] y, float[2,2,8,8] v)
    <float[4,3,1,1] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[8] roi = {0,0,0,0,1,1,1,1}, float[4] s = {1,1,2,2}> {
    c = Conv(x, w)
    y = ReduceMean<axes=[2,3],keepdims=1>(c)
    v = Resize<coordinate_transformation_mode="tf_half_pixel_for_nn",mode="nearest">(z, roi, s)
}"""


@pytest.mark.parametrize("layout", ["optimal", "blocked"])
def test_a_layout_keeps_the_axes_of_a_reduction(tmp_path, layout):
    path = tmp_path / "old.onnx"
    onnx.save(onnx.parser.parse_model(_TEXT), path)
    graph = api.load(path)
    assert graph.opset_imports == {"": 23, "ai.onnx.opset12": 12}
    after = api.optimize(graph, layout=layout, target="npu", verify="off").graph
    generator = np.random.default_rng(0)
    inputs = {v: generator.random(graph.shape(v), np.float32) for v in graph.inputs}
    expected, found = outputs(graph, inputs), outputs(after, inputs)
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-5)
