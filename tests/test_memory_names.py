"""Memory of values in bodies whatever their nodes are called: TorchScript names them "/Loop", "/If", "/layer/Add"."""

from __future__ import annotations

import json

import onnx
import pytest

from workbench.formats.io.checks import every_node
from workbench.formats.io.onnx_file import load_proto
from workbench.planning.memory.blocks.actions import actions_of
from workbench.planning.memory.planning import plan_memory, sharing_of

LOOP = """<ir_version: 10, opset_import: ["": 21]>
g (float[4] x, int64 n) => (float[4] y) <bool c = {1}, float[4] w = {1, 2, 3, 4}> {
    [loop] y = Loop(n, c, x) <body = b (int64 i, bool k, float[4] s) => (bool k2, float[4] s2) {
        k2 = Identity(k)
        t = Cast<to = 9>(i)
        [branch] s2 = If(t) <
            then_branch = p () => (float[4] p) { [add] p = Add(s, w) },
            else_branch = q () => (float[4] q) { q = Relu(s) }
        >
    }>
}"""


def model_with(names):
    """The model above with other names of nodes."""
    model = onnx.parser.parse_model(LOOP)
    for node in every_node(model):
        node.name = names.get(node.name, node.name)
    return model


def plan_of(model):
    return plan_memory(sharing_of(load_proto(model)))


def shape_of(plan):
    """A plan without its names."""
    return [(v.kind, v.bytes, v.offset, v.born, v.dies, v.block, v.how) for v in plan.values]


@pytest.mark.parametrize(
    "names", [("/Loop", "/If", "/If/Add"), ("a/b/c", "a/b", "a"), ("/", "//", "///"), ("Loop", "", "")]
)
def test_slashes_in_the_names_of_nodes_change_no_plan(names):
    plan = plan_of(model_with(dict(zip(("loop", "branch", "add"), names, strict=True))))
    assert shape_of(plan) == shape_of(plan_of(model_with({}))) and plan.certified
    assert len({value.name for value in plan.values}) == len(plan.values)


def test_a_value_of_a_body_is_not_taken_for_one_of_the_graph_with_the_same_path():
    """The graph has a value "/Loop/body/t", and a node called as one in the body is by its path."""
    model = model_with({"loop": "/Loop"})
    inner = next(value for value in plan_of(model).values if value.name == "/Loop/body/t")
    other = onnx.helper.make_node("Exp", ["y"], ["/Loop/body/t"], "/Loop/body/Cast_t")
    last = onnx.helper.make_node("Neg", ["/Loop/body/t"], ["z"], "last")
    model.graph.node.extend([other, last])
    model.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, [4]))
    plan = plan_of(model)
    found = {value.name: value for value in plan.values}
    assert found["/Loop/body/t"].bytes == 16 and found["/Loop/body/t (2)"].bytes == inner.bytes == 1
    labels = [step.label for step in plan.sharing.lifetimes.steps]
    assert len(set(labels)) == len(labels)
    assert {step.outermost for step in plan.sharing.lifetimes.steps} == {"/Loop", "/Loop/body/Cast_t", "last"}
    assert actions_of(plan.sharing.packing, plan.packed.offsets)


def test_values_of_unknown_size_have_rows_and_the_proof_says_of_what_it_is(done, tmp_path):
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[4] x, bool[4] m) => (float[4] y, float[n] z) {
        y = Relu(x)
        i = NonZero(m)
        j = Squeeze(i)
        z = Gather(x, j)
    }"""
    file = tmp_path / "open.onnx"
    onnx.save(onnx.parser.parse_model(text), file)
    told = done("memory", file)
    assert "known sizes" in told
    of = "for the execution order 'file' and these decisions about shared memory, of the values whose size is known"
    assert f"certified: no smaller arena exists {of}" in told
    plan = json.loads(done("memory", file, "--json"))
    assert plan["total_bytes"] == plan["lower_bound_bytes"] and plan["certified"] is True
    assert plan["certified_of"] == of.removeprefix("for ")
    unknown = {value["name"] for value in plan["values"] if value["bytes"] is None}
    assert set(plan["unknown"]) <= unknown and "i" in unknown
    assert f"{len(plan['unknown'])} values are not in the plan" in told
