"""Which node of one file is which of another: by names, by structure, and never twice."""

import random

import numpy as np
import onnxruntime
import pytest

import passes
from tests.conftest import CORPUS, ROOT
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.ir import Graph, Node, check, constant, from_text
from workbench.pipeline.running import run_pipeline
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.diff import diff
from workbench.presentation.view.matching import match_graphs, with_names_of
from workbench.rewrite import PassContext

SAMPLES = sorted((ROOT / "sample_models").glob("*.onnx"))
REAL = sorted(CORPUS.glob("*.onnx"))
NAMES = {path: path.stem for path in (*SAMPLES, *REAL)}.get


def matched(a, b):
    """The correspondence, checked: every node once, on one side or in a pair."""
    found = match_graphs(a, b)
    assert len(set(found.pairs.values())) == len(found.pairs)
    assert set(found.pairs) | set(found.only_b) == {n.name for n in b.nodes}
    assert set(found.pairs.values()) | set(found.only_a) == {n.name for n in a.nodes}
    assert len(found.pairs) + len(found.only_a) == len(a) and len(found.pairs) + len(found.only_b) == len(b)
    assert found.how.keys() == found.pairs.keys()
    return found


def scrambled(graph, seed=0, prefix="z"):
    """The same graph with other names everywhere and another topological order; new name -> old."""
    draw = random.Random(seed)
    nodes = {n.name: f"{prefix}{i}" for i, n in enumerate(draw.sample(list(graph.nodes), len(graph)))}
    old = list(dict.fromkeys(graph.values()))
    values = {v: f"{prefix}v{i}" for i, v in enumerate(draw.sample(old, len(old)))}
    waiting, order, made = list(graph.nodes), [], {*graph.inputs, *graph.constants}
    while waiting:
        ready = [n for n in waiting[:200] if made.issuperset(n.operands)]
        node = draw.choice(ready)
        waiting.remove(node)
        order.append(node)
        made.update(node.outputs)

    def keyed(table):
        return {values.get(v, v): entry for v, entry in table.items()}

    changed = [
        n.with_values_renamed(values).replace(name=nodes[n.name], outputs=tuple(values.get(v, v) for v in n.outputs))
        for n in order
    ]
    other = Graph(
        inputs=[values[v] for v in graph.inputs],
        outputs=[values[v] for v in graph.outputs],
        nodes=changed,
        constants=keyed(graph.constants),
        types=keyed(graph.types),
        opset_imports=graph.opset_imports,
        functions=graph.functions,
    )
    return other, {new: old for old, new in nodes.items()}


def right(found, truth):
    return sum(truth[y] == x for y, x in found.pairs.items()) / len(truth)


# ---- with itself -----------------------------------------------------------------------


@pytest.mark.parametrize("path", SAMPLES, ids=NAMES)
def test_a_graph_with_itself(path):
    graph = load_model(path)
    found = matched(graph, graph)
    assert found.pairs == {n.name: n.name for n in graph.nodes}
    assert found.sentence.endswith("by name; none is left over")


@pytest.mark.parametrize("path", SAMPLES, ids=NAMES)
@pytest.mark.parametrize("prefix", ["z", "n"])  # "n0" is a name that nodes of resnet50_narrow have: it lies
def test_a_graph_with_its_own_scrambled_names(path, prefix):
    graph = load_model(path)
    other, truth = scrambled(graph, prefix=prefix)
    found = matched(graph, other)
    assert not found.only_a and not found.only_b
    assert right(found, truth) == 1
    back = with_names_of(graph, other, found.pairs)
    check(back)
    changed = diff(graph, back)
    assert not changed.added and not changed.removed
    assert {graph.node(name).op for name in changed.changed} <= {"If", "Loop", "Scan"}  # bodies are not compared


@pytest.mark.slow
@pytest.mark.parametrize("path", REAL, ids=NAMES)
def test_real_models_with_scrambled_names(path):
    graph = load_model(path)
    other, truth = scrambled(graph)
    found = matched(graph, other)
    assert len(found.pairs) >= 0.95 * len(graph)
    assert right(found, truth) >= 0.95


@pytest.mark.parametrize("seed", range(25))
def test_random_graphs_with_scrambled_names(seed):
    draw = random.Random(seed)
    nodes, values, weights = [], ["x", "y"], {}
    for index in range(60):
        op = draw.choice(["Relu", "Sigmoid", "Add", "Mul", "MatMul", "Transpose"])
        operands = [draw.choice(values[-8:])]
        if op in ("Add", "Mul"):
            operands.append(draw.choice(values[-8:]))
        if op == "MatMul":
            weights[f"w{index}"] = constant(np.full((5, 5), draw.randrange(4), np.float32))
            operands.append(f"w{index}")
        nodes.append(Node(op, tuple(operands), (f"t{index}",), name=f"{op}_{index}"))
        values.append(f"t{index}")
    graph = Graph(inputs=("x", "y"), outputs=values[-3:], nodes=nodes, constants=weights, opset_imports={"": 17})
    other, _ = scrambled(graph, seed)
    found = matched(graph, other)
    assert len(found.pairs) >= 0.95 * len(graph)
    for y, x in found.pairs.items():
        assert graph.node(x).op == other.node(y).op


# ---- with what other tools make ----------------------------------------------------------


def by_onnxruntime(path, out):
    """The model as ONNX Runtime's basic level leaves it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(out)
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return load_model(out)


def test_against_onnxruntime(tmp_path):
    """Batch normalizations folded away: every node that is left has its counterpart, with names and without."""
    path = ROOT / "sample_models/resnet50_narrow.onnx"
    graph, other = load_model(path), by_onnxruntime(path, tmp_path / "basic.onnx")
    found = matched(graph, other)
    assert not found.only_b
    assert {graph.node(name).op for name in found.only_a} == {"BatchNormalization"}
    assert found.pairs == {n.name: n.name for n in other.nodes}
    nameless, truth = scrambled(other)
    assert right(matched(graph, nameless), truth) >= 0.95


def test_against_our_own_export(tmp_path):
    graph = load_model(ROOT / "sample_models/ppocr_cls_v2.onnx")
    order = [passes.find_pass(n)() for n in ("fold_batchnorm", "cancel_transposes", "layout_greedy")]
    history = run_pipeline(graph, order, PassContext(load_profile("cuda")))
    export_onnx(history.graph, tmp_path / "ours.onnx")
    other = load_model(tmp_path / "ours.onnx")
    found = matched(graph, other)
    kept = {n.name for n in graph.nodes} & {n.name for n in other.nodes}
    assert {y for y, x in found.pairs.items() if y == x} == kept
    assert {other.node(name).op for name in found.only_b} <= {"Transpose", "Reshape"}


# ---- names that lie ----------------------------------------------------------------------

FIRST = """g (float[2] x) => (float[2] y) {
    [n0] a = Relu(x)  [n1] b = Sigmoid(a)  [n2] c = Tanh(b)  [n3] y = Neg(c) }"""


def test_names_that_count_on_after_an_insertion():
    second = """g (float[2] x) => (float[2] y) {
        [n0] p = Abs(x)  [n1] a = Relu(p)  [n2] b = Sigmoid(a)  [n3] c = Tanh(b)  [n4] y = Neg(c) }"""
    found = matched(from_text(FIRST), from_text(second))
    assert found.pairs == {"n1": "n0", "n2": "n1", "n3": "n2", "n4": "n3"}
    assert found.only_b == ("n0",) and not found.only_a


def test_weights_say_more_than_names():
    rng = np.random.default_rng(0)
    weights = {f"w{i}": constant(rng.standard_normal((5, 5)).astype(np.float32)) for i in range(3)}

    def chain(order):
        values = ["x", "a", "b", "y"]
        nodes = [Node("MatMul", (values[i], w), (values[i + 1],), name=f"n{i}") for i, w in enumerate(order)]
        return Graph(inputs=("x",), outputs=("y",), nodes=nodes, constants=weights, opset_imports={"": 17})

    found = matched(chain(["w0", "w1", "w2"]), chain(["w2", "w0", "w1"]))
    assert found.pairs == {"n0": "n2", "n1": "n0", "n2": "n1"}


def test_another_operator_of_the_same_name_counts_as_changed():
    found = matched(from_text(FIRST), from_text(FIRST.replace("Tanh", "Softplus")))
    assert found.pairs["n2"] == "n2" and found.how["n2"] == "name"
    better = FIRST.replace("[n2] c = Tanh(b)", "[n2] d = Abs(b)  [other] c = Tanh(d)")
    found = matched(from_text(FIRST), from_text(better))
    assert found.pairs["other"] == "n2" and found.only_b == ("n2",)


def test_a_channels_last_form_is_the_same_operator():
    a = from_text("g (float[1,4,5,5] x, float[4,4,1,1] w) => (float[1,4,5,5] y) { [c] y = Conv(x, w) }")
    b = from_text("""g (float[1,4,5,5] p, float[4,4,1,1] q) => (float[1,4,5,5] r) {
        [t] s = Transpose<perm=[0,2,3,1]>(p)  [f] u = workbench.Conv_NHWC(s, q)  [v] r = Transpose<perm=[0,3,1,2]>(u) }""")
    found = matched(a, b)
    assert found.pairs == {"f": "c"} and found.how == {"f": "structure"}


def test_names_of_results():
    other = FIRST.replace("n0", "p").replace("n1", "q").replace("n2", "r").replace("n3", "s")
    found = matched(from_text(FIRST), from_text(other))
    assert found.pairs == {"p": "n0", "q": "n1", "r": "n2", "s": "n3"}
    assert found.sentence == "4 nodes by the name of the result; none is left over"


def test_nothing_in_common():
    other = from_text("g (float[3] i) => (float[3] o) { [k] o = Erf(i) }")
    found = matched(from_text(FIRST), other)
    assert found.sentence == "no node corresponds; 4 only in the first, 1 only in the second"
    assert matched(Graph(), Graph()).sentence == "no node corresponds; none is left over"
    assert matched(from_text(FIRST), Graph()).only_a == ("n0", "n1", "n2", "n3")


def test_the_sentence_counts():
    found = matched(from_text(FIRST), from_text(FIRST.replace("[n3] y = Neg(c)", "[m] e = Abs(c)  [k] y = Neg(e)")))
    assert found.how == {"n0": "name", "n1": "name", "n2": "name", "k": "output"}
    assert found.sentence == "3 nodes by name, 1 by the name of the result; 1 only in the second"


# ---- constants and order -----------------------------------------------------------------


def test_alike_branches_go_by_their_constants_then_by_order():
    def branches(names, numbers):
        nodes = [Node("MatMul", ("x", f"w{i}"), (f"t{n}",), name=n) for i, n in enumerate(names)]
        nodes.append(Node("Concat", tuple(f"t{n}" for n in names), ("o" + names[0],), {"axis": 0}, name="j" + names[0]))
        constants = {f"w{i}": constant(np.full((5, 5), number, np.float32)) for i, number in enumerate(numbers)}
        outputs = ("o" + names[0],)
        return Graph(inputs=("x",), outputs=outputs, nodes=nodes, constants=constants, opset_imports={"": 17})

    a = branches(["a", "b", "c"], [1, 2, 3])
    assert matched(a, branches(["r", "s", "t"], [3, 1, 2])).pairs == {"r": "c", "s": "a", "t": "b", "jr": "ja"}
    alike = branches(["a", "b", "c"], [1, 1, 1])
    assert matched(alike, branches(["r", "s", "t"], [1, 1, 1])).pairs == {"r": "a", "s": "b", "t": "c", "jr": "ja"}


def test_of_more_that_are_alike_the_first_go_with_the_first():
    def relus(names):
        nodes = [Node("Relu", ("x",), (f"o{n}",), name=n) for n in names]
        return Graph(inputs=("x",), outputs=[f"o{n}" for n in names], nodes=nodes, opset_imports={"": 17})

    found = matched(relus("abc"), relus("rs"))
    assert found.pairs == {"r": "a", "s": "b"} and found.only_a == ("c",)


def test_odd_constants_and_attributes_are_compared():
    text = constant(np.array(["a", "b"], dtype=object))
    attribute = constant(np.array([np.nan, 1], np.float32))

    def graph(name):
        nodes = [
            Node("Gather", ("s", "i"), (f"{name}1",), name=f"{name}1"),
            Node("Odd", (f"{name}1",), (f"{name}2",), {"t": attribute, "f": float("nan")}, name=f"{name}2", domain="d"),
        ]
        return Graph(inputs=("i",), outputs=(f"{name}2",), nodes=nodes, constants={"s": text}, opset_imports={"": 17})

    assert matched(graph("p"), graph("q")).pairs == {"q1": "p1", "q2": "p2"}


# ---- with names of the other -----------------------------------------------------------


def test_names_of_the_other_keep_apart_what_is_not_the_same():
    """A name that the other graph uses for something else becomes a fresh one; unequal constants keep apart."""
    a = from_text("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { [p] t = Add(x, w)  [q] y = Relu(t) }")
    b = from_text("""g (float[2] x) => (float[2] z) <float[2] w = {1, 3}> {
        [q] t = Add(x, w)  [p] u = Erf(t)  [k] z = Relu(u) }""")
    pairs = {"q": "p", "k": "q"}
    found = with_names_of(a, b, pairs)
    check(found)
    assert [(n.name, n.op) for n in found.nodes] == [("p", "Add"), ("p_1", "Erf"), ("q", "Relu")]
    assert found.outputs == ("y",)
    changes = diff(a, found)
    assert changes.changed == {"p", "q"} and changes.added == {"p_1"} and not changes.removed
    assert [n.name for n in b.nodes] == ["q", "p", "k"], "b itself is as it was"


def test_an_output_keeps_its_name_with_one_node_more_before_it():
    a = from_text("g (float[2] x) => (float[2] y) { [r] y = Relu(x) }")
    b = from_text("g (float[2] x) => (float[2] y) { [r] h = Relu(x)  [k] y = Neg(h) }")
    found = with_names_of(a, b, {"r": "r"})
    check(found)
    assert found.outputs == ("y",) and found.producer("y").name == "k"
