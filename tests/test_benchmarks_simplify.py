"""The benchmark of simplifiers counts right, makes what it says, and our own row says what it did; no network."""

import sys

import onnx
import pytest
from onnx import numpy_helper

from benchmarks.shared.bert import bert_of, write_large
from benchmarks.shared.processes import Ran
from benchmarks.simplify import Result, Row, Run, nodes_of, ours, relative_error_text, row, run_of, tables


def test_nodes_of_bodies_and_functions_without_constants():
    """The If, a Relu in one branch, a Neg in the other, the function's call and its Abs; three Constants."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 21, "own": 1]>
        g (bool b, float[2] x) => (float[2] z) {
            one = Constant<value = float {1.0}>()
            y = If (b) <
                then_branch = yes () => (float[2] p) { two = Constant<value = float {2.0}>()  p = Relu(x) },
                else_branch = no () => (float[2] q) { q = Neg(x) }
            >
            z = own.size(y)
        }
        <domain: "own", opset_import: ["": 21]>
        size (x) => (y) {
            three = Constant<value = float {3.0}>()
            y = Abs(x)
        }""")
    assert nodes_of(model) == 5


@pytest.mark.parametrize("nodes", [300, 1_100])
def test_bert_is_of_the_asked_size(nodes):
    model = bert_of(nodes)
    onnx.checker.check_model(model, full_check=True)
    assert abs(nodes_of(model) - nodes) < 40  # half a layer


def test_large_model_reads_its_weights(tmp_path):
    write_large(tmp_path / "large.onnx", layers=2, width=8)
    onnx.checker.check_model(tmp_path / "large.onnx", full_check=True)
    weights = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "large.onnx").graph.initializer}
    drawn = [weights[f"layer.{layer}.weight"] for layer in (0, 1)]
    assert all(0.1 < weight.std() < 1 for weight in drawn)
    assert (drawn[0] != drawn[1]).all()


@pytest.mark.slow
def test_our_row(tmp_path):
    model = bert_of(100)
    onnx.save(model, tmp_path / "small.onnx")
    found = row(tmp_path / "small.onnx", {"ours": ours}, repeat=1)
    ran = found.results["ours"]
    assert ran.right
    assert 0 < ran.nodes < found.nodes == nodes_of(model)
    assert ran.runs[0].ran.peak > 20_000_000
    assert tables([found])[0].rows == (("small", f"{found.nodes}", f"**{ran.nodes}**"),)


def test_a_failure_is_a_cell(tmp_path):
    out = tmp_path / "out.onnx"
    assert (
        run_of([sys.executable, "-c", "raise ValueError('no | such graph')"], out).failure
        == "ValueError: no / such graph"
    )
    assert run_of([sys.executable, "-c", "import os; os.abort()"], out).failure == "dies of SIGABRT"
    assert run_of([sys.executable, "-c", ""], out).failure == "writes no file"
    runs = [Run(Ran(1.0, 1.0, 2_000_000, -6, ""), "dies of SIGABRT")]
    found = tables([Row("m", 3_000_000, 9, {"theirs": Result(runs, None, "dies of SIGABRT", False)})])
    assert [one.rows for one in found] == [
        (("m", "9", "fails"),),
        (("m", "9", "fails"),),
        (("m", "3.0", "2"),),
        (("m", "9", "dies of SIGABRT"),),
    ]


@pytest.mark.parametrize(
    ("ok", "error", "sentence", "words"),
    [
        (True, 0.0, "Equal to the last bit: 1 output.", "0"),
        (True, 3e-7, "Equal: 1 output.", "3.0e-07"),
        (True, 3e-6, "Equal: 1 output.", "**3.0e-06**"),
        (True, 0.0, "Equal. This proves little for output 'y': it is empty.", "0, proves little"),
        (
            False,
            0.5,
            "Output 'y' differs: relative error 0.5 (allowed: 1e-4).",
            "Output 'y' differs: relative error 0.5",
        ),
        (None, None, "It cannot be verified.", "It cannot be verified."),
        (
            False,
            None,
            "This graph does not: Load model from /tmp/a failed:This is an invalid model.",
            "This is an invalid model.",
        ),
    ],
)
def test_error_words(ok, error, sentence, words):
    assert relative_error_text({"ok": ok, "error": error, "sentence": sentence}) == words
