"""The parts of `workbench/rewrite/core`, each by itself: guards, rules on graphs and bodies, the record of a run."""

import time
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from passes import find_pass
from tests.running import typed
from workbench.errors import UserError
from workbench.ir import Edit, Graph, IllFormedError, Node, TensorType, constant, from_text, to_text
from workbench.ir.preserved_metadata import PassthroughFields
from workbench.ir.types import DataType, MissingConstant
from workbench.ir.versioned import versioned_domain
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext
from workbench.rewrite.core import greedy_driver
from workbench.rewrite.core.amplified_rounding import (
    AMPLIFIES_FROM,
    amplifier_of,
    amplifier_of_edit,
    magnitude_of,
)
from workbench.rewrite.core.bodies import closed_body, opened_body, with_body
from workbench.rewrite.core.content import attribute_key
from workbench.rewrite.core.counterexamples import Counterexample, WrongLaw
from workbench.rewrite.core.dead_code import dead_chain_removal, dead_node_removals
from workbench.rewrite.core.driver import BrokenPassError, run_pass
from workbench.rewrite.core.equal_constants import shared_constants
from workbench.rewrite.core.exactness import Exactness
from workbench.rewrite.core.exclusion import ExcludedRewrites, ExcludedRewritesOfRounds
from workbench.rewrite.core.greedy_driver import RunawayError, apply_rules
from workbench.rewrite.core.guards import (
    broadcasts_into,
    is_same_axis,
    is_same_shape,
    one_of,
    permutation,
    replace_with_operand,
    require_constant,
    require_float_or_double,
    require_floating,
    require_integers,
    require_no_other_users,
    require_producer,
    require_signed_integers,
    require_single_use,
)
from workbench.rewrite.core.history import Excluded, History, Step
from workbench.rewrite.core.identity import ANY_ORDINAL, RewriteId, read_rewrite_id
from workbench.rewrite.core.limits import RuleLimits, constant_bytes, largest_constants
from workbench.rewrite.core.packing import newly_prepacked
from workbench.rewrite.core.passes import OptionError, Pass, option, with_options
from workbench.rewrite.core.permission import why_not_allowed
from workbench.rewrite.core.provenance import update_provenance, written_provenance
from workbench.rewrite.core.refusing import refused_by
from workbench.rewrite.core.rule import AppliedRewrite, Example, NoMatch, Rewrite, Rule


def context(**more) -> PassContext:
    return PassContext(load_profile("cuda"), **more)


CONTEXT = context()


def refusal_of(guard, *arguments) -> str:
    with pytest.raises(NoMatch) as raised:
        guard(*arguments)
    return str(raised.value)


# ---- guards --------------------------------------------------------------------


def test_guards_of_users_and_producers():
    graph = typed("""g (float[2] x) => (float[2] y, float[1] f) <float[2] k = {1, 2}> {
        a = Relu(x)  b = Add(a, a)  c = Neg(b)  d = Abs(b)  e, f = Split<num_outputs = 2>(c)  h = Mul(d, k)  y = Exp(h) }""")
    node = graph.node
    assert require_constant(graph, "k", node("Mul_h")).tolist() == [1, 2]
    assert (
        refusal_of(require_constant, graph, "d", node("Mul_h")) == "'d', an operand of Mul 'Mul_h', is not a constant"
    )
    assert require_producer(graph, "d", ("Abs", "Neg"), node("Mul_h")) is node("Abs_d")
    assert refusal_of(require_producer, graph, "d", ("Relu",), node("Mul_h")) == "Mul 'Mul_h' does not follow a Relu"
    assert (
        refusal_of(require_producer, graph, "x", ("Add", "Exp"), node("Relu_a"))
        == "Relu 'Relu_a' does not follow an Add or Exp"
    )
    require_single_use(graph, node("Mul_h"), node("Abs_d"))
    assert (
        refusal_of(require_single_use, graph, node("Add_b"), node("Relu_a"))
        == "Add 'Add_b' reads 'a' of Relu 'Relu_a' twice"
    )
    assert (
        refusal_of(require_single_use, graph, node("Neg_c"), node("Add_b"))
        == "Abs 'Abs_d' reads 'b' of Add 'Add_b' too"
    )
    require_no_other_users(graph, node("Add_b"), (node("Neg_c"), node("Abs_d")))
    assert "is an output of the graph" in refusal_of(require_no_other_users, graph, node("Split_e"), ())
    require_no_other_users(graph, node("Split_e"), (), shared=("f",))


def test_a_node_gives_way_to_its_operand_unless_public_names_prevent_it():
    graph = from_text("""g (float[2] x) => (float[2] y, float[2] z, float[2] w) {
        a = Relu(x)  y = Identity(x)  z = Identity(a)  b = Identity(x)  c = Neg(b)  w = Identity(z) }""")
    inner = replace_with_operand(graph, graph.node("Identity_b"), "x", "said", (graph.node("Neg_c"),))
    assert inner.edit == Edit(remove=("Identity_b",), replace={"b": "x"})
    assert (inner.sentence, inner.nodes) == ("said", ("Neg_c", "Identity_b"))
    assert replace_with_operand(graph, graph.node("Identity_z"), "a", "").edit.replace == {"z": "a"}
    assert "input or constant 'x' would become the output 'y'" in refusal_of(
        replace_with_operand, graph, graph.node("Identity_y"), "x", ""
    )
    assert "are both outputs of the graph" in refusal_of(replace_with_operand, graph, graph.node("Identity_w"), "z", "")


def test_guards_of_element_types():
    dtypes = {"i": "INT32", "u": "UINT8", "f": "FLOAT", "d": "DOUBLE", "h": "FLOAT16", "b": "BOOL"}
    graph = Graph(
        inputs=[*dtypes, "n"], types={value: TensorType(DataType[name], (1,)) for value, name in dtypes.items()}
    )
    node = Node("Op", (), ("y",), name="op")

    def allowed(guard):
        def passes(value):
            try:
                guard(graph, value, node)
            except NoMatch as no:
                assert f"'{value}', an operand of Op 'op', is " in str(no)
                return False
            return True

        return "".join(filter(passes, (*dtypes, "n")))

    guards = (require_integers, require_signed_integers, require_floating, require_float_or_double)
    assert [*map(allowed, guards)] == ["iu", "i", "fdh", "fd"]
    assert "is uint8, not a signed integer" in refusal_of(require_signed_integers, graph, "u", node)
    assert "is not known, not a signed integer" in refusal_of(require_signed_integers, graph, "n", node)


def test_guards_of_shapes():
    assert (
        is_same_shape((1, "N"), (1, "N")) and not is_same_shape((1, None), (1, None)) and not is_same_shape(None, None)
    )
    assert not is_same_shape((1,), (2,))
    assert is_same_axis(1, 1, None) and is_same_axis(-1, 2, 3) and is_same_axis(2, -1, 3)
    assert not is_same_axis(-1, 1, 3) and not is_same_axis(-1, 2, None) and not is_same_axis(0, -1, 0)
    assert is_same_axis(0, -1, 1)
    assert broadcasts_into((1, 3), (2, 3)) and broadcasts_into((3,), (2, 3)) and broadcasts_into((), (2,))
    assert broadcasts_into(("N",), (2, "N")) and broadcasts_into((1,), (None,)) and broadcasts_into((1, 1), (0, "N"))
    for small, large in (((2, 3), (3,)), ((2,), (3,)), ((None,), (None,)), ((3,), (1,)), (None, (1,)), ((1,), None)):
        assert not broadcasts_into(small, large), (small, large)
    assert [one_of(names) for names in (("Add",), ("Relu",), ("Add", "Sub", "Mul"))] == [
        "an Add",
        "a Relu",
        "an Add, Sub or Mul",
    ]
    graph = Graph(inputs=["x"], types={})
    assert permutation(graph, Node("Transpose", ("x",), ("y",), {"perm": (1, 0)}, "t")) == (1, 0)
    assert "whose rank is not known" in refusal_of(permutation, graph, Node("Transpose", ("x",), ("y",), name="t"))


# ---- small analyses --------------------------------------------------------------


def test_dead_chains_go_with_what_only_they_read():
    graph = from_text("""g (float[2] x) => (float[2] y, float[2] z) {
        z = Sqrt(x)  a = Relu(z)  b = Neg(a)  c = Abs(a)  d = Add(b, c)  e = Exp(d)
        y = Tanh(x)  f = Floor(y)  p, q = Split<num_outputs = 2>(x)  s = Sin(p) }""")
    removals = {rewrite.nodes[0]: rewrite for rewrite in dead_node_removals(graph)}
    assert [*removals] == ["Sin_s", "Floor_f", "Exp_e"]
    assert removals["Exp_e"].edit.remove == ("Exp_e", "Add_d", "Neg_b", "Abs_c") or set(removals["Exp_e"].nodes) == {
        *("Exp_e", "Add_d", "Neg_b", "Abs_c", "Relu_a")
    }
    assert removals["Floor_f"].sentence == "Floor 'Floor_f' is unused; removed"
    assert (
        removals["Sin_s"].sentence
        == "Sin 'Sin_s' is unused; removed with Split 'Split_p' before it, which nothing else reads"
    )
    assert "with 4 nodes before it" in removals["Exp_e"].sentence
    assert {rewrite.exactness for rewrite in removals.values()} == {Exactness.BIT_EXACT}
    for rewrite in removals.values():
        graph.apply(rewrite.edit)
    assert [node.name for node in graph.nodes] == ["Sqrt_z", "Tanh_y"]
    one = from_text("g (float[2] x) => (float[2] y) { a = Relu(x)  b = Neg(a)  c = Abs(a)  y = Exp(c) }")
    assert dead_chain_removal(one, one.node("Neg_b")).nodes == ("Neg_b",)


def test_equal_constants_become_one():
    text = """g (float[2] x) => (float[2] y, float[2] d) <float[2] a = {1, 2}, float[2] b = {1, 2}, float[2] c = {1, 2},
        float[2] d = {1, 2}, float[1,2] e = {1, 2}, int64[1] i = {7}, int64[1] j = {7}> {
        p = Add(x, a)  q = Mul(p, b)  r = Sub(q, c)  s = Div(r, d)  t = Add(s, e)  u = Gather(t, i)  y = Gather(u, j) }"""

    def shared(*names):
        return [(r.edit.replace, r.sentence, r.nodes) for r in shared_constants(from_text(text), names)]

    assert shared("b") == [({"b": "a"}, "constant 'b' holds the same as 'a'; 8 bytes less", ("Mul_q",))]
    assert shared("b", "c", "d", "nobody") == [
        ({"b": "a", "c": "a"}, "constant 'b' and 1 other hold the same as 'a'; 16 bytes less", ("Mul_q", "Sub_r"))
    ]
    everything = shared("a", "b", "c", "d", "e", "i", "j")
    assert [replaced for replaced, *_ in everything] == [{"b": "a", "c": "a"}, {"j": "i"}]
    assert shared("a", "e") == []
    graph = from_text(text)
    graph.apply(
        Edit(constants={"b": MissingConstant(lambda: None, dtype=DataType.FLOAT, shape=graph.constants["a"].shape)})
    )
    assert [r.edit.replace for r in shared_constants(graph, ["b", "c"])] == [{"c": "a"}]
    many = from_text(
        text.replace("float[2] d =", "float[2] f = {1, 2}, float[2] d =").replace(
            "s = Div(r, d)", "o = Neg(f)  s = Div(r, d)"
        )
    )
    (rewrite,) = shared_constants(many, ["b", "c", "f"])
    assert rewrite.sentence == "constant 'b' and 2 others hold the same as 'a'; 24 bytes less"


@pytest.mark.parametrize(("op", "gates", "place"), [("LSTM", 4, 1), ("LSTM", 4, 2), ("GRU", 3, 1), ("GRU", 3, 2)])
def test_weights_of_recurrent_operators_are_packed_too(op, gates, place):
    w, r = (f"float[1,{2 * gates},2] {name}" for name in "wr")
    graph = typed(
        f"g (float[3,1,2] x, {w}, {r}) => (float[3,1,1,2] y) {{ n = Neg({'wr'[place - 1]})"
        f" y = {op}<hidden_size=2>(x, {'n' if place == 1 else 'w'}, {'n' if place == 2 else 'r'}) }}"
    )
    weight = constant(np.zeros((1, 2 * gates, 2), np.float32))
    assert newly_prepacked(graph, Edit(remove=("Neg_n",), constants={"n": weight})) is graph.node(f"{op}_y")


def test_operands_that_would_be_packed_anew():
    graph = typed("""g (float[2,2] x, float[2,2] v) => (float[2,2] y) <float[2,2] k = {1, 2, 3, 4}, float[2,2] l = {1, 2, 3, 4}> {
        w = Neg(k)  m = MatMul(x, w)  n = MatMul(w, x)  o = Gemm(n, l)  y = Add(o, m) }""")
    computed = {"w": constant(np.zeros((2, 2), np.float32))}
    assert newly_prepacked(graph, Edit(remove=("Neg_w",), constants=computed)) is graph.node("MatMul_m")
    assert newly_prepacked(graph, Edit(replace={"w": "k"})) is graph.node("MatMul_m")
    assert newly_prepacked(graph, Edit(replace={"w": "new"}, constants={"new": computed["w"]})) is graph.node(
        "MatMul_m"
    )
    for edit in (
        Edit(replace={"w": "v"}),
        Edit(replace={"l": "k"}),
        Edit(constants={"l": computed["w"]}),
        Edit(replace={"n": "k"}),
        Edit(constants={"w": None}),
    ):
        assert newly_prepacked(graph, edit) is None


def test_words_of_counterexamples():
    shown = Counterexample({"x": 0.5, "y": [1, -2.0]}, 1.0, 0.25, "it rounds", "g (float  x)\n => y")
    assert (
        str(shown)
        == "with x = 0.5 and y = [1, -2] the result is 1 before and 0.25 after, since it rounds (in g (float x) => y)"
    )
    assert (
        str(replace(shown, inputs={"x": 3}, graph=""))
        == "with x = 3 the result is 1 before and 0.25 after, since it rounds"
    )
    law = WrongLaw("for floats: a + b == b", {"a": 1, "b": 2, "c": 3}, (3, 2), "It is printed.")
    assert str(law) == "a + b == b is wrong: with a = 1, b = 2 and c = 3 it says 3 == 2. It is printed."


# ---- identities ------------------------------------------------------------------


def test_identities_as_text_and_former_names():
    identity = RewriteId("cancel@bn", "loop/body/a#1", 12)
    assert read_rewrite_id(str(RewriteId("cancel", "a#1@b", 12))) == RewriteId("cancel", "a#1@b", 12)
    assert read_rewrite_id(str(identity)) == RewriteId("cancel", "bn@loop/body/a#1", 12)
    assert [
        read_rewrite_id(text)
        for text in ("", "rule", "rule@node", "rule@node#", "rule@node#x", "rule@node#-1", "r@n#1234567890")
    ] == [None] * 7
    assert read_rewrite_id("behind a Reshape@n#0", "fold_pad") == RewriteId("before a Reshape and Conv", "n", 0)
    assert read_rewrite_id("behind a Reshape@n#0", "fold_pad#2").rule == "before a Reshape and Conv"
    assert (
        read_rewrite_id("behind a Reshape@n#0", "other").rule
        == read_rewrite_id("behind a Reshape@n#0").rule
        == "behind a Reshape"
    )
    assert read_rewrite_id("fold_pad.behind a Reshape@n#0").rule == "fold_pad.before a Reshape and Conv"
    assert read_rewrite_id("outer.fold_pad.behind a Reshape@n#0").rule == "outer.fold_pad.before a Reshape and Conv"


FORMER_NAMES = """
    algebra_constants.bounds
    algebra_factor.multiples
    algebra_reduce.twice
    fold_constants.side by side
    algebra_reduce.twice, of integers
    cancel_pairs.expand and its bound
    fill_less.filled and cut
    fold_pad.before a largest
    fold_shapes.side by side
    known_selections.condition that is known
    known_selections.condition that is true
    push_transposes.through a function
    remove_neutral.truth
    remove_neutral.zero added to no -0.0
    remove_neutral.zero of another sign
    remove_neutral_parameters.bound beyond all
    remove_neutral_parameters.neutral normalization of no -0.0
    remove_of_one.bound of one
    remove_of_one.mean or bound of one
    shrink_first.gather of a function
    shrink_first.slice of a function
    split_tensors.taken apart again
    unroll_loops.few turns
    useless_transposes.before a bound of all
    useless_transposes.before a bound of integers
"""


@pytest.mark.parametrize("former", [*map(str.strip, FORMER_NAMES.strip().splitlines())])
def test_links_of_version_0_1_name_rules_that_exist(former):
    pass_name, _, old = former.partition(".")
    names = {rule.name for rule in find_pass(pass_name).rules}
    assert old not in names and read_rewrite_id(f"{old}@n#0", pass_name).rule in names


def proposed(node, rule="", **more):
    by = None if not rule else SimpleNamespace(name=rule)
    return Rewrite(Edit(), "", (node,) if node else (), by=by, **more)


def test_rewrites_that_are_left_out():
    excluded = ExcludedRewrites([RewriteId("", "n", 1), RewriteId("rule", "m", ANY_ORDINAL)])
    assert proposed("n") not in excluded and excluded.add_done(proposed("n")) == RewriteId("", "n", 0)
    assert proposed("n") in excluded and proposed("n") in excluded
    assert excluded.add_done(proposed("n")) == RewriteId("", "n", 1) and proposed("n") not in excluded
    assert proposed("m", "rule") in excluded and proposed("m") not in excluded
    excluded.add_done(proposed("m", "rule"))
    assert proposed("m", "rule") in excluded
    assert excluded.names("rule", "m") and not excluded.names("rule", "n") and excluded.names("", "n")
    assert proposed("n") not in ExcludedRewrites()
    inner = ExcludedRewritesOfRounds(ExcludedRewrites([RewriteId("fold.rule", "n", 0)]), "fold")
    assert proposed("n", "rule") in inner and proposed("n") not in inner
    assert inner.add_done(proposed("n", "rule")) == RewriteId("rule", "n", 0)
    assert proposed("n", "rule").within("a").within("b").rule_name == "b.a.rule"
    assert proposed("", matched_at="loop/body/n").root == "loop/body/n" and proposed("").root == ""


# ---- rules on graphs and bodies ----------------------------------------------------


def rule_of(name, operators, match, **more):
    more = {"exactness": Exactness.BIT_EXACT, **more}
    return Rule(name, operators, match, Example("", "", ()), **more)


def undo_neg(graph, node, pass_):
    before = require_producer(graph, node.inputs[0], ("Neg",), node)
    return replace_with_operand(graph, node, before.inputs[0], "double", (before,))


def rename_to(op):
    def match(graph, node, pass_):
        return Rewrite(Edit(remove=(node.name,), insert=(node.replace(op_type=op),)), f"to {op}", (node.name,))

    return match


NEGS = "g (float[2] x) => (float[2] y) { a = Neg(x)  b = Neg(a)  c = Neg(b)  d = Neg(c)  y = Abs(d) }"
TWO_NEGS = rule_of("double", ("Neg",), undo_neg)


def run_rules(rules, text, is_allowed=lambda *_: True):
    graph = typed(text)
    found = []
    for rewrite in apply_rules(rules, graph, SimpleNamespace(name="tested"), is_allowed):
        graph.apply(rewrite.edit)
        found.append(rewrite)
    return graph, found


def test_rules_are_tried_again_around_each_change():
    graph, found = run_rules([TWO_NEGS], NEGS)
    assert [n.op for n in graph.nodes if graph.count_users(n.outputs[0]) or graph.is_output(n.outputs[0])] == ["Abs"]
    assert all(rewrite.by is TWO_NEGS and rewrite.exactness == Exactness.BIT_EXACT for rewrite in found)
    assert found[0].matched_at == "Neg_b" and found[0].root == "Neg_b"
    none, found = run_rules([TWO_NEGS], NEGS, is_allowed=lambda graph, rewrite, parents: False)
    assert not found and to_text(none) == to_text(typed(NEGS))
    asked = rule_of("asked", ("Neg",), undo_neg, may_match=lambda graph, node: node.name == "Neg_d")
    assert [rewrite.matched_at for rewrite in run_rules([asked], NEGS)[1]] == ["Neg_d"]


def test_the_first_rule_that_matches_acts_and_stars_match_all():
    def refuse(graph, node, pass_):
        raise NoMatch("never")

    rules = [
        rule_of("never", ("*",), refuse),
        rule_of("exp", ("Abs",), rename_to("Exp")),
        rule_of("sin", ("Abs",), rename_to("Sin")),
    ]
    graph, found = run_rules(rules, NEGS)
    assert graph.producer("y").op == "Exp" and [rewrite.by.name for rewrite in found] == ["exp"]
    once = rule_of("any", ("*",), rename_to("Sqrt"), may_match=lambda graph, node: node.op in ("Abs", "Neg"))
    assert {node.op for node in run_rules([once], NEGS)[0].nodes} == {"Sqrt"}


def test_a_pass_without_end_is_stopped():
    rules = [rule_of("to", ("Abs",), rename_to("Exp")), rule_of("fro", ("Exp",), rename_to("Abs"))]
    with pytest.raises(RunawayError, match="pass tested does not end; its last rewrite: to"):
        run_rules(rules, NEGS)
    limit = greedy_driver._MAX_REWRITES_PER_NODE * 5 + 100
    graph, found = typed(NEGS), 0
    with pytest.raises(RunawayError):
        for rewrite in apply_rules(rules, graph, SimpleNamespace(name="tested")):
            graph.apply(rewrite.edit)
            found += 1
    assert found == limit


BODIES = """g (bool c, float[2] x) => (float[2] y) <float[2] k = {1, 2}> {
    v = Neg(x)
    y = If(c) <then_branch = t () => (float[2] p) { a = Neg(v)  p = Add(a, k) },
               else_branch = e () => (float[2] q) <float[2] l = {3, 4}> { a = Neg(x)  b = Neg(a)  s = Neg(b)  r = Neg(s)  q = Mul(r, l) }>
}"""


def test_rules_in_bodies_replace_the_node_and_say_where():
    graph, found = run_rules([TWO_NEGS], BODIES)
    assert found and {rewrite.nodes for rewrite in found} == {("If_y",)}
    assert all(rewrite.sentence == "in else_branch of If 'If_y': double" for rewrite in found)
    assert found[0].root == "If_y/else_branch/Neg_b"
    assert graph.node("If_y").bodies["else_branch"].producer("q").inputs == ("x", "l")
    assert set(graph.node("If_y").operands) >= {"c", "x", "v", "k"}
    asked = []
    run_rules([TWO_NEGS], BODIES, is_allowed=lambda graph, rewrite, parents: bool(asked.append(rewrite.root)))
    assert asked and all(root.startswith("If_y/else_branch/") for root in asked)


def test_a_body_is_opened_with_what_it_captures_and_closed_without():
    graph = typed(BODIES)
    graph.dims, graph.reserved = {"N": 3}, frozenset({"taken"})
    body = graph.node("If_y").bodies["then_branch"]
    inside = opened_body(graph, body)
    assert inside.inputs == ("v",) and set(inside.constants) == {"k"} and inside.dims == {"N": 3}
    assert inside.types["v"] == graph.types["v"] and inside.type("a") == TensorType(DataType.FLOAT, (2,))
    assert inside.reserved >= {"taken", "x", "v", "y", "c", "k"} and inside.opset_imports == graph.opset_imports
    inside.apply(Edit(remove=("Neg_a",), insert=(Node("Exp", ("v",), ("a",), name="Neg_a"),)))
    closed = closed_body(inside, body, graph)
    assert closed.inputs == () and not closed.constants and set(closed.types) == {"a", "p"}
    assert set(closed.captured) == {"v", "k"} and closed.name == body.name
    node = with_body(graph.node("If_y"), "then_branch", closed)
    assert (
        node.bodies["then_branch"] is closed and node.bodies["else_branch"] is graph.node("If_y").bodies["else_branch"]
    )
    several = Node("Many", (), ("y",), {"bodies": (body, body, body), "k": 1})
    assert list(with_body(several, "bodies[1]", closed).bodies.values()) == [body, closed, body]


# ---- limits ------------------------------------------------------------------------


def test_limits_of_names_and_bytes():
    graph = typed("""g (float[2] x) => (float[2] y) <float[2] k = {1, 2}> { a = Add(x, k)  b = Neg(a)  y = Abs(b) }""")
    keep = RuleLimits(keep=frozenset({"Neg_b", "k"}))
    node = graph.node
    assert keep.refusal(graph, Edit(remove=("Neg_b",), replace={"b": "a"})) == "'Neg_b' is to be kept"
    assert keep.refusal(graph, Edit(remove=("Neg_b",), insert=(node("Neg_b"),))) == ""
    assert keep.refusal(graph, Edit(remove=("Add_a",), replace={"a": "x"})) == "'k' is to be kept"
    assert keep.refusal(graph, Edit(remove=("Add_a",), insert=(Node("Sub", ("x", "k"), ("a",), name="n"),))) == ""
    assert keep.refusal(graph, Edit(remove=("Abs_y",))) == "" == RuleLimits().refusal(graph, Edit(remove=("Neg_b",)))

    assert constant_bytes(graph) == 8 and largest_constants(graph, 1.0) == 8
    assert largest_constants(graph, 2.0) == 8 + 8 + 64 * 3

    def grown(count, limit, remove=("Add_a",), reads=("x", "new")):
        new = {"new": constant(np.zeros(count, np.float32))}
        edit = Edit(remove=remove, insert=(Node("Add", reads, ("a",), name="n"),), constants=new)
        return RuleLimits(constant_bytes=limit).refusal(graph, edit)

    assert grown(256, 0) == "" and grown(256, None) == ""  # 1,024 bytes are small
    assert (
        grown(300, 1200) == ""
        and grown(300, 1199) == "constants would take 1,200 bytes, and may take 1,199; --grow sets that"
    )
    assert grown(300, 1200, reads=("k", "new")).startswith("constants would take 1,208 bytes")
    assert (
        grown(300, 1207, remove=()).startswith("constants would take 1,208 bytes") and grown(300, 1208, remove=()) == ""
    )


def test_a_constant_that_another_node_reads_is_no_gain():
    graph = typed("g (float[400] x) => (float[400] y, float[400] z) { y = Add(x, k)  z = Mul(x, k) }")
    graph.apply(Edit(constants={"k": constant(np.zeros(400, np.float32))}))
    new = {"new": constant(np.ones(400, np.float32))}

    def refusal(*removed):
        insert = tuple(Node(op, ("x", "new"), (out,), name=f"n_{out}") for op, out in removed)
        edit = Edit(remove=tuple(f"{op}_{out}" for op, out in removed), insert=insert, constants=new)
        return RuleLimits(constant_bytes=1600).refusal(graph, edit)

    assert refusal(("Add", "y")).startswith("constants would take 3,200 bytes")
    assert refusal(("Add", "y"), ("Mul", "z")) == ""


def test_a_file_that_stays_at_its_opset_gets_no_newer_call():
    """Even where nobody asked for an opset: a call of the graph has no form at any other."""
    graph = typed("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    edit = Edit(remove=("Relu_y",), insert=(Node("Gelu", ("x",), ("y",), name="n"),))
    assert RuleLimits().refusal(graph, edit) == ""
    graph.opset_imports[versioned_domain(11)] = 1
    assert RuleLimits().refusal(graph, edit) == "opset 11, which is kept, has no such Gelu"


def test_a_rule_that_packs_an_operand_anew_is_held_back_in_mode_exact_alone():
    graph = typed("g (float[2,2] x) => (float[2,2] y) <float[2,2] k = {1, 2, 3, 4}> { w = Neg(k)  y = MatMul(x, w) }")
    computed = {"w": constant(np.zeros((2, 2), np.float32))}
    proposed = Rewrite(Edit(remove=("Neg_w",), constants=computed), "computed", ("Neg_w",))
    why_not = {mode: why_not_allowed(graph, proposed, context(mode=mode)) for mode in ("exact", "ieee", "fast")}
    assert why_not["exact"].startswith("in mode exact MatMul 'MatMul_y' must keep its operand computed")
    assert why_not["ieee"] == why_not["fast"] == ""


def test_the_growth_once_all_parts_of_a_weight_are_computed_counts():
    """A weight of 4,000 bytes that two nodes take apart: the first part alone is growth, both together are not."""
    graph = typed(
        """g (float[500] x) => (float[500] y) <float[1000] w = {0}, int64[1] zero = {0}, int64[1] half = {500}, int64[1] all = {1000}> {
        a = Slice(w, zero, half)  b = Slice(w, half, all)  c = Add(x, a)  y = Add(c, b) }""".replace(
            "{0}, int64[1] zero", "{" + ", ".join(["0"] * 1000) + "}, int64[1] zero"
        )
    )
    part = Edit(remove=("Slice_a",), constants={"a": constant(np.zeros(500, np.float32))})
    limit = constant_bytes(graph)
    assert RuleLimits(constant_bytes=limit).refusal(graph, part) == ""
    graph.apply(Edit(remove=("Slice_b",), insert=(Node("Slice", ("x", "half", "all"), ("b",), name="Slice_b"),)))
    other = Edit(
        remove=("Add_c",),
        insert=(Node("Add", ("x", "new"), ("c",), name="n"),),
        constants={"new": constant(np.zeros(500, np.float32))},
    )
    assert "constants would take" in RuleLimits(constant_bytes=constant_bytes(graph)).refusal(graph, other)


# ---- passes and the record of a run --------------------------------------------------


@dataclass(frozen=True)
class Optioned(Pass):
    """A pass for tests.

    More of it.
    """

    title = "Tested"
    size: int = option(4, "The size.", least=2)
    share: float = option(0.5, "A share.")
    force: bool = option(False, "Whether.")
    kind: str = option("a", "Which.", choices=("a", "b"))
    other_: int | None = option(None, "Renamed.", called="other")
    hidden: int = 7


def test_options_are_read_as_their_types_and_checked():
    assert with_options(Optioned, {}) == Optioned()
    read = with_options(Optioned, {"size": "1,024", "share": "0.25", "force": "on", "kind": "b", "other": "1_000"})
    assert (
        read == Optioned(1024, 0.25, True, "b", 1000)
        and read.options()["other"] == 1000
        and "hidden" not in read.options()
    )
    for text, value in {
        "true": True,
        "YES": True,
        "1": True,
        "off": False,
        "No": False,
        "0": False,
        "false": False,
    }.items():
        assert with_options(Optioned, {"force": text}).force is value
    assert with_options(Optioned, {"size": 2, "share": 3.5}) == Optioned(2, 3.5)
    wrong = {
        "hidden": "has no option 'hidden'; its options are: size, share, force, kind, other",
        "size": "option test_rewrite_core.size must be a number, not 'x'",
        "force": "option test_rewrite_core.force is on or off, not 'x'",
        "kind": "option test_rewrite_core.kind must be one of a, b, not 'x'",
    }
    for name, words in wrong.items():
        with pytest.raises(OptionError, match=words):
            with_options(Optioned, {name: "x"})
    with pytest.raises(OptionError, match="must be at least 2, not 1"):
        with_options(Optioned, {"size": "1"})
    with pytest.raises(OptionError, match="must be a finite number, not inf"):
        with_options(Optioned, {"share": "inf"})


def test_a_pass_says_what_it_is_and_misses():
    assert Optioned().name == "test_rewrite_core" and Optioned.missing() == "" and Optioned.examples() == ()
    assert Optioned.summary() == __doc__.strip()

    class Lacking(Optioned):
        packages = ("numpy", "no_such_package", "nor_this")

    assert Lacking.missing() == "no_such_package and nor_this is not installed; pip install no_such_package nor_this"
    assert Lacking.summary().endswith(f"Not available: {Lacking.missing()}.")
    assert not Optioned.is_bit_equal() and with_rules(TWO_NEGS).is_bit_equal()
    assert type("Exact", (Optioned,), {"exactness": Exactness.BIT_EXACT}).is_bit_equal(), "it has no rule to ask"
    assert not with_rules(TWO_NEGS, replace(TWO_NEGS, exactness=Exactness.STEP)).is_bit_equal()
    with pytest.raises(NotImplementedError, match="defines neither rules nor `rewrites`"):
        Optioned().rewrites(Graph(), CONTEXT)


def with_rules(*rules):
    return type("WithRules", (Optioned,), {"rules": rules})()


def with_rewrites(function, **fields):
    return type("WithRewrites", (Optioned,), {"rewrites": lambda self, graph, context: function(graph), **fields})()


def test_a_mode_and_limits_hold_rules_back():
    exact, fast = context(mode="exact"), context(mode="fast")
    rounding = with_rules(replace(TWO_NEGS, exactness=Exactness.FAST_MATH))

    def rewrites(pass_, context, **options):
        graph = typed(NEGS)
        return run_pass(pass_, graph, context, **options).rewrites

    assert rewrites(rounding, fast) and not rewrites(rounding, CONTEXT) and rewrites(with_rules(TWO_NEGS), exact)
    kept = context(limits=RuleLimits(keep=frozenset({"Neg_b", "Neg_c", "Neg_d"})))
    assert not rewrites(with_rules(TWO_NEGS), kept)
    excluded = [RewriteId("double", "Neg_b", ANY_ORDINAL)]
    left = {rewrite.id.node for rewrite in rewrites(with_rules(TWO_NEGS), CONTEXT, exclude=excluded)}
    assert left and "Neg_b" not in left, "rules go on without what is left out"
    procedure = with_rewrites(
        lambda graph: iter([Rewrite(Edit(remove=("Abs_y",), replace={"y": "d"}), "s", ("Abs_y",))])
    )
    assert len(rewrites(procedure, CONTEXT)) == 1 and not rewrites(procedure, exact)
    assert not rewrites(procedure, CONTEXT, exclude=[RewriteId("", "Abs_y", 0)])


def test_a_step_has_what_was_done_and_how():
    facts, seen = SimpleNamespace(sentence="found"), []

    def rewrites(graph):
        yield Rewrite(Edit(remove=("Neg_d",), replace={"d": "c"}), "first", ("Neg_d",), "case")
        yield Rewrite(Edit(remove=("Neg_c",), replace={"c": "b"}), "second", ("Neg_c",), exactness=Exactness.BIT_EXACT)
        return facts

    graph = typed(NEGS)
    step = run_pass(with_rewrites(rewrites), graph, CONTEXT, check_each=True, on_rewrite=seen.append)
    assert step.conclusion == "found" and seen == list(step.rewrites) and step.changed and step.label == step.pass_name
    assert [(r.sentence, r.case, r.exactness, r.rule) for r in step.rewrites] == [
        ("first", "case", Exactness.ROUNDING, None),
        ("second", "", Exactness.BIT_EXACT, None),
    ]
    assert (step.before["nodes"], step.after["nodes"]) == (5, 3) and "2 rewrites, 5 nodes to 3" in repr(step)
    assert [r.id for r in step.rewrites] == [RewriteId("", "Neg_d", 0), RewriteId("", "Neg_c", 0)]
    assert step.options["size"] == 4 and step.title == "Tested" and all(r.seconds >= 0 for r in step.rewrites)
    for rewrite in reversed(step.rewrites):
        graph.apply(rewrite.inverse)
    assert to_text(graph) == to_text(typed(NEGS))
    nothing = run_pass(with_rewrites(lambda graph: iter(())), graph, CONTEXT)
    assert nothing.after is nothing.before and not nothing.changed and nothing.conclusion == ""


def test_a_pass_that_fails_is_named_and_users_errors_pass():
    def failing(error):
        def rewrites(graph):
            raise error
            yield

        return with_rewrites(rewrites)

    with pytest.raises(BrokenPassError, match=r"pass test_rewrite_core failed on model 'g' \(KeyError: 'lost'\)"):
        run_pass(failing(KeyError("lost")), typed(NEGS), CONTEXT)
    with pytest.raises(UserError, match="mine") as raised:
        run_pass(failing(UserError("mine")), typed(NEGS), CONTEXT)
    assert not isinstance(raised.value, BrokenPassError)
    with pytest.raises(MemoryError):
        run_pass(failing(MemoryError()), typed(NEGS), CONTEXT)


def test_a_pass_that_cleans_up_removes_what_is_dead_before_and_after_and_shares_its_constants():
    def rewrites(graph):
        assert graph.find("Exp_dead") is None
        new = {name: constant(np.float32([1, 2])) for name in ("k", "l")}
        node = graph.node("Abs_y")
        added = (
            Node("Add", ("d", "k"), ("m",), name="m"),
            Node("Add", ("m", "l"), ("n",), name="n"),
            node.replace(inputs=("n",)),
        )
        yield Rewrite(Edit(remove=("Abs_y",), insert=added, constants=new), "adds", ("Abs_y",))
        yield Rewrite(Edit(remove=("m",), insert=(graph.node("m").replace(inputs=("x", "k")),)), "leaves d", ("m",))
        return SimpleNamespace(sentence="facts")

    graph = typed(NEGS.replace("y = Abs(d)", "dead = Exp(a)  y = Abs(d)"))
    step = run_pass(with_rewrites(rewrites, cleans_up=True), graph, CONTEXT)
    assert (
        {node.op for node in graph.nodes} == {"Add", "Abs"} and len(graph.constants) == 1 and step.conclusion == "facts"
    )


def test_refusals_of_rules_are_their_sentences_in_bodies_too():
    graph = typed(BODIES)
    found = list(refused_by(with_rules(TWO_NEGS), graph, CONTEXT))
    assert [(r.node, r.sentence) for r in found if r.node == "Neg_v"] == [
        ("Neg_v", "Neg 'Neg_v' does not follow a Neg")
    ]
    inside = [r.sentence for r in found if r.node == "If_y"]
    assert "in then_branch of If 'If_y': Neg 'Neg_a' does not follow a Neg" in inside
    assert "in else_branch of If 'If_y': would act here: double" in inside and {r.rule for r in found} == {"double"}
    assert [r.node for r in refused_by(with_rules(TWO_NEGS), graph, CONTEXT, ["Neg_v", "nobody"])] == ["Neg_v"]
    left = refused_by(with_rules(TWO_NEGS), graph, CONTEXT, excluded=[RewriteId("double", "If_y/else_branch/Neg_b", 0)])
    assert any("left out, since results differ with it: double" in r.sentence for r in left)
    fast = with_rules(replace(TWO_NEGS, exactness=Exactness.FAST_MATH))
    (line,) = [r.sentence for r in refused_by(fast, typed(NEGS), CONTEXT, ["Neg_b"])]
    assert line == f"would act here, but not in mode ieee, since its results are {Exactness.FAST_MATH.value}"
    kept = context(limits=RuleLimits(keep=frozenset({"Neg_b"})))
    (line,) = [r.sentence for r in refused_by(with_rules(TWO_NEGS), typed(NEGS), kept, ["Neg_b"])]
    assert line == "would act here, but 'Neg_b' is to be kept"

    def fails(graph, node, pass_):
        raise ZeroDivisionError("by nothing")

    (line,) = [r.sentence for r in refused_by(with_rules(rule_of("f", ("Abs",), fails)), typed(NEGS), CONTEXT)]
    assert line == "the rule failed with ZeroDivisionError: by nothing"


# ---- history -------------------------------------------------------------------------


def history_of(*steps, **more):
    graph = typed(NEGS)
    return History(graph, graph, "cuda", list(steps), **more)


def step_of(label="fold", rewrites=(), **more):
    return Step("fold", "Fold", {}, tuple(rewrites), {"nodes": 5}, {"nodes": 4}, 0.0, label=label, **more)


def applied(edit, **more):
    return AppliedRewrite("fold", "said", "", (), edit, Edit(), 0.0, **more)


def test_a_rewrite_that_nothing_identifies_has_empty_names():
    assert applied(Edit()).id == RewriteId("", "", 0)


def test_the_graph_at_any_moment():
    edits = [applied(Edit(remove=(f"Neg_{name}",), replace={name: before})) for name, before in ("dc", "cb", "ba")]
    history = history_of(step_of(), step_of(rewrites=edits[:1]), step_of(rewrites=edits[1:]))
    assert [len(history.at(step)) for step in range(3)] == [5, 4, 2]
    assert [len(history.at(2, count)) for count in (0, 1, 2)] == [4, 3, 2]
    assert [len(history.before(step)) for step in range(3)] == [5, 5, 4]
    assert (
        len(history) == 3
        and history[1].rewrites == tuple(edits[:1])
        and "3 steps, 3 rewrites, 5 nodes to 5" in repr(history)
    )


def test_what_a_history_says_of_its_exactness():
    kinds = [Exactness.BIT_EXACT, Exactness.NARROWED, Exactness.FAST_MATH]
    history = history_of(*(step_of(rewrites=[applied(Edit(), exactness=kind)]) for kind in kinds), mode="exact")
    assert history.is_exact and not history_of().is_exact
    assert [history.is_narrowed(step) for step in (0, 1, 2, None)] == [False, True, True, True]
    assert [history.is_for_numbers_only(step) for step in (0, 1, 2, None)] == [False, False, True, True]


def test_the_first_failing_step_and_what_the_next_run_leaves_out():
    bad = SimpleNamespace(ok=False, sentence="Outputs differ")
    unknown = SimpleNamespace(ok=None, sentence="not known")
    rewrite = applied(Edit(), id=RewriteId("rule", "n", 0))
    good = step_of(verdict=SimpleNamespace(ok=True, sentence="equal"))
    failing = step_of("fold#2", [rewrite], verdict=bad, broken_by=0)
    history = history_of(step_of(), good, step_of(verdict=unknown), failing, step_of(verdict=bad))
    assert history.failed is failing and history.unverified is history[2]
    assert history.culprit == Excluded("fold#2", RewriteId("rule", "n", 0))
    assert str(history.culprit) == "left out of fold#2: 'said', since with it outputs differ"
    others = [Excluded("fold#2", RewriteId("rule", str(number), 0)) for number in range(3)]
    assert history_of(failing, excluded=others[:2]).culprit.rewrite is not None
    assert (
        str(history_of(failing, excluded=others).culprit)
        == "left out of fold#2: all of it, since with it outputs differ"
    )
    assert history_of(failing, excluded=others).culprit.sentence == "", "of all of it there is no single sentence"
    assert history_of(good).culprit is None and history_of(step_of(verdict=bad)).culprit is None
    assert str(Excluded("fold", RewriteId("", "n", 0))) == "left out of fold: a rewrite at 'n'"
    assert "; Outputs differ" in repr(failing)


# ---- provenance ------------------------------------------------------------------------


def test_a_node_that_stays_itself_is_no_origin_of_another():
    graph = typed(NEGS)
    again, made = graph.node("Neg_b").replace(op_type="Tanh"), Node("Exp", ("x",), ("c",), name="made")
    edit = Edit(remove=("Neg_b", "Neg_c"), insert=(again, made))
    provenance = {}
    update_provenance(provenance, [AppliedRewrite("maker", "", "", (), edit, graph.apply(edit), 0.0)])
    assert provenance["made"].origins == ("Neg_c",) and provenance["Neg_b"].origins == ("Neg_b",)


def test_made_nodes_stem_from_those_whose_values_they_compute():
    graph = typed(NEGS)
    provenance = {}

    def make(edit, nodes=(), **more):
        inverse = graph.apply(edit)
        update_provenance(provenance, [AppliedRewrite("maker", "", "", nodes, edit, inverse, 0.0, **more)])

    rule = rule_of("rule", (), None)
    make(Edit(remove=("Neg_b", "Neg_c"), insert=(Node("Exp", ("a",), ("c",), name="made"),)), rule=rule)
    assert (provenance["made"].pass_name, provenance["made"].rule) == ("maker", "rule")
    assert provenance["made"].origins == ("Neg_b", "Neg_c")
    make(Edit(remove=("made", "Neg_d"), insert=(Node("Sin", ("a",), ("d",), name="again"),)))
    assert set(provenance) == {"again"} and provenance["again"].origins == ("Neg_b", "Neg_c", "Neg_d")
    make(Edit(remove=("Abs_y",), insert=(graph.node("Abs_y").replace(op_type="Tanh"),)))
    assert provenance["Abs_y"].origins == ("Abs_y",)
    make(Edit(remove=("Neg_a",), insert=(graph.node("Neg_a"),)))
    assert "Neg_a" not in provenance
    make(Edit(insert=(Node("Cos", ("x",), ("free",), name="free"),)), nodes=("Neg_a", "again"))
    assert provenance["free"].origins == ("Neg_a", "Neg_b", "Neg_c", "Neg_d")
    make(Edit(remove=("free",)))
    assert "free" not in provenance
    make(Edit(insert=(Node("Tan", ("x",), ("new",), name="new"),), remove=("Neg_a",), replace={"a": "new"}))
    assert provenance["new"].origins == ("Neg_a",)
    kept = typed(NEGS)
    kept.apply(Edit(remove=("Neg_a",), insert=(kept.node("Neg_a").replace(metadata={"workbench.pass": "p"}),)))
    assert {name: made.pass_name for name, made in written_provenance(kept).items()} == {"Neg_a": "p"}


def test_what_a_context_holds_is_found_by_type():
    profile = load_profile("cuda")
    held = PassContext(profile, 7, mode="fast", limits=RuleLimits(opset=9))
    assert held.find(type(profile)) is profile and held.get(int) == 7 and held.find(dict) is None
    assert held.in_mode("exact").mode == "exact" and held.in_mode("exact").limits == held.limits
    assert held.in_mode("exact").extensions == held.extensions
    with pytest.raises(UserError, match="this pass needs a dict, which its PassContext does not hold"):
        held.get(dict)
    with pytest.raises(TypeError, match="the mode is given as mode="):
        PassContext(profile, "fast")


# ---- rounding that is amplified --------------------------------------------------------

MAGNITUDES = """g (float[2,3] x, float[N,3] n) => (float[2,3] y) <float[3] k = {1, -6, 2}, float two = {2}, float zero = {0},
    float[2] nan = {nan, 1}, int64[1] first = {0}, int64[1] last = {-1}, float low = {-3}, float high = {8}, string[1] s = {"a"}> {
    LINES y = Identity(x) }"""


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("v = Identity(k)", 6),
        ("v = Tanh(x)", 1),
        ("v = Exp(k)", 100),
        ("v = Mul(k, two)", 12),
        ("v = Div(k, two)", 3),
        ("v = Div(k, zero)", 6),
        ("v = Div(k, x)", 6),
        ("v = Div(x, k)", 100),
        ("v = Add(k, two)", 8),
        ("v = Sub(k, two)", 8),
        ("v = Max(k, two)", 6),
        ("v = Mod<fmod = 1>(x, two)", 2),
        ("v = Mod<fmod = 1>(two, x)", 2),
        ("v = Clip(x, low, high)", 8),
        ("v = Clip(k, low, high)", 6),
        ("v = Clip(k, low)", 6),
        ("v = Clip(x)", 100),
        ("c = Greater(k, two)  v = Where(c, k, two)", 6),
        ("v = ReduceSum(k)", 18),
        ("v = ReduceSum(k, first)", 18),
        ("t = Mul(x, two)  v = ReduceSum(t, first)", 400),
        ("t = Mul(x, two)  v = ReduceSum(t, last)", 600),
        ("t = Mul(n, two)  v = ReduceSum(t, first)", 20_000),
        ("t = Mul(x, two)  v = ReduceSum(t)", 1200),
        ("v = CumSum(k, first)", 18),
        ("v = Mul(nan, two)", float("inf")),
        ("v = Transpose(x)", 100),
    ],
)
def test_magnitudes_that_follow_from_constants(line, size):
    graph = from_text(MAGNITUDES.replace("LINES", line).replace("nan, 1}", "1, 1}"))
    graph = typed(to_text(graph))
    if "nan" in line:
        graph._constants["nan"] = constant(np.float32([np.nan, 1]))
    assert magnitude_of(graph, "v", 100.0) == size


def test_magnitudes_of_what_is_not_known():
    graph = typed(MAGNITUDES.replace("LINES", "").replace("nan, 1}", "1, 1}"))
    graph._constants["s"], graph._constants["k"] = (
        from_text('g () => (string[1] y) <string[1] y = {"a"}> { }').constants["y"],
        constant(np.float32([-9])),
    )
    assert [magnitude_of(graph, value, 7.0) for value in ("s", "k", "x", "nobody")] == [7, 9, 7, 7]


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ("a = Identity(v)", 6),
        ("a = Neg(v)", 6),
        ("a = Tanh(v)", 1),
        ("a = Clip(v, low, high)", 6),
        ("a = Clip(v, low, two)", 3),
        ("a = Mul(v, two)", 12),
        ("a = Mul(two, v)", 12),
        ("a = Mul(v, v)", 72),
        ("a = Div(v, two)", 3),
        ("a = Div(two, v)", 12),
        ("a = ReduceSum(v, first)", 18),
        ("a = CumSum(v, first)", 18),
        ("a = Concat<axis = 0>(two1, v)", 6),
        ("a = Gather(v, first)", 6),
    ],
)
def test_errors_on_their_way_to_what_shows_them(lines, error):
    """6 is the size of `v`; a sine shows an error if it is large, and says how large it is."""
    text = MAGNITUDES.replace("LINES", f"v = Mul(k, one)  {lines}  z = Sin(a)").replace("nan, 1}", "1, 1}")
    graph = typed(text.replace("float two = {2},", "float two = {2}, float[1] two1 = {2}, float one = {1},"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(AMPLIFIES_FROM, "Sin", 0.5)
        found = amplifier_of(graph, "v", 100.0)
        assert (found.node.name, found.value, found.size) == ("Sin_z", "v", error)
        assert (
            f"Sin 'Sin_z' has angles of some {error} radians, and shows a difference in the last bit of 'v'"
            == found.sentence
        )
        patch.setitem(AMPLIFIES_FROM, "Sin", float(error))
        assert amplifier_of(graph, "v", 100.0) is None
        assert amplifier_of(graph, "v", 100.0, without=("Sin_z",)) is None


def test_an_edit_is_held_back_only_by_what_reads_its_results():
    graph = typed(
        "g (float[2] x) => (float[2] y, float[2] p) <float k = {100000}> { a = Mul(x, k)  p = Sin(a)  b = Neg(p)  y = Abs(b) }"
    )
    assert amplifier_of_edit(graph, Edit(remove=("Mul_a",))).node.name == "Sin_p"
    assert amplifier_of_edit(graph, Edit(remove=("Mul_a", "Sin_p"))) is None
    assert amplifier_of_edit(graph, Edit(remove=("Neg_b",))) is None
    assert amplifier_of_edit(typed(NEGS), Edit(remove=("Neg_b",))) is None


def test_a_graph_that_a_pass_spoils_is_found_after_it_or_after_the_rewrite():
    def rewrites(graph):
        yield Rewrite(Edit(remove=("Neg_d",), replace={"d": "c"}), "first", ("Neg_d",))
        graph.node("Neg_c").__dict__["operands"] = graph.node("Neg_c").__dict__["inputs"] = ("nobody",)
        yield Rewrite(Edit(remove=("Neg_a",), replace={"a": "x"}), "second", ("Neg_a",))

    for each, seen in ((False, 2), (True, 2)):
        done = []
        with pytest.raises(IllFormedError, match="reads 'nobody'"):
            run_pass(with_rewrites(rewrites), typed(NEGS), CONTEXT, check_each=each, on_rewrite=done.append)
        assert len(done) == seen - each


def test_the_seconds_of_a_step_and_of_its_rewrites_are_parts_of_the_run():
    started = time.perf_counter()
    step = run_pass(with_rules(TWO_NEGS), typed(NEGS), CONTEXT)
    assert 0 < sum(rewrite.seconds for rewrite in step.rewrites) <= step.seconds <= time.perf_counter() - started


def test_what_a_body_no_longer_captures_is_tried_again():
    def constant_now(graph, node, pass_):
        return Rewrite(
            Edit(remove=(node.name,), insert=(node.replace(op_type="Abs", inputs=("l",)),)), "no capture", (node.name,)
        )

    def if_unused(graph, node, pass_):
        if graph.count_users(node.outputs[0]):
            raise NoMatch("used")
        return rename_to("Exp")(graph, node, pass_)

    text = """g (bool c, float[2] x) => (float[2] y) { v = Neg(x)
        y = If(c) <then_branch = t () => (float[2] p) { p = Sin(x) },
                   else_branch = e () => (float[2] q) <float[2] l = {3, 4}> { q = Sqrt(v) }> }"""
    graph, found = run_rules([rule_of("a", ("Sqrt",), constant_now), rule_of("b", ("Neg",), if_unused)], text)
    assert [rewrite.by.name for rewrite in found] == ["a", "b"] and graph.producer("v").op == "Exp"


def test_a_closed_body_keeps_what_it_had():
    graph = typed(BODIES)
    body = graph.node("If_y").bodies["then_branch"]
    body.metadata, body.kept = {"note": "kept"}, PassthroughFields(defaults={"a": constant(np.float32([1]))})
    closed = closed_body(opened_body(graph, body), body, graph)
    assert closed.metadata == body.metadata and closed.kept is body.kept and closed.functions == body.functions


def test_attributes_that_are_lists_of_bodies_or_tensors():
    first, second = (
        Graph(name="b", outputs=["p"], nodes=[Node(op, ("x",), ("p",), name="n")]) for op in ("Neg", "Abs")
    )
    assert attribute_key((first, second)) != attribute_key((second, first)) and attribute_key(
        (first,)
    ) == attribute_key((first.copy(),))
    assert attribute_key((1, 2)) == attribute_key((1, 2)) != attribute_key((1, 3)) and attribute_key(
        ()
    ) == attribute_key(())
    symbols = [first.with_nodes(first.nodes) for _ in "ab"]
    for symbol, body in zip(("N", "M"), symbols, strict=True):
        body._types["p"] = TensorType(DataType.FLOAT, (symbol, 2))
    assert attribute_key(symbols[0]) == attribute_key(symbols[1])
