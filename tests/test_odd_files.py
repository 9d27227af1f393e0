"""Small files that were refused without need, or took all memory: opened, or told in a sentence, within bounds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, ValueInfoProto, helper

from tests.conftest import ROOT
from tests.loading import run, saved
from tests.waiting import LIMIT_S
from workbench.formats.io import load_model
from workbench.rewrite import PassContext

INSPECT = """
import pathlib, re, sys
from workbench.__main__ import main
code = main(["inspect", sys.argv[1]])
status = pathlib.Path("/proc/self/status").read_text()
print(code, int(re.search(r"VmHWM:\\s+([0-9]+) kB", status)[1]) // 1024)
"""
DOUBLED = "".join(f"c{i + 1} = Concat <axis = 0> (c{i}, c{i})\n" for i in range(40))
GROWING = {
    "floats": f"g (float[1] x) => (float z) <float[1] c0 = {{1}}> {{ {DOUBLED} z = ReduceSum <keepdims = 0> (c40) }}",
    "integers": f"g (float[1] x) => (int64 z) <int64[1] c0 = {{1}}> {{ {DOUBLED} z = ReduceSum <keepdims = 0> (c40) }}",
    "an input": f"g (float[1] c0) => (float z) {{ {DOUBLED} z = ReduceSum <keepdims = 0> (c40) }}",
    "in a branch": f"""g (bool b) => (float z) <float[1] c0 = {{1}}> {{ z = If (b) <
        then_branch = t () => (float u) {{ {DOUBLED} u = ReduceSum <keepdims = 0> (c40) }},
        else_branch = e () => (float v) {{ v = ReduceSum <keepdims = 0> (c0) }}> }}""",
    "in a function": f"""g (float[1] x) => (float[1] z) {{ z = f.f (x) }}
        <domain: "f", opset_import: ["": 18]> f (x) => (z) {{ c0 = Constant <value = float[1] {{1}}> ()
        {DOUBLED} s = ReduceSum <keepdims = 0> (c40)  z = Add (x, s) }}""",
    "a Range": "g (float[1] x) => (int64 z) <int64 a = {0}, int64 b = {1000000000000}, int64 c = {1}> { r = Range (a, b, c)  z = ReduceSum <keepdims = 0> (r) }",
    "a Tile": "g (float[1] x) => (float z) <float[1] c = {1}, int64[1] n = {1000000000000}> { t = Tile (c, n)  z = ReduceSum <keepdims = 0> (t) }",
}  # fmt: skip
SMOKE = ("floats", "a Tile")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what a process took is read from /proc")
@pytest.mark.parametrize(
    "text", [pytest.param(t, id=n, marks=[pytest.mark.slow] if n not in SMOKE else []) for n, t in GROWING.items()]
)
def test_inspecting_a_file_of_2_kb_takes_no_memory(tmp_path, text):
    """Within 4 GB of addresses and 200 MB of memory, the program and its libraries counted in."""
    path = saved(tmp_path, text, header='<ir_version: 9, opset_import: ["": 18, "f": 1]>\n')
    assert path.stat().st_size < 10_000
    limited = f"ulimit -v 4000000; exec {sys.executable} -c '{INSPECT}' {path}"
    found = subprocess.run(["bash", "-c", limited], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert "Traceback" not in found.stderr, found.stderr
    code, megabytes = found.stdout.splitlines()[-1].split()
    assert code in ("0", "2") and int(megabytes) < 200


def test_a_shape_that_no_array_can_have_is_told(refused, tmp_path):
    text = "g (float[1] x) => (float[M] z) <float[0,4611686018427387904,4611686018427387904] w = {}> { z = Add (x, w) }"
    path = saved(tmp_path, text)
    said = refused("optimize", path, "-o", tmp_path / "out.onnx")
    assert "model.onnx: weight 'w' has the shape [0, 4611686018427387904, 4611686018427387904], which no array" in said


def test_an_output_that_the_branch_that_runs_contradicts_is_corrected(done, tmp_path):
    """As torch exports squeeze: declared is the shape of the branch that never runs."""
    text = """g (float[1] x) => (float[M] y) <bool c = {1}, int64[1] a = {0}> {
        s = If (c) <then_branch = t () => (float u) { u = Squeeze (x, a) }, else_branch = e () => (float[M] v) { v = Identity (x) }>
        y = Neg (s) }"""
    path, out = saved(tmp_path, text), tmp_path / "out.onnx"
    assert "the end: Equal to the last bit" in done("optimize", path, "-o", out, "--preset", "simplify")
    assert load_model(out).shape("y") == ()


def image(name: str, operator: str, opset: int, output: ValueInfoProto, **attributes) -> onnx.ModelProto:
    weights = [helper.make_tensor(v, TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0]) for v in ("s", "b")]
    domain = "com.microsoft" if operator == "FastGelu" else ""
    operands = ["t", "b"] if domain else ["t", "s", "b"]
    nodes = [
        helper.make_node("Relu", ["x"], ["t"]),
        helper.make_node(operator, operands, ["y"], domain=domain, **attributes),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    graph = helper.make_graph(nodes, name, [x], [output], weights)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=7)


TYPED = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])


@pytest.mark.parametrize("opset", [9, 12, 16])
def test_a_layer_normalization_from_before_onnx_had_it(done, tmp_path, opset):
    path, out = tmp_path / "g.onnx", tmp_path / "out.onnx"
    onnx.save(image("g", "LayerNormalization", opset, TYPED, axis=-1, epsilon=1e-3), path)
    graph = load_model(path)
    assert graph.warnings == () and graph.opset_imports[""] == 23 and len(graph) == 2
    assert "the end: Equal" in done("optimize", path, "-o", out, "--preset", "simplify")
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_allclose(run(out, {"x": x})[0], run(path, {"x": x})[0], rtol=1e-6)


@pytest.mark.parametrize("operator", ["FastGelu", "LayerNormalization"])
def test_an_output_without_a_type_or_a_shape(done, tmp_path, operator):
    shapeless = ValueInfoProto(name="y")
    shapeless.type.tensor_type.elem_type = TensorProto.FLOAT
    for output in (ValueInfoProto(name="y"), shapeless):
        path, out = tmp_path / "g.onnx", tmp_path / "out.onnx"
        onnx.save(image("g", operator, 17, output), path)
        assert "the end: Equal" in done("optimize", path, "-o", out, "--preset", "simplify")
        x = np.ones((3, 4), np.float32)
        np.testing.assert_array_equal(run(out, {"x": x})[0], run(path, {"x": x})[0])


def test_two_hundred_inputs_with_default_values_are_one_line(run, tmp_path):
    names = [f"w{i}" for i in range(200)]
    infos = [helper.make_tensor_value_info(v, TensorProto.FLOAT, [2]) for v in ("x", *names, "y")]
    weights = [helper.make_tensor(v, TensorProto.FLOAT, [2], [1.0, 2.0]) for v in names]
    graph = helper.make_graph([helper.make_node("Sum", ["x", *names], ["y"])], "g", infos[:-1], infos[-1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "g.onnx")
    code, _, said = run("inspect", tmp_path / "g.onnx")
    assert code == 0
    assert (
        said == "note: 200 inputs have default values and stay inputs: 'w0', 'w1', 'w2' and 197 more; "
        "--freeze-defaults makes constants of them\n"
    )


def test_an_exception_of_a_pass_is_a_sentence_that_names_pass_and_model():
    from dataclasses import dataclass

    from tests.running import typed
    from workbench.errors import UserError
    from workbench.planning.layout.profile import load_profile
    from workbench.rewrite import Exactness, Pass, Rule, run_pass

    @dataclass(frozen=True)
    class Stumbling(Pass):
        title = "A pass with a fault"
        rules = (Rule("stumble", ("Relu",), lambda *_: 1 // 0, None, exactness=Exactness.BIT_EXACT),)

    graph = typed("model_g (float[2] x) => (float[2] y) { y = Relu(x) }")
    with pytest.raises(
        UserError, match=r"pass test_odd_files failed on model 'model_g' .ZeroDivisionError: .*leave that pass out"
    ):
        run_pass(Stumbling(), graph, PassContext(load_profile("npu")))
