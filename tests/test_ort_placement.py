"""Where ONNX Runtime runs each node, asked of the installed ONNX Runtime, as a colour of the graph."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.commands import SAMPLES
from tests.pages import opened_file
from workbench.errors import UserError
from workbench.formats.io import load_model
from workbench.interfaces.ui.state.graph_views import shown_graph
from workbench.interfaces.ui.state.shown_view import Seen
from workbench.ir import from_text
from workbench.planning.layout.profile import load_profile
from workbench.run.placement import FUSED, INLINED, onnxruntime_placement
from workbench.run.worker.client import Worker

CPU = "CPUExecutionProvider"


@pytest.fixture(scope="module")
def worker():
    with Worker() as found:
        yield found


def test_each_node_has_a_provider_or_the_reason_why_not(worker):
    history = wb.optimize(load_model(SAMPLES / "resnet50_narrow.onnx"), ["layout_greedy"], target="cuda")
    before = onnxruntime_placement(history.initial, worker, "cpu")
    assert before.keys() == {node.name for node in history.initial.nodes}
    by_kind = {kind: {history.initial.node(n).op for n, k in before.items() if k == kind} for kind in before.values()}
    assert by_kind.keys() == {CPU, FUSED}
    assert by_kind[FUSED] == {"BatchNormalization"}  # folded into the convolutions before nodes are assigned
    assert {"Conv", "Relu", "Gemm"} <= by_kind[CPU]
    after = onnxruntime_placement(history.graph, worker, "cpu")
    assert {history.graph.node(n).op for n, k in after.items() if k == INLINED} >= {"workbench.Conv_NHWC"}


def test_what_onnxruntime_cannot_open_is_one_sentence(worker):
    graph = from_text('<ir_version: 8, opset_import: ["": 17, "o": 1]> g (float[2] x) => (float[2] y) { y = o.Own(x) }')
    with pytest.raises(UserError, match="Own"):
        onnxruntime_placement(graph, worker, "cpu")


@pytest.fixture
def shown():
    opened = opened_file(SAMPLES / "conv_relu_conv_relu.onnx")
    return shown_graph(opened, "the graph", opened.graph, load_profile("cuda"))


def test_the_view_colours_by_it_once_it_is_asked(shown):
    data = shown.data(Seen(), "1px")
    assert data["placeable"] and data["placed"] is None and shown.scene["providers"] == []
    shown.providers({"asked": 1})
    data = shown.data(Seen(), "1px")
    assert data["placed"]["fault"] == "" and data["placed"]["n"] > 0
    assert shown.scene["providers"] == [CPU]
    looks = [shown.scene["looks"][box["v"][0][2]]["e"] for box in shown.scene["boxes"] if box["kind"] == "node"]
    assert looks == [0, 0, 0, 0]


def test_a_failure_is_said_in_the_view(shown):
    def fail():
        raise UserError("ONNX Runtime cannot open the model; see why")

    shown.ask_providers = fail
    shown.providers({"asked": 1})
    assert shown.data(Seen(), "1px")["placed"]["fault"] == "ONNX Runtime cannot open the model; see why"
    assert shown.scene["providers"] == []
