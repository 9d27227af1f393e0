"""A bound that is false is not proven, whatever the certificate says of sizes, lifetimes, places and networks."""

import pytest
from onnx import TensorProto, helper

from tests.forging import (
    changed,
    forged,
    node,
    proving,
    refusal,
    rewriting,
)

CHAIN = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) b = Exp(a) y = Neg(b) }"


def value(name, offset, born, dies, size=24, block=0):
    return {"name": name, "bytes": size, "offset": offset, "born": born, "dies": dies, "block": block}


def plan(steps, values, total):
    told = {"kind": "plan", "planner": "exact", "steps": steps, "values": values, "total": total}
    return proving(told | {"bound": total, "certified": True}, "memory_plan")


def order(operators, peak):
    return proving({"kind": "order", "operators": operators, "peak": peak, "bound": peak}, "order_for_memory")


def test_members_of_a_block_that_share_nothing_prove_nothing(tmp_path):
    values = [value("a", 0, 0, 2), value("b", 24, 1, 3), value("y", 10**12 - 24, 2, 3)]
    found = forged(tmp_path, CHAIN, CHAIN, plan(["a", "b", "y"], values, 10**12))
    assert "proven" not in found.proven() and "its values need 48 at one step" in found.told()
    assert "bounds" not in found.check().holds


def test_long_lifetimes_prove_nothing(tmp_path):
    values = [value("a", 0, 0, 3), value("b", 24, 0, 3), value("y", 48, 0, 3)]
    found = forged(tmp_path, CHAIN, CHAIN, plan(["a", "b", "y"], values, 72))
    assert "proven" not in found.proven() and "its values need 48 at one step" in found.told()


def test_invented_values_are_refused(tmp_path):
    values = [value("a", 0, 0, 2), value("b", 24, 1, 3), value("y", 0, 2, 3), value("n/body/v", 48, 0, 3)]
    found = forged(tmp_path, CHAIN, CHAIN, plan(["a", "b", "y"], values, 72))
    assert "places 'n/body/v', which nothing computes" in refusal(found)


def test_a_plan_that_leaves_a_value_out_is_no_bound(tmp_path):
    found = forged(tmp_path, CHAIN, CHAIN, plan(["a", "b", "y"], [value("a", 0, 0, 2)], 24))
    assert "1 of the 3 values" in found.proven() and "2 computed values have no place" in found.told()
    assert "bounds" not in found.check().holds


SLICES = """g (float[2,3] x) => (float[1,3] y)
<int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, int64[1] ax = {0}> {
    a = Relu(x) p = Slice(a, i0, i1, ax) q = Slice(a, i1, i2, ax) y = Add(p, q)
}"""


@pytest.mark.parametrize(("first", "second", "holds"), [(0, 12, True), (0, 0, False), (12, 0, False), (0, 6, False)])
def test_two_slices_lie_where_they_are_cut(tmp_path, first, second, holds):
    values = [value("a", 0, 0, 3), value("p", first, 1, 4, 12), value("q", second, 2, 4, 12), value("y", 24, 3, 4, 12)]
    found = forged(tmp_path, SLICES, SLICES, plan(["a", "p", "q", "y"], values, 36))
    if holds:
        assert "no two of them share bytes while in use" in found.proven()
    else:
        assert "no view, Concat or elementwise operator lets them share bytes" in refusal(found)


MATMUL = "g (float[2,3] x) => (float[2,3] y) <float[3,3] w = {1,1,1,1,1,1,1,1,1}> { a = Relu(x) y = MatMul(a, w) }"
MOVED = "g (float[2,3] x) => (float[3,2] y) { a = Relu(x) y = Transpose<perm=[1,0]>(a) }"
BROADCAST = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) r = ReduceMax<keepdims=1>(a) y = Add(a, r) }"


@pytest.mark.parametrize("text", [MATMUL, MOVED])
def test_only_elementwise_results_are_written_over_an_operand(tmp_path, text):
    operators = [{"node": "a", "sizes": {"a": 24}}, {"node": "y", "sizes": {"y": 24}, "over": ["a"]}]
    assert "overwrites 'a', which the " in refusal(forged(tmp_path, text, text, order(operators, 24)))
    values = [value("a", 0, 0, 2), value("y", 0, 1, 2)]
    assert "lets them share bytes" in refusal(forged(tmp_path, text, text, plan(["a", "y"], values, 24)))


def test_an_operand_that_is_broadcast_is_not_written_over(tmp_path):
    operators = [{"node": "a", "sizes": {"a": 24}}, {"node": "r", "sizes": {"r": 4}}]
    operators.append({"node": "y", "sizes": {"y": 24}, "over": ["r"]})
    assert "overwrites 'r'" in refusal(forged(tmp_path, BROADCAST, BROADCAST, order(operators, 52)))
    values = [value("a", 0, 0, 3), value("r", 24, 1, 3, 4), value("y", 0, 2, 3)]
    assert "no two of them" in forged(tmp_path, BROADCAST, BROADCAST, plan(["a", "r", "y"], values, 28)).proven()
    values[2] = value("y", 24, 2, 3)
    found = forged(tmp_path, BROADCAST, BROADCAST, plan(["a", "r", "y"], values, 48))
    assert "lets them share bytes" in refusal(found)


def test_an_operand_that_is_read_through_a_view_too_is_not_written_over(tmp_path):
    """Each row of y reads the first one of a, which would be gone."""
    text = """g (float[2,3] x) => (float[2,3] y) <int64[1] i0 = {0}, int64[1] i1 = {1}> {
        a = Relu(x) p = Slice(a, i0, i1, i0) y = Add(a, p)
    }"""
    values = [value("a", 0, 0, 3), value("p", 0, 1, 3, 12), value("y", 0, 2, 3)]
    assert "lets them share bytes" in refusal(forged(tmp_path, text, text, plan(["a", "p", "y"], values, 24)))


def test_a_result_of_the_graph_is_not_written_over(tmp_path):
    text = "g (float[2,3] x) => (float[2,3] a, float[2,3] y) { a = Relu(x) y = Exp(a) }"
    values = [value("a", 0, 0, 2), value("y", 0, 1, 2)]
    assert "lets them share bytes" in refusal(forged(tmp_path, text, text, plan(["a", "y"], values, 24)))


def test_an_operator_that_a_function_defines_is_not_known_by_its_name(tmp_path):
    text = """g (float[2,2] x) => (float[2,2] y) { a = Relu(x) y = workbench.Silu(a) }
    <domain: "workbench", opset_import: ["": 17]> Silu (p) => (o) { o = MatMul(p, p) }"""
    values = [value("a", 0, 0, 2, 16), value("y", 0, 1, 2, 16)]
    found = forged(tmp_path, model_in(text), model_in(text), plan(["a", "y"], values, 16))
    assert "memory_plan" not in found.proven() and "that 1 sizes, or pairs of unknown shape" in found.told()
    operators = [{"node": "a", "sizes": {"a": 16}}, {"node": "y", "sizes": {"y": 16}, "over": ["a"]}]
    found = forged(tmp_path, model_in(text), model_in(text), order(operators, 16))
    assert "order_for_memory" not in found.proven()


def model_in(text):
    return changed(text, lambda model: model.opset_import.add(domain="workbench", version=1))


def test_parts_of_a_concat_lie_in_their_order(tmp_path):
    text = "g (float[2,3] x) => (float[4,3] y) { a = Relu(x) b = Neg(x) y = Concat<axis=0>(a, b) }"
    for first, second, holds in ((0, 24, True), (24, 0, False)):
        values = [value("a", first, 0, 3), value("b", second, 1, 3), value("y", 0, 2, 3, 48)]
        found = forged(tmp_path, text, text, plan(["a", "b", "y"], values, 48))
        if holds:
            assert "so no arena for them is smaller" in found.proven()
        else:
            assert "lets them share bytes" in refusal(found)
    beside = text.replace("axis=0", "axis=1").replace("float[4,3]", "float[2,6]")
    values = [value("a", 0, 0, 3), value("b", 24, 1, 3), value("y", 0, 2, 3, 48)]
    assert "lets them share bytes" in refusal(forged(tmp_path, beside, beside, plan(["a", "b", "y"], values, 48)))


def test_dims_of_zero_prove_nothing(tmp_path):
    text = "g (float[N,3] x) => (float[N,3] y) { a = Relu(x) y = Exp(a) }"
    operators = [{"node": name, "sizes": {name: 0}} for name in ("a", "y")]
    found = forged(tmp_path, text, text, order(operators, 0), dims={"N": 0})
    assert "order_for_memory" not in found.proven() and "with N=0, with which nothing is computed" in found.told()


def test_dims_are_said_and_are_those_of_the_model(tmp_path):
    text = "g (float[N,3] x) => (float[N,3] y) { a = Relu(x) y = Exp(a) }"
    operators = [{"node": "a", "sizes": {"a": 60}}, {"node": "y", "sizes": {"y": 60}, "over": ["a"]}]
    found = forged(tmp_path, text, text, order(operators, 60), dims={"N": 5})
    assert "take 60 bytes at most with N=5" in found.proven()
    assert "by the file's own shapes it has 72" in refusal(
        forged(tmp_path, text, text, order(operators, 60), dims={"N": 6})
    )
    said = refusal(forged(tmp_path, text, text, order(operators, 60), dims={"N": 5, "M": 1}))
    assert said == "the certificate has sizes for 'M', which are not sizes of any input"


def test_sizes_that_the_file_declares_are_not_believed(tmp_path):
    def lie(model):
        model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, 1]))

    text = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Exp(a) }"
    other = changed(text, lie)
    operators = [{"node": "a", "sizes": {"a": 4}}, {"node": "y", "sizes": {"y": 24}}]
    assert "by the file's own shapes it has 24" in refusal(forged(tmp_path, other, other, order(operators, 28)))


CUT = {"kind": "minimum cut", "vertices": ["source", "sink"], "edges": [], "first_side": [0], "unit": 1}
TURNED = """g (float[2,3] x) => (float[2,3] y) {
    a0 = Relu(x) t = Transpose<perm=[1,0]>(a0) a = Transpose<perm=[1,0]>(t) y = Neg(a)
}"""


def turning():
    turned = {"perm": {"ints": [1, 0]}}
    insert = [node("Relu", ["x"], ["a0"]), node("Transpose", ["a0"], ["t"], **turned)]
    insert.append(node("Transpose", ["t"], ["a"], **turned))
    return {"remove": [node("Relu", ["x"], ["a"])], "insert": insert}


def test_an_empty_network_is_a_bound_of_itself_alone(tmp_path):
    plain = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }"
    step = rewriting(turning(), "layout_optimal")
    step["evidence"] = CUT | {"weigh": "bytes", "always": 48, "bound": 48, "certified": True}
    found = forged(tmp_path, plain, TURNED, step)
    network = "no cut of the network in the certificate (0 edges, and 48 bytes that no cut changes) costs less than 48"
    assert network in found.proven() and "bounds" not in found.check().holds
    assert "the certificate minimizes the cost of this graph's layouts" in found.told()


def test_an_empty_program_is_a_bound_of_itself_alone(tmp_path):
    told = {"kind": "layout program", "costs": [], "rows": [], "solution": [], "constant": 48, "cost": 48, "bound": 48}
    step = rewriting(turning(), "layout_blocked")
    step["evidence"] = told | {"duals": [], "denominator": 1, "weigh": "bytes", "certified": True}
    plain = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }"
    found = forged(tmp_path, plain, TURNED, step)
    assert "of the program in the certificate (0 rows, 48 bytes that no choice changes)" in found.proven()
    assert "bounds" not in found.check().holds


def test_transposes_that_come_after_the_proof_are_seen(tmp_path):
    plain = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }"
    evidence = CUT | {"weigh": "bytes", "always": 0, "bound": 0, "certified": True}
    found = forged(tmp_path, plain, TURNED, proving(evidence), rewriting(turning(), "dead_nodes"))
    assert "the output's Transposes make 48 bytes instead; later steps changed the graph" in found.told()
    assert "in 'out.onnx', any runtime runs 2 Transposes, which move 48 bytes" in found.proven()
