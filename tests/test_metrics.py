"""What a graph is measured by: one metric a file, measured once at each step."""

import re

import pytest

from tests.conftest import ROOT
from tests.running import typed
from workbench.layout.profile import load_profile
from workbench.metrics import Metric, measurements_of, metrics
from workbench.metrics.transpose_cost import count_transposes
from workbench.pipeline.running import run_pipeline
from workbench.registry.pass_choice import choose
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
    files = {path.stem for path in (ROOT / "workbench/metrics").glob("*.py")} - {"__init__", "metric", "transpose_cost"}
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


def test_metrics_that_look_at_the_same_look_once(monkeypatch):
    looked = []

    def analyse(graph):
        looked.append(graph)
        return count_transposes(graph)

    double = Metric("double", "transposes", "Twice.", analyse, lambda counts: 2 * counts.transposes)
    both = {"double": double, "triple": Metric("triple", "transposes", "Thrice.", analyse, lambda c: 3 * c.transposes)}
    monkeypatch.setattr("workbench.metrics.metrics", lambda: both)
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
