"""What made each node: followed through rewrites, written into files, and read again."""

from __future__ import annotations

import itertools
import json

import numpy as np
import onnx
import pytest

import workbench as wb
from tests.commands import SAMPLES
from workbench.formats.io import load_model
from workbench.interfaces.cli.main import main
from workbench.ir import Node
from workbench.ir.provenance import KEYS, MAX_ORIGINS, Provenance, of_metadata
from workbench.ir.text import from_text
from workbench.presentation.view.lineage import Lineage

CONV = """
<ir_version: 8, opset_import: ["": 17], producer_name: "test">
g (float[1,4,8,8] x) => (float[1,4,8,8] y)
<float[4,4,1,1] w, float[4] s, float[4] b, float[4] m, float[4] v>
{
    [conv] c = Conv(x, w)
    [norm] n = BatchNormalization(c, s, b, m, v)
    [twice] t = Add(n, n)
    [relu] y = Relu(t)
}
"""


def entries(path) -> dict[str, dict[str, str]]:
    """By node of the file, the entries that this program wrote."""
    nodes = onnx.load(path).graph.node
    return {n.name: {e.key: e.value for e in n.metadata_props if e.key in KEYS} for n in nodes}


@pytest.fixture(scope="module")
def history():
    return wb.optimize(load_model(SAMPLES / "resnet50_narrow.onnx"), layout="greedy", target="cuda")


def test_a_node_made_of_several_says_of_which(tmp_path):
    path = tmp_path / "m.onnx"
    model = onnx.parser.parse_model(CONV)
    shapes = {"w": (4, 4, 1, 1), "s": 4, "b": 4, "m": 4, "v": 4}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in shapes.items()
    )
    onnx.save(model, path)
    history = wb.optimize(load_model(path), ["fold_batchnorm", "layout_greedy"], target="cuda")
    made = history.graph.provenance
    assert made["conv"] == Provenance("layout_greedy", "", ("conv", "norm"))
    assert made["relu"].origins == ("relu",)
    lineage = Lineage(history)
    assert lineage.made("conv", 0) is None
    assert lineage.made("conv", 1) == Provenance("fold_batchnorm", "after a convolution", ("conv", "norm"))
    wb.export(history.graph, path)
    written = entries(path)
    assert json.loads(written["conv"]["workbench.origins"]) == ["conv", "norm"]
    assert written["conv"]["workbench.layout"] == "NHWC"


def test_files_carry_it_and_a_second_run_adds_nothing(history, tmp_path):
    first, second, bare = (tmp_path / name for name in ("a.onnx", "b.onnx", "bare.onnx"))
    wb.export(history.graph, first)
    onnx.checker.check_model(str(first))
    assert onnx.load(first).ir_version < 10  # the field is newer, and older readers skip it
    written = entries(first)
    made = {name for name, found in written.items() if found}
    assert made == history.graph.provenance.keys() and len(made) > 100
    again = wb.optimize(load_model(first), layout="greedy", target="cuda")
    wb.export(again.graph, second)
    originals = {node.name for node in history.initial.nodes}
    for found in filter(None, entries(second).values()):
        origins = json.loads(found["workbench.origins"])
        assert originals.issuperset(origins) and len(origins) <= MAX_ORIGINS  # nodes of the first file
    assert second.stat().st_size <= first.stat().st_size * 1.01
    wb.export(again.graph, bare, metadata=False)
    assert not any(entries(bare).values())


def test_nodes_of_an_inlined_call_say_what_made_the_call(tmp_path):
    history = wb.optimize(load_model(SAMPLES / "conv_relu_conv_relu.onnx"), ["layout_greedy"], target="cuda")
    path = tmp_path / "inlined.onnx"
    wb.export(history.graph, path, functions="inline")
    nodes = onnx.load(path).graph.node
    assert {node.domain for node in nodes} == {""} and sum(node.op_type == "Conv" for node in nodes) == 2
    assert all(found["workbench.pass"] == "layout_greedy" for found in entries(path).values())
    origins = [entries(path)[node.name]["workbench.origins"] for node in nodes if node.op_type == "Conv"]
    assert origins == ['["conv1"]', '["conv2"]']


@pytest.mark.parametrize("sample", ["conv_relu_conv_relu", "npu_path"])
def test_what_no_pass_changes_is_written_as_it_was(sample, tmp_path):
    paths = [tmp_path / f"{number}.onnx" for number in range(3)]
    history = wb.optimize(load_model(SAMPLES / f"{sample}.onnx"), ["layout_greedy"], target="cuda")
    wb.export(history.graph, paths[0])
    for before, after in itertools.pairwise(paths):
        wb.export(wb.optimize(load_model(before), ["dead_nodes"]).graph, after)
    assert paths[0].read_bytes() == paths[1].read_bytes() == paths[2].read_bytes()


def test_metadata_of_others_stays(tmp_path):
    graph = from_text('<ir_version: 10, opset_import: ["": 20]> g (float[4] x) => (float[4] y) { [r] y = Relu(x) }')
    node = graph.node("r").replace(metadata={"pkg.torch.onnx.fx_node": "%relu", "workbench.pass": "gone"})
    graph = graph.with_nodes([node])
    kept, bare = tmp_path / "kept.onnx", tmp_path / "bare.onnx"
    wb.export(graph, kept)
    wb.export(graph, bare, metadata=False)
    read = [{e.key: e.value for e in onnx.load(path).graph.node[0].metadata_props} for path in (kept, bare)]
    assert read == [dict(node.metadata), {"pkg.torch.onnx.fx_node": "%relu"}]


@pytest.mark.parametrize("origins", ["[", "{}", "[1]", '"x"', "[" * 9000])
def test_entries_that_another_program_wrote_are_not_ours(origins):
    assert of_metadata({"workbench.pass": "p", "workbench.origins": origins}) is None
    assert of_metadata({"workbench.origins": "[]"}) is None


def test_the_command_line_leaves_it_out(tmp_path):
    out = tmp_path / "o.onnx"
    arguments = [
        "optimize",
        str(SAMPLES / "npu_path.onnx"),
        "-o",
        str(out),
        "--passes",
        "layout_greedy",
        "--target",
        "cuda",
        "--no-verify",
    ]
    assert main([*arguments, "--target", "npu"]) == 0
    assert any(entries(out).values())
    assert main([*arguments, "--target", "npu", "--no-metadata"]) == 0
    assert not any(entries(out).values())


def test_provenance_is_read_as_it_was_written():
    made = Provenance("fold_pad", "a rule", ("a", "é", "b,c"), "NHWC")
    assert of_metadata(Node("Relu", ("x",), ("y",), metadata=made.metadata).metadata) == made
