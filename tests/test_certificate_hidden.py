"""Nothing hides from a bound what it counts: no body, no function, no operator that only a runtime knows, no name that is
used twice, and no size that readers of a file compute differently."""

import hashlib

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from tests.forging import changed, forged, model_of, node, refusal, rewriting
from workbench.checker import arena, grouping_bound, minimum_cut
from workbench.checker.files import plain_model
from workbench.checker.opening import opened
from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.running import compared_runs

GROUPS = {"bounds": [{"kind": "groups", "rules": "several"}]}
TRANSPOSES = {"bounds": [{"kind": "transposes", "weigh": "bytes", "in_order": []}]}
ORDER = {"bounds": [{"kind": "order"}]}


def is_proven(found):
    return "bounds" in found.check().holds


# ---- operators -------------------------------------------------------------------------------------------------------

RELU = "g (float[4,6] x) => (float[4,6] y) { a = Neg(x) y = Relu(a) }"


def with_operator(folder, domain, name, **fields):
    """A certificate of the graph with another last operator."""
    model = changed(
        RELU, lambda model: model.graph.node[1].CopyFrom(helper.make_node(name, ["a"], ["y"], domain=domain))
    )
    insert = node(name, ["a"], ["y"]) | ({"domain": domain} if domain else {})
    return forged(
        folder, RELU, model, rewriting({"remove": [node("Relu", ["a"], ["y"])], "insert": [insert]}), **fields
    )


@pytest.mark.parametrize(
    ("equation", "hides"),
    [("ij->ji", True), ("ba", True), ("i j -> j i", True), ("...ij->...ji", True), ("ij->ij", False), ("ij->i", False)],
)
def test_an_einsum_that_permutes_axes_proves_nothing(tmp_path, equation, hides):
    text = f"""g (float[64,64] x) => (float[N] y) <int64[1] m = {{-1}}> {{ h = Einsum<equation="{equation}">(x)  r = Relu(h)  s = Shape(r)  e = Reshape(r, m)  y = Identity(e) }}"""
    found = forged(tmp_path, text, text, **TRANSPOSES)
    assert is_proven(found) != hides
    assert ("as an Einsum permutes axes too" in found.told()) == hides


@pytest.mark.parametrize(("domain", "name"), [("com.microsoft", "Hide"), ("com.microsoft.nchwc", "ReorderInput")])
def test_an_operator_of_which_only_a_runtime_knows_proves_nothing(tmp_path, domain, name):
    found = with_operator(tmp_path, domain, name, **TRANSPOSES)
    assert not is_proven(found) and f"that a runtime has '{domain}.{name}'" in found.told()
    assert f"its transposes: not checked, since only a runtime says what '{domain}.{name}' do" in found.told()


def test_the_runtime_s_operators_that_passes_write_are_known(tmp_path):
    assert "that a runtime has" not in with_operator(tmp_path, "com.microsoft", "QuickGelu").told()


@pytest.mark.parametrize(("domain", "name"), [("ai.onnx.ml", "Hide"), ("", "Hide")])
def test_an_operator_that_nobody_defines_is_refused(tmp_path, domain, name):
    operator = f"{domain}.{name}" if domain else name
    said = refusal(with_operator(tmp_path, domain, name))
    assert said == f"the output calls '{operator}', which neither ONNX defines nor a function, nor has the model"


@pytest.mark.parametrize("name", ["Swish", "Upsample"])
def test_an_operator_that_the_opset_does_not_have_is_refused(tmp_path, name):
    """Swish came with opset 24, and Upsample went with opset 10."""
    said = refusal(with_operator(tmp_path, "", name))
    assert f"the {name} that computes 'y', which opset 17 does not have in this form" in said


def test_an_operator_with_an_overload_is_none_of_onnx(tmp_path):
    model = model_of(RELU)
    model.graph.node[1].overload = "fast"
    insert = node("Relu", ["a"], ["y"]) | {"overload": "fast"}
    edit = {"remove": [node("Relu", ["a"], ["y"])], "insert": [insert]}
    assert "the output calls 'Relu.fast'" in refusal(forged(tmp_path, RELU, model, rewriting(edit)))


@pytest.mark.parametrize("domain", ["", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview"])
def test_no_function_takes_the_place_of_an_operator_of_onnx(domain):
    model = model_of(RELU)
    body = [helper.make_node("Identity", ["p"], ["q"])]
    model.functions.append(helper.make_function(domain, "Transpose", ["p"], ["q"], body, model.opset_import[:1]))
    with pytest.raises(Unreadable, match="a function 'Transpose' in a domain of ONNX's own operators"):
        plain_model(model, None, "m.onnx")


# ---- bodies and functions ----------------------------------------------------------------------------------------------

BRANCHES = """g (float[4,6] x, bool c) => (float[6,4] y) {
    y = If(c) <then_branch = t () => (float[6,4] r) { r = Transpose<perm=[1,0]>(x) },
               else_branch = e () => (float[6,4] s) { n = Neg(x) s = Transpose<perm=[1,0]>(n) }>
}"""
CALLED = """g (float[4,6] x, bool c) => (float[6,4] y) { y = d.F(x, c) }
<domain: "d", opset_import: ["": 17]> F (x, c) => (y) {
    y = If(c) <then_branch = t () => (r) { r = Transpose<perm=[1,0]>(x) }, else_branch = e () => (s) {
        n = Neg(x) s = Transpose<perm=[1,0]>(n) }>
}"""


@pytest.mark.parametrize("text", [BRANCHES, CALLED])
def test_bodies_count_once_and_prove_nothing(tmp_path, text):
    found = forged(tmp_path, text, text, **TRANSPOSES)
    assert "any runtime runs 2 Transposes, which move 192 bytes if each body runs once" in found.proven()
    assert not is_proven(found)
    found = forged(tmp_path, text, text, **GROUPS)
    assert not is_proven(found) and "without what bodies read and write" in found.told()


def test_operators_in_no_group_are_said(tmp_path):
    text = "g (float[4,6] x) => (float[4,6] y) <int64 k = {1}> { y = CumSum(x, k) }"
    found = forged(tmp_path, text, text, **GROUPS)
    assert is_proven(found) and "and 'CumSum' in none" in found.proven()


def test_a_constant_of_another_domain_is_no_constant(tmp_path):
    text = "g (float[4,6] x) => (float[4,6] y) { a = d.Constant(x) b = Shape(a) y = Reshape(x, b) }"
    told = forged(tmp_path, text, text, **GROUPS).told()
    assert "without values of unknown size" in told


def test_a_value_in_a_function_has_one_name_whatever_is_opened():
    """Sizes that inference finds only with all functions opened are those of the same values."""
    text = """<ir_version: 8, opset_import: ["": 17, "d": 1]>
    g (float[4,6] x) => (float[4,6] y) { a = d.F(x) b, c = d.G(a) e = d.H(b, c) d.N(e) y = d.F(e) }
    <domain: "d", opset_import: ["": 17]> F (p) => (q) { t = Relu(p) q = Neg(t) }
    <domain: "d", opset_import: ["": 17]> G (p) => (q, r) { q = Relu(p) t = d.F(q) r = Exp(t) }
    <domain: "d", opset_import: ["": 17]> H (p, q) => (r) { r = Add(p, q) }
    <domain: "d", opset_import: ["": 17]> N (p) => (q) { q = Neg(p) }"""
    model = parser.parse_model(text.replace("d.N(e)", "n = d.N(e)"))
    del model.graph.node[3].output[:]
    results = {}
    for kept in ([], [("d", "F", "")], [("d", "G", "")], [("d", "H", ""), ("d", "F", "")]):
        found = opened(model, kept).nodes
        values = [value for one in found for value in one.output]
        assert len(set(values)) == len(values)
        for one in found:
            for value in one.output:
                made = (one.op_type, tuple(one.input))
                assert one.domain == "d" or results.setdefault(value, made) == made


def test_a_name_within_a_function_is_no_name_of_the_graph(tmp_path):
    """An unused constant that is called like a value within does not give it its size."""
    text = """g (float[4,6] x) => (float[6,4] y) { y = d.F(x) }
    <domain: "d", opset_import: ["": 17]> F (p) => (q) { t = Relu(p) q = Transpose(t) }"""
    (inside,) = (value for one in opened(model_of(text)).nodes for value in one.output if value != "y")

    def name_alike(model):
        model.graph.initializer.append(helper.make_tensor(inside, TensorProto.FLOAT, [0, 0], []))

    model = changed(text, name_alike)
    assert "1 Transpose, which moves 96 bytes" in forged(tmp_path, model, model).proven()


def test_names_in_bodies_are_those_of_their_function(tmp_path):
    """The branch reads what the function is given, not its own value, which is called like that in the graph."""
    text = """g (float[4,6] v, bool c) => (float[6,4] y) { y = d.F(v, c) }
    <domain: "d", opset_import: ["": 17]> F (p, c) => (q) {
        q = If(c) <then_branch = t () => (r) { v = ReduceMax<keepdims=1>(p) n = Transpose(p) r = Add(n, v) },
                   else_branch = e () => (s) { s = Transpose(p) }>
    }"""
    told = forged(tmp_path, text, text).proven()
    assert "2 Transposes, which move 192 bytes if each body runs once" in told


def test_a_body_does_not_read_what_its_own_input_is_called_like(tmp_path):
    """Nothing but outputs reads a, so that no Transpose is needed: the body reads its own a."""
    text = """g (float[4,6] x, int64 n, bool c, float[6,4] z) => (float[4,6] y, float[6,4] w) {
        a = Relu(x) t = Transpose(a) b = Neg(t) y = Transpose(b)
        w = Loop(n, c, z) <body = l (int64 i, bool k, float[6,4] a) => (bool k, float[6,4] e) { e = Exp(a) }>
    }"""
    found = forged(tmp_path, text, text, **TRANSPOSES)
    assert not is_proven(found) and "proven is only that no alternative moves less than 0 bytes" in found.told()


def test_a_function_of_another_opset_proves_nothing(tmp_path):
    text = """g (float[4,6] x) => (float[4,6] y) { y = d.F(x) }
    <domain: "d", opset_import: ["": 12]> F (p) => (q) { q = Softmax(p) }"""
    for opsets in (["", "d"], ["d"]):
        model = model_of(text)
        kept = [entry for entry in model.opset_import if entry.domain in opsets]
        del model.opset_import[:]
        model.opset_import.extend(kept)
        found = forged(tmp_path, model, model, **TRANSPOSES)
        assert not is_proven(found) and "the function 'F' has another opset than its model" in found.told()


# ---- sizes -------------------------------------------------------------------------------------------------------------


SUMS = "s = ReduceSum<keepdims=1>(a) n = Sub(s, b)"
CASTS = "s = Cast<to=7>(a) n = Sub(s, b)"


@pytest.mark.parametrize(
    ("arithmetic", "a", "b", "known"),
    [
        (SUMS, np.array([3, 4]), np.array([2]), True),
        (SUMS, np.array([2**53, 1, 1]), np.array([2**53 - 1]), False),  # ONNX Runtime sums as float64
        (SUMS, np.array([2**31 - 1, 1, 6], np.int32), np.array([-(2**31)], np.int32), False),
        (CASTS, np.array([7.9], np.float32), np.array([2]), True),
        (CASTS, np.array([np.nan], np.float32), np.array([-5]), False),
        ("s = Mod<fmod=1>(a, b) n = Neg(s)", np.array([-(2**53) - 1]), np.array([7]), False),
        ("s = Slice(b, a, a, z, c) n = Neg(s)", np.array([-9]), np.array([-5, -6]), False),
        ("s = Slice(b, c, a, z, c) n = Neg(s)", np.array([-(2**63)]), np.array([-5]), True),
    ],
)
def test_sizes_that_readers_compute_differently_are_not_known(tmp_path, arithmetic, a, b, known):
    cast = "" if a.dtype != np.int32 else " k = Cast<to=7>(n)"
    model = model_of(f"g (float[1] x) => (float[N] y) {{ {arithmetic}{cast} y = Expand(x, {'k' if cast else 'n'}) }}")
    constants = {"a": a, "b": b, "c": np.array([-1]), "z": np.array([0])}
    read = {value for one in model.graph.node for value in one.input}
    model.graph.initializer.extend(numpy_helper.from_array(v, name) for name, v in constants.items() if name in read)
    found = forged(tmp_path, model, model, **ORDER)
    assert is_proven(found) is known
    assert known or "values of unknown size" in found.told()


# ---- limits --------------------------------------------------------------------------------------------------------------

BRANCHED = """g (float[4,4] x) => (float[4,4] y, float[4,4] z) {
    a = Relu(x) p = MatMul(a, a) t = Transpose(a) q = MatMul(t, t) y = Add(p, q) z = MatMul(q, p)
}"""


@pytest.mark.parametrize(
    ("module", "limit", "bound", "said"),
    [
        (minimum_cut, "_MAX_VISITS", TRANSPOSES, "its cut takes more than 1 visits of edges"),
        (grouping_bound, "_MAX_OPERATORS", GROUPS, "it has more than 1 operators"),
    ],
)
def test_a_bound_that_takes_too_long_is_not_checked_and_this_is_said(tmp_path, monkeypatch, module, limit, bound, said):
    monkeypatch.setattr(module, limit, 1)
    found = forged(tmp_path, BRANCHED, BRANCHED, **bound)
    assert not is_proven(found) and f"not checked, since {said}" in found.told()


def test_a_plan_of_too_many_pieces_is_not_read(tmp_path, monkeypatch):
    text = "g (float[2,3] x) => (float[2,3] y, float[1,3] p) { a = Relu(x) p, q = Split<axis=0>(a) y = Neg(a) }"
    bounds = [{"kind": "plan", "offsets": {"a": 0, "p": 0, "q": 12, "y": 24}}]
    assert "no two of them share bytes while in use" in forged(tmp_path, text, text, bounds=bounds).proven()
    for limit in ("MAX_HOLDERS", "MAX_PAIRS"):
        with monkeypatch.context() as patched:
            patched.setattr(arena, limit, 1)
            assert "the plan" in refusal(forged(tmp_path, text, text, bounds=bounds))


def test_a_search_that_is_stopped_proves_what_it_has_found(tmp_path, monkeypatch):
    monkeypatch.setattr(grouping_bound, "_MAX_VISITS", 1)
    told = forged(tmp_path, BRANCHED, BRANCHED, **GROUPS).told()
    assert (
        "proven is only that no alternative reads and writes less than" in told and "(the search was stopped)" in told
    )


# ---- what rewrites compute -----------------------------------------------------------------------------------------------

CALLING = """g (float[4,6] x) => (float[4,6] y) {{ a = {} s = Shape(a) y = ConstantOfShape(s) }}
<domain: "d", opset_import: ["": 17]> F (p) => (q) {{ q = {}(p) }}"""


def test_rewrites_are_evaluated_with_the_functions_of_their_time(tmp_path):
    """The pass takes a call of F for Exp, and F becomes Exp only when the file is exported."""
    call, exp = node("F", ["x"], ["a"]) | {"domain": "d"}, node("Exp", ["x"], ["a"])
    for body, equal in (("Relu", False), ("Exp", True)):
        function = {"domain": "d", "name": "F", "overload": "", "parameters": [], "opsets": {"": 17}, "defaults": {}}
        graph = {"inputs": ["p"], "outputs": ["q"], "nodes": [node("Exp", ["p"], ["q"])], "constants": {}}
        exporting = {"functions": [function | {"graph": graph}]} if body != "Exp" else {}
        found = forged(
            tmp_path,
            CALLING.format("d.F(x)", body),
            CALLING.format("Exp(x)", "Exp"),
            rewriting({"remove": [call], "insert": [exp]}, "swap"),
            rewriting(exporting, "exporting"),
        )
        told = "\n".join(one.sentence for one in found.check(runs=1).statements)
        assert ("for 1 of 1 rewrites, the removed and the inserted nodes alone give equal results" in told) is equal
        assert equal or "1 of 1 rewrites give different results alone" in told


SCALING = "g (float[4] x) => (float[4] y, float[4] w) <float k = {{{}}}> {{ y = Mul(x, k) {} }}"
ROUNDING = {
    "Casts": "h = Cast<to=16>(x) i = Cast<to=1>(h) w = Relu(i)",
    "Casts in a function": "i = d.Round(x) w = Relu(i)",
}
ROUND = """
<domain: "d", opset_import: ["": 17]> Round (p) => (q) { h = Cast<to=16>(p) q = Cast<to=1>(h) }"""


def constant(number):
    return {"type": 1, "shape": [], "sha256": hashlib.sha256(np.float32(number).tobytes()).hexdigest()}


@pytest.mark.parametrize("how", ROUNDING)
@pytest.mark.parametrize(("scale", "holds"), [(1, True), (1.019, False)])
def test_casts_on_the_way_to_one_output_allow_no_other_numbers_in_another(tmp_path, how, scale, holds):
    """w is rounded to bfloat16, by two parts in a hundred at most; y is not."""
    nodes = {
        "Casts": [
            node("Cast", ["x"], ["h"], to={"int": 16}),
            node("Cast", ["h"], ["i"], to={"int": 1}),
            node("Relu", ["i"], ["w"]),
        ],
        "Casts in a function": [node("Round", ["x"], ["i"]) | {"domain": "d"}, node("Relu", ["i"], ["w"])],
    }
    edit = {"remove": [node("Relu", ["x"], ["w"])], "insert": nodes[how]}
    edit |= {"drop": {"k": constant(1)}, "constants": {"k": constant(scale)}}
    model, output = SCALING.format(1, "w = Relu(x)") + ROUND, SCALING.format(scale, ROUNDING[how]) + ROUND
    found = forged(tmp_path, model, output, rewriting(edit), mode="ieee")
    if holds:
        answer = found.check(runs=4).answer
        assert "'w', computed in a narrower element type, off by" in answer and "all other outputs by 0.0e+00" in answer
    else:
        with pytest.raises(DoesNotHold, match="the output's 'y' differs by"):
            found.check(runs=4)


BEHIND = {
    "on the way": "r = Relu({x}) y = Mul(r, k)",
    "in a branch that hardly counts": "r = Relu(x) a = Mul(r, k) b = Mul({x}, e) y = Add(a, b)",
    "in a body": """y = If(c) <then_branch = g () => (t) {{ r = Relu({x}) t = Mul(r, k) }},
        else_branch = g () => (f) {{ f = Relu(x) }}>""",
}


def check_in_float32(folder, model, output, holds):
    """Whether the output is equal, or differs even without its narrower types."""
    files = [plain_model(one, folder, "m") for one in (model, output)]
    if holds:
        assert compared_runs(*files, {}, 4, "ieee", False).equal
    else:
        with pytest.raises(DoesNotHold, match="even with float32 in place of narrower types by"):
            compared_runs(*files, {}, 4, "ieee", False)


@pytest.mark.parametrize("where", BEHIND)
@pytest.mark.parametrize(("scale", "holds"), [(2, True), (2.01, False), (2.03, False)])
@pytest.mark.parametrize("to", [10, 16], ids=["float16", "bfloat16"])
def test_a_cast_on_the_way_to_an_output_allows_what_it_rounds_and_no_other_weight(tmp_path, where, scale, holds, to):
    text = "g (float[8,8] x) => (float[8,8] y) <float k = {{{}}}, float e = {{0.000001}}, bool c = {{1}}> {{ {} }}"
    casts = f"h = Cast<to={to}>(x) i = Cast<to=1>(h) "
    model = model_of(text.format(2, BEHIND[where].format(x="x")))
    output = model_of(text.format(scale, casts + BEHIND[where].format(x="i")))
    check_in_float32(tmp_path, model, output, holds)


def test_weights_in_a_narrower_type_are_off_by_their_rounding(tmp_path):
    text = "g (float[8,8] x) => (float[8,8] y) {{ {} y = Relu(a) }}"
    for scale, holds in ((0.3, True), (0.31, False)):
        model = model_of(text.format("a = Mul(x, k)"))
        output = model_of(text.format("h = Cast<to=10>(x) b = Mul(h, k) a = Cast<to=1>(b)"))
        model.graph.initializer.append(numpy_helper.from_array(np.float32(0.3), "k"))
        output.graph.initializer.append(numpy_helper.from_array(np.float16(scale), "k"))
        check_in_float32(tmp_path, model, output, holds)


def test_a_rewrite_alone_is_not_equal_if_it_changes_a_number_that_nothing_rounds(tmp_path):
    """It is multiplied by 0 behind it, so that a run of the whole does not show it."""
    text = """g (float[4] x) => (float[4] y, float[4] w) <float k = {{{}}}, float zero = {{0}}> {{
        a = Mul(x, k) {} y = Mul(z, zero) }}"""
    behind = "b = Cast<to=10>(a) z = Cast<to=1>(b) c = Cast<to=10>(x) d = Cast<to=1>(c) w = Relu(d)"
    model = text.format(1, "z = Identity(a) w = Relu(x)")
    rounding = {
        "remove": [node("Identity", ["a"], ["z"]), node("Relu", ["x"], ["w"])],
        "insert": [
            node("Cast", ["a"], ["b"], to={"int": 10}),
            node("Cast", ["b"], ["z"], to={"int": 1}),
            node("Cast", ["x"], ["c"], to={"int": 10}),
            node("Cast", ["c"], ["d"], to={"int": 1}),
            node("Relu", ["d"], ["w"]),
        ],
        "drop": {"k": constant(1)},
        "constants": {"k": constant(1.019)},
    }
    found = forged(tmp_path, model, text.format(1.019, behind), rewriting(rounding), mode="ieee").check(runs=2)
    told = "\n".join(one.sentence for one in found.statements if not one.proven)
    assert "1 of 1 rewrites give different results alone" in told
