"""Outputs given in the layout in which they are made: asked for, noted in the file, followed by comparing."""

import json

import numpy as np
import onnx
import pytest

from tests.commands import NPU
from tests.running import outputs, random_inputs, typed
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.api import optimize
from workbench.ir import to_text
from workbench.ir.permuted_io import OUTPUT_ORDER, output_order
from workbench.run.inputs import in_forms, output_forms

CONV = """g (float[N,2,4,4] x) => (float[N,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
    a = Conv(x, w)
    y = Relu(a)
}"""


def given():
    graph = typed(CONV)
    graph.dims = {"N": 2}
    return graph, optimize(graph, ["layout_greedy", "relayout_outputs"], target="cuda")


def test_the_transpose_at_the_edge_goes_and_the_outputs_are_the_same():
    graph, history = given()
    assert [node.op for node in history.graph.nodes].count("Transpose") == 1
    assert history.graph.shape("y") == ("N", 4, 4, 2) and output_order(history.graph, "y") == (0, 2, 3, 1)
    inputs = random_inputs(graph)
    found = in_forms(outputs(history.graph, inputs), output_forms(graph, history.graph))
    np.testing.assert_allclose(found["y"], outputs(graph, inputs)["y"], rtol=1e-5)
    with Verifier(graph) as verifier:
        assert verifier.check(history.graph).ok is True


def test_any_moment_of_the_history_can_be_shown():
    _, history = given()
    assert OUTPUT_ORDER + "y" not in history.at(1).metadata and history.at(1).shape("y") == ("N", 2, 4, 4)
    again = history.at(2)
    assert again.metadata == history.graph.metadata and to_text(again) == to_text(history.graph)
    for rewrite in reversed(history[2].rewrites):
        again.apply(rewrite.inverse)
    assert to_text(again) == to_text(history.at(1))


@pytest.mark.parametrize(
    "text",
    [
        "g (float[1,2,4,4] x) => (float[1,4,4,2] y) { y = Transpose<perm=[0,2,3,1]>(x) }",
        "g (float[1,2,4,4] x) => (float[1,4,4,2] y, float[1,2,4,4] a) "
        "{ a = Relu(x)  y = Transpose<perm=[0,2,3,1]>(a) }",
        "g (float[1,2,4,4] x) => (float[1,4,4,2] y, float[1,4,4,2] z) "
        "{ a = Relu(x)  y = Transpose<perm=[0,2,3,1]>(a)  z = Neg(y) }",
        "g (float[1,2,4,4] x) => (float[1,2,4,4] y) { y = Relu(x) }",
    ],
)
def test_an_output_that_is_made_otherwise_stays(text):
    assert not optimize(typed(text), ["relayout_outputs"])[1].rewrites


def test_what_else_reads_the_value_in_front_goes_on_reading_it():
    graph = typed("""g (float[1,2,4,4] x) => (float[1,4,4,2] y, float[1,2,4,4] z)
        { a = Relu(x)  y = Transpose<perm=[0,2,3,1]>(a)  z = Neg(a) }""")
    history = optimize(graph, ["relayout_outputs"])
    inputs = random_inputs(graph)
    found = in_forms(outputs(history.graph, inputs), output_forms(graph, history.graph))
    for name, numbers in outputs(graph, inputs).items():
        np.testing.assert_array_equal(found[name], numbers)


@pytest.mark.slow
def test_the_command_line_end_to_end(done, tmp_path):
    out = tmp_path / "given.onnx"
    done(
        "optimize",
        NPU,
        "-o",
        out,
        "--layout",
        "greedy",
        "--target",
        "cuda",
        "--relayout-inputs",
        "--relayout-outputs",
        "--report",
        out.with_suffix(".json"),
    )
    report = json.loads(out.with_suffix(".json").read_text())
    assert [step["pass"] for step in report["steps"][-2:]] == ["relayout_outputs", "repeat"] and report["totals"][
        "verified"
    ] is True
    assert report["totals"]["transposes_after"] == 0
    assert {entry.key: entry.value for entry in onnx.load(out).metadata_props}[f"{OUTPUT_ORDER}output"] == "0,2,3,1"
    assert done("verify", NPU, out).startswith("equal")
    done("bench", NPU, out, "--repeat", "1", "--json", tmp_path / "b.json")
    bench = json.loads((tmp_path / "b.json").read_text())
    assert all(found["error"]["ok"] for found in bench["variants"].values())


def test_a_layout_is_declared_on_the_command_line(done, refused, tmp_path):
    reshape = NPU.with_name("npu_reshape_add.onnx")
    assert "input input3: float[1,512,7,7] NCHW" in done("inspect", reshape, "--input-layout", "input3=NCHW")
    assert "input1' is NCHW, as the operators" in refused("inspect", reshape, "--input-layout", "input1=NHWC")
    assert "such as x=NHWC, not 'input3'" in refused("inspect", reshape, "--input-layout", "input3")
