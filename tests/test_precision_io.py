"""Inputs and outputs in the types that are computed: asked for, noted in the file, followed by comparing, undone."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest

from passes.precision.precision_io import PrecisionIo
from passes.precision.precision_undo import PrecisionUndo
from tests.conftest import ROOT
from tests.precision_graphs import random_mixed_graph
from tests.running import outputs, random_inputs, typed
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.api import optimize
from workbench.ir import DataType, to_text
from workbench.ir.narrowed_io import INPUT_TYPE, OUTPUT_TYPE, type_between
from workbench.pipeline.registry.pass_registry import library
from workbench.pipeline.registry.reading import precision_strategy
from workbench.planning.layout.profile import load_profile
from workbench.planning.precision.cast_cost import count_casts
from workbench.rewrite import PassContext, run_pass
from workbench.run.inputs import fed_inputs, in_forms, output_forms

CPU = PassContext(load_profile("cpu"))
FLOAT16 = DataType.FLOAT16
SAMPLE = ROOT / "sample_models" / "basic_pitch_nmp.onnx"
NET = """g (float[N,2,4,4] x) => (float[N,2,4,4] y, float[N,2,4,4] z) <float[2,2,1,1] w = {1, 2, 3, 4}> {
    a = Conv(x, w)
    y = Relu(a)
    z = Exp(y)
}"""


@pytest.mark.parametrize("strategy", library.precision_strategies())
@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_compute_the_same_and_a_second_run_changes_nothing(seed, strategy):
    graph = random_mixed_graph(seed)
    run_pass(precision_strategy(strategy), graph, CPU)
    before = graph.copy()
    types = {value: graph.tensor_type(value) for value in (*graph.inputs, *graph.outputs)}
    run_pass(PrecisionIo(), graph, CPU)
    inputs = random_inputs(before)
    found = in_forms(outputs(graph, fed_inputs(inputs, before, graph)), output_forms(before, graph))
    for name, array in outputs(before, inputs).items():
        assert found[name].dtype == array.dtype
        np.testing.assert_allclose(found[name], array, rtol=0, atol=2e-2 * np.abs(array).max() + 1e-2)
    assert not run_pass(precision_strategy(strategy), graph, CPU).rewrites
    assert not run_pass(PrecisionIo(), graph, CPU).rewrites
    run_pass(PrecisionUndo(), before, CPU)
    run_pass(PrecisionUndo(), graph, CPU)
    assert {value: graph.tensor_type(value) for value in types} == types
    assert count_casts(graph, FLOAT16) == count_casts(before, FLOAT16)


def test_any_moment_of_the_history_can_be_shown():
    graph = typed(NET)
    history = optimize(graph, "", precision="autocast", io_as_computed=True, target="cpu")
    assert [r.sentence for r in history[1].rewrites if r.case == "at the border"] == [
        "input 'x' is taken in float16, as its reader casts it; an unknown number of elements no longer cast"
    ], "y is read in float32, and z is computed in it"
    before = history.at(0)
    assert before.tensor_type("x").dtype == DataType.FLOAT and INPUT_TYPE + "x" not in before.metadata
    again = history.at(1)
    assert again.metadata == history.graph.metadata and to_text(again) == to_text(history.graph)
    for rewrite in reversed(history[1].rewrites):
        again.apply(rewrite.inverse)
    assert to_text(again) == to_text(before)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[4] x) => (float16[4] y, float[4] z) { y = Cast<to=10>(x)  z = Relu(x) }",
        "g (float[4] x) => (float16[4] y, bfloat16[4] z) { y = Cast<to=10>(x)  z = Cast<to=16>(x) }",
        "g (float[4] x) => (float[4] y) { a = Cast<to=10>(x)  b = Cast<to=1>(a)  y = Exp(b) }",
        "g (float16[4] x) => (float[4] y) { y = Cast<to=1>(x) }",
        "g (float16[4] x) => (float[4] y, float[4] z) { a = Relu(x)  y = Cast<to=1>(a)  z = Neg(y) }",
        "g (float16[4] x) => (float[4] y, float16[4] a) { a = Relu(x)  y = Cast<to=1>(a) }",
        "g (double[4] x) => (double[4] y) { a = Cast<to=10>(x)  b = Relu(a)  y = Cast<to=11>(b) }",
    ],
)
def test_what_float32_is_needed_for_stays(text):
    assert not run_pass(PrecisionIo(), typed(text), CPU).rewrites


def test_the_way_back_redirects_readers_in_bodies():
    text = """g (float[4] x, bool c) => (float[4] y, float16[4] z) {
        a = Cast<to=10>(x)
        b = Neg(a)
        y = Cast<to=1>(b)
        z = If(c) <then_branch = t () => (float16[4] p) { p = Relu(b) },
                   else_branch = e () => (float16[4] q) { q = Relu(a) }>
    }"""
    graph = typed(text)
    run_pass(PrecisionIo(), graph, CPU)
    assert graph.tensor_type("x").dtype == graph.tensor_type("y").dtype == FLOAT16
    assert {*graph.metadata} == {INPUT_TYPE + "x", OUTPUT_TYPE + "y"}
    run_pass(PrecisionUndo(), graph, CPU)
    assert graph.tensor_type("x").dtype == graph.tensor_type("y").dtype == DataType.FLOAT and not graph.metadata
    original = typed(text)
    inputs = {"x": np.array([1.5, -2, 0, 3], np.float32), "c": np.array(False)}
    for name, array in outputs(original, inputs).items():
        np.testing.assert_array_equal(outputs(graph, inputs)[name], array)


def test_a_note_that_does_not_fit_is_not_followed():
    graph, other = (
        typed("g (float[4] x) => (float[4] y) { y = Relu(x) }"),
        typed("g (float16[4] x) => (float16[4] y) { y = Relu(x) }"),
    )
    assert type_between(graph, other, "x", INPUT_TYPE) is None, "another model, which takes float16"
    other.metadata[INPUT_TYPE + "x"] = "float64"
    assert type_between(graph, other, "x", INPUT_TYPE) is None
    other.metadata[INPUT_TYPE + "x"] = "float32"
    assert type_between(graph, other, "x", INPUT_TYPE) == FLOAT16


@pytest.mark.slow
def test_the_command_line_end_to_end(done, refused, tmp_path):
    output, report, certificate = (tmp_path / name for name in ("half.onnx", "report.json", "certificate.json"))
    chosen = ("--precision", "optimal", "--io", "as-computed")
    done("optimize", SAMPLE, "-o", output, *chosen, "--report", report, "--certificate", certificate)
    steps = json.loads(report.read_text())["steps"]
    (step,) = (step for step in steps if step["pass"] == "precision_optimal")
    facts = step["precision"]
    assert steps[-1]["verified"] and facts["certified"]
    onnx.checker.check_model(str(output), full_check=True)
    model = onnx.load(output)
    values = (*model.graph.input, *model.graph.output)
    narrow = [value.name for value in values if value.type.tensor_type.elem_type == FLOAT16.value]
    assert model.graph.input[0].name in narrow and len(narrow) > 1
    notes = {entry.key.split(".", 2)[2] for entry in model.metadata_props if "_type." in entry.key}
    assert notes == set(narrow)
    session = onnxruntime.InferenceSession(output, providers=["CPUExecutionProvider"])
    [taken] = session.get_inputs()
    assert taken.type == "tensor(float16)"
    assert all(
        np.isfinite(array).all() for array in session.run(None, {taken.name: np.zeros((1, 43844, 1), np.float16)})
    )

    said = done("check", SAMPLE, output, certificate, "--run", 1)
    assert "close on 1 random input" in said and f"(precision_optimal): '{taken.name}' is float16" in said
    assert f"proven: no alternative reads and writes less than {facts['bound_bytes']:,} bytes" in said
    done("bench", SAMPLE, output, "--repeat", "1", "--json", tmp_path / "b.json")
    bench = json.loads((tmp_path / "b.json").read_text())
    assert all(found["error"]["max_rel_error"] < 2e-2 for found in bench["variants"].values())

    again = tmp_path / "again.onnx"  # what was written opens as a model of its own
    done("optimize", output, "-o", again, *chosen, "--passes", "", "--report", report)
    assert not any(step["rewrites"] for step in json.loads(report.read_text())["steps"])
    done("optimize", output, "-o", again, "--passes", "precision_undo")
    back = onnx.load(again).graph
    assert all(value.type.tensor_type.elem_type == 1 for value in (*back.input, *back.output))
    assert not [node for node in back.node if node.op_type == "Cast"]
    assert "need --precision" in refused("optimize", SAMPLE, "-o", again, "--io", "as-computed")


def test_onnx_runtime_takes_an_input_in_bfloat16(kept_worker):
    graph = typed(
        "g (float[4] x) => (float[4] y) { a = Cast<to=16>(x)  b = Identity(a)  c = Cast<to=1>(b)  y = Exp(c) }"
    )
    with Verifier(graph, worker=kept_worker) as verifier:
        history = optimize(graph, ["precision_io"], verifier=verifier)
    assert history.graph.tensor_type("x").dtype == DataType.BFLOAT16 and history[-1].verdict.ok
