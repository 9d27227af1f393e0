"""Operators that ONNX deprecated are opened as what they mean, and what is written has none of them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import workbench as wb
from tests.loading import run as run_file
from tests.loading import saved
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx

X = np.random.default_rng(0).standard_normal((2, 6, 3, 3)).astype(np.float32)
GROUPS = "y = GroupNormalization <num_groups = 3, epsilon = 0.01> (x, s, b)"
WEIGHTS = "float[3] s = {1, 2, 3}, float[3] b = {0.5, 0, -1}"


@pytest.mark.parametrize("opset", [18, 19, 20])
@pytest.mark.parametrize("shape", ["N,6,3,3", "N,C,H,W"])
def test_a_group_normalization_with_scales_of_groups_is_its_body(tmp_path, run, opset, shape):
    text = f"g (float[{shape}] x) => (float[{shape}] y) <{WEIGHTS}> {{ {GROUPS} }}"
    path, out = saved(tmp_path, text, header=f'<ir_version: 8, opset_import: ["": {opset}]>\n'), tmp_path / "out.onnx"
    code, said, notes = run("optimize", path, "-o", out, "--dims", "C=6,H=3,W=3" if "C" in shape else "N=2")
    assert code == 0 and "the end: Equal to the last bit" in said
    assert (
        f"operator 'GroupNormalization' of a GroupNormalization that computes ['y'] is deprecated in opset {opset}; "
        in notes
    )
    assert "it is opened as its body" in notes
    written = onnx.load(out)
    assert "GroupNormalization" not in {node.op_type for node in written.graph.node}
    assert [o.version for o in written.opset_import] == [opset]
    np.testing.assert_allclose(run_file(out, {"x": X})[0], run_file(path, {"x": X})[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [18, 20])
def test_the_first_run_opens_the_bodies_that_a_second_run_would_open(tmp_path, opset):
    """A file need not declare the types of computed values; what is written does."""
    text = f"""g (float[2,6,3,3] x) => (float[2,6,3,3] z) <{WEIGHTS}, float[2] t = {{1, 2}},
        float[6,6,1,1] w = {{{", ".join(["0.1"] * 36)}}}> {{
        c = Conv(x, w)  y = GroupNormalization <num_groups = 3> (c, s, b)  r = Relu(y)  d = Conv(r, w)
        e = GroupNormalization <num_groups = 2> (d, t, t)  z = Relu(e)
    }}"""
    path = saved(tmp_path, text, header=f'<ir_version: 8, opset_import: ["": {opset}]>\n')
    graph = load_model(path)
    assert "GroupNormalization" not in {node.op_type for node in graph.nodes}
    once = export_onnx(wb.optimize(graph).graph, tmp_path / "once.onnx").path
    again = wb.optimize(load_model(once))
    assert not any(step.rewrites for step in again.steps)
    given = {"x": X}
    np.testing.assert_allclose(run_file(once, given)[0], run_file(path, given)[0], rtol=1e-5, atol=1e-5)


def test_bodies_and_types_of_a_group_normalization(tmp_path):
    text = f"""g (bool c, float16[2,6,3,3] x, float16[3] s, float16[3] b) => (float16[2,6,3,3] z) {{
        z = If (c) <then_branch = t () => (float16[2,6,3,3] y) {{ {GROUPS} }}, else_branch = e () => (float16[2,6,3,3] w) {{ w = Relu(x) }}> }}"""
    path, out = saved(tmp_path, text, header='<ir_version: 8, opset_import: ["": 18]>\n'), tmp_path / "out.onnx"
    assert export_onnx(load_model(path), out).checks == ("onnx.checker",)
    scale = np.array([1, 2, 3], np.float16)
    for c in (True, False):
        given = {"c": np.array(c), "x": X.astype(np.float16), "s": scale, "b": scale - 2}
        np.testing.assert_array_equal(run_file(out, given)[0], run_file(path, given)[0])


@pytest.mark.parametrize("opset", [10, 11, 13, 17])
def test_an_upsample_after_its_time_is_a_resize(tmp_path, opset):
    text = "g (float[2,6,3,3] x) => (float[2,6,6,9] y) <float[4] s = {1, 1, 2, 3}> { y = Upsample (x, s) }"
    graph = load_model(saved(tmp_path, text, header=f'<ir_version: 6, opset_import: ["": {opset}]>\n'))
    assert [node.op for node in graph.nodes] == ["Resize"]
    assert graph.warnings == (
        f"operator 'Upsample' of a Upsample that computes ['y'] is deprecated in opset {opset}; it is opened as Resize",
    )
    export_onnx(graph, tmp_path / "out.onnx")
    np.testing.assert_array_equal(run_file(tmp_path / "out.onnx", {"x": X})[0], X.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize("opset", [11, 16])
def test_a_scatter_after_its_time_is_one_of_elements(tmp_path, opset):
    text = """g (float[2,6,3,3] x) => (float[2,6,3,3] y) <int64[1,1,1,1] i = {1}, float[1,1,1,1] u = {9}> {
        y = Scatter <axis = 2> (x, i, u) }"""
    graph = load_model(saved(tmp_path, text, header=f'<ir_version: 6, opset_import: ["": {opset}]>\n'))
    export_onnx(graph, tmp_path / "out.onnx")
    wanted = X.copy()
    wanted[0, 0, 1, 0] = 9
    np.testing.assert_array_equal(run_file(tmp_path / "out.onnx", {"x": X})[0], wanted)
