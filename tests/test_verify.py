"""Verdicts: equal or not, by how much, and which rewrite broke it."""

from __future__ import annotations

import gc
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.conftest import CORPUS, ROOT
from tests.running import typed
from workbench.analysis.metrics import measurements_of
from workbench.evidence.verification.files import MismatchError, verify_files
from workbench.evidence.verification.steps import bisect, verify_step
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.interfaces import api
from workbench.interfaces.cli.exit_codes import UNVERIFIED
from workbench.ir import Edit, Graph, constant, from_text
from workbench.rewrite.core.history import History, Step
from workbench.rewrite.core.rule import AppliedRewrite
from workbench.run.compare import compare
from workbench.run.input_kinds import INPUT_KINDS
from workbench.run.tolerances import BFLOAT16, FLOAT16, FLOAT32, INT8, tolerance_for, tolerances_for

X = np.array([[1.0, -2.0], [3.0, 4.0]], np.float32)


@pytest.fixture
def worker(shared_worker):
    return shared_worker


# ---- comparing ----------------------------------------------------------------------


def verdict_on(a, b, tolerance=FLOAT32):
    return compare({"y": np.asarray(a)}, {"y": np.asarray(b)}, tolerance)


def test_the_same_bits():
    found = verdict_on(X, X.copy())
    assert (found.ok, found.bit_equal, found.max_abs_error, found.max_rel_error) == (True, True, 0.0, 0.0)
    assert found.sentence == "Equal to the last bit: 1 output."


def test_errors_are_relative_to_the_largest_value_of_the_output():
    found = verdict_on(X, X + np.float32(2e-4))
    assert found.ok
    assert not found.bit_equal
    assert found.max_rel_error == pytest.approx(found.max_abs_error / 4)
    wrong = verdict_on(X, X + np.float32(1e-2))
    assert not wrong.ok
    assert wrong.sentence.startswith(
        "Output 'y' differs: relative error 0.0025, absolute 0.01 (allowed: relative 0.0001"
    )


def test_small_values_pass_by_the_absolute_error_and_the_sentence_says_how_little_that_is():
    found = verdict_on(X * np.float32(1e-8), X * np.float32(2e-8))
    assert found.ok
    assert "proves little for output 'y': every value of it is below 1e-06" in found.sentence


def test_negative_zero_is_equal_but_not_in_its_bits():
    found = verdict_on(np.array([0.0, 1.0], np.float32), np.array([-0.0, 1.0], np.float32))
    assert found.ok
    assert not found.bit_equal
    assert found.max_abs_error == 0.0


@pytest.mark.parametrize(
    ("a", "b", "ok"),
    [
        ([np.nan, 1.0], [np.nan, 1.0], True),
        ([np.nan, 1.0], [1.0, np.nan], False),
        ([1.0, 1.0], [np.nan, 1.0], False),
        ([np.inf, 1.0], [np.inf, 1.0000001], True),
        ([np.inf, 1.0], [-np.inf, 1.0], False),
        ([np.inf, 1.0], [1e30, 1.0], False),
        ([1.0, 2.0], [np.inf, 2.0], False),
    ],
)
def test_nan_and_infinities_stand_at_the_same_places(a, b, ok):
    found = verdict_on(np.array(a, np.float32), np.array(b, np.float32))
    assert found.ok is ok
    assert found.max_abs_error is None or np.isfinite(found.max_abs_error)


@pytest.mark.parametrize(
    ("b", "words"),
    [
        (X[0], r"shape [2] where [2, 2] is right"),
        (X[None], r"shape [1, 2, 2] where [2, 2] is right"),
        (X.astype(np.float64), "float64 where float32 is right"),
        (X.astype(np.int64), "int64 where float32 is right"),
    ],
)
def test_shapes_and_element_types_must_be_equal(b, words):
    found = verdict_on(X, b)
    assert not found.ok
    assert words in found.sentence
    assert found.max_abs_error is None


def test_integers_bools_and_strings_must_be_equal():
    assert not verdict_on(np.array([10**6, 5]), np.array([10**6 + 1, 5])).ok
    assert "1 of 2 int64 values differ" in verdict_on(np.array([10**6, 5]), np.array([10**6 + 1, 5])).sentence
    assert not verdict_on(np.array([True, False]), np.array([True, True]), INT8).ok
    assert not verdict_on(np.array([100, 5]), np.array([101, 5]), INT8).ok
    assert not verdict_on(np.array(["a", "b"]), np.array(["a", "c"])).ok
    assert verdict_on(np.array(["a", "b"]), np.array(["a", "b"], dtype=object)).ok


def test_8_bit_outputs_of_an_8_bit_model_may_round_the_other_way():
    a, b = np.array([200, 5], np.uint8), np.array([199, 5], np.uint8)
    assert verdict_on(a, b, INT8).ok
    assert not verdict_on(a, b, FLOAT32).ok


def test_an_output_that_only_one_has():
    found = compare({"y": X, "z": X}, {"y": X})
    assert not found.ok
    assert "'z' differs: only one of the two has it" in found.sentence


def test_an_output_of_one_value_proves_little():
    ones = np.ones((3, 4), np.float32)
    assert "proves little for output 'y': every one of its 12 values is 1.0" in verdict_on(ones, ones).sentence
    assert "it is empty" in verdict_on(ones[:0], ones[:0]).sentence
    assert "little" not in verdict_on(np.float32(3), np.float32(3)).sentence


def test_the_tolerance_follows_operators_and_types():
    assert tolerance_for(from_text("g (float[2] x) => (float[2] y) { y = Relu(x) }")) == FLOAT32
    assert tolerance_for(from_text("g (float16[2] x) => (float16[2] y) { y = Relu(x) }")) == FLOAT16
    assert tolerance_for(from_text("g (bfloat16[2] x) => (bfloat16[2] y) { y = Relu(x) }")) == BFLOAT16
    quantized = from_text("g (float[2] x) => (uint8[2] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }")
    assert tolerance_for(quantized) == INT8


TWO_OUTPUTS = """g (float[N,4] x, float[N,4] z) => (float[N,4] y, float[N,3] q)
    <float k = {FACTOR}, int8[4,3] w = {6,2,0,-5,-4,-9,-8,-9,-6,5,2,7}> {
    y = Mul(z, k)
    a, s, zp = DynamicQuantizeLinear(x)
    i = MatMulInteger(a, w, zp)
    c = Cast<to = 1>(i)
    q = Mul(c, s)
}"""


def test_each_output_has_the_tolerance_of_what_it_depends_on():
    """An output that no 8-bit operator reaches is not judged as one that is behind them."""
    right, wrong = (from_text(TWO_OUTPUTS.replace("FACTOR", factor)) for factor in ("1", "1.06"))
    assert {value: tolerances_for(right)[value] for value in right.outputs} == {"y": FLOAT32, "q": INT8}
    with Verifier(right) as verifier:
        verdict = verifier.check(wrong)
        assert verdict.ok is False
        assert "Output 'y' differs" in verdict.sentence and "for float32" in verdict.sentence
    rounded = compare({"y": np.float32([1]), "q": np.float32([1])}, {"y": np.float32([1.00001]), "q": np.float32([1.05])},
                      tolerances_for(right))  # fmt: skip
    assert rounded.ok
    assert "'y' relative error 1e-05" in rounded.sentence and "'q' relative error 0.05" in rounded.sentence


@pytest.mark.parametrize(
    "text",
    [
        """g (float[2] x, float[2] z, bool c) => (float[2] y, float[2] q) {
            y = Relu(z)
            q = If(c) <then_branch = t () => (float[2] a) { h = Cast<to=10>(x)  a = Cast<to=1>(h) },
                       else_branch = e () => (float[2] b) { b = Neg(x) }>
        }""",
        "g (float[2] x, float[2] z) => (float[2] y, float[2] q) { y = Relu(z)  h = Cast<to=10>(x)  q = Cast<to=1>(h) }",
    ],
)
def test_half_precision_inside_of_the_way_to_one_output_loosens_that_one_only(text):
    found = tolerances_for(typed(text))
    assert (found["y"], found["q"]) == (FLOAT32, FLOAT16)


# ---- verifying --------------------------------------------------------------------------

CHAIN = "g (float[N,4] x) => (float[N,4] y) { a = Relu(x)\n b = Mul(a, a)\n c = Sin(b)\n d = Add(c, x)\n y = Tanh(d) }"


def changed(graph: Graph, node: str, **changes) -> Graph:
    """A copy with one node changed."""
    copy = graph.copy()
    copy.apply(Edit(remove=(node,), insert=(graph.node(node).replace(**changes),)))
    return copy


def node_making(graph: Graph, value: str) -> str:
    producer = graph.producer(value)
    assert producer is not None
    return producer.name


def test_a_right_graph_and_a_wrong_one(worker):
    graph = from_text(CHAIN)
    verifier = Verifier(graph, worker=worker)
    same = verifier.check(graph)
    assert (same.ok, same.bit_equal, same.max_abs_error) == (True, True, 0.0)
    wrong = verifier.check(changed(graph, node_making(graph, "c"), op_type="Cos"))
    assert wrong.ok is False
    assert wrong.max_rel_error > 1e-2
    assert "Output 'y' differs" in wrong.sentence
    assert verifier.dims == {"N": 1}
    assert verifier.settled == {}
    assert not list(worker.folder.glob("export-*/../*.npz"))


def test_own_inputs_are_what_both_sides_get(worker):
    graph = from_text(CHAIN)
    zeros = Verifier(graph, {"x": np.zeros((7, 4), np.float32)}, worker=worker)
    assert "proves little" in zeros.check(graph).sentence
    assert zeros.dims == {"N": 7}
    assert zeros.reference["y"].shape == (7, 4)


def test_a_graph_that_does_not_load_or_run_is_wrong(worker):
    graph = from_text(CHAIN)
    verifier = Verifier(graph, worker=worker)
    bad_load = verifier.check(changed(graph, node_making(graph, "b"), op_type="Concat"))
    assert bad_load.ok is False
    assert bad_load.sentence.startswith("The original runs, and this graph does not: ")
    squeezed = graph.copy()
    name = node_making(graph, "b")
    squeezed.apply(
        Edit(
            remove=(name,),
            insert=(graph.node(name).replace(op_type="Reshape", inputs=("a", "to")),),
            constants={"to": constant(np.array([3, 5]))},
        )
    )
    assert verifier.check(squeezed).ok is False


def test_what_only_onnx_s_own_evaluator_runs_and_fails_at_gives_no_verdict(worker):
    """It has no DequantizeLinear of opset 17, and ONNX Runtime no MatMul in bfloat16."""
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[2,2] x) => (float[2,2] y) <float s = {0.5}, int8 z = {0}> {
        q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)  CASTS }"""
    original = from_text(text.replace("CASTS", "y = MatMul(a, a)"))
    graph = from_text(text.replace("CASTS", "b = Cast<to = 16>(a)  c = MatMul(b, b)  y = Cast<to = 1>(c)"))
    found = Verifier(original, worker=worker).check(graph, narrowed=True)
    assert found.ok is None
    assert "The run failed in onnx.reference, since ONNX Runtime has no kernel for this MatMul: " in found.sentence


def test_an_original_that_can_not_run_gives_no_verdict(worker):
    graph = from_text("g (float[3] x) => (float[1] y) <int64[1] seven = {7}> { y = Gather(x, seven) }")
    found = Verifier(graph, worker=worker).check(graph)
    assert found.ok is None
    assert found.sentence.startswith("It cannot be verified, because the original does not run: ")
    assert "Gather" in found.sentence and "\n" not in found.sentence


def test_what_does_not_fit_the_machine_gives_no_verdict(worker):
    graph = from_text("g (float[N] x) => (float[N] y) { y = Relu(x) }")
    graph.dims = {"N": 10**14}
    found = Verifier(graph, worker=worker).check(graph)
    assert found.ok is None
    assert "400000.0 GB" in found.sentence


def test_dims_are_settled_but_not_the_users(worker):
    text = "g (float[B,T] x) => (float[C,512] y) <int64[2] to = {-1, 512}> { y = Reshape(x, to) }"
    graph = from_text(text)
    verifier = Verifier(graph, worker=worker)
    assert verifier.check(graph).ok is True
    assert verifier.settled == {"T": 512}
    assert verifier.inputs["x"].shape == (1, 512)
    graph.dims = {"B": 1, "T": 100}
    assert Verifier(graph, worker=worker, given={"B", "T"}).check(graph).ok is None


def steps_of(graph: Graph, count: int, wrong: int) -> list[Graph]:
    """Graphs after 0..count rewrites, each of which puts an Identity behind a node; the one of number `wrong` a Neg."""
    graphs = [graph.copy()]
    for number in range(1, count + 1):
        new = graphs[-1].copy()
        new.apply(_one_more(new, number, "Neg" if number == wrong else "Identity"))
        graphs.append(new)
    return graphs


def _one_more(graph: Graph, number: int, op: str) -> Edit:
    from workbench.ir import Node

    last = graph.node(node_making(graph, "y"))
    return Edit(
        remove=(last.name,),
        insert=(
            Node(op, (last.inputs[0],), (f"v{number}",), name=f"n{number}"),
            last.replace(inputs=(f"v{number}",)),
        ),
    )


@pytest.mark.parametrize(("count", "wrong"), [(1, 1), (7, 1), (7, 4), (7, 7)])
def test_bisect_names_the_first_wrong_rewrite(worker, count, wrong):
    graph = from_text(CHAIN)
    graphs = steps_of(graph, count, wrong)
    verifier = Verifier(graph, worker=worker)
    assert verifier.check(graphs[-1]).ok is False
    assert bisect(lambda k: verifier.check(graphs[k]).ok is False, count) == wrong


def test_bisect_says_when_it_was_wrong_before(worker):
    graph = from_text(CHAIN)
    broken = changed(graph, node_making(graph, "c"), op_type="Cos")
    verifier = Verifier(graph, worker=worker)
    assert bisect(lambda k: verifier.check(broken).ok is False, 3) == 0


def history_of(graph: Graph, wrong: int) -> History:
    """One step of three rewrites, the one of number `wrong` wrong."""
    measured, current, rewrites = measurements_of(graph), graph.copy(), []
    for number in range(1, 4):
        edit = _one_more(current, number, "Neg" if number == wrong else "Identity")
        inverse = current.apply(edit)
        rewrites.append(AppliedRewrite("rule", f"rewrite {number}", "", (), edit, inverse, 0.0))
    first = Step("as loaded", "As loaded", {}, (), measured, measured, 0.0)
    return History(graph.copy(), current, "cuda", [first, Step("p", "P", {}, tuple(rewrites), measured, measured, 0.0)])


def test_a_step_gets_its_verdict_and_the_rewrite_that_broke_it(worker):
    graph = from_text(CHAIN)
    verifier = Verifier(graph, worker=worker)
    good, bad = history_of(graph, wrong=0), history_of(graph, wrong=2)
    verify_step(verifier, good)
    verify_step(verifier, bad)
    assert good[1].verdict.ok is True
    assert good[1].broken_by is None
    assert bad[1].verdict.ok is False
    assert bad[1].rewrites[bad[1].broken_by].sentence == "rewrite 2"
    idle = Step("q", "Q", {}, (), bad[1].after, bad[1].after, 0.0)
    bad.steps.append(idle)
    verify_step(verifier, bad)
    assert idle.verdict is bad[1].verdict


# ---- two files ------------------------------------------------------------------------------


def saved(text: str, path: Path) -> Graph:
    onnx.save(onnx.parser.parse_model(text), path)
    return load_model(path)


def test_two_files(tmp_path):
    head = '<ir_version: 8, opset_import: ["": 17]> '
    relu = saved(head + "g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }", tmp_path / "a.onnx")
    longer = saved(
        head + "g (float[N,3] x) => (float[N,3] y) { z = Neg(x)\n w = Neg(z)\n y = Relu(w) }", tmp_path / "b.onnx"
    )
    other = saved(head + "g (float[N,3] x) => (float[N,3] y) { y = Sigmoid(x) }", tmp_path / "c.onnx")
    assert verify_files(relu, longer).ok is True
    assert verify_files(relu, other).ok is False
    renamed = saved(head + "g (float[N,3] q) => (float[N,3] y) { y = Relu(q) }", tmp_path / "d.onnx")
    with pytest.raises(MismatchError, match="Only the first model has an input 'x'"):
        verify_files(relu, renamed)
    more = saved(
        head + "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { y = Relu(x)\n z = Neg(x) }", tmp_path / "e.onnx"
    )
    with pytest.raises(MismatchError, match="Only the second model has an output 'z'"):
        verify_files(relu, more)
    double = saved(head + "g (double[N,3] x) => (double[N,3] y) { y = Relu(x) }", tmp_path / "f.onnx")
    with pytest.raises(MismatchError, match="'x' is float in the first model and double in the second"):
        verify_files(relu, double)


@pytest.mark.slow
def test_a_file_in_narrower_types_has_their_tolerance(tmp_path):
    head = '<ir_version: 8, opset_import: ["": 17]> g (float[4,3] x) => (float[4,3] y) '
    wide = saved(head + "{ y = Relu(x) }", tmp_path / "wide.onnx")
    half = saved(head + "{ r = Relu(x)  h = Cast<to = 10>(r)  y = Cast<to = 1>(h) }", tmp_path / "half.onnx")
    for verdict in (verify_files(wide, half), verify_files(half, wide), api.verify(wide, half)):
        assert verdict.ok and verdict.max_rel_error > 1e-4 and not verdict.is_close
        assert "allowed: relative 0.02 or absolute 0.001, for float16" in verdict.sentence
    integers = "{ r = Relu(x)  i = QuantizeLinear(r, scale, zero)  y = DequantizeLinear(i, scale, zero) }"
    coarse = saved(head + "<float scale = {0.02}, uint8 zero = {0}> " + integers, tmp_path / "int8.onnx")
    assert verify_files(wide, coarse).is_close
    wrong = saved(head + "{ r = Sigmoid(x)  h = Cast<to = 10>(r)  y = Cast<to = 1>(h) }", tmp_path / "wrong.onnx")
    assert verify_files(wide, wrong).ok is False


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("silero_vad.onnx", {"input_1": 512, "state_1": 1}),
        ("ppocrv4_rec.onnx", {"x_2": 48}),
        ("ppocr_cls_v2.onnx", {}),
        ("magika_v3_3.onnx", {}),
    ],
)
def test_real_models_as_loaded_equal_their_files(worker, name, dims):
    if not (CORPUS / name).exists():
        pytest.skip(f"NOT TESTED: {name} is not in the corpus beside the repository")
    graph = load_model(CORPUS / name)
    verifier = Verifier(graph, worker=worker)
    found = verifier.check(graph)
    assert found.ok is True, found.sentence
    assert "proves little" not in found.sentence
    assert dims.items() <= verifier.dims.items()
    assert verifier.settled.items() <= dims.items()


# ---- inputs and sizes ------------------------------------------------------------------


def test_as_many_inputs_are_compared_as_are_asked_for(worker):
    graph = typed("g (float[2,6] x) => (float[2,6] y) { y = Relu(x) }")
    for runs in (1, 2, 12):
        verdict = Verifier(graph, worker=worker, runs=runs).check(graph.copy())
        assert f"Compared on {runs} input{'s' * (runs > 1)}." in verdict.sentence


def test_a_fault_that_only_a_later_input_of_the_user_shows_is_found(worker):
    graph, other = (typed(f"g (float[3] x) => (float[3] y) {{ {way} }}") for way in ("y = Relu(x)", "y = Abs(x)"))
    positive, negative = {"x": np.array([1, 2, 3], np.float32)}, {"x": np.array([1, -2, 3], np.float32)}
    assert Verifier(graph, positive, worker=worker).check(other).ok
    verdict = Verifier(graph, [positive, negative], worker=worker).check(other)
    assert verdict.ok is False and "in place of 0 at [1], input 2" in verdict.sentence


def test_an_input_that_overflows_only_if_it_is_large_is_left_out(worker):
    """exp of hundreds is infinite on both sides, which compares nothing."""
    graph = typed("g (float[64] x) => (float[64] y) { e = Exp(x)  y = Exp(e) }")
    verdict = Verifier(graph, worker=worker, runs=len(INPUT_KINDS)).check(graph.copy())
    compared = re.search(r"Compared on (\d+) inputs;", verdict.sentence)
    assert verdict.ok and "proves little" not in verdict.sentence and 2 <= int(compared[1]) < len(INPUT_KINDS)


def test_what_an_original_recorded_takes_no_room_once_nobody_compares_with_it(worker):
    """An app that stays open compares with one model after another, and each records up to a gigabyte."""
    graph = typed("g (float[64,512] x) => (float[64,512] y) { e = Sin(x)  y = Relu(e) }")

    def files() -> set[Path]:
        return {path for path in worker.folder.rglob("*") if path.is_file() and path.suffix != ".log"}

    before = files()
    verifier = Verifier(graph, worker=worker)
    gc.disable()  # no collection is waited for
    try:
        assert verifier.check(graph.copy()).ok and files() > before
        del verifier
        assert files() == before
    finally:
        gc.enable()


def test_a_disk_without_room_is_said(tmp_path):
    """A limit on the size of a file is refused as a full disk is."""
    model = tmp_path / "model.onnx"
    api.export(typed("g (float[64,512] x) => (float[64,512] y) { y = Sin(x) }"), model)
    command = shlex.join([sys.executable, "-m", "workbench", "verify", f"{model}", f"{model}"])
    done = subprocess.run(["bash", "-c", f"ulimit -f 8; {command}"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == UNVERIFIED and "Traceback" not in done.stderr
    assert "cannot write to" in done.stdout and "free some room there, or set TMPDIR" in done.stdout


SLOW = """g (float[1,T] x) => (float[1,T] y) <int64 four = {4}> {
    t = Shape<start = 1>(x)
    n = Mul(t, t)  m = Mul(n, n)  k = Mul(m, four)  c = Squeeze(k)
    go = Constant<value = bool {1}>()
    y = Loop<body = b (int64 i, bool go_on, float[1,T] before) => (bool more, float[1,T] after) {
        more = Identity(go_on)
        after = Cos(before)
    }>(c, go, x)
}"""


@pytest.mark.slow
def test_sizes_shrink_with_which_a_run_takes_long_unless_they_are_given(worker, monkeypatch):
    """Four million turns with the usual size, and 16 thousand with a quarter of it."""
    graph = typed(SLOW)
    with Verifier(graph, worker=worker, given=["T"]) as verifier:
        start = time.monotonic()
        assert verifier.inputs["x"].shape == (1, 32)
        seconds = time.monotonic() - start
    monkeypatch.setattr("workbench.evidence.verification.original_runs.FIRST_LIMIT_S", seconds / 2)
    with Verifier(graph, worker=worker) as verifier:
        verdict = verifier.check(graph.copy())
        size = verifier.settled["T"]  # 8, or less if the machine is busy
        assert verdict.ok and size <= 8 and f" with T = {size}; " in verdict.sentence
    with Verifier(graph, worker=worker, patient=True) as verifier:
        assert verifier.inputs["x"].shape == (1, 32)


def test_no_number_of_the_original_counts_after_a_rewrite_for_the_mode_fast(worker):
    """log(a) + log(b) is NaN for two negative numbers, and log(a * b) is not."""
    before = typed("g (float[3,40] a, float[3,40] b) => (float[3,40] y) { n = Log(a)  m = Log(b)  y = Add(n, m) }")
    after = typed("g (float[3,40] a, float[3,40] b) => (float[3,40] y) { p = Mul(a, b)  y = Log(p) }")
    wrong = typed("g (float[3,40] a, float[3,40] b) => (float[3,40] y) { p = Div(a, b)  y = Log(p) }")
    with Verifier(before, worker=worker) as verifier:
        assert verifier.check(after).ok is False
        verdict = verifier.check(after, numbers_only=True)
        assert verdict.ok and "elements did not count, being infinite or NaN in the original." in verdict.sentence
        assert verifier.check(wrong, numbers_only=True).ok is False
        history = api.optimize(before, mode="fast", verifier=verifier)
    assert history[-1].verdict.ok and len(history.graph) == 2
