"""Module and Python line of nodes that torch's exporter wrote, through every rewrite."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.formats.io import load_model
from workbench.ir import Node
from workbench.pipeline.running import start
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.finding import find
from workbench.presentation.view.inspection import inspect_element
from workbench.presentation.view.scene import View
from workbench.presentation.view.source_code import MAX_CATEGORIES, module_categories, module_of, source_line
from workbench.presentation.view.timeline import timeline_of, timeline_of_pair

CUDA = load_profile("cuda")
TRACE = "pkg.torch.onnx.stack_trace"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model of nested modules, as torch.onnx writes it."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.out = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x):
            scores = self.q(x) @ x.transpose(-1, -2) * 8**-0.5
            return self.out(scores.softmax(-1) @ x)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = torch.nn.Conv2d(3, 8, 4, 4)
            self.encoder = torch.nn.Sequential(Attention(), Attention())

        def forward(self, x):
            x = torch.relu(self.stem(x))
            return self.encoder(x.flatten(2).transpose(1, 2))

    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("exported") / "m.onnx"
    sizes = (torch.randn(1, 3, 16, 16),)
    torch.onnx.export(Model().eval(), sizes, path, dynamo=True, external_data=False, verbose=False)
    return path


@pytest.fixture(scope="module")
def history(exported):
    return wb.optimize(load_model(exported), layout="greedy", target="cuda")


def program_rows(history, name, **more):
    found = inspect_element(history, len(history) - 1, None, name, **more)
    return next((section["rows"] for section in found["sections"] if section["title"] == "In the source program"), [])


@pytest.mark.slow
def test_every_node_says_its_module_and_its_line_through_every_rewrite(history):
    created = [node for node in history.graph.nodes if node.name not in history.initial]
    assert len(created) >= 2
    for node in history.graph.nodes:
        assert __file__.rpartition("/")[2] in str(program_rows(history, node.name)), node
    (conv,) = history.graph.nodes_of(["workbench.Conv_NHWC"])
    (module, line, file) = program_rows(history, conv.name)
    assert module == ["module", "stem (Conv2d)"] and file == ["file", __file__]
    assert line[1].endswith("in forward: x = torch.relu(self.stem(x))")
    transpose = next(node for node in created if node.op == "Transpose")
    assert program_rows(history, transpose.name)[0][1] in ("stem (Conv2d)", "the model itself (Model)")


@pytest.mark.slow
def test_it_survives_a_written_file(history, tmp_path):
    path = tmp_path / "o.onnx"
    wb.export(history.graph, path)
    again = wb.optimize(load_model(path), ["dead_nodes"])
    for node in again.graph.nodes:
        assert program_rows(again, node.name) == program_rows(history, node.name), node
    first = next(node.name for node in again.graph.nodes if node.op == "Transpose")
    sections = {s["title"]: s for s in inspect_element(again, 0, None, first)["sections"]}
    assert ["pass", "layout_greedy"] in sections["Made in an earlier run"]["rows"]


@pytest.mark.slow
def test_the_result_beside_the_original_says_what_made_each_node(history):
    (conv,) = history.graph.nodes_of(["workbench.Conv_NHWC"])
    found = inspect_element(start(history.graph, CUDA), 0, None, conv.name, loaded=history.initial)
    sections = {section["title"]: section for section in found["sections"]}
    assert ["pass", "layout_greedy"] in sections["What made it"]["rows"]
    assert sections["In the source program"]["rows"] == program_rows(history, conv.name)
    assert sections["Where it came from"]["text"] == "A rewrite made or changed it."


def test_a_module_is_searched_and_coloured(history):
    timeline = timeline_of(history, CUDA)
    hits = lambda query: {name for name, _ in find(timeline, query).hits}  # noqa: E731
    assert len(hits("module:encoder.0")) == len(hits("module:encoder.1")) > 4
    assert not hits("module:encoder.0") & hits("module:encoder.1")
    assert hits("module:encoder") == hits("module:encoder.0") | hits("module:encoder.1")
    assert not hits("module:enc") and not hits("module:ncoder.0")
    scene = View(timeline, "m", "NHWC").scene()
    assert scene["modules"] == [
        "encoder.0",
        "encoder.0.out",
        "encoder.0.q",
        "encoder.1",
        "encoder.1.out",
        "encoder.1.q",
        "stem",
    ]
    colours = {box["id"]: scene["looks"][box["v"][-1][2]]["m"] for box in scene["boxes"] if box["kind"] == "node"}
    (conv,) = history.graph.nodes_of(["workbench.Conv_NHWC"])
    assert scene["modules"][colours[conv.name]] == "stem"
    pair = timeline_of_pair(history.initial, history.graph, ("a", "b"), "", CUDA)
    assert pair.modules[conv.name] == ("stem",)
    created = {name for name in timeline.modules if name not in history.initial and name in history.graph}
    assert created and all(pair.modules[name] == timeline.modules[name] for name in created)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("/encoder/layer.0/attention/self/Add", "encoder.layer.0.attention.self"),
        ("/layer1/layer1.0/conv1/Conv", "layer1.0.conv1"),
        ("conv1", ""),
    ],
)
def test_the_older_exporter_has_the_module_in_the_name(name, module):
    assert module_of(Node("Add", ("x",), ("y",), name=name)) == module


def test_the_line_is_of_the_user_s_program_if_it_has_one():
    text = 'File "/a/b.py", line 3, in forward\n    y = f(x)\n  File "/v/site-packages/torch/nn/linear.py", line 9, in g\n    z'
    line = source_line(Node("Add", (), (), metadata={TRACE: text}))
    assert str(line) == "b.py, line 3, in forward: y = f(x)"
    library = text[text.index("File", 5) :]
    assert str(source_line(Node("Add", (), (), metadata={TRACE: library}))) == "linear.py, line 9, in g: z"
    assert source_line(Node("Add", (), (), metadata={TRACE: "nothing that is a trace"})) is None


def test_colours_go_as_deep_as_the_palette_reaches():
    modules = [f"layers.{layer}.{part}" for layer in range(10) for part in ("attention", "mlp")]
    assert set(module_categories([*modules, "head"]).values()) == {*(f"layers.{layer}" for layer in range(10)), "head"}
    many = [f"block{number}" for number in range(MAX_CATEGORIES + 8)]
    assert module_categories(many) == {module: module for module in many}


@pytest.mark.parametrize("text", ["[", "{'a': 1}", "[1]", "(" * 5000, "'x'"])
def test_entries_of_another_program_are_no_modules(text):
    assert module_of(Node("Add", (), (), name="a", metadata={"pkg.torch.onnx.name_scopes": text})) == ""
