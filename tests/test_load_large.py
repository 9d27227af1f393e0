"""Loading what is large: exporters' traces are kept, weights stay in their file and give its pages back."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from workbench.formats.io import LoadError, load_model
from workbench.formats.io.exporting import export_onnx
from workbench.formats.io.weights import RESIDENT
from workbench.ir import to_text
from workbench.ir.from_proto import from_proto
from workbench.ir.to_proto import to_proto

MEGABYTE = 2**20


def traced(node: onnx.NodeProto, trace: str) -> onnx.NodeProto:
    node.metadata_props.add(key="trace", value=trace)
    return node


@pytest.mark.parametrize("opset", [11, 17, 23])
def test_what_exporters_wrote_beside_nodes_survives(tmp_path, opset):
    """Through the opset conversion, in bodies, and into the exported file."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    branches = {}
    for branch, op in (("then_branch", "Relu"), ("else_branch", "Neg")):
        made = helper.make_tensor_value_info(branch, TensorProto.FLOAT, None)
        node = traced(helper.make_node(op, ["x"], [branch], name=branch), f"in {branch}")
        branches[branch] = helper.make_graph([node], branch, [], [made])
    nodes = [
        traced(helper.make_node("If", ["c"], ["y"], name="if", **branches), "the same line"),
        traced(helper.make_node("Softmax", ["y"], ["z"], name="softmax", axis=1), "the same line"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [value, helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", 4])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), tmp_path / "m.onnx"
    )
    loaded = load_model(tmp_path / "m.onnx")
    export_onnx(loaded, tmp_path / "again.onnx")
    for model in (loaded, load_model(tmp_path / "again.onnx")):
        found = {node.name: node.metadata.get("trace") for node in model.nodes}
        assert found["if"] == "the same line"
        inside = {
            n.name: n.metadata.get("trace") for node in model.nodes for b in node.bodies.values() for n in b.nodes
        }
        assert inside == {"then_branch": "in then_branch", "else_branch": "in else_branch"}
    if opset >= 13:  # before, Softmax had another meaning, and becomes several nodes
        assert found["softmax"] == "the same line"


@pytest.mark.parametrize("length", [10, 5000])  # of the trace: small nodes are read otherwise than large ones
def test_nodes_of_functions_keep_what_exporters_wrote(tmp_path, length):
    inner = traced(helper.make_node("Relu", ["a"], ["b"], name="relu"), "f" * length)
    function = helper.make_function("own", "F", ["a"], ["b"], [inner], [helper.make_opsetid("", 23)])
    call = traced(helper.make_node("F", ["x"], ["y"], name="call", domain="own"), "c" * length)
    x, y = (helper.make_tensor_value_info(v, TensorProto.FLOAT, [4]) for v in "xy")
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("own", 1)]
    graph = helper.make_graph([call], "g", [x], [y])
    onnx.save(helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=10), tmp_path / "m.onnx")
    export_onnx(load_model(tmp_path / "m.onnx"), tmp_path / "again.onnx")
    for model in (load_model(tmp_path / "m.onnx"), load_model(tmp_path / "again.onnx")):
        assert model.node("call").metadata == {"trace": "c" * length}
        assert model.functions["own", "F", ""].graph.node("relu").metadata == {"trace": "f" * length}


@pytest.mark.parametrize("names, kept", [(("a", "b"), True), (("same", "same"), False)])
def test_what_is_beside_nodes_in_two_branches_is_not_mixed_up(tmp_path, names, kept):
    """Their outputs may have one name; where their names are alike too, nothing is said rather than the wrong thing."""
    branches = {}
    for branch, name in zip(("then_branch", "else_branch"), names, strict=True):
        made = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
        node = traced(helper.make_node("Relu", ["x"], ["r"], name=name), branch)
        branches[branch] = helper.make_graph([node], branch, [], [made])
    x, y = (helper.make_tensor_value_info(v, TensorProto.FLOAT, ["N"]) for v in "xy")
    c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], **branches)], "g", [x, c], [y])
    onnx.save(helper.make_model(graph, ir_version=10), tmp_path / "m.onnx")
    (node,) = load_model(tmp_path / "m.onnx").nodes
    found = {branch: dict(body.nodes[0].metadata) for branch, body in node.bodies.items()}
    assert found == {branch: {"trace": branch} if kept else {} for branch in branches}


@pytest.mark.parametrize("length", [10, 5000])
def test_what_exporters_wrote_must_be_text(tmp_path, length):
    node = traced(helper.make_node("Relu", ["x"], ["y"], name="relu"), "?" * length)
    x, y = (helper.make_tensor_value_info(v, TensorProto.FLOAT, [4]) for v in "xy")
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), ir_version=10)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString().replace(b"?", b"\xff"))
    with pytest.raises(LoadError, match="is not UTF-8; export or copy it again"):
        load_model(tmp_path / "m.onnx")


def test_texts_that_are_none_stay_as_they_are():
    """Operators of other domains may carry bytes in an attribute that ONNX calls a string."""
    node = helper.make_node("Decode", ["x"], ["y"], domain="other", table=b"\xff\x00", tables=[b"\xfe", b"a"])
    x, y = (helper.make_tensor_value_info(v, TensorProto.FLOAT, [4]) for v in "xy")
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), ir_version=10)
    graph = from_proto(model)
    assert graph.node("Decode_y").attributes == {"table": b"\xff\x00", "tables": (b"\xfe", "a")}
    written = {a.name: a for a in to_proto(graph).graph.node[0].attribute}
    assert r"\xff" in to_text(graph) and r"\xfe" in to_text(graph)
    assert written["table"].s == b"\xff\x00" and list(written["tables"].strings) == [b"\xfe", b"a"]


@pytest.mark.skipif(
    not Path("/proc/self/smaps").exists(), reason="NOT TESTED: only Linux tells what of a file is in memory"
)
@pytest.mark.parametrize("external", [False, True])
def test_reading_all_weights_in_turn_does_not_hold_the_file(tmp_path, external):
    names = [f"w{i}" for i in range(8)]
    weights = [numpy_helper.from_array(np.full(MEGABYTE, i, np.float32), name) for i, name in enumerate(names)]
    nodes = [helper.make_node("Add", ["x", name], [f"y{name}"]) for name in names]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    outputs = [helper.make_tensor_value_info(f"y{name}", TensorProto.FLOAT, [MEGABYTE]) for name in names]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], outputs, weights), ir_version=10)
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=external, location="m.data")
    graph = load_model(path)
    sums = [float(graph.constants[name].numpy().sum()) for name in names]
    assert sums == [MEGABYTE * i for i in range(8)]
    held = resident_bytes(path.with_name("m.data") if external else path)
    assert held <= RESIDENT + 4 * MEGABYTE, f"of {32 * MEGABYTE:,} bytes {held:,} are in memory"
    first = graph.constants["w7"].numpy()
    assert [float(graph.constants[name].numpy()[-1]) for name in names] == list(range(8))
    assert float(first.sum()) == 7 * MEGABYTE  # a view whose pages were given back reads as before


def resident_bytes(path: Path) -> int:
    """How much of a mapped file is in this process's memory (proc(5), smaps)."""
    text = Path("/proc/self/smaps").read_text()
    found = re.findall(rf"{re.escape(str(path))}\n(?:.*\n)*?Rss: +(\d+) kB", text)
    return sum(int(size) * 1024 for size in found)
