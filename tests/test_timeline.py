"""The union of a history: at every moment it holds just what the graph of that moment holds."""

from __future__ import annotations

import itertools

import pytest

from tests.viewing import history_of, sample_history
from workbench.ir import Graph, Node, from_text
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.finding import SearchHits, find
from workbench.presentation.view.node_style import OWN, PLAIN, TARGET
from workbench.presentation.view.scene import View
from workbench.presentation.view.timeline import FOREVER, Edge, Timeline, timeline_of, timeline_of_pair

HISTORIES = {
    "greedy": ("resnet50_narrow", "sum_to_add", "fold_batchnorm", "layout_greedy"),
    "record-then-insert": ("npu_reshape_add", "layout_record_then_insert", "cancel_transposes"),
    "optimal": ("basic_pitch_nmp", "fold_constants", "fold_batchnorm", "layout_optimal", "dead_nodes"),
    "bodies": ("silero_vad", "fold_constants", "dead_nodes"),
    "nothing": ("npu_path",),
}


def alive(timeline: Timeline, moment: int) -> dict[str, tuple]:
    return {name: said(v.node) for name, versions in timeline.versions.items() for v in versions if v.lives_at(moment)}


def said(node: Node) -> tuple:
    return node.op, node.inputs, node.outputs


def edges_of(graph: Graph) -> set[Edge]:
    found = set()
    reads = [(node.name, value) for node in graph.nodes for value in node.operands]
    for target, value in [*reads, *((f"out:{value}", value) for value in graph.outputs)]:
        maker = graph.producer(value)
        if maker is not None:
            found.add(Edge(maker.name, target, value))
        elif value in graph.inputs:
            found.add(Edge(f"in:{value}", target, value))
    return found


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("words", HISTORIES.values(), ids=HISTORIES)
def test_every_moment_has_the_nodes_and_edges_of_its_graph(words):
    history = sample_history(*words)
    timeline = timeline_of(history, load_profile("cuda"))
    graph, moment = history.initial.copy(), 0
    for step in history.steps:
        for rewrite in (None, *step.rewrites):
            if rewrite is not None:
                graph.apply(rewrite.edit)
                moment += 1
            assert alive(timeline, moment) == {node.name: said(node) for node in graph.nodes}, moment
            now = {e for e, stretches in timeline.edges.items() if any(s.born <= moment < s.dies for s in stretches)}
            assert now == edges_of(graph), moment
    assert moment == timeline.last


@pytest.mark.parametrize("words", HISTORIES.values(), ids=HISTORIES)
def test_versions_of_a_node_do_not_overlap(words):
    for versions in timeline_of(sample_history(*words), load_profile("cuda")).versions.values():
        assert all(a.born < a.dies <= b.born for a, b in itertools.pairwise(versions))
        assert all(v.born < v.dies for v in versions)


def test_steps_stand_on_the_clock_one_after_the_other():
    history = sample_history(*HISTORIES["greedy"])
    timeline = timeline_of(history, load_profile("cuda"))
    assert [c.rewrites for c in timeline.step_spans] == [len(step.rewrites) for step in history.steps]
    assert [c.first for c in timeline.step_spans] == [
        sum(c.rewrites for c in timeline.step_spans[:i]) for i in range(4)
    ]
    assert [event.sentence for event in timeline.events] == [r.sentence for s in history.steps for r in s.rewrites]


def test_what_is_there_at_the_end_looks_as_the_layouts_of_the_end_say():
    history = sample_history(*HISTORIES["greedy"])
    timeline = timeline_of(history, load_profile("cuda"))
    layouts = infer_layouts(history.graph)
    kinds = set()
    for versions in timeline.versions.values():
        last = versions[-1]
        if last.dies == FOREVER and last.born > 0:
            layout = layouts[last.node.outputs[0]]
            assert last.style.layout == {"NHWC": TARGET, "NCHW": OWN}.get(layout, PLAIN), last.node
            kinds.add(layout)
    assert {"NHWC", "Tensor"} <= kinds


def test_between_the_ends_of_a_step_a_transpose_says_what_it_turns_and_moves():
    history = sample_history(*HISTORIES["greedy"])
    timeline = timeline_of(history, load_profile("cuda"))
    short = [name for name in timeline.versions if name in timeline.short_lived]
    assert len(short) > 100, "greedy carries transposes through the graph"
    details = {timeline.versions[name][0].style.detail for name in short}
    assert "NHWC to NCHW [0,3,1,2] 0.10 MB" in details
    assert all(" to " in detail for detail in details)


def test_a_fused_node_says_what_it_was_made_of():
    graph = from_text(
        "g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1,2,3,4}, float[2] s = {1,2}> {"
        " a = Conv(x, w) y = BatchNormalization(a, s, s, s, s) }"
    )
    timeline = timeline_of(history_of(graph, ["fold_batchnorm"]), load_profile("cuda"))
    made = [v.style.fused for versions in timeline.versions.values() for v in versions if v.style.fused]
    assert made == ["made of BatchNormalization and Conv"]


def test_two_graphs_are_a_history_of_one_change():
    first = from_text("g (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Abs(b) }")
    second = from_text("g (float[2] x) => (float[2] y) { a = Relu(x) y = Abs(a) }")
    timeline = timeline_of_pair(first, second, ("one", "two"), "they differ", load_profile("cuda"))
    assert set(alive(timeline, 0)) == {"Relu_a", "Neg_b", "Abs_y"}
    assert set(alive(timeline, 1)) == {"Relu_a", "Abs_y"}
    assert (timeline.last, timeline.events[0].sentence) == (1, "they differ")
    assert [c.title for c in timeline.step_spans] == ["one", "two"]
    assert timeline.edges[Edge("Relu_a", "Abs_y", "a")][0].born == 1


def test_two_graphs_may_have_other_inputs_and_outputs():
    first = from_text("g (float[2] x, float[2] u) => (float[2] y, float[2] z) { y = Relu(x) z = Neg(u) }")
    second = from_text("g (float[2] v) => (float[2] w) { w = Relu(v) }")
    timeline = timeline_of_pair(first, second, ("one", "two"), "they differ", load_profile("cuda"))
    assert timeline.inputs == ("x", "u", "v") and timeline.outputs == ("y", "z", "w")
    for moment, graph in ((0, first), (1, second)):
        now = {e for e, stretches in timeline.edges.items() if any(s.born <= moment < s.dies for s in stretches)}
        assert now == edges_of(graph)
    view = View(timeline, "both", "NHWC")
    assert {"in:x", "in:v", "out:z", "out:w"} <= {box["id"] for box in view.scene()["boxes"]}


def test_search_looks_into_bodies_and_names_the_node_that_holds_them():
    timeline = timeline_of(sample_history("silero_vad"), load_profile("cuda"))
    found = find(timeline, "conv")
    assert found.total > 0 and all("inside" in words for _, words in found.hits)
    assert {name for name, _ in found.hits} == found.spans.keys() <= timeline.versions.keys()


def test_search_finds_by_name_operator_shape_and_layout_over_all_that_ever_was():
    timeline = timeline_of(sample_history(*HISTORIES["greedy"]), load_profile("cuda"))
    assert find(timeline, "batchnorm").total == 53, "gone, and found"
    assert find(timeline, "conv nhwc 1x112x112x8").hits[0][0] == "n0"
    assert find(timeline, "CONV_NHWC").total == 53
    assert find(timeline, "n17 relu").total < find(timeline, "relu").total
    assert find(timeline, "") == find(timeline, "no such thing") == SearchHits()
    found = find(timeline, "relu", limit=3)
    assert len(found.hits) == 3 and found.total == 49


@pytest.mark.parametrize("strategy", ["greedy", "record_then_insert", "convert_layout", "blocked", "optimal"])
def test_every_strategys_moments_have_a_picture(strategy):
    target = "blocked" if strategy == "blocked" else "npu"
    history = sample_history("tvm_two_convs_nhwc", f"layout_{strategy}", "dead_nodes", target=target)
    timeline = timeline_of(history, load_profile(target))
    assert timeline.last == sum(len(step.rewrites) for step in history.steps)
