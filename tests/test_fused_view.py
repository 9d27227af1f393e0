"""Fused groups in the view: boxes that open, at every moment of their making, and what the inspector says of them."""

from __future__ import annotations

import json

import pytest

from tests.slow import thorough_unless
from tests.viewing import sample_history, view_of
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.ir import Graph, from_text, to_text
from workbench.pipeline.running import start
from workbench.planning.fusion.opened_groups import OpenedGroups
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.diff import diff
from workbench.presentation.view.inspection import inspect_element
from workbench.presentation.view.timeline import FOREVER, timeline_of, timeline_of_pair
from workbench.rewrite import History

CUDA = load_profile("cuda")
HISTORIES = {
    "chain": ("conv_relu_conv_relu", "fuse_groups"),
    "minimum": ("basic_pitch_nmp", "fuse_minimum"),
    "after the layout": ("resnet50_narrow", "fold_batchnorm", "layout_greedy", "fuse_groups"),
    "another pass behind": ("conv_relu_conv_relu", "fuse_groups", "layout_greedy", "dead_nodes"),
    "twice": ("resnet50_narrow", "fuse_groups", "fuse_minimum"),
}


def history_named(name: str) -> History:
    return sample_history(*HISTORIES[name])


def assert_same(graph: Graph, other: Graph) -> None:
    """The same nodes, types and constants, in any order."""
    assert diff(graph, other).is_empty
    assert dict(graph.types) == dict(other.types)
    assert dict(graph.constants).keys() == dict(other.constants).keys()
    assert (graph.inputs, graph.outputs) == (other.inputs, other.outputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", [thorough_unless(name in ("chain", "minimum"), name) for name in HISTORIES])
def test_the_open_graph_follows_every_rewrite(name):
    """Opened step by step it is the same as opened at once; with fusing passes alone, it is the graph before them."""
    history = history_named(name)
    groups = OpenedGroups(history.initial.copy())
    for number, step in enumerate(history.steps):
        for done, rewrite in enumerate(step.rewrites, 1):
            groups.apply(rewrite.edit)
            at = history.at(number, done)
            assert to_text(groups.graph) == to_text(at)
            at_once = OpenedGroups(at)
            assert_same(groups.opened, at_once.opened)
            assert groups.group_of == at_once.group_of
        if step.pass_name.startswith("fuse_"):
            assert_same(groups.opened, OpenedGroups(history.before(number)).opened)


@pytest.mark.parametrize("name", HISTORIES)
def test_operators_stay_in_the_picture_when_they_are_fused(name):
    """Nothing that a fusing pass groups appears or disappears, and each operator says in which group it is."""
    history = history_named(name)
    timeline = timeline_of(history, CUDA)
    end = OpenedGroups(history.graph.copy())
    assert {n for n, versions in timeline.versions.items() if versions[-1].dies == FOREVER} == {
        node.name for node in end.opened.nodes
    }
    assert end.group_of, "a history without groups shows nothing"
    for node in end.opened.nodes:
        look = timeline.versions[node.name][-1].style
        assert look.detail.endswith(f", in {end.group_of[node.name]}" if node.name in end.group_of else look.detail)
        assert (", in group_" in look.detail) == (node.name in end.group_of)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", HISTORIES)
def test_a_group_is_a_frame_from_its_first_rewrite_on(name):
    history = history_named(name)
    view = view_of(history)
    end = OpenedGroups(history.graph.copy())
    fused = [group for group in view.root.below() if group.fused]
    assert {
        group.path[-1]: set(group.members())
        for group in fused
        if view.timeline.groups[group.path[-1]][-1][1] == FOREVER
    } == {name: {n for n, other in end.group_of.items() if other == name} for name in set(end.group_of.values())}
    view.opened |= {group.id for group in view.root.below()}
    scene = view.scene()
    boxes = {box["id"]: box for box in scene["boxes"]}
    first = next(c.first for c in view.timeline.step_spans if c.pass_name.startswith("fuse_"))
    for group in fused:
        frame = boxes[group.id]
        assert frame["open"]
        assert all(first < born < dies <= scene["T"] + 1 and look == -1 for born, dies, look in frame["v"])
        for member in group.members():
            around, above = set(), boxes[member]["up"]
            while above >= 0:
                around.add(scene["boxes"][above]["id"])
                above = scene["boxes"][above]["up"]
            assert group.id in around
        view.set_open(group.id, False, deep=False)
    closed = {box["id"]: box for box in view.scene()["boxes"]}
    for group in fused:
        assert not closed[group.id]["open"] and not closed.keys() & set(group.members())


def test_a_rewrite_marks_the_operators_of_both_groups():
    """Of two groups that become one, all operators are matched, and those that join are changed."""
    history = sample_history("resnet50_narrow", "fold_batchnorm", "fuse_groups")
    timeline = timeline_of(history, CUDA)
    groups = OpenedGroups(history.initial.copy())
    for event, rewrite in zip(timeline.events, (r for step in history.steps for r in step.rewrites), strict=True):
        groups.apply(rewrite.edit)
        if "joins its post-dominator" in rewrite.sentence:
            (call,) = rewrite.inverse.remove
            assert set(event.nodes) == set(groups.members(call))
    assert len(timeline.events) > 100


@pytest.mark.slow
def test_the_inspector_says_what_a_group_moves_and_why_it_ends():
    history = sample_history("basic_pitch_nmp", "fuse_groups")
    groups = OpenedGroups(history.graph.copy())
    view = view_of(history)
    saved = []
    for group in (group for group in view.root.below() if group.fused):
        found = inspect_element(history, 1, None, group.id, members=view.members(group.id))
        json.dumps(found)
        rows = dict(next(s for s in found["sections"] if s["title"] == "Fused")["rows"])
        assert rows["call"] == groups.graph.node(group.path[-1]).op
        moved, alone = (int(rows[key].replace(",", "")) for key in ("bytes read and written", "by its operators alone"))
        assert moved <= alone
        saved.append(alone - moved)
    facts = history[1].facts.traffic
    assert sum(saved) == facts.unfused_bytes - facts.bytes > 0
    for node in groups.opened.nodes:
        sections = inspect_element(history, 1, None, node.name)["sections"]
        (about,) = [dict(s["rows"]) for s in sections if s["title"] == "Fusion"]
        refusal = history[1].facts.refusals.get(node.name)
        assert about.get("joins no later operator") == refusal
        assert about["group"].startswith(groups.group_of.get(node.name, "none"))
    assert history[1].facts.refusals, "nothing was refused"
    before = inspect_element(history, 0, None, next(iter(groups.group_of)))["sections"]
    assert "Fusion" not in {section["title"] for section in before}


def test_the_origin_of_an_operator_names_the_rewrites_that_fused_it():
    history = sample_history("conv_relu_conv_relu", "fuse_groups")
    groups = OpenedGroups(history.graph.copy())
    member = next(iter(groups.group_of))
    sections = inspect_element(history, 1, None, member)["sections"]
    (origin,) = [s for s in sections if s["title"] == "Where it came from"]
    assert origin["text"] == "It was in the model as loaded."
    assert [m["what"] for m in origin["moments"]] == ["changes"]


@pytest.mark.parametrize("name", HISTORIES)
def test_an_exported_file_opens_with_the_same_groups(name, tmp_path):
    history = history_named(name)
    export_onnx(history.graph, tmp_path / "fused.onnx")
    again = OpenedGroups(load_model(tmp_path / "fused.onnx"))
    end = OpenedGroups(history.graph.copy())
    assert again.group_of == end.group_of
    assert {node.name for node in again.opened.nodes} == {node.name for node in end.opened.nodes}
    view = view_of(start(again.graph, CUDA))
    assert {g.path[-1] for g in view.root.below() if g.fused} == set(end.group_of.values())
    assert all(box["v"][0][0] == 0 for box in view.scene()["boxes"])


def test_two_files_of_which_one_is_fused_show_the_groups_that_are_new():
    history = sample_history("conv_relu_conv_relu", "fuse_groups")
    timeline = timeline_of_pair(history.initial, history.graph, ("a", "b"), "", CUDA)
    assert timeline.group_of == OpenedGroups(history.graph.copy()).group_of
    assert all(len(timeline.versions[name]) == 2 for name in timeline.group_of)
    assert all(spans == [(1, FOREVER)] for spans in timeline.groups.values())


def test_a_call_whose_names_are_taken_stays_closed():
    """A file may hold anything: here an operator in the group has the name of one outside."""
    text = """<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
        g (float[2] x) => (float[2] y) {
            a = Neg(x)
            y = workbench.group_1_Neg_Abs(a)
        }
        <domain: "workbench", opset_import: ["": 23]>
        group_1_Neg_Abs (b) => (y) {
            a = Neg(b)
            y = Abs(a)
        }"""
    groups = OpenedGroups(from_text(text))
    assert [node.op_type for node in groups.opened.nodes] == ["Neg", "group_1_Neg_Abs"]
    assert not groups.group_of
