"""Each Transpose of a result names the operators or borders that need it, whatever strategy put it there."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.pages import STRATEGIES
from tests.running import typed
from workbench.formats.io.samples import FOLDER
from workbench.ir import Graph
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.profile import load_profile
from workbench.planning.layout.strategies.what_needs_transposes import what_needs_transpose
from workbench.presentation.view.inspection import inspect_element


def sentences(graph: Graph, target: str) -> dict[str, str]:
    layouts = infer_layouts(graph)
    transposes = [node for node in graph.nodes if node.op == "Transpose"]
    return {node.name: what_needs_transpose(graph, node, layouts, load_profile(target)) for node in transposes}


def test_a_demand_and_a_reshape_are_named_and_neither_gives_way():
    history = wb.optimize(wb.load(FOLDER / "npu_reshape_add.onnx"), layout="optimal", target="npu")
    assert sentences(history.graph, "npu")["restore_conv2d"] == (
        "Above it, workbench.Conv_NHWC_HWOI 'conv2d' must run in NHWC on 'npu'; below it, Reshape 'reshape1' needs the "
        "axes in the model's order; no choice of orders does without it; it moves 25,088 elements."
    )


def test_operators_that_follow_are_passed_on_the_way():
    graph = typed(
        """g (float[1,4,4,2] x) => (float[1,2,4,4] y) {
            t = Transpose<perm=[0,3,1,2]>(x)
            r = Relu(t)
            s = Add(r, r)
            y = LRN<size=1>(s)
        }"""
    )
    (said,) = sentences(graph, "cuda").values()
    assert said.startswith("Above it, 'x' is an input of the model") and "below it, LRN 'LRN_y' runs in NCHW" in said
    assert said.endswith("; another choice of orders, without it, moves as many bytes; it moves 32 elements.")


def test_what_the_next_best_choice_costs_is_said():
    """Without it x would be turned, and Relu's result turned back for the other two."""
    graph = typed("""g (float[2,3,4] x) => (float[4,3,2] y, float[2,3,4] z, float[2,3,1] s) <int64[1] last = {2}> {
        r = Relu(x)  y = Transpose<perm=[2,1,0]>(r)  z = Exp(r)  s = ReduceMean(r, last) }""")
    (said,) = sentences(graph, "cpu").values()
    assert said.endswith("; without it the cheapest choice of orders moves 96 bytes more; it moves 24 elements.")


def test_what_two_borders_need_stays_in_every_choice():
    graph = typed("""g (float[2,3,4] x) => (float[2,3,4] y, float[4,6] n) {
        t = Transpose<perm=[2,1,0]>(x)  n = Flatten<axis=1>(t)  s = Softmax<axis=0>(t)
        y = Transpose<perm=[2,1,0]>(s) }""")
    into, back = sentences(graph, "cpu").values()
    assert into.endswith("; no choice of orders does without it; it moves 24 elements.")  # Flatten reads its result
    assert back.endswith("; `layout_optimal` does without it, for 'cpu'; it moves 24 elements.")  # Softmax reads x


def test_a_transpose_that_the_cheapest_choice_does_without_is_named():
    graph = typed("""g (float[1,4,6,2] x) => (float[1,4,6,2] y) {
        t = Transpose<perm=[0,3,1,2]>(x)  s = Sigmoid(t)  m = Mul(t, s)  y = Transpose<perm=[0,2,3,1]>(m) }""")
    assert all("; `layout_optimal` does without it, for 'cpu'; " in said for said in sentences(graph, "cpu").values())


def test_a_constant_fixes_nothing():
    graph = typed(
        """g (float[2,3] x) => (float[2,3] y) <float[3,2] w = {1,2,3,4,5,6}> {
            t = Transpose<perm=[1,0]>(w)
            y = Add(x, t)
        }"""
    )
    assert list(sentences(graph, "cpu").values()) == ["Below it, 'y' is an output of the model; it moves 6 elements."]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ["npu_path", "npu_reshape_add", "resnet50_narrow"])
def test_every_transpose_that_a_strategy_leaves_is_needed_on_a_side_at_least(name, strategy):
    history = wb.optimize(wb.load(FOLDER / f"{name}.onnx"), layout=strategy, target="cuda")
    for said in sentences(history.graph, "cuda").values():
        assert "bove it, " in said or "elow it, " in said


def test_the_inspector_says_it():
    history = wb.optimize(wb.load(FOLDER / "npu_path.onnx"), layout="greedy", target="cuda")
    last = len(history) - 1
    name = next(node.name for node in history.graph.nodes if node.op == "Transpose")
    content = inspect_element(history, last, None, name, target=load_profile("cuda"))
    section = next(one for one in content["sections"] if one["title"] == "What needs it")
    assert section["text"] == sentences(history.graph, "cuda")[name]


def test_an_operand_with_other_axes_says_nothing():
    """The bias of an Add and the end of a Slice have other axes than the image."""
    graph = typed(
        """g (float[1,4,4,2] x, float[2] b, int64[1] n) => (float[m,2,4,4] y) <int64[1] zero = {0}> {
            f = Transpose<perm=[0,3,1,2]>(x)
            r = Relu(f)
            s = Slice(r, zero, n)
            t = Transpose<perm=[0,2,3,1]>(s)
            u = Add(b, t)
            y = Transpose<perm=[0,3,1,2]>(u)
        }"""
    )
    said = sentences(graph, "cuda")
    assert "'b'" not in said["Transpose_y"] and "'n'" not in said["Transpose_t"]
    assert said["Transpose_t"].startswith("Above it, Transpose 'Transpose_f' permutes again")


def test_a_demand_is_of_images_and_not_of_weights():
    graph = typed(
        """g (float[1,2,4,4] x, float[1,1,2,3] w) => (float[1,3,4,4] y) {
            t = Transpose<perm=[3,2,0,1]>(w)
            y = Conv(x, t)
        }"""
    )
    (said,) = sentences(graph, "cuda").values()
    assert "must run in" not in said and "Conv 'Conv_y' runs in OIHW" in said
