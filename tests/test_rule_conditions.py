"""What rules of graphs and equations say beside the graphs: names of operators, conditions, and what is computed."""

import numpy as np
import pytest

from tests.test_patterns import graph_of, refused, rewritten, rule_of
from workbench.rewrite import Exactness, Example, NoMatch
from workbench.rewrite.patterns.algebra import algebraic_rule


def sentence_of(rule, graph, at: str = "y") -> str:
    return rule.match(graph, graph.producer(at), None).sentence


# ---- operators and operands ------------------------------------------------------------


def test_a_name_of_operators_is_the_same_operator_wherever_it_occurs():
    rule = rule_of("y = op(op(x))", "y = op(x)", operators={"op": ("Abs", "Relu")}, sentence="{op} twice")
    assert rule.operators == ("Abs", "Relu")
    assert rewritten(rule, graph_of("a = Relu(x) y = Relu(a)")) == ["Relu"]
    assert sentence_of(rule, graph_of("a = Abs(x) y = Abs(a)")) == "Abs twice"
    assert refused(rule, graph_of("a = Abs(x) y = Relu(a)")) == "Relu 'Relu_y' does not follow a Relu"


def test_one_of_several_operators_is_named_in_the_refusal():
    rule = rule_of("y = Neg(op(x))", "y = op(x)", operators={"op": ("Abs", "Relu")})
    assert refused(rule, graph_of("a = Exp(x) y = Neg(a)")) == "Neg 'Neg_y' does not follow an Abs or Relu"


def test_a_name_of_operators_that_no_graph_writes_is_a_mistake():
    with pytest.raises(ValueError, match="'op' does not occur in 'y = Neg"):
        rule_of("y = Neg(x)", "y = Abs(x)", operators={"op": ("Abs",)})


def test_further_operands_go_under_one_name():
    rule = rule_of("y = Concat(x, *others, **how)", "y = Concat(*others, **how)", sentence="{others}")
    graph = graph_of("y = Concat<axis=0>(x, z, w)", made="float[6,3] y")
    rewrite = rule.match(graph, graph.producer("y"), None)
    assert (rewrite.edit.insert[0].inputs, rewrite.sentence) == (("z", "w"), "['z', 'w']")


def test_a_further_operand_is_not_what_goes():
    rule = rule_of("y = Concat(Neg(x), *others, **how)", "y = Concat(x, *others, **how)")
    graph = graph_of("a = Neg(x) y = Concat<axis=0>(a, a)", made="float[4,3] y")
    assert refused(rule, graph) == "'a' of Neg 'Neg_a' is read twice"


def test_the_permutation_of_a_transpose_is_known_if_it_is_not_written():
    rule = rule_of("y = Transpose(x, perm=p)", "y = Transpose(x, perm=[1, 0])", sentence="{p}")
    assert sentence_of(rule, graph_of("y = Transpose(x)", made="float[3,2] y")) == "[1, 0]"


# ---- conditions ------------------------------------------------------------------------


def test_a_condition_names_what_it_reads_and_its_sentence_too():
    rule = rule_of(
        "y = LeakyRelu(x, alpha=alpha)",
        "y = Identity(x)",
        where=((lambda alpha: alpha == 1, "{root} multiplies '{x}' by {alpha:g}"),),
    )
    assert rewritten(rule, graph_of("y = LeakyRelu<alpha=1.0>(x)")) == ["Identity"]
    reason = "LeakyRelu 'LeakyRelu_y' multiplies 'x' by 0.5"
    assert refused(rule, graph_of("y = LeakyRelu<alpha=0.5>(x)")) == reason


def test_a_constant_is_its_array_and_any_other_value_its_name():
    seen = []
    rule = rule_of(
        "y = Add(x, c)",
        "y = Sub(x, c)",
        constants=("c",),
        where=(lambda graph, root, nodes, x, c: seen.append((graph.rank_of(x), root is nodes[-1], x, c.tolist())),),
    )
    graph = graph_of("y = Add(x, k)", constants="float[3] k = {1, 2, 3}")
    rule.match(graph, graph.producer("y"), None)
    assert seen == [(2, True, "x", [1, 2, 3])]


def test_an_omitted_operand_is_none():
    rule = rule_of(
        "y = Clip(x, low | None)", "y = Relu(x)", where=((lambda low: low is None, "{root} has the bound '{low}'"),)
    )
    unbounded = graph_of("y = Clip(x)")
    assert rule.match(unbounded, unbounded.producer("y"), None)
    bounded = graph_of("y = Clip(x, k)", constants="float k = {0}")
    assert refused(rule, bounded) == "Clip 'Clip_y' has the bound 'k'"


@pytest.mark.parametrize(
    "words", [{"where": ((lambda q: q, ""),)}, {"where": (lambda q: None,)}, {"computed": {"v": lambda q: q}}]
)
def test_a_function_that_reads_what_has_no_name_is_a_mistake(words):
    with pytest.raises(ValueError, match="'q', which a function of the rule reads, does not occur in 'y = Neg"):
        rule_of("y = Neg(x)", "y = Abs(x)", **words)


def test_conditions_of_an_equation_name_its_variables():
    def rule(where):
        law = "x + a == a + x"
        words = {"exactness": Exactness.ROUNDING, "constants": ("a",), "where": where}
        return algebraic_rule("rule", law, "{root}", Example("", "", ()), **words)

    positive = rule(((lambda a: (a > 0).all(), "'{a}' of {root} is not positive"),))
    graph = graph_of("y = Add(x, k)", constants="float k = {-1}")
    with pytest.raises(NoMatch, match="'k' of Add 'Add_y' is not positive"):
        positive.match(graph, graph.producer("y"), None)
    with pytest.raises(ValueError, match="'b', which a function of the rule reads"):
        rule(((lambda b: b, ""),))


# ---- what is computed ------------------------------------------------------------------


def test_what_is_computed_may_read_what_else_is_and_stand_in_sentences_and_conditions():
    rule = rule_of(
        "y = Transpose(Transpose(x, perm=p), perm=q)",
        "y = Transpose(x, perm=both)",
        where=((lambda moved: moved, "perm {p} then {q} moves nothing"),),
        computed={
            "both": lambda p, q: tuple(p[axis] for axis in q),
            "moved": lambda both: both != tuple(sorted(both)),
        },
        sentence="perm {p} then {q} is {both}",
    )
    given = {"given": "float[2,3,4] x", "made": "float[4,2,3] y"}
    graph = graph_of("t = Transpose<perm=[1,0,2]>(x) y = Transpose<perm=[2,1,0]>(t)", **given)
    assert sentence_of(rule, graph) == "perm [1, 0, 2] then [2, 1, 0] is [2, 0, 1]"
    assert rewritten(rule, graph) == ["Transpose"]
    back = graph_of("t = Transpose(x) y = Transpose(t)", given="float[2,3,4] x", made="float[2,3,4] y")
    assert refused(rule, back) == "perm [2, 1, 0] then [2, 1, 0] moves nothing"


def test_a_computed_value_takes_the_place_of_a_result():
    rule = rule_of(
        "y = Where(p, x, z)",
        "y = taken",
        constants=("p",),
        computed={"taken": lambda p, x, z: x if p.all() else z},
        sentence="{root} is '{taken}'",
    )
    graph = graph_of("v = Where(k, x, z) y = Neg(v)", constants="bool k = {0}")
    assert sentence_of(rule, graph, "v") == "Where 'Where_v' is 'z'"
    assert rewritten(rule, graph, "v") == ["Neg"]


# ---- a value in place of nodes ---------------------------------------------------------


def test_with_a_value_in_their_place_only_the_last_node_goes_unless_others_may_be_shared():
    before = "y = Neg(Neg(x))"
    graph = "a = Neg(x) b = Neg(a) y = Abs(b)"
    assert rewritten(rule_of(before, "y = x"), graph_of(graph), "b") == ["Neg", "Abs"]
    shared = rule_of(before, "y = x", shared=True)
    assert rewritten(shared, graph_of(graph), "b") == ["Abs"]
    read = graph_of(f"{graph} v = Exp(a)", made="float[2,3] y, float[2,3] v")
    assert rewritten(shared, read, "b") == ["Neg", "Abs", "Exp"]


def test_a_node_whose_result_a_shared_one_reads_stays():
    rule = rule_of("v = Abs(Neg(Exp(x)))", "v = x", shared=True)
    graph = graph_of("a = Exp(x) b = Neg(a) v = Abs(b) y = Relu(v)", made="float[2,3] y, float[2,3] b")
    assert rule.match(graph, graph.producer("v"), None).edit.remove == ("Abs_v",)


def test_a_further_result_that_is_read_stays():
    rule = rule_of("a = Split(x, *lengths, **how)", "a = x")
    graph = graph_of("a, b = Split<axis=1, num_outputs=3>(x) y = Concat<axis=1>(b, b)", made="float[2,2] y")
    assert refused(rule, graph, "a") == "'b' of Split 'Split_a' is read"


def test_an_output_is_replaced_by_an_identity_only_if_the_rule_says_so():
    graph = graph_of("y = Neg(x)")
    reason = "Neg 'Neg_y' cannot be removed: input or constant 'x' would become the output 'y'"
    assert refused(rule_of("y = Neg(x)", "y = x"), graph) == reason
    graph.apply(rule_of("y = Neg(x)", "y = x", at_outputs=True).match(graph, graph.producer("y"), None).edit)
    assert [node.op for node in graph.nodes] == ["Identity"]


def test_an_array_is_computed_where_it_is_an_operand():
    rule = rule_of(
        "y = Expand(Expand(x, first), second)",
        "y = Expand(x, shape)",
        constants=("first", "second"),
        computed={"shape": lambda first, second: np.array(np.broadcast_shapes(tuple(first), tuple(second)))},
    )
    constants = "int64[2] s = {2, 3}, int64[2] t = {1, 3}"
    assert rewritten(rule, graph_of("a = Expand(x, s) y = Expand(a, t)", constants=constants)) == ["Expand"]
