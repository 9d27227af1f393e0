"""What a graph is measured by: one metric a file, measured once at each step."""

import re

import pytest

import workbench as wb
from tests.conftest import ROOT
from tests.running import typed
from workbench.analysis.metrics import Measurements, Metric, measurements_of, metrics, step_metrics
from workbench.analysis.metrics.flops import Flops, count_flops, flops_by_node
from workbench.analysis.metrics.transpose_cost import (
    Counts,
    computed_from_constants,
    count_transposes,
    element_bytes,
    elements,
    elements_saved,
    known_sum,
    moved_by,
    moved_by_node,
)
from workbench.interfaces.cli.pipeline import _print_steps
from workbench.ir import Graph, Node, TensorType, from_text
from workbench.ir.types import DataType
from workbench.pipeline.registry.pass_choice import choose
from workbench.pipeline.running import run_pipeline
from workbench.planning.layout.profile import load_profile
from workbench.presentation.explanations.reporting import history_report
from workbench.rewrite import PassContext

TURNED = """g (float[2,3,4] x, bool c) => (float[4,3,2] y) <float[3,2] k = {1, 2, 3, 4, 5, 6}> {
    t = Transpose<perm=[0,2,1]>(x)
    a = Relu(t)
    f = Transpose(k)
    b = MatMul(a, k)
    e = Exp(b)
    z = Transpose<perm=[1,0,2]>(e)
    y = If(c) <then_branch = g1 () => (float[4,2,2] p) { p = Neg(z) }, else_branch = g2 () => (float[4,2,2] q) {
        u = Transpose<perm=[1,0,2]>(e)  q = Identity(u) }>
}"""
EXPECTED = {"nodes": 10, "transposes": 3, "elements_moved": 24 + 16, "bytes_moved": 4 * (24 + 16)}


def test_every_file_of_the_room_is_a_metric():
    files = {path.stem for path in (ROOT / "workbench/analysis/metrics").glob("*.py")} - {
        "__init__",
        "metric",
        "transpose_cost",
    }
    assert set(metrics()) == files >= {"nodes", "transposes", "elements_moved", "bytes_moved", "flops"}


@pytest.mark.parametrize("metric", metrics().values(), ids=lambda metric: metric.name)
def test_a_metric_says_its_unit_and_one_sentence(metric):
    assert metric.unit and re.fullmatch(r"[A-Z][^.]*\.", metric.help)


def test_the_numbers_of_a_graph_with_bodies_and_constants():
    """The Transpose of a constant does not count, that in a body does; what it moves is not known there."""
    graph = typed(TURNED)
    assert dict(measurements_of(graph)) == EXPECTED
    assert {name: metrics()[name](graph) for name in EXPECTED} == EXPECTED


def test_flops_are_those_of_one_run_and_not_known_where_an_operator_is_not():
    graph = typed(
        "g (float[2,3] x) => (float[2,4] y) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}> { y = MatMul(x, w) }"
    )
    assert metrics()["flops"](graph) == 2 * 2 * 3 * 4
    open_ended = typed("g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")
    assert metrics()["flops"](open_ended) is None
    assert measurements_of(graph).text("nodes") == "1" and "flops" not in measurements_of(graph)


def test_flops_of_functions_and_bodies_and_with_numbers_for_symbols():
    """An operator that nothing defines is of unknown cost, as one with bodies is; a call costs what its function does."""
    calls = typed("""<ir_version: 10, opset_import: ["": 23, "own": 1, "com.microsoft": 1]>
        g (float[2,3] x) => (float[2,3] y) { a = own.F(x)  y = own.G(a) }
        <domain: "own", opset_import: ["": 23, "own": 1]> F (a) => (b) { c = Relu(a)  b = own.Unknown(c) }
        <domain: "own", opset_import: ["": 23]> G (a) => (b) { b = Relu(a) }""")
    assert count_flops(calls).unknown == 1 + 2  # sizes are not known inside
    assert count_flops(typed(TURNED)).unknown == 1  # the If
    assert Flops(0, 1) in flops_by_node(typed(TURNED)).values()
    both = typed("""<ir_version: 10, opset_import: ["": 23, "own": 1]>
        g (float[2,3] x) => (float[2,3] y) { a = Relu(x)  y = own.F(a) }
        <domain: "own", opset_import: ["": 23]> F (a) => (b) { k = Constant<value = float[5] {1,2,3,4,5}>()  n = Neg(k)  b = Identity(a) }""")
    own = both.functions["own", "F", ""]
    own.graph._types["n"] = TensorType(DataType.FLOAT, (5,))
    both.functions["", "Relu", ""] = own  # of an operator that has a contract, which counts
    assert count_flops(own.graph) == Flops(5, 0) and count_flops(both) == Flops(6 + 5, 0)
    open_ended = typed(
        "g (float[N,3] x, float[3] s) => (float[N,3] y) { a = Clip(x, , s)  b = ReduceMax(a)  y = Relu(a) }"
    )
    one = count_flops(open_ended)
    assert one.unknown == len(open_ended) and one.known == 0 and metrics()["flops"](open_ended) is None
    open_ended.dims = {"N": 4}
    numbers = typed(
        "g (float[4,3] x, float[3] s) => (float[4,3] y) { a = Clip(x, , s)  b = ReduceMax(a)  y = Relu(a) }"
    )
    assert count_flops(open_ended) == count_flops(numbers) and count_flops(numbers).known >= 36


def test_what_a_transpose_moves():
    """Of its operand, else of its result; nothing where only axes of size 1 change places."""
    graph = typed(
        "g (float[2,3] x, float[1,3] one, float s) => (float[3,2] y) { y = Transpose(x)  z = Transpose(one) }"
    )
    assert [moved_by(graph, value, (1, 0)) for value in ("x", "one", "s", "nobody")] == [6, 0, None, None]
    assert moved_by(graph, "x", (0, 2, 1)) is None and moved_by(graph, "x", (0, 1)) == 0
    assert [moved_by_node(graph, graph.producer(value)) for value in "yz"] == [6, 0]

    node = Node("Transpose", ("x",), ("y",), {"perm": (1, 0)}, "n")
    for shape, moved in {(3, 2): 6, (3, 1): 0, (3,): None, ("N", 2): None}.items():
        types = {"y": TensorType(DataType.FLOAT, shape)}
        graph = Graph(inputs=["x"], outputs=["y"], nodes=[node], types=types)
        assert moved_by_node(graph, node) == moved, shape
    any_rank = Graph(inputs=["x"], outputs=["y"], nodes=[node.replace(attributes={})])
    assert moved_by_node(any_rank, any_rank.node("n")) is None
    assert count_transposes(any_rank) == Counts(1, 0, 0, 1)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [(DataType.DOUBLE, 8), (DataType.FLOAT16, 2), (DataType.INT4, 1), (DataType.STRING, 4), (DataType.UNDEFINED, 4)],
)
def test_bytes_of_an_element(dtype, size):
    assert element_bytes(Graph(inputs=["x"], types={"x": TensorType(dtype, (1,))}), "x") == size
    assert element_bytes(Graph(inputs=["x"]), "x") == 4


def test_transposes_of_bodies_and_called_functions_count_and_those_of_constants_or_for_nobody_do_not():
    text = """<ir_version: 10, opset_import: ["": 23, "own": 1]>
        g (float[2,3] x, float[A,B] u, bool c) => (float[3,2] y, float[B,A] w) <float[2,3] k = {1,2,3,4,5,6}> {
            f = Abs(k)
            fixed = Transpose(f)
            unread = Transpose(x)
            t = Transpose(x)
            a = Add(t, fixed)
            w = Transpose(u)
            y = If(c) <then_branch = g1 () => (float[3,2] p) { q = Transpose(x)  r = Add(q, a)  v = Transpose(u)  p = Identity(r) },
                       else_branch = g2 () => (float[3,2] p) { r = Transpose(x)  v = Transpose(u)  p = Add(r, a) }>
        }
        <domain: "own", opset_import: ["": 23]> F (a) => (b) { c = Transpose(a)  b = Transpose(c) }"""
    graph = from_text(text)
    assert computed_from_constants(graph) == {"k", "f", "fixed"}
    assert computed_from_constants(graph, ("Abs",)) == {"k"}
    then_branch, else_branch = graph.node("If_y").bodies.values()
    assert [count_transposes(body).transposes for body in (then_branch, else_branch)] == [1, 1]
    counts = count_transposes(graph)
    assert counts.transposes == 2 + 1 + 1
    called = from_text("""<ir_version: 10, opset_import: ["": 23, "own": 1]>
        g (float[2,3] x, float[A,B] u) => (float[3,2] y, float[B,A] w) { a = own.F(x)  y = Transpose(a)  w = Transpose(u) }
        <domain: "own", opset_import: ["": 23]> F (a) => (b) { c = Transpose(a)  b = Transpose(c) }""")
    assert count_transposes(called) == Counts(4, 0, 0, unknown=4)  # from text, without inferred types
    assert computed_from_constants(from_text("g () => (float[2] y) { y = RandomNormal<shape = [2]>() }")) == set()


def test_what_bodies_and_the_graph_move_is_added():
    body = Graph(inputs=["p"], outputs=["q"], nodes=[Node("Transpose", ("p",), ("q",), {"perm": (1, 0)}, "n")])
    body._types.update(p=TensorType(DataType.DOUBLE, (5, 7)))
    unknown = Graph(inputs=["p"], outputs=["q"], nodes=[Node("Transpose", ("p",), ("q",), {"perm": (1, 0)}, "n")])
    nodes = [
        Node("Scan", ("x",), ("b",), {"body": unknown}, "unknown"),
        Node("Scan", ("x",), ("a",), {"body": body}, "known"),
        Node("Scan", ("x",), ("c",), {"body": body}, "known too"),
        Node("Transpose", ("x",), ("y",), {"perm": (1, 0)}, "outer"),
        Node("Transpose", ("z",), ("w",), {"perm": (1, 0)}, "untyped"),
    ]
    types = {"x": TensorType(DataType.FLOAT, (2, 3))}
    graph = Graph(inputs=["x", "z"], outputs=["a", "b", "c", "y", "w"], nodes=nodes, types=types)
    assert count_transposes(graph) == Counts(5, 2 * 35 + 6, 2 * 8 * 35 + 4 * 6, unknown=2)


def test_numbers_of_elements_in_words():
    assert [known_sum(numbers) for numbers in ([], [2, 3], [2, None], [None, 2])] == [0, 5, None, None]
    assert [elements(number) for number in (None, 0, 1, 2, 1024)] == [
        *("an unknown number of elements", "0 elements", "1 element", "2 elements", "1,024 elements"),
    ]
    graph = typed("g (float[2,3] x) => (float[2,3] y) { a = Transpose(x)  y = Transpose(a) }")
    assert elements_saved(graph, *graph.nodes) == "12 elements no longer moved"


def test_units_and_unknown_numbers_as_text():
    units = {"nodes": "nodes", "transposes": "transposes", "elements_moved": "elements", "bytes_moved": "bytes"}
    assert {name: metric.unit for name, metric in metrics().items()} == {**units, "flops": "FLOPs"}
    measured = Measurements({"few": 1234, "unknown": None})
    assert [measured.text(name) for name in measured] == ["1,234", "-"] and len(measured) == 2


@pytest.mark.parametrize("broken", [None, Metric("other", "nodes", "Nothing.", len, len)])
def test_a_file_without_a_metric_of_its_name_is_refused(monkeypatch, broken):
    monkeypatch.setattr("workbench.analysis.metrics.nodes.METRIC", broken)
    with pytest.raises(TypeError, match=r"workbench/analysis/metrics/nodes\.py must define METRIC"):
        metrics.__wrapped__()


def test_metrics_that_look_at_the_same_look_once(monkeypatch):
    looked = []

    def analyse(graph):
        looked.append(graph)
        return count_transposes(graph)

    double = Metric("double", "transposes", "Twice.", analyse, lambda counts: 2 * counts.transposes)
    both = {"double": double, "triple": Metric("triple", "transposes", "Thrice.", analyse, lambda c: 3 * c.transposes)}
    monkeypatch.setattr("workbench.analysis.metrics.metrics", lambda: both)
    assert dict(measurements_of(typed(TURNED))) == {"double": 6, "triple": 9} and len(looked) == 1


def test_a_pipeline_measures_each_step_that_changed_something_once(monkeypatch):
    graph = typed(TURNED)
    looked = []
    monkeypatch.setattr(
        "workbench.pipeline.running.measurements_of", lambda g: looked.append(len(g)) or measurements_of(g)
    )
    monkeypatch.setattr(
        "workbench.rewrite.core.driver.measurements_of", lambda g: looked.append(len(g)) or measurements_of(g)
    )
    history = run_pipeline(graph, choose(preset="simplify"), PassContext(load_profile("cuda")))
    changed = sum(step.changed for step in history.steps)
    assert 0 < changed < len(history) - 1 and len(looked) == 1 + changed
    for earlier, step in zip(history.steps, history.steps[1:], strict=False):
        assert step.before is earlier.after
    assert history[-1].after == measurements_of(history.graph)


def test_the_history_knows_no_words_of_layouts():
    text = (ROOT / "workbench/rewrite/core/history.py").read_text(encoding="utf-8")
    assert not re.search(r"layout|transpose|certif|lower_bound", text, re.IGNORECASE)


def test_a_metric_with_a_column_stands_in_every_table_of_steps(monkeypatch, capsys):
    """Nothing but its own file names it."""
    relus = Metric(
        "relus", "nodes", "Relus of the graph.", lambda graph: len(graph.nodes_of(["Relu"])), lambda n: n, column=4
    )
    found = {**metrics(), "relus": relus}
    monkeypatch.setattr("workbench.analysis.metrics.metrics", lambda: found)
    columns = {metric.title: metric.column for metric in step_metrics()}
    assert list(columns.items()) == [("nodes", 1), ("transposes", 2), ("elements moved", 3), ("relus", 4)]
    history = wb.optimize(typed("g (float[2] x) => (float[2] y) { a = Identity(x)  y = Relu(a) }"), ["remove_noops"])
    assert history_report(history)["steps"][0]["relus_after"] == 1
    _print_steps(history)
    header, *rows = capsys.readouterr().out.splitlines()
    assert "relus" in header and len(rows) == 2
