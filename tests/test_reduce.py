"""The smallest part of a model that still shows a fault: deliberately wrong optimizers, hostile commands and files."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import workbench as wb
from tests.commands import OCR, RESNET, SPEECH
from tests.conftest import CORPUS
from tests.faults import FAULTS, each, order_of
from tests.faulty_models import check_of, differs, faulty, outputs_of
from workbench.evidence.reduction.recorded import recorded_whole
from workbench.evidence.reduction.recording import Recording
from workbench.evidence.reduction.reduce import Reduction
from workbench.evidence.reduction.regions import Whole
from workbench.formats.io.checks import every_node
from workbench.formats.io.proto_file import open_proto

QUICK = (0, 2)  # of the faults
MOST = 5  # nodes that may be left


def model_of(text, opset=17):
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')


@pytest.fixture
def reduced(tmp_path, shared_worker):
    """The smallest candidate of a model, and the reduction; on these inputs, else seeded ones."""

    def reduced(model, check, inputs=None):
        path = tmp_path / "whole.onnx"
        onnx.save(model, path)
        values = tmp_path / "values"
        values.mkdir()
        if inputs is None:
            whole = recorded_whole(str(path), {}, None, 0, shared_worker, values).whole
        else:
            file = open_proto(path)
            whole = Whole(file, Recording(file, inputs, shared_worker, values))
        reduction = Reduction(whole, check, shared_worker, values)
        return reduction.run(), reduction

    return reduced


def operators(model):
    return [node.op_type for node in every_node(model)]


def operators_in(node):
    return [inner.op_type for attribute in node.attribute for inner in attribute.g.node]


def has(*ops):
    """A check for operators that read each other's results."""

    def check(candidate):
        made = {value: node for node in every_node(candidate.model) for value in node.output}
        return any(_ends(node, ops, made) for node in every_node(candidate.model))

    return check


def _ends(node, ops, made):
    if node.op_type != ops[-1]:
        return False
    return len(ops) == 1 or any(_ends(made[value], ops[:-1], made) for value in node.input if value in made)


# ---- faults --------------------------------------------------------------------------------


def with_marks(index, fault):
    return pytest.param(index, id=fault.name, marks=[] if index in QUICK else pytest.mark.slow)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("index", [with_marks(index, fault) for index, fault in enumerate(FAULTS)])
def test_a_fault_is_cut_down(reduced, index):
    fault = FAULTS[index]
    _, model, inputs = faulty(fault, index)
    small, reduction = reduced(model, check_of(fault.wrong), inputs)
    assert reduction.nodes_before > 100 and small.nodes <= MOST
    onnx.checker.check_model(small.complete)
    assert differs(small.complete, fault.wrong, small.inputs)
    assert [entry.version for entry in small.model.opset_import] == [entry.version for entry in model.opset_import]


@pytest.mark.slow
@pytest.mark.parametrize(
    "ops",
    [
        ("Conv", "BatchNormalization"),
        pytest.param(("Add", "Clip", "Mul"), marks=pytest.mark.slow),
        pytest.param(("Add", "HardSigmoid"), marks=pytest.mark.slow),
    ],
    ids="-".join,
)
def test_a_pattern_is_cut_down(reduced, ops):
    """Of operators on which a tool gives up; none of them can be an input."""
    small, reduction = reduced(onnx.load(OCR), has(*ops))
    assert operators(small.model) == list(ops), reduction.checked


def test_two_nodes_far_apart_stay(reduced):
    """What lies between them goes, though each half without the other shows nothing."""
    small, _ = reduced(onnx.load(RESNET), lambda c: {"MaxPool", "Softmax"} <= set(operators(c.model)))
    assert sorted(operators(small.model)) == ["MaxPool", "Softmax"]


def test_nodes_between_two_that_must_be_connected_are_bypassed(reduced):
    text = """g (float[4] x) => (float[4] y) {
        a = Relu(x) b = Sigmoid(a) c = Abs(b) d = Exp(c) e = Neg(d) y = Tanh(e)
    }"""

    def check(candidate):
        reached = set()
        for node in candidate.model.graph.node:
            if node.op_type == "Sigmoid" or reached & set(node.input):
                reached.update(node.output)
                if node.op_type == "Neg":
                    return True
        return False

    small, _ = reduced(model_of(text), check)
    assert operators(small.model) == ["Sigmoid", "Neg"]


def test_a_value_stays_a_constant_if_the_fault_needs_one(reduced):
    text = """g (float[2,6] x) => (float[A,B] y) {
        s = Shape(x) n = ReduceProd(s) m = Constant<value_ints=[3]>() k = Div(n, m) t = Concat<axis=0>(m, k)
        r = Relu(x) z = Reshape(r, t) y = Neg(z)
    }"""

    def check(candidate):
        constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in candidate.model.graph.initializer}
        nodes = (
            node for node in candidate.model.graph.node if node.op_type == "Reshape" and node.input[1] in constants
        )
        return any(constants[node.input[1]].tolist() == [3, 4] for node in nodes)

    small, _ = reduced(model_of(text), lambda c: operators(c.model) == operators(model_of(text)) or check(c))
    assert operators(small.model) == ["Reshape"] and len(small.model.graph.input) == 1


def test_each_model_is_asked_once_and_in_the_same_order(tmp_path, reduced, shared_worker):
    asked = []

    def check(candidate):
        asked.append(candidate.complete.SerializeToString(deterministic=True))
        return has("Sum", "Relu")(candidate)

    _, first = reduced(onnx.load(RESNET), check)
    assert len(set(asked)) == len(asked) == first.checked
    before, asked[:] = list(asked), []
    values = tmp_path / "again"
    values.mkdir()
    Reduction(recorded_whole(str(RESNET), {}, None, 0, shared_worker, values).whole, check, shared_worker, values).run()
    assert asked == before


# ---- what a model may hold -----------------------------------------------------------------

LOOP = """g (float[4] x, float[4] w, int64 n) => (float[4] y) {
    a = Relu(x) go = Constant<value=bool {1}>()
    l = Loop(n, go, a) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t) {
        d = Identity(c) e = Exp(s) f = Sub(e, w) t = Tanh(f)
    }>
    y = Neg(l)
}"""
BRANCH = """g (float[4] x, float[4] w, bool c) => (float[4] y) {
    a = Relu(x)
    i = If(c) <then_branch = t () => (float[4] p) { q = Exp(a) r = Sub(q, w) p = Tanh(r) },
               else_branch = e () => (float[4] z) { z = Sub(a, w) }>
    y = Neg(i)
}"""
SCAN = """g (float[4] x, float[3,4] w) => (float[4] y) {
    a = Relu(x)
    l, o = Scan(a, w) <num_scan_inputs = 1, body = b (float[4] s, float[4] v) => (float[4] t, float[4] u) {
        e = Exp(s) f = Sub(e, v) t = Tanh(f) u = Identity(t)
    }>
    y = Neg(l)
}"""


@pytest.mark.parametrize("text", [LOOP, BRANCH, SCAN], ids=["Loop", "If", "Scan"])
def test_a_body_is_opened(reduced, text):
    """Its captured values come along, with the numbers of the run."""
    small, _ = reduced(model_of(text), check_of(each("Sub", order_of(1, 0))))
    assert operators(small.model) == ["Sub"] and differs(small.complete, each("Sub", order_of(1, 0)), small.inputs)


@pytest.mark.parametrize(("text", "op"), [(LOOP, "Loop"), (BRANCH, "If"), (SCAN, "Scan")], ids=["Loop", "If", "Scan"])
def test_a_body_is_cut_down_where_its_operator_stays(reduced, text, op):
    def check(candidate):
        return any(node.op_type == op and "Sub" in operators_in(node) for node in candidate.model.graph.node)

    small, reduction = reduced(model_of(text), check)
    assert [node.op_type for node in small.model.graph.node] == [op]
    assert small.nodes <= 3 < reduction.nodes_before - 3
    onnx.checker.check_model(small.complete)
    assert outputs_of(small.complete, small.inputs)


FUNCTIONS = """<ir_version: 8, opset_import: ["": 17, "own": 1]>
g (float[4] x) => (float[4] y) { a = own.outer(x) b = own.outer(a) y = own.unused(b) }
<domain: "own", opset_import: ["": 17, "own": 1]>
outer (p) => (q) { r = Relu(p) s = own.inner(r) q = Neg(s) }
<domain: "own", opset_import: ["": 17]>
inner (p) => (q) { r = Exp(p) one = Constant<value=float {1.0}>() q = Sub(r, one) }
<domain: "own", opset_import: ["": 17]>
unused (p) => (q) { q = Identity(p) }
"""


def test_a_function_is_inlined(reduced):
    small, reduction = reduced(parser.parse_model(FUNCTIONS), check_of(each("Sub", order_of(1, 0))))
    assert operators(small.model) == ["Sub"] and not small.model.functions
    assert reduction.nodes_before == 10


def test_a_call_keeps_its_functions_only(reduced):
    small, _ = reduced(parser.parse_model(FUNCTIONS), lambda c: any(n.op_type == "inner" for n in every_node(c.model)))
    assert [node.op_type for node in small.model.graph.node] == ["inner"]
    assert [function.name for function in small.model.functions] == ["inner"]


def test_optional_outputs_and_symbolic_dims(reduced):
    text = """g (float[N,3,H,W] x) => (float[N,3,P,Q] y, int64[N,3,P,Q] i) {
        a = Relu(x) m, i = MaxPool<kernel_shape=[2,2]>(a) d, k = Dropout(m) s = Shape(d) r = Reshape(d, s) y = Neg(r)
    }"""
    small, _ = reduced(model_of(text), has("MaxPool", "Dropout"))
    assert operators(small.model) == ["MaxPool", "Dropout"]
    assert len(small.model.graph.output) == 1 and outputs_of(small.complete, small.inputs)[0].ndim == 4


def test_strings(reduced):
    text = """g (string[3] x) => (string[A] y) { a = Identity(x) i = Constant<value_ints=[2,0]>() b = Gather(a, i) y = Identity(b) }"""
    small, _ = reduced(model_of(text), has("Gather"))
    assert operators(small.model) == ["Gather"] and small.inputs["a"].shape == (3,)
    assert outputs_of(small.complete, small.inputs)[0].tolist() == [small.inputs["a"][2], small.inputs["a"][0]]


def test_sequences_are_no_inputs(reduced):
    text = """g (float[6] x) => (float[A] y) { r = Relu(x) s = SplitToSequence(r) z = Constant<value=int64 {0}>() a = SequenceAt(s, z) y = Neg(a) }"""
    small, _ = reduced(model_of(text), has("SequenceAt"))
    assert operators(small.model) == ["SplitToSequence", "SequenceAt"]


def test_an_old_file_lists_its_initializers_as_inputs(reduced):
    model = parser.parse_model("""<ir_version: 3, opset_import: ["": 9]> g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}> {
        a = Relu(x) b = MatMul(a, w) y = Neg(b) }""")
    model.graph.input.append(helper.make_tensor_value_info("w", 1, [2, 2]))
    small, _ = reduced(model, has("MatMul"))
    assert [info.name for info in small.model.graph.input] == ["a", "w"] and list(small.inputs) == ["a"]


@pytest.mark.slow
def test_the_real_speech_model_is_opened_down_to_a_node_of_its_inner_branch(reduced):
    small, reduction = reduced(onnx.load(SPEECH), has("LSTM"))
    assert operators(small.model) == ["LSTM"] and reduction.nodes_before > 50


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real models is not here")
def test_a_real_transformer_is_cut_down(reduced):
    model = onnx.load(CORPUS / "bert_12l_raw.onnx")
    inputs = {"input_ids": np.arange(64).reshape(2, 32), "attention_mask": np.ones((2, 32), np.int64)}
    small, reduction = reduced(
        model,
        check_of(each("Softmax", lambda node, _: node.CopyFrom(helper.make_node("Sigmoid", node.input, node.output)))),
        inputs,
    )
    assert operators(small.model) == ["Softmax"] and reduction.nodes_before > 1000


def test_what_shows_in_anything_is_refused(reduced):
    with pytest.raises(Exception, match="one Identity shows the fault too"):
        reduced(model_of("g (float[2] x) => (float[2] y) { y = Relu(x) }"), lambda c: True)


def test_an_interrupted_search_has_the_smallest_so_far(reduced, tmp_path, shared_worker):
    count = 0

    def check(candidate):
        nonlocal count
        count += 1
        if count == 7:
            raise KeyboardInterrupt
        return has("Sum", "Relu")(candidate)

    values = tmp_path / "interrupted"
    values.mkdir()
    reduction = Reduction(
        recorded_whole(str(RESNET), {}, None, 0, shared_worker, values).whole, check, shared_worker, values
    )
    with pytest.raises(KeyboardInterrupt):
        reduction.run()
    assert 2 < reduction.best.nodes < 176 and has("Sum", "Relu")(reduction.best)


def test_the_verb(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model_of("g (float[4] x, float[4] w) => (float[4] y) { a = Relu(x) b = Sub(a, w) y = Exp(b) }"), path)
    wrong = each("Sub", order_of(1, 0))
    small, inputs = wb.reduce(path, lambda model, inputs: differs(model, wrong, inputs))
    assert operators(small) == ["Sub"] and differs(small, wrong, inputs)
