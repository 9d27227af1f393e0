"""A bound that is false is not proven: a certificate only asks, and the checker answers from the file."""

import re

import pytest
from onnx import TensorProto, helper

from tests.forging import (
    changed,
    forged,
    model_of,
    node,
    refusal,
    rewriting,
)
from workbench.checker.operators import ELEMENTWISE_OPERATORS, full_name

CHAIN = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) b = Exp(a) y = Neg(b) }"


def placed(**offsets):
    return {"bounds": [{"kind": "plan", "offsets": offsets}]}


def asked(kind, **fields):
    return {"bounds": [{"kind": kind} | fields]}


def is_proven(found):
    return "bounds" in found.check().holds


# ---- plans of memory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offsets", "total"),
    [({"a": 0, "b": 24, "y": 48}, 72), ({"a": 0, "b": 24, "y": 0}, 48), ({"a": 0, "b": 0, "y": 10**12}, 10**12 + 24)],
)
def test_an_arena_is_proven_only_if_no_other_sharing_takes_less(tmp_path, offsets, total):
    """In place, one after the other, they take 24 bytes; each of these plans shares less, and none is a minimum."""
    found = forged(tmp_path, CHAIN, CHAIN, **placed(**offsets))
    assert f"in an arena of {total:,} bytes" in found.proven() and not is_proven(found)
    assert "proven is only that the values need 24 bytes at one step" in found.told()
    assert is_proven(forged(tmp_path, CHAIN, CHAIN, **placed(a=0, b=0, y=0)))


def test_lifetimes_are_those_of_the_order_of_the_file(tmp_path):
    """In the order a, r, b, s the values a and b would share their bytes; in that of the file both are in use."""
    text = """g (float[64] x, float[64] z) => (float r, float s) {
        a = Relu(x) b = Relu(z) r = ReduceSum<keepdims=0>(a) s = ReduceSum<keepdims=0>(b)
    }"""
    said = refusal(forged(tmp_path, text, text, **placed(a=0, b=0, r=256, s=260)))
    assert said.startswith("'a' at bytes 0 to 256 and 'b' at bytes 0 to 256 are in use at the same step")
    assert is_proven(forged(tmp_path, text, text, **placed(a=0, b=256, r=512, s=0)))


def test_a_node_without_results_reads_what_it_reads_where_it_stands(tmp_path):
    def reading(at):
        return lambda model: model.graph.node.insert(at, helper.make_node("Log", ["a"], [], domain="d"))

    early, late = (changed(CHAIN, reading(at)) for at in (1, 3))
    assert is_proven(forged(tmp_path, early, early, **placed(a=0, b=0, y=0)))
    assert "'a' at bytes 0 to 24 and 'b' at bytes 0 to 24" in refusal(forged(tmp_path, late, late, **placed(a=0, b=0)))
    found = forged(tmp_path, late, late, **placed(a=0, b=24, y=24))
    assert "an arena of 48 bytes" in found.proven() and is_proven(found)


def test_invented_values_are_refused(tmp_path):
    found = forged(tmp_path, CHAIN, CHAIN, **placed(a=0, b=0, y=0, **{"n/body/v": 24}))
    assert "places 'n/body/v', which nothing computes" in refusal(found)
    assert "places 'x', which nothing computes" in refusal(forged(tmp_path, CHAIN, CHAIN, **placed(x=0)))
    assert "at byte -1" in refusal(forged(tmp_path, CHAIN, CHAIN, **placed(a=-1)))


def test_a_plan_that_leaves_a_value_out_is_no_bound(tmp_path):
    found = forged(tmp_path, CHAIN, CHAIN, **placed(a=0))
    assert "1 of the 3 values" in found.proven() and "2 computed values have no place" in found.told()
    assert not is_proven(found)


SLICES = """g (float[2,3] x) => (float[1,3] y)
<int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, int64[1] ax = {0}> {
    a = Relu(x) p = Slice(a, i0, i1, ax) q = Slice(a, i1, i2, ax) y = Add(p, q)
}"""


@pytest.mark.parametrize(("first", "second", "holds"), [(0, 12, True), (0, 0, False), (12, 0, False), (0, 6, False)])
def test_two_slices_lie_where_they_are_cut(tmp_path, first, second, holds):
    found = forged(tmp_path, SLICES, SLICES, **placed(a=0, p=first, q=second, y=0))
    if holds:
        assert "no two of them share bytes while in use" in found.proven() and is_proven(found)
    else:
        assert "no view, Concat or elementwise operator lets them share bytes" in refusal(found)


def test_a_slice_before_opset_10_has_its_numbers_in_attributes(tmp_path):
    text = "g (float[2,3] x) => (float[1,3] y) { a = Relu(x) p = Slice<starts=[1], ends=[2], axes=[0]>(a) y = Neg(p) }"
    model = model_of(text, opset=9)
    assert is_proven(forged(tmp_path, model, model, **placed(a=0, p=12, y=12)))
    assert "lets them share bytes" in refusal(forged(tmp_path, model, model, **placed(a=0, p=0, y=0)))


def with_default(text, *names):
    """The model, with these of its constants as inputs, for which a caller may give something else."""

    def give(model):
        held = {tensor.name: tensor for tensor in model.graph.initializer}
        model.graph.input.extend(helper.make_tensor_value_info(n, held[n].data_type, held[n].dims) for n in names)

    return changed(text, give)


def test_an_input_with_a_default_is_no_constant(tmp_path):
    """A caller may cut elsewhere, so that the Slice does not lie where its default says, nor has that size."""
    for names in (("i0", "i1"), ("i1",), ("i2",), ("ax",)):
        model = with_default(SLICES, *names)
        found = forged(tmp_path, model, model, **placed(a=0, p=0, q=12, y=0))
        assert not is_proven(found) and "values in the plan have an unknown size" in found.told()
    sized = "g (float[8] x) => (float[N,M] y) <int64[2] s = {2, 4}> { a = Relu(x) b = Reshape(a, s) y = Exp(b) }"
    assert is_proven(forged(tmp_path, sized, sized, **placed(a=0, b=0, y=0)))
    model = with_default(sized, "s")
    found = forged(tmp_path, model, model, **placed(a=0, b=0, y=0))
    assert not is_proven(found) and "2 values in the plan have an unknown size" in found.told()


def test_in_old_files_every_constant_is_an_input_and_none_has_a_default(tmp_path):
    model = with_default(SLICES, "i0", "i1", "i2", "ax")
    model.ir_version = 3
    assert is_proven(forged(tmp_path, model, model, **placed(a=0, p=0, q=12, y=0)))


MATMUL = "g (float[2,3] x) => (float[2,3] y) <float[3,3] w = {1,1,1,1,1,1,1,1,1}> { a = Relu(x) y = MatMul(a, w) }"
MOVED = "g (float[2,3] x) => (float[3,2] y) { a = Relu(x) y = Transpose<perm=[1,0]>(a) }"
BROADCAST = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) r = ReduceMax<keepdims=1>(a) y = Add(a, r) }"
NAMED_ALIKE = "g (float[2,3] x) => (float[2,3] y) {{ a = Relu(x) y = {}(a) }}"


@pytest.mark.parametrize("text", [MATMUL, MOVED])
def test_only_elementwise_results_are_written_over_an_operand(tmp_path, text):
    assert "lets them share bytes" in refusal(forged(tmp_path, text, text, **placed(a=0, y=0)))


def test_a_domain_is_no_part_of_a_name(tmp_path):
    """The operator microsoft.Gelu of the domain com is not Gelu of com.microsoft, nor is d.Relu a Relu."""
    for domain, name in (("com", "microsoft.Gelu"), ("d", "Relu"), ("", "d.Relu")):

        def call(model, domain=domain, name=name):
            model.graph.node[1].CopyFrom(helper.make_node(name, ["a"], ["y"], domain=domain))
            model.opset_import.add(domain="com", version=1)

        model = changed(NAMED_ALIKE.format("Exp"), call)
        found = forged(tmp_path, model, model, **placed(a=0, y=0))
        assert not is_proven(found) and "1 values in the plan have an unknown size" in found.told()
        assert full_name(domain, name) not in ELEMENTWISE_OPERATORS


def test_an_operand_that_is_broadcast_is_not_written_over(tmp_path):
    assert is_proven(forged(tmp_path, BROADCAST, BROADCAST, **placed(a=0, r=24, y=0)))
    said = refusal(forged(tmp_path, BROADCAST, BROADCAST, **placed(a=0, r=24, y=24)))
    assert "lets them share bytes" in said


def test_an_operand_that_is_read_through_a_view_too_is_not_written_over(tmp_path):
    """Each row of y reads the first one of a, which would be gone."""
    text = """g (float[2,3] x) => (float[2,3] y) <int64[1] i0 = {0}, int64[1] i1 = {1}> {
        a = Relu(x) p = Slice(a, i0, i1, i0) y = Add(a, p)
    }"""
    assert "lets them share bytes" in refusal(forged(tmp_path, text, text, **placed(a=0, p=0, y=0)))


def test_a_result_of_the_graph_is_not_written_over(tmp_path):
    text = "g (float[2,3] x) => (float[2,3] a, float[2,3] y) { a = Relu(x) y = Exp(a) }"
    assert "lets them share bytes" in refusal(forged(tmp_path, text, text, **placed(a=0, y=0)))
    assert is_proven(forged(tmp_path, text, text, **placed(a=0, y=24)))


CALLED = """g (float[2,2] x) => (float[2,2] y) {{ a = Relu(x) y = workbench.Silu(a) }}
<domain: "workbench", opset_import: ["": 17]> Silu (p) => (o) {{ {} }}"""


def called(body):
    return changed(CALLED.format(body), lambda model: model.opset_import.add(domain="workbench", version=1))


@pytest.mark.parametrize(
    ("body", "holds"),
    [
        ("g = Sigmoid(p) o = Mul(p, g)", True),
        ("o = MatMul(p, p)", False),
        ("t = Transpose(p) o = Mul(p, t)", False),
    ],
)
def test_an_operator_that_a_function_defines_is_known_by_its_body(tmp_path, body, holds):
    found = forged(tmp_path, called(body), called(body), **placed(a=0, y=0))
    if holds:
        assert "an arena of 16 bytes" in found.proven()
        assert "1 nodes have bodies or call functions, whose own values are in no plan" in found.told()
    else:
        assert "lets them share bytes" in refusal(found)
    assert not holds or not is_proven(found)


def test_an_operand_that_is_given_twice_is_read_in_both_ways(tmp_path):
    text = """g (float[2,2] x) => (float[2,2] y) {{ a = Relu(x) y = workbench.MulTurned(a, {}) }}
    <domain: "workbench", opset_import: ["": 17]> MulTurned (p, q) => (o) {{ t = Transpose(q) o = Mul(p, t) }}"""
    other, same = in_workbench(text.format("x")), in_workbench(text.format("a"))
    assert "an arena of 16 bytes" in forged(tmp_path, other, other, **placed(a=0, y=0)).proven()
    assert "lets them share bytes" in refusal(forged(tmp_path, same, same, **placed(a=0, y=0)))


def test_parts_of_a_concat_lie_in_their_order(tmp_path):
    text = "g (float[2,3] x) => (float[4,3] y) { a = Relu(x) b = Neg(x) y = Concat<axis=0>(a, b) }"
    assert is_proven(forged(tmp_path, text, text, **placed(a=0, b=24, y=0)))
    assert "lets them share bytes" in refusal(forged(tmp_path, text, text, **placed(a=24, b=0, y=0)))
    found = forged(tmp_path, text, text, **placed(a=48, b=72, y=0))
    assert "an arena of 96 bytes" in found.proven() and not is_proven(found)
    beside = text.replace("axis=0", "axis=1").replace("float[4,3]", "float[2,6]")
    assert "lets them share bytes" in refusal(forged(tmp_path, beside, beside, **placed(a=0, b=24, y=0)))
    assert is_proven(forged(tmp_path, beside, beside, **placed(a=48, b=72, y=0)))


# ---- orders --------------------------------------------------------------------------------------------------------


def test_a_peak_is_the_checker_s_own(tmp_path):
    text = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Exp(a) }"
    found = forged(tmp_path, text, text, **asked("order"))
    assert "take 24 bytes at most" in found.proven() and is_proven(found)
    wide = "g (float[64] x) => (float[64] y) { a = Relu(x) b = Neg(x) c = Abs(x) d = Add(a, b) y = Add(d, c) }"
    found = forged(tmp_path, wide, wide, **asked("order"))
    assert "take 768 bytes at most" in found.proven() and not is_proven(found)
    assert "one operator alone needs 512" in found.told()


def test_dims_of_zero_prove_nothing(tmp_path):
    text = "g (float[N,3] x) => (float[N,3] y) { a = Relu(x) y = Exp(a) }"
    found = forged(tmp_path, text, text, dims={"N": 0}, **asked("order"))
    assert not is_proven(found) and "its order: not checked, since its sizes are those with N=0" in found.told()


def test_dims_are_said_and_are_those_of_the_model(tmp_path):
    text = "g (float[N,3] x) => (float[N,3] y) { a = Relu(x) y = Exp(a) }"
    assert "take 60 bytes at most with N=5" in forged(tmp_path, text, text, dims={"N": 5}, **asked("order")).proven()
    said = refusal(forged(tmp_path, text, text, dims={"N": 5, "M": 1}, **asked("order")))
    assert said == "the certificate has sizes for 'M', which are not sizes of any input"
    assert "2 values of unknown size" in forged(tmp_path, text, text, **asked("order")).told()


def test_sizes_that_the_file_declares_are_not_believed(tmp_path):
    def lie(model):
        model.graph.value_info.append(helper.make_tensor_value_info("n", TensorProto.INT64, [1, 1]))

    text = "g (float[2,3] x) => (int64[2,1] y) { n = NonZero(x) y = Identity(n) }"
    other = changed(text, lie)
    found = forged(tmp_path, other, other, **asked("order"))
    assert not is_proven(found) and "1 values of unknown size" in found.told()


# ---- Transposes ----------------------------------------------------------------------------------------------------

PLAIN = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }"
TURNED = """g (float[2,3] x) => (float[2,3] y) {
    a0 = Relu(x) t = Transpose<perm=[1,0]>(a0) a = Transpose<perm=[1,0]>(t) y = Neg(a)
}"""


def turning():
    turned = {"perm": {"ints": [1, 0]}}
    insert = [node("Relu", ["x"], ["a0"]), node("Transpose", ["a0"], ["t"], **turned)]
    insert.append(node("Transpose", ["t"], ["a"], **turned))
    return {"remove": [node("Relu", ["x"], ["a"])], "insert": insert}


def transposes(weigh="bytes", *held):
    return asked("transposes", weigh=weigh, in_order=list(held))


@pytest.mark.parametrize("weigh", ["bytes", "count"])
def test_waste_is_not_proven(tmp_path, weigh):
    found = forged(tmp_path, PLAIN, TURNED, rewriting(turning()), **transposes(weigh))
    assert "any runtime runs 2 Transposes, which move 48 bytes" in found.proven()
    assert not is_proven(found) and re.search(r"only that no alternative \S+ \S+ than 0 ", found.told())
    assert is_proven(forged(tmp_path, PLAIN, PLAIN, **transposes(weigh)))


def test_operators_that_run_in_any_order_are_not_held(tmp_path):
    held = ("Relu", "Neg", "Transpose", "Softmax", "d.F", "Slice")
    found = forged(tmp_path, PLAIN, TURNED, rewriting(turning()), **transposes("bytes", *held))
    assert not is_proven(found)
    premise = "if the orders of axes of inputs and outputs stay, and any other operator has one order"
    assert f"proven is only that no alternative moves less than 0 bytes, {premise}" in found.told()


CONV = """g (float[2,4,8,8] x) => (float[2,4,8,8] y) <float[4,4,1,1] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> {
    a = Conv(x, w) b = Relu(a) t = Transpose<perm=[0,2,3,1]>(b) c = Exp(t) u = Transpose<perm=[0,3,1,2]>(c) y = Conv(u, w)
}"""


def test_an_operator_that_is_not_held_follows_its_operands(tmp_path):
    """Exp would run in either order, so that both Transposes are waste, whatever holds the convolutions."""
    for held in ((), ("Conv",)):
        found = forged(tmp_path, CONV, CONV, **transposes("bytes", *held))
        assert "2 Transposes, which move 4,096 bytes" in found.proven() and not is_proven(found)


def test_a_premise_names_what_is_held(tmp_path):
    text = CONV.replace("c = Exp(t) u = Transpose<perm=[0,3,1,2]>(c) y = Conv(u, w)", "y = Neg(t)")
    text = text.replace("=> (float[2,4,8,8] y)", "=> (float[2,8,8,4] y)")
    found = forged(tmp_path, text, text, **transposes("bytes", "Conv"))
    assert is_proven(found)
    premise = "if the orders of axes of outputs and 'Conv' stay, and any other operator has one order, whichever"
    assert premise in found.proven()
    found = forged(tmp_path, text, text, **transposes())
    assert is_proven(found) and "if the orders of axes of inputs and outputs stay" in found.proven()


HIDING = """g (float[4,6] x) => (float[4,6] y) {{ h = {0}.{1}(x) y = Relu(h) }}
<domain: "{0}", opset_import: ["": 17]>
{1} (x) => (y) {{ t = Transpose<perm=[1,0]>(x) y = Transpose<perm=[1,0]>(t) }}"""
LAST = """g (float[2,8,8,4] x) => (float[2,8,8,4] y) <float[4,4,1,1] w = {{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}}> {{
    y = workbench.{0}(x, w)
}}
<domain: "workbench", opset_import: ["": 17]> {0} (x, w) => (y) {{ {1} }}"""
TO_FIRST, TO_LAST = "a = Transpose<perm=[0,3,1,2]>(x)", "y = Transpose<perm=[0,2,3,1]>(r)"


def in_workbench(text):
    return changed(text, lambda model: model.opset_import.add(domain="workbench", version=1))


@pytest.mark.parametrize("domain", ["workbench", "d"])
@pytest.mark.parametrize("name", ["Hide", "Relu_NHWC", "Conv_NHWC", "Conv_NCHW8c", "Hide_NHWC"])
def test_no_function_hides_transposes(tmp_path, domain, name):
    model = HIDING.format(domain, name)
    model = in_workbench(model) if domain == "workbench" else model_of(model)
    found = forged(tmp_path, model, model, **transposes())
    assert "in 'out.onnx', any runtime runs 2 Transposes, which move 192 bytes" in found.proven()
    assert not is_proven(found)


@pytest.mark.parametrize(
    ("name", "body", "transposes_left"),
    [
        ("Conv_NHWC", f"{TO_FIRST} r = Conv(a, w) {TO_LAST}", 0),
        ("Conv_NHWC__pads", f"{TO_FIRST} r = Conv(a, w) {TO_LAST}", 0),
        ("Conv_NHWC", f"{TO_FIRST} r = ConvTranspose(a, w) {TO_LAST}", 2),
        ("Conv_NHWC", f"{TO_FIRST} b = Relu(a) r = Conv(b, w) {TO_LAST}", 2),
        ("Conv_NHWC", "a = Transpose<perm=[0,3,2,1]>(x) r = Conv(a, w) y = Transpose<perm=[0,3,2,1]>(r)", 2),
        ("Conv_NHWC", f"{TO_FIRST} v = Transpose<perm=[1,0,2,3]>(w) r = Conv(a, v) {TO_LAST}", 2),
        ("Conv_NHWC_HWIO", f"{TO_FIRST} v = Transpose<perm=[3,2,0,1]>(w) r = Conv(a, v) {TO_LAST}", 0),
        ("Conv_NHWC_HWIO", f"{TO_FIRST} v = Transpose<perm=[2,3,0,1]>(w) r = Conv(a, v) {TO_LAST}", 2),
        ("Relu_NHWC", f"{TO_FIRST} r = Add(a, a) {TO_LAST}", 2),
        ("ConvRelu_NHWC", f"{TO_FIRST} r = Conv(a, w) {TO_LAST}", 2),
    ],
)
def test_a_kernel_of_another_layout_is_known_by_its_body(tmp_path, name, body, transposes_left):
    """A runtime with a kernel of that name runs no Transposes there; without, it runs those of the body."""
    model = in_workbench(LAST.format(name, body))
    told = forged(tmp_path, model, model).proven()
    if transposes_left:
        assert f"any runtime runs {transposes_left} Transposes" in told
    else:
        operator = name.partition("__")[0]
        assert f"in a runtime with kernels for 'workbench.{operator}', 'out.onnx' runs 0 Transposes" in told
        assert "inlines these functions and runs 2 Transposes" in told


def test_transposes_of_what_is_no_constant_count(tmp_path):
    """What a caller may give, what is random, and what an operator of another domain makes are computed in each run."""
    text = """g (float[4,6] x) => (float[6,4] y) <float[4,6] w = {{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}}> {{
        r = Transpose(x) c = {} t = Transpose(c) y = Add(r, t)
    }}"""
    for constant, count in (("Identity(w)", 1), ("RandomNormalLike(w)", 2), ("d.Constant(x)", 1), ("d.F(w)", 1)):
        told = forged(tmp_path, text.format(constant), text.format(constant)).proven()
        many = "1 Transpose, which moves" if count == 1 else "2 Transposes, which move"
        known = f"any runtime runs {many} {96 * count} bytes" in told
        assert known or (constant.startswith("d.") and "any runtime runs 2 Transposes" in told)
    model = with_default(text.format("Identity(w)"), "w")
    assert "any runtime runs 2 Transposes, which move 192 bytes" in forged(tmp_path, model, model).proven()


def test_an_operator_that_a_target_demands_is_held_in_one_layout_only(tmp_path):
    """A convolution that the file has channels first and last evidently runs in both: bringing it to one is no need."""
    body = f"{TO_FIRST} r = Conv(a, w) {TO_LAST}"
    text = LAST.format("Conv_NHWC", body).replace("{{", "{").replace("}}", "}")
    text = text.replace(
        "y = workbench.Conv_NHWC(x, w)",
        """a = Transpose<perm=[0,3,1,2]>(x) b = Conv(a, w)
        c = Transpose<perm=[0,2,3,1]>(b) y = workbench.Conv_NHWC(c, w)""",
    )
    model = in_workbench(text)
    found = forged(tmp_path, model, model, **transposes("bytes", "Conv"))
    assert "runs 2 Transposes, which move 4,096 bytes" in found.proven()
    assert not is_proven(found) and re.search(r"only that no alternative \S+ \S+ than 0 ", found.told())


# ---- Casts -----------------------------------------------------------------------------------------------------------


def casts(weigh="bytes", *held):
    return asked("casts", weigh=weigh, in_type=list(held))


def casting(to, back=1):
    return f"g (float[64] x) => (float[64] y) {{ h = Cast<to={to}>(x) r = Relu(h) y = Cast<to={back}>(r) }}"


@pytest.mark.parametrize(("to", "bytes_"), [(10, 768), (16, 768), (17, 640), (11, 1536)])
def test_casts_of_every_type_of_float_count(tmp_path, to, bytes_):
    found = forged(tmp_path, casting(to), casting(to), **casts())
    assert f"runs 2 Casts, which read and write {bytes_:,} bytes" in found.proven() and not is_proven(found)
    assert "proven is only that no alternative reads and writes less than 0 bytes" in found.told()


def test_held_nodes_are_nodes_of_the_file_and_are_said(tmp_path):
    text = casting(10)
    found = forged(tmp_path, text, text, **casts("bytes", "r"))
    assert is_proven(found) and "1 Relu run in fewer than 32 bits" in found.proven()
    assert "holds the node that computes 'q', which is not there" in refusal(
        forged(tmp_path, text, text, **casts("bytes", "q"))
    )
    assert "holds a node twice" in refusal(forged(tmp_path, text, text, **casts("bytes", "r", "r")))


def test_held_nodes_of_both_types_are_said(tmp_path):
    """It narrows what it is given, which without it a Cast would."""
    text = """g (float[64] x, float16 s, float16 z) => (float16[64] y) {
        q = Where(c, a, x) h = Cast<to=10>(q) y = d.Both(x, h)
    }"""
    text = """g (float[64] x) => (float16[64] y) <int64[1] s = {64}> {
        t = Relu(x) h = Cast<to=10>(t) r = ConstantOfShape<value = float16[1] {1}>(s) p = RandomUniformLike<dtype=10>(t)
        y = Add(h, p)
    }"""
    found = forged(tmp_path, text, text, **casts("bytes", "t", "p", "y"))
    assert is_proven(found)
    held = (
        "1 Relu run in 32 bits or more, 1 Add run in fewer than 32 bits, 1 RandomUniformLike run in both, and any other"
    )
    assert held in found.proven() and "or all in fewer, 16 at least" in found.proven()


def test_casts_in_functions_count(tmp_path):
    text = """g (float[64] x) => (float[64] y) { h = d.F(x) y = Relu(h) }
    <domain: "d", opset_import: ["": 17]> F (x) => (y) { t = Cast<to=10>(x) y = Cast<to=1>(t) }"""
    found = forged(tmp_path, text, text, **casts())
    assert "runs 2 Casts, which read and write 768 bytes" in found.proven() and not is_proven(found)


# ---- groups ----------------------------------------------------------------------------------------------------------

UNGROUPED = "g (float[64] x) => (float[64] y) { a = Relu(x) b = Exp(a) y = Neg(b) }"
GROUPED = """g (float[64] x) => (float[64] y) {{ y = workbench.{}(x) }}
<domain: "workbench", opset_import: ["": 17]> {} (x) => (y) {{ a = Relu(x) b = Exp(a) y = Neg(b) }}"""


@pytest.mark.parametrize("rules", ["same", "wider", "several"])
def test_groups_are_proven_by_the_checker_s_own_search(tmp_path, rules):
    found = forged(tmp_path, UNGROUPED, UNGROUPED, **asked("groups", rules=rules))
    assert "read and write 1,536 bytes" in found.proven() and not is_proven(found)
    assert "proven is only that no alternative reads and writes less than 512 bytes" in found.told()
    grouped = in_workbench(GROUPED.format("group_1", "group_1"))
    assert is_proven(forged(tmp_path, grouped, grouped, **asked("groups", rules=rules)))


def test_a_group_that_the_rules_do_not_allow_proves_nothing(tmp_path):
    text = """g (float[4,4] x) => (float[4,4] y) { y = workbench.group_1(x) }
    <domain: "workbench", opset_import: ["": 17]> group_1 (x) => (y) { a = MatMul(x, x) b = MatMul(a, a) y = Relu(b) }"""
    model = in_workbench(text)
    found = forged(tmp_path, model, model, **asked("groups", rules="several"))
    assert not is_proven(found) and "other operators are in one group" in found.told()


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ([{"kind": "groups", "rules": "none"}], "has the unknown rules 'none'"),
        ([{"kind": "transposes", "weigh": "time", "in_order": []}], "weighs 'time', which is unknown"),
        ([{"kind": "word", "sentence": "proven"}], "has 'sentence', which is not read"),
        ([{"kind": "order", "peak": 1}], "has 'peak', which is not read"),
        ([{"kind": "plan", "offsets": {}, "total": 1, "bound": 10**9, "certified": True}], "which is not read"),
        ([{"kind": "order"}] * 21, "more than 20 bounds"),
        ([{}], "has no field 'kind'"),
    ],
)
def test_nothing_else_is_asked(tmp_path, bounds, said):
    assert said in refusal(forged(tmp_path, PLAIN, PLAIN, bounds=bounds))
