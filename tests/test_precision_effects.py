"""What each operator loses in a narrower type, by itself and with all before it, against numpy's numbers."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

import numpy as np
import psutil
import pytest

from tests.commands import OCR, SAMPLES, heeds_ctrl_c
from tests.conftest import ROOT
from tests.running import normal, outputs, typed
from tests.waiting import LIMIT_S
from workbench.errors import UserError
from workbench.formats.io.exporting import export_onnx
from workbench.interfaces import api
from workbench.ir import Constant, Graph, Node
from workbench.planning.precision.element_types import NARROW_TYPES
from workbench.run.inputs import seed_inputs
from workbench.run.partitions import partitions
from workbench.run.precision_effects import Effect, precision_effects

CONVOLUTIONS = SAMPLES / "conv_relu_conv_relu.onnx"
both_types = pytest.mark.parametrize("narrow", NARROW_TYPES)

THREE = """g (float[6] x) => (float[6] y) <float[6] w = {0.1, 3, 1001, 7, 0.3, 1}> {
    a = Mul(x, w)
    b = Add(a, x)
    y = Sub(b, x)
}"""
OVERFLOWS = """g (float[2] x) => (float[2] y) <float[2] small = {0.001, 0.002}, float[2] zeros = {0, 0}> {
    a = Mul(x, x)
    b = Mul(a, zeros)
    y = Mul(a, small)
}"""
CANCELS = """g (float[4] x) => (float[4] y) <float one = {1}, float scale = {0.5}, float little = {0.001}> {
    a = Mul(x, scale)
    b = Add(a, little)
    c = Sub(b, a)
    y = Add(c, one)
}"""


@pytest.fixture
def effects(kept_worker):
    """The effects of a graph, by node."""

    def effects(graph: Graph, narrow: str = "float16", on_progress=None, **inputs: np.ndarray) -> dict[str, Effect]:
        found = precision_effects(graph, narrow, inputs=inputs or None, worker=kept_worker, on_progress=on_progress)
        return {effect.node: effect for effect in found}

    return effects


def rounded(array: np.ndarray, narrow: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        return array.astype(NARROW_TYPES[narrow].numpy()).astype(np.float32)


def relative(right: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(right - other).max()) / float(np.abs(right).max())


@both_types
def test_both_errors_are_those_of_the_same_steps_in_numpy(effects, narrow):
    x, w = normal(6), np.array([0.1, 3, 1001, 7, 0.3, 1], np.float32)
    found = effects(typed(THREE), narrow, x=x)
    a = x * w
    b = a + x
    y = b - x
    r = lambda array: rounded(array, narrow)  # noqa: E731
    narrow_a = r(r(x) * r(w))
    narrow_b = r(narrow_a + r(x))
    alone = [relative(a, narrow_a), relative(b, r(r(a) + r(x))), relative(y, r(r(b) - r(x)))]
    cumulative = [relative(a, narrow_a), relative(b, narrow_b), relative(y, r(narrow_b - r(x)))]
    assert [effect.alone for effect in found.values()] == alone
    assert [effect.cumulative for effect in found.values()] == cumulative
    assert [effect.max_abs for effect in found.values()] == [np.abs(value).max() for value in (a, b, y)]
    assert [(effect.node, effect.op) for effect in found.values()] == [
        ("Mul_a", "Mul"),
        ("Add_b", "Add"),
        ("Sub_y", "Sub"),
    ]
    assert min(alone) > 0 and (narrow == "bfloat16" or alone != cumulative)


def test_an_overflow_has_no_finite_error(effects, run, tmp_path):
    x = np.array([300, 2], np.float32)  # its square is over 65,504, and what is computed of it is not
    found = effects(typed(OVERFLOWS), x=x)
    assert found["Mul_a"].alone == found["Mul_a"].cumulative == math.inf
    assert found["Mul_a"].max_abs == 90_000
    assert math.isnan(found["Mul_b"].alone) and found["Mul_b"].max_abs == 0  # infinity times 0
    assert found["Mul_y"].alone == found["Mul_y"].cumulative == math.inf
    assert all(math.isfinite(effect.alone) for effect in effects(typed(OVERFLOWS), "bfloat16", x=x).values())

    model, inputs = tmp_path / "g.onnx", tmp_path / "x.npz"
    export_onnx(typed(OVERFLOWS), model)
    np.savez(inputs, x=x)
    code, said, _ = run("precision", model, "--inputs", inputs)
    lines = said.splitlines()
    assert code == 0 and lines[0] == "Mul 'Mul_a' by itself: overflows; the output overflows in float16"
    assert [line.split()[0::2] for line in lines[2:]] == [
        ["Mul_a", "overflows", "9e+04"],
        ["Mul_b", "NaN", "0"],
        ["Mul_y", "overflows", "90"],
    ]
    code, said, _ = run("precision", model, "--explain", "--json", "--inputs", inputs)
    assert json.loads(said)[0] == {"node": "Mul_a", "op": "Mul", "alone": None, "cumulative": None, "max_abs": 90_000}


@both_types
def test_a_difference_of_nearly_equal_values_loses_most(effects, narrow):
    found = sorted(effects(typed(CANCELS), narrow, x=normal(4)).values(), key=lambda effect: -effect.alone)
    assert found[0].node == "Sub_c" and found[0].alone > 20 * found[1].alone


def test_infinities_in_float32_are_not_the_fault_of_the_type(effects):
    """Such as those of a mask."""
    text = """g (float[3] x) => (float[3] y) <float[3] mask = {0, -inf, 0}> { a = Add(x, mask)  y = Softmax(a) }"""
    found = effects(typed(text), x=normal(3))
    assert 0 < found["Add_a"].alone < 1e-3 and found["Add_a"].max_abs == np.abs(normal(3)[[0, 2]]).max()
    assert 0 < found["Softmax_y"].cumulative < 1e-2


def test_no_elements_have_no_error(effects):
    found = effects(typed("g (float[0,2] x) => (float[0,2] y) { y = Relu(x) }"), x=np.zeros((0, 2), np.float32))
    assert found["Relu_y"] == Effect("Relu_y", "Relu", 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "text",
    [
        "{ a = Mul(x, x)  n = RandomNormalLike(a)  y = Add(a, n) }",
        "{ a = Sigmoid(x)  n = Bernoulli(a)  y = Add(a, n) }",
        "<float r = {0.5}, bool t = {1}> { a = Mul(x, x)  y = Dropout(a, r, t) }",
    ],
    ids=["RandomNormalLike", "Bernoulli", "Dropout"],
)
def test_both_chains_draw_the_same_numbers(effects, text):
    found = effects(typed(f"g (float[8,64] x) => (float[8,64] y) {text}"))
    last = list(found.values())[-1]
    assert 0 < last.alone < 1e-2 and 0 < last.cumulative < 1e-2


def test_a_body_computes_on_the_values_of_its_chain(effects):
    text = """g (float[6] x, bool c) => (float[6] y) <float[6] w = {0.1, 3, 1001, 7, 0.3, 1}> {
        a = Mul(x, w)
        b = If (c) <then_branch = t () => (float[6] u) { u = Add(a, x) }, else_branch = e () => (float[6] v) { v = Neg(a) }>
        y = Mul(b, w)
    }"""  # fmt: skip
    x, w = normal(6), np.array([0.1, 3, 1001, 7, 0.3, 1], np.float32)
    found = effects(typed(text), x=x, c=np.array(True))
    r = lambda array: rounded(array, "float16")  # noqa: E731
    b = x * w + x
    in_body = r(r(x) * r(w)) + x  # in float32, on the product in float16
    assert list(found) == ["Mul_a", "Mul_y"]
    assert found["Mul_y"].alone == relative(b * w, r(r(b) * r(w)))
    assert found["Mul_y"].cumulative == relative(b * w, r(r(in_body) * r(w)))


def test_integers_that_depend_on_floats_may_differ(effects):
    """The largest of two floats that float16 does not tell apart is the first one."""
    text = """g (float[1,2] x) => (float[1,1] y) <float[2,1] t = {1, 5}> {
        a = Identity(x)
        i = ArgMax<axis = 1, keepdims = 0>(a)
        g = Gather(t, i)
        y = Neg(g)
    }"""
    found = effects(typed(text), x=np.array([[1, 1.0001]], np.float32))
    assert found["Neg_y"].alone == 0 and found["Neg_y"].cumulative == 4 / 5


def test_a_channels_last_convolution_is_measured_too(effects):
    graph = api.optimize(api.load(CONVOLUTIONS), layout="greedy", target="cuda").graph
    found = [effect for effect in effects(graph).values() if effect.op == "workbench.Conv_NHWC"]
    assert len(found) == 2 and all(0 < effect.alone <= effect.cumulative < 1e-2 for effect in found)


@pytest.mark.slow
def test_a_network_is_measured_as_if_each_operator_ran_by_itself(effects):
    """Each in a model of its own, where numpy rounds its operands and results; in parts, which say how far they are."""
    graph = api.load(OCR, {"x_2": 32, "x_3": 64})
    inputs = seed_inputs(graph)
    shares: list[float] = []
    found = effects(graph, on_progress=lambda text, share: shares.append(share), **inputs)
    assert shares == sorted(shares) and 0.5 < shares[-1] < 1
    constants = {name: constant.numpy() for name, constant in graph.constants.items()}
    right, narrow = {**inputs, **constants}, {**inputs, **constants}
    for node in graph.nodes:
        result, effect = node.outputs[0], found.get(node.name)
        right[result] = by_itself(graph, node, right, graph.constants)
        if effect is None:
            narrow[result] = by_itself(graph, node, narrow, graph.constants)
            continue
        alone = float16(by_itself(graph, node, {value: float16(right[value]) for value in node.inputs}))
        narrow[result] = float16(by_itself(graph, node, {value: float16(narrow[value]) for value in node.inputs}))
        assert effect.alone == relative(right[result], alone), node
        assert effect.cumulative == relative(right[result], narrow[result]), node
    assert len(found) > 200


def by_itself(
    graph: Graph, node: Node, values: Mapping[str, np.ndarray], constants: Mapping[str, Constant] | None = None
) -> np.ndarray:
    """The first result of a node on these values, by ONNX Runtime. constants: operands that its model has as such."""
    types = {value: graph.type(value) for value in (*node.inputs, *node.outputs)}
    fixed = {value: constants[value] for value in node.inputs if value in (constants or {})}
    given = [value for value in dict.fromkeys(node.inputs) if value not in fixed]
    of_node = Graph(
        inputs=given,
        outputs=node.outputs[:1],
        nodes=[node],
        constants=fixed,
        types=types,
        opset_imports=graph.opset_imports,
    )
    return outputs(of_node, {value: values[value] for value in given})[node.outputs[0]]


def float16(array: np.ndarray) -> np.ndarray:
    return rounded(array, "float16") if array.dtype == np.float32 else array


@pytest.mark.slow
def test_the_command_prints_a_sentence_a_table_and_json(done, refused, tmp_path):
    dims = ("--dims", "x_2=32,x_3=64")
    listed = json.loads(done("precision", OCR, "--explain", "--json", *dims))
    assert [set(row) for row in listed] == [{"node", "op", "alone", "cumulative", "max_abs"}] * len(listed)
    most = max(listed, key=lambda row: row["alone"])
    lines = done("precision", OCR, *dims).splitlines()
    assert lines[0] == (
        f"{most['op']} '{most['node']}' loses most by itself: {most['alone']:.1e}; "
        f"the output's error is {listed[-1]['cumulative']:.1e} in float16"
    )
    assert lines[2].split() == [
        most["node"],
        most["op"],
        f"{most['alone']:.1e}",
        f"{most['cumulative']:.1e}",
        f"{most['max_abs']:.3g}",
    ]
    assert lines[22] == f"{len(listed) - 20} more operators lose less by themselves; --json prints all"
    bfloat16 = done("precision", OCR, "--type", "bfloat16", *dims).splitlines()[0]
    assert bfloat16.endswith(" in bfloat16") and bfloat16 != lines[0].replace("float16", "bfloat16")

    integers = tmp_path / "integers.onnx"
    export_onnx(typed("whole (int64[2] x) => (int64[2] y) { y = Add(x, x) }"), integers)
    assert "no operator of 'whole' runs in float32 and may run in float16" in refused("precision", integers)


def test_no_operator_in_float32_is_an_error(effects):
    with pytest.raises(UserError, match="no operator of 'g' runs in float32 and may run in float16"):
        effects(typed("g (float16[2] x) => (float16[2] y) { y = Neg(x) }"))
    with pytest.raises(UserError, match="no operator of 'g' runs in float32 and may run in int8"):
        effects(typed("g (float16[2,2] x) => (float16[2,2] y) { a = MatMul(x, x)  y = Relu(a) }"), "int8")


def test_a_sequence_is_an_input_of_a_part(effects):
    found = effects(typed("g (seq(float[2]) s) => (float[4] y) { a = ConcatFromSequence<axis = 0>(s)  y = Neg(a) }"))
    assert found["Neg_y"].max_abs > 0


@pytest.mark.slow
def test_ctrl_c_ends_the_command_with_a_sentence_and_its_process(tmp_path):
    model = tmp_path / "model.onnx"
    products = "\n".join(f"v{n + 1} = MatMul(v{n}, w)" for n in range(60))
    text = f"g (float[1500,1500] v0, float[1500,1500] w) => (float[1500,1500] y) {{ {products}  y = Relu(v60) }}"
    export_onnx(typed(text), model)
    command = [sys.executable, "-m", "workbench", "precision", str(model)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, preexec_fn=heeds_ctrl_c)
    started = psutil.Process(process.pid)
    for _ in range(600):
        workers = started.children(recursive=True)
        if workers and any(worker.cpu_times().user > 5 for worker in workers):
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, said) == (130, "")
    assert errors.splitlines()[-1] == "workbench: stopped" and "Traceback" not in errors
    assert workers and not any(worker.is_running() for worker in workers)


def test_a_part_ends_only_where_numpy_has_the_values():
    text = """g (float[4] x) => (float[4] y) <int64[1] four = {4}, int64 first = {0}> {
        a = Neg(x)
        s = SplitToSequence<axis = 0>(a, four)
        e = SequenceAt(s, first)
        b = Cast<to = 16>(e)
        c = Cast<to = 1>(b)
        y = Add(a, c)
    }"""
    parts = list(partitions(typed(text), 1))
    operators = [[node.op for node in part.graph.nodes] for part in parts]
    assert operators == [["Neg"], ["SplitToSequence", "SequenceAt"], ["Cast", "Cast"], ["Add"]], (
        "no sequence, no bfloat16"
    )
    assert [part.graph.inputs for part in parts] == [("x",), ("a",), ("e",), ("a", "c")]
    assert [part.graph.outputs for part in parts] == [("a",), ("e",), ("c",), ("y",)]
    assert [set(part.spent) for part in parts] == [{"x"}, set(), {"e"}, {"a", "c"}]
