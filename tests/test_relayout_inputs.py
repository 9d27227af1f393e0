"""Inputs fed in the layout that is used: asked for, noted in the file, followed by comparing and measuring."""

import json

import numpy as np
import onnx
import pytest

from tests.commands import RESNET, report_of
from tests.running import outputs, random_inputs, typed
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.interfaces.api import optimize
from workbench.ir import to_text
from workbench.ir.permuted_io import INPUT_ORDER, input_order, permutation_between
from workbench.run.inputs import fed_inputs

CONVS = """g (float[N,2,4,4] x) => (float[N,2,1,1] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
    a = Conv(x, w)
    b = Relu(a)
    y = GlobalAveragePool(b)
}"""


def fed_graph():
    graph = typed(CONVS)
    graph.dims = {"N": 2}
    return graph, optimize(graph, ["layout_optimal", "relayout_inputs"], target="cuda")


def test_the_transpose_at_the_edge_goes():
    _, history = fed_graph()
    assert history.graph.shape("x") == ("N", 4, 4, 2)
    assert [node.op for node in history.graph.nodes].count("Transpose") == 0
    assert input_order(history.graph, "x") == (0, 2, 3, 1)
    assert history.graph.shape("y") == ("N", 2, 1, 1)


def test_it_computes_the_same_on_inputs_in_that_order():
    graph, history = fed_graph()
    inputs = random_inputs(graph)
    given = fed_inputs(inputs, graph, history.graph)
    assert given["x"].shape == (2, 4, 4, 2)
    expected, found = outputs(graph, inputs), outputs(history.graph, given)
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-5)
    with Verifier(graph) as verifier:
        assert verifier.check(history.graph).ok is True


def test_a_size_of_an_image_in_place_of_the_channels_is_no_batch():
    graph = typed(CONVS.replace("[N,2,4,4]", "[N,2,H,H]"))
    graph.dims = {"N": 2, "H": 4}
    history = optimize(graph, ["layout_optimal", "relayout_inputs"], target="cuda")
    assert history.graph.shape("x") == ("N", "H", "H", 2)
    with Verifier(graph) as verifier:
        assert verifier.check(history.graph).ok is True


def test_any_moment_of_the_history_can_be_shown():
    _, history = fed_graph()
    assert to_text(history.at(1)) != to_text(history.at(2))
    assert INPUT_ORDER + "x" not in history.at(1).metadata and history.at(1).shape("x") == ("N", 2, 4, 4)
    again = history.at(2)
    assert again.metadata == history.graph.metadata and to_text(again) == to_text(history.graph)
    for rewrite in reversed(history[2].rewrites):
        again.apply(rewrite.inverse)
    assert again.metadata == history.at(1).metadata and to_text(again) == to_text(history.at(1))


@pytest.mark.parametrize(
    "text",
    [
        "g (float[1,2,4,4] x) => (float[1,4,4,2] y, float[1,2,4,4] z) "
        "{ y = Transpose<perm=[0,2,3,1]>(x)  z = Relu(x) }",
        "g (float[1,2,4,4] x) => (float[1,4,4,2] y, float[1,4,2,4] z) "
        "{ y = Transpose<perm=[0,2,3,1]>(x)  z = Transpose<perm=[0,2,1,3]>(x) }",
        "g (float[1,2,4,4] x) => (float[1,2,4,4] y) { y = Relu(x) }",
    ],
)
def test_an_input_that_is_read_otherwise_stays(text):
    history = optimize(typed(text), ["relayout_inputs"])
    assert not history[1].rewrites


def test_several_transposes_alike_and_an_output_among_them():
    graph = typed("""g (float[1,2,4,4] x) => (float[1,4,4,2] y, float[1,4,4,2] z)
        { y = Transpose<perm=[0,2,3,1]>(x)  b = Transpose<perm=[0,2,3,1]>(x)  z = Relu(b) }""")
    history = optimize(graph, ["relayout_inputs"])
    assert sorted(node.op for node in history.graph.nodes) == ["Identity", "Relu"]
    inputs = random_inputs(graph)
    found = outputs(history.graph, fed_inputs(inputs, graph, history.graph))
    np.testing.assert_array_equal(found["y"], inputs["x"].transpose(0, 2, 3, 1))


@pytest.mark.slow
def test_the_command_line_end_to_end(done, tmp_path):
    out = tmp_path / "fed.onnx"
    words = ("--layout", "optimal", "--target", "cuda", "--relayout-inputs", "--report", tmp_path / "r.json")
    done("optimize", RESNET, "-o", out, *words)
    report = json.loads((tmp_path / "r.json").read_text())
    fed = next(step for step in reversed(report["steps"]) if step["pass"] == "relayout_inputs")
    assert fed["rewrites"] and report["steps"][-1]["verified"] is True
    assert report["totals"]["transposes_after"] == 0
    model = onnx.load(out)
    assert [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [1, 224, 224, 3]
    note = {entry.key: entry.value for entry in model.metadata_props}
    assert note[f"{INPUT_ORDER}gpu_0/data_0"] == "0,2,3,1"
    assert done("verify", RESNET, out).startswith("equal")
    bench = json.loads(_bench(done, tmp_path, RESNET, out))
    assert all(found["error"]["ok"] for found in bench["variants"].values())
    again = tmp_path / "again.onnx"  # what was written opens as a model of its own
    done("optimize", out, "-o", again)
    assert done("verify", RESNET, again).startswith("equal")
    assert permutation_between(load_model(out), load_model(again), "gpu_0/data_0") is None


def _bench(done, tmp_path, *models):
    done("bench", *models, "--repeat", "1", "--json", tmp_path / "b.json")
    return (tmp_path / "b.json").read_text()


@pytest.mark.slow
def test_it_is_only_done_when_asked_for(done, tmp_path):
    report = report_of(done, tmp_path, RESNET, "--layout", "optimal", "--target", "cuda")
    assert "relayout_inputs" not in [step["pass"] for step in report["steps"]]
    assert report["totals"]["transposes_after"] == 1


def test_a_note_of_another_program_is_not_followed():
    graph = typed(CONVS)
    other = graph.copy()
    other.metadata[f"{INPUT_ORDER}x"] = "1,0"
    assert permutation_between(graph, other, "x") is None


@pytest.mark.parametrize("note", ["hello", "", "0,0,0,9", "0,2,3", "0,-1,2,3"])
def test_a_note_that_is_no_permutation_says_nothing(note):
    graph = typed("g (float[1,2,4,4] x) => (float[1,4,4,2] y) { a = Transpose<perm=[0,2,3,1]>(x)  y = Relu(a) }")
    graph.metadata[f"{INPUT_ORDER}x"] = note
    history = optimize(graph, ["relayout_inputs"])
    assert input_order(graph, "x") is None
    assert input_order(history.graph, "x") == (0, 2, 3, 1)
