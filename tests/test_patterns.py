"""Rules that are graphs: how they are written, what is found, what is made, and what is said where nothing is."""

import numpy as np
import pytest

from tests.running import outputs, random_inputs, typed
from workbench.ir import Graph, check
from workbench.rewrite import Exactness, Example, NoMatch
from workbench.rewrite.patterns.graph_patterns import read_before
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.terms import (
    Absent,
    AttributeVariable,
    Number,
    OneOf,
    Operation,
    Product,
    Result,
    Variable,
)

GIVEN = "float[2,3] x, float[2,3] z, float[2,3] w"


def rule_of(before: str, after: str, **words):
    words.setdefault("exactness", Exactness.ROUNDING)
    sentence = words.pop("sentence", "{root} goes; {count} nodes, {fewer} fewer")
    return graph_rule("rule", before, after, sentence, Example("", "", ()), **words)


def graph_of(body: str, given: str = GIVEN, made: str = "float[2,3] y", constants: str = "", opset: int = 23) -> Graph:
    head = f'<ir_version: 10, opset_import: ["": {opset}]> ' if opset != 23 else ""
    held = f"<{constants}> " if constants else ""
    return typed(f"{head}g ({given}) => ({made}) {held}{{ {body} }}")


def rewritten(rule, graph: Graph, at: str = "y") -> list[str]:
    """Operators, with their attributes, after the rewrite at the node that makes `at`; outputs stay as they were."""
    inputs = random_inputs(graph)
    before = outputs(graph, inputs)
    graph.apply(rule.match(graph, graph.producer(at), None).edit)
    check(graph)
    for name, array in outputs(graph, inputs).items():
        np.testing.assert_allclose(array, before[name], rtol=1e-5, atol=1e-6)
    return [node.op for node in graph.nodes]


def refused(rule, graph: Graph, at: str = "y") -> str:
    with pytest.raises(NoMatch) as no:
        rule.match(graph, graph.producer(at), None)
    return str(no.value)


# ---- reading -------------------------------------------------------------------------


def test_lines_are_read_as_terms_that_share_what_has_a_name():
    x, d = Variable("x"), Operation("Exp", (Variable("x"),))
    read = read_before("d = Exp(x)\ny = Div(d, ReduceSum(d, axes=axes))", ())
    assert read.names == {
        "d": d,
        "y": Operation("Div", (d, Operation("ReduceSum", (d,), (("axes", AttributeVariable("axes")),)))),
    }
    assert read_before("y = Mul(x, x) | Pow(x, 2) | None", ()).names["y"] == OneOf(
        (Operation("Mul", (x, x)), Operation("Pow", (x, Number(2))), Absent())
    )
    split = Operation("Split", (x,), (("axis", -1),), "others")
    assert read_before("b, c = Split(x, axis=-1, **others)", ()).names == {"b": split, "c": Result(split, 1)}


def test_numbers_multiply_into_one():
    assert read_before("y = 3 * x / 6 * Erf(x)", ()).names["y"] == Product(
        Number(0.5), (Operation("Erf", (Variable("x"),)), Variable("x"))
    )
    assert read_before("y = k * Erf(x)", ("k",)).names["y"] == Product(
        AttributeVariable("k"), (Operation("Erf", (Variable("x"),)),)
    )


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("", "y = Neg(x)", "a pattern has at least one line"),
        ("y = Add(x", "y = Neg(x)", "line 1 of the graph .* is not an assignment"),
        ("Add(x, z)", "y = Neg(x)", "'Add.x, z.' is not written as 'y = Add.x, z.'"),
        ("y = add(x, z)", "y = Neg(x)", "'add' is not an operator"),
        ("y = Add(x, z)[0]", "y = Neg(x)", "is not an expression of a graph"),
        ("y = Neg(x)\ny = Abs(y)", "y = Abs(x)", "'y' is named twice"),
        ("y, v = x", "y = Neg(x)", "'y, v' are several results, and x is not an operator"),
        ("y[0] = Neg(x)", "y = Neg(x)", "is not the name of a result"),
        ("y = Neg(x)", "v = Neg(x)", "names no result"),
        ("y = Neg(x)", "y = Add(x, z)", "'z' of .* does not occur in"),
        ("y = Neg(x)", "y = Softmax(x, axis=k)", "'k' of .* does not occur in"),
        ("y = Neg(x)", "y = Softmax(x, **k)", "'k' of .* does not occur in"),
        ("y = Neg(x)", "y = Abs(Neg(x))", "reads 'y', which it replaces"),
        ("v = Abs(x)\ny = Neg(x)", "y = Neg(x)", "' is unused, and 'y = Neg.x.' does not replace it"),
        ("y = x", "y = Neg(x)", "'y' of .* is not the result of an operator"),
        ("y = Squeeze(x, axes=x)", "y = x", "'x' of .* stands for a value and for an attribute"),
        ("y = Softmax(x, axis=[x, Neg(z)])", "y = x", "is not an attribute"),
        ("y = x / z", "y = x", "divides by a value; write Div for it"),
        ("y = Neg(2 * 3 * k * x)", "y = x", "multiplies a named number by another number"),
        ("v = Neg(x)\ny = Abs(x)", "v = x\ny = Exp(x)", "replaces one of several results by a value that is not new"),
    ],
)
def test_what_is_no_pattern_is_refused_when_it_is_written(before, after, sentence):
    with pytest.raises(ValueError, match=sentence):
        rule_of(before, after, numbers=("k",) if "k * x" in before else ())


@pytest.mark.parametrize("words", [{"constants": ("v",)}, {"numbers": ("v",)}])
def test_names_that_are_told_stand_in_the_pattern(words):
    with pytest.raises(ValueError, match=r"'v' does not occur in 'y = Neg\(x\)'"):
        rule_of("y = Neg(x)", "y = Abs(x)", **words)


# ---- values and numbers ----------------------------------------------------------------


def test_the_same_name_is_the_same_value():
    rule = rule_of("y = Mul(x, Sigmoid(x))", "y = Mul(Sigmoid(x), x)")
    assert refused(rule, graph_of("s = Sigmoid(x)  y = Mul(z, s)")) == (
        "the pattern needs 'z' where Sigmoid 'Sigmoid_s' reads 'x'"
    )
    assert rewritten(rule, graph_of("s = Sigmoid(x)  y = Mul(s, x)")) == ["Sigmoid", "Mul"]


def test_two_operators_are_two_nodes_and_a_value_is_not_what_goes():
    rule = rule_of("y = Add(Neg(x), z)", "y = Sub(z, x)")
    assert refused(rule, graph_of("n = Neg(x)  y = Add(n, n)")) == "'n' of Neg 'Neg_n' is read twice"
    twice = rule_of("y = Sub(Exp(x), Exp(z))", "y = Sub(x, z)")
    assert "Sub 'Sub_y' reads 'e' twice" in refused(twice, graph_of("e = Exp(x)  y = Sub(e, e)"))


def test_a_whole_number_is_exact_and_one_with_a_point_is_rounded():
    def graph():
        return graph_of("y = Mul(x, k)", constants="float k = {2.0000002}")

    assert refused(rule_of("y = Mul(x, 2)", "y = Add(x, x)"), graph()) == "'k' of Mul 'Mul_y' is 2.00000024, not 2"
    assert rewritten(rule_of("y = Mul(x, 2.0)", "y = Add(x, x)"), graph()) == ["Add"]


def test_a_number_with_a_name_becomes_an_attribute_or_a_constant():
    rule = rule_of(
        "y = Add(Mul(x, a), b)", "y = HardSigmoid(Neg(Mul(x, b)), alpha=a * b, beta=0.25)", numbers=("a", "b")
    )
    graph = graph_of("p = Mul(k, x)  y = Add(p, l)", constants="float k = {3}, float l = {0.5}")
    graph.apply(rule.match(graph, graph.producer("y"), None).edit)
    node = graph.producer("y")
    assert node.op == "HardSigmoid" and dict(node.attributes) == {"alpha": 1.5, "beta": 0.25}
    assert float(graph.constants[graph.nodes[0].inputs[1]].numpy()) == 0.5
    wide = graph_of("p = Mul(x, k)  y = Add(p, l)", constants="float[3] k = {3, 3, 3}, float l = {0.5}")
    assert refused(rule, wide) == "'k' of Mul 'Mul_p' is not the one number a"


def test_constants_are_asked_for():
    rule = rule_of("y = Add(x, bias)", "y = Sub(x, Neg(bias))", constants=("bias",))
    assert refused(rule, graph_of("y = Add(x, z)")) == "'z', an operand of Add 'Add_y', is not a constant"
    assert rewritten(rule, graph_of("y = Add(b, x)", constants="float[3] b = {1, 2, 3}")) == ["Sub"]


@pytest.mark.parametrize(
    "body",
    [
        "h = Mul(x, k)  y = Mul(h, e)",
        "h = Mul(k, e)  y = Mul(h, x)",
        "h = Mul(e, x)  y = Div(h, two)",
        "h = Div(x, two)  y = Mul(e, h)",
        "f = Div(e, four)  h = Mul(f, two)  y = Mul(h, x)",
    ],
)
def test_a_product_in_every_grouping(body):
    rule = rule_of("y = 0.5 * x * Exp(x)", "y = Mul(Mul(x, Exp(x)), 0.5)")
    constants = "float k = {0.5}, float two = {2}, float four = {4}"
    assert sorted(set(rewritten(rule, graph_of(f"e = Exp(x)  {body}", constants=constants)))) == ["Exp", "Mul"]


def test_what_a_product_is_not():
    rule = rule_of("y = 0.5 * x * Exp(x)", "y = Exp(x)")
    held = "float k = {0.25}"
    said = refused(rule, graph_of("e = Exp(x)  h = Mul(x, k)  y = Mul(h, e)", constants=held))
    assert said == "Mul 'Mul_y' multiplies by 0.25 in all, not by 0.5"
    said = refused(rule, graph_of("e = Exp(x)  h = Mul(x, z)  y = Mul(h, e)"))
    assert said == "Mul 'Mul_y' is a product of 3 values, not of 2"
    read = graph_of("e = Exp(x)  h = Mul(x, k)  y = Mul(h, e)  v = Neg(h)", made="float[2,3] y, float[2,3] v")
    assert refused(rule, read).startswith("Mul 'Mul_y'")  # h is read elsewhere, and no part of the product


# ---- attributes ------------------------------------------------------------------------


def test_attributes_that_are_not_written_are_as_onnx_has_them():
    rule = rule_of("y = Log(Softmax(x))", "y = LogSoftmax(x)")
    assert rewritten(rule, graph_of("s = Softmax(x)  y = Log(s)")) == ["LogSoftmax"]
    assert rewritten(rule, graph_of("s = Softmax<axis=-1>(x)  y = Log(s)")) == ["LogSoftmax"]
    assert refused(rule, graph_of("s = Softmax<axis=0>(x)  y = Log(s)")) == "Softmax 'Softmax_s' has axis=0, not -1"


def test_an_attribute_is_what_it_is_or_gets_a_name():
    rule = rule_of("y = Log(Softmax(x, axis=axis))", "y = LogSoftmax(x, axis=axis)")
    for axis in (0, 1, -1):
        graph = graph_of(f"s = Softmax<axis={axis}>(x)  y = Log(s)")
        assert rewritten(rule, graph) == ["LogSoftmax"]
        assert graph.producer("y").attributes["axis"] == axis % 2
    last = rule_of("y = Log(Softmax(x, axis=-1))", "y = LogSoftmax(x, axis=-1)")
    assert rewritten(last, graph_of("s = Softmax<axis=1>(x)  y = Log(s)")) == ["LogSoftmax"]
    assert refused(last, graph_of("s = Softmax<axis=0>(x)  y = Log(s)")) == "Softmax 'Softmax_s' has axis=0, not 1"


def test_the_same_name_is_the_same_attribute():
    rule = rule_of("y = Softmax(LogSoftmax(x, axis=axis), axis=axis)", "y = Softmax(x, axis=axis)")
    assert rewritten(rule, graph_of("l = LogSoftmax<axis=-1>(x)  y = Softmax<axis=1>(l)")) == ["Softmax"]
    said = refused(rule, graph_of("l = LogSoftmax<axis=0>(x)  y = Softmax<axis=1>(l)"))
    assert said == "LogSoftmax 'LogSoftmax_l' has axis=0, not 1"


def test_a_keyword_is_a_constant_operand_too():
    rule = rule_of(
        "y = Sqrt(ReduceSum(Mul(x, x), axes=axes, keepdims=keep))",
        "y = ReduceL2(x, reduced, keepdims=keep)",
        computed={"reduced": lambda match: np.array(match.data["axes"])},
    )
    graph = graph_of(
        "p = Mul(x, x)  s = ReduceSum<keepdims=0>(p, a)  y = Sqrt(s)", made="float[2] y", constants="int64[1] a = {-1}"
    )
    assert rewritten(rule, graph) == ["ReduceL2"]
    assert graph.constants[graph.producer("y").inputs[1]].numpy().tolist() == [1]
    computed = graph_of("p = Mul(x, x)  s = ReduceSum(p, a)  y = Sqrt(s)", f"{GIVEN}, int64[1] a")
    assert refused(rule, computed) == "ReduceSum 'ReduceSum_s' has no axes that is known"


def test_all_other_attributes_go_under_one_name():
    rule = rule_of("y = Gemm(Transpose(x, perm=[1, 0]), z, **others)", "y = Gemm(x, z, transA=1, **others)")
    graph = graph_of(
        "t = Transpose<perm=[1,0]>(x)  y = Gemm<alpha=2.0, transB=1>(t, z)",
        "float[3,2] x, float[4,3] z",
        made="float[2,4] y",
    )
    assert rewritten(rule, graph) == ["Gemm"]
    assert dict(graph.producer("y").attributes) == {"alpha": 2.0, "transB": 1, "transA": 1}


# ---- alternatives, and what may be there -----------------------------------------------


@pytest.mark.parametrize("square", ["Mul(x, x)", "Pow(x, two)"])
def test_one_of_several_forms(square):
    rule = rule_of(
        "y = ReduceSum(Mul(x, x) | Pow(x, 2), axes=[1])",
        "y = ReduceSumSquare(x, axis)",
        computed={"axis": lambda match: np.array([1])},
    )
    held = "float two = {2}, int64[1] a = {1}"
    graph = graph_of(f"s = {square}  y = ReduceSum(s, a)", made="float[2,1] y", constants=held)
    assert rewritten(rule, graph) == ["ReduceSumSquare"]
    other = graph_of("s = Exp(x)  y = ReduceSum(s, a)", made="float[2,1] y", constants=held)
    assert refused(rule, other) == "ReduceSum 'ReduceSum_y' does not follow a Mul or Pow"


@pytest.mark.parametrize("bias", ["", ", b"])
def test_an_operand_that_may_be_there(bias):
    rule = rule_of("y = Neg(Neg(Gemm(x, z, bias | None)))", "y = Gemm(x, z, bias)")
    graph = graph_of(
        f"p = Gemm(x, z{bias})  n = Neg(p)  y = Neg(n)", "float[2,3] x, float[3,4] z, float[4] b", "float[2,4] y"
    )
    assert rewritten(rule, graph) == ["Gemm"]
    assert len(graph.producer("y").inputs) == (3 if bias else 2)


def optional_rule():
    return rule_of(
        """
        r = Reciprocal(Add(1, Exp(Neg(x))))
        s = Mul(r, scale) | r
        y = Max(s, least) | s
        """,
        "y = Max(Mul(Sigmoid(x), factor), least)",
        constants=("scale", "least"),
        computed={"factor": lambda match: match.get("scale") or np.ones((), np.float32)},
    )


@pytest.mark.parametrize("tail", ["s = Mul(r, k)  y = Max(k, s)", "y = Max(r, k)", "y = Mul(k, r)", "y = Identity(r)"])
def test_nodes_that_may_be_there(tail):
    graph = graph_of(
        f"n = Neg(x)  e = Exp(n)  a = Add(e, one)  r = Reciprocal(a)  {tail}",
        constants="float k = {0.25}, float one = {1}",
    )
    rule, kept = optional_rule(), ["Identity"] if "Identity" in tail else []
    inside = [value for value in ("r", "s") if graph.has_value(value) and not kept]
    for value in inside:
        assert refused(rule, graph, value).endswith(" matches with it")
    assert rewritten(rule, graph, "r" if kept else "y") == ["Sigmoid", "Mul", "Max", *kept]


def test_a_longer_form_that_is_refused_leaves_the_shorter_one():
    graph = graph_of(
        "n = Neg(x)  e = Exp(n)  a = Add(e, one)  r = Reciprocal(a)  y = Max(r, z)", constants="float one = {1}"
    )
    assert refused(optional_rule(), graph) == "'z', an operand of Max 'Max_y', is not a constant"
    assert rewritten(optional_rule(), graph, "r") == ["Sigmoid", "Mul", "Max", "Max"]


# ---- readers and results ------------------------------------------------------------------


def test_what_goes_has_no_other_reader_unless_it_is_shared():
    body, made = "n = Neg(z)  y = Add(x, n)  v = Relu(n)", "float[2,3] y, float[2,3] v"
    before, after = "y = Add(x, Neg(z))", "y = Sub(x, z)"
    assert refused(rule_of(before, after), graph_of(body, made=made)) == "Relu 'Relu_v' reads 'n' of Neg 'Neg_n' too"
    assert rewritten(rule_of(before, after, shared=True), graph_of(body, made=made)) == ["Neg", "Sub", "Relu"]


def test_what_the_graph_after_reads_may_be_read_elsewhere():
    rule = rule_of("e = Exp(x)\ny = Mul(e, Reciprocal(e))", "y = Div(e, e)")
    body = "e = Exp(x)  r = Reciprocal(e)  y = Mul(e, r)  v = Neg(e)"
    assert rewritten(rule, graph_of(body, made="float[2,3] y, float[2,3] v")) == ["Exp", "Div", "Neg"]


def test_a_result_in_between_may_be_read_elsewhere():
    rule = rule_of("s = Add(x, skip)\ny = Neg(Neg(s))", "s = Sub(x, Neg(skip))\ny = Identity(s)")
    graph = graph_of("s = Add(x, z)  n = Neg(s)  y = Neg(n)  v = Exp(s)", made="float[2,3] y, float[2,3] v")
    assert sorted(rewritten(rule, graph)) == ["Exp", "Identity", "Neg", "Sub"]
    assert graph.producer("s").op == "Sub" and graph.producer("v").inputs == ("s",)


SIDE_BY_SIDE = """
    a = MatMul(x, first)
    b = MatMul(x, second)
"""
ONE_PRODUCT = "a, b = Split(MatMul(x, joined), axis=-1, num_outputs=2)"


def joined(match):
    first, second = (match.graph.constants[match[name]].numpy() for name in ("first", "second"))
    if first.shape != second.shape:
        raise NoMatch(f"'{match['first']}' and '{match['second']}' differ in shape")
    return np.concatenate([first, second], axis=-1)


def side_by_side():
    return rule_of(SIDE_BY_SIDE, ONE_PRODUCT, constants=("first", "second"), computed={"joined": joined})


TWO = "float[3,2] k = {1, 2, 3, 4, 5, 6}, float[3,2] l = {6, 5, 4, 3, 2, 1}, float[3,1] m = {6, 5, 4}"


def test_several_results_against_one():
    graph = graph_of("p = MatMul(x, k)  q = MatMul(x, l)  y = Sub(p, q)", made="float[2,2] y", constants=TWO)
    assert rewritten(side_by_side(), graph, "p") == ["MatMul", "Split", "Sub"]
    assert graph.producer("p") is graph.producer("q")
    assert all(graph.type(value) is None for value in graph.nodes[0].outputs)  # the driver infers types of new values


def test_several_results_are_each_a_node_of_its_own():
    graph = graph_of("p = MatMul(x, k)  y = Neg(p)", made="float[2,2] y", constants=TWO)
    assert refused(side_by_side(), graph, "p") == "there is no MatMul(x, first) beside MatMul 'MatMul_p'"
    uneven = graph_of(
        "p = MatMul(x, k)  y = MatMul(x, m)  v = Neg(p)", made="float[2,1] y, float[2,2] v", constants=TWO
    )
    assert refused(side_by_side(), uneven) == "'k' and 'm' differ in shape"


def test_further_pairs_of_graphs_are_other_forms_of_one_rule():
    rule = rule_of("y = Relu(Add(x, z))", "y = Max(x, z)", further=(("y = Relu(Neg(x))", "y = Abs(x)"),))
    assert rule.operators == ("Relu",)
    graph = graph_of("a = Neg(x)  y = Relu(a)", given="float[2,3] x")
    graph.apply(rule.match(graph, graph.producer("y"), None).edit)
    assert [node.op for node in graph.nodes] == ["Abs"]
    assert refused(rule, graph_of("a = Exp(x)  y = Relu(a)")) == "Relu 'Relu_y' does not follow an Add or Neg"


def test_of_several_results_none_is_computed_from_another():
    body = "p = MatMul(x, z)  q = ReduceMax<keepdims=0>(p)  r = Expand(q, s)  w = MatMul(x, r)  y = Add(p, w)"
    rule = rule_of(SIDE_BY_SIDE, "a, b = Split(MatMul(x, Concat(first, second, axis=-1)), axis=-1, num_outputs=2)")
    held = "int64[2] s = {3, 2}"
    given, made = "float[2,3] x, float[3,2] z", "float[2,2] y"
    graph = graph_of(body, given, made, held)
    for value in ("p", "w"):
        assert refused(rule, graph, value) == "one result is computed from 'p' of MatMul 'MatMul_p', another"


def test_all_results_of_a_node():
    rule = rule_of("a, b = Split(x, axis=0, num_outputs=2)\ny = Concat(b, a, axis=0)", "y = Neg(x)")
    graph = graph_of("a, b = Split<axis=0, num_outputs=2>(x)  y = Concat<axis=0>(b, a)")
    found = rule.match(graph, graph.producer("y"), None)
    assert set(found.edit.remove) == {"Split_a", "Concat_y"}
    other = graph_of("a, b = Split<axis=0, num_outputs=2>(x)  y = Concat<axis=0>(a, b)")
    assert refused(rule, other) == "'a' is another result of Split 'Split_a' than in the pattern"
    read = graph_of(
        "a, b = Split<axis=0, num_outputs=2>(x)  y = Concat<axis=0>(b, a)  v = Neg(a)",
        made="float[2,3] y, float[1,3] v",
    )
    assert refused(rule, read) == "Neg 'Neg_v' reads 'a' of Split 'Split_a' too"


# ---- constraints, and what is made -----------------------------------------------------


def test_a_constraint_refuses_with_its_sentence_and_another_match_is_tried():
    def positive(match):
        if match.graph.constants[match["k"]].numpy().min() <= 0:
            raise NoMatch(f"'{match['k']}' is not positive")

    rule = rule_of("y = Mul(Relu(x), k)", "y = Relu(Mul(x, k))", constants=("k",), where=(positive,))
    body = "r = Relu(x)  y = Mul(r, k)"
    assert refused(rule, graph_of(body, constants="float k = {-1}")) == "'k' is not positive"
    assert rewritten(rule, graph_of(body, constants="float k = {2}")) == ["Mul", "Relu"]


def test_new_nodes_take_the_names_of_those_that_go_and_then_new_ones():
    rule = rule_of("y = Neg(Sub(x, z))", "y = Add(Neg(x), Mul(z, 1.0))")
    graph = graph_of("s = Sub(x, z)  y = Neg(s)  v = Abs(x)", made="float[2,3] y, float[2,3] v")
    rewritten(rule, graph)
    assert {node.op: node.name for node in graph.nodes} == {
        "Add": "Neg_y",
        "Neg": "Sub_s",
        "Mul": "Neg_y_Mul",
        "Abs": "Abs_v",
    }


def test_an_operator_that_came_later_is_not_made():
    rule = rule_of("y = Mul(x, Sigmoid(x))", "y = Swish(x)")
    assert refused(rule, graph_of("s = Sigmoid(x)  y = Mul(x, s)")) == (
        "Swish came with opset 24; this model has opset 23"
    )


def test_an_operator_of_another_domain():
    rule = rule_of("y = Relu(x)", "y = com.microsoft.FusedRelu(x, activation='Relu')")
    graph = graph_of("y = Relu(x)")
    graph.apply(rule.match(graph, graph.producer("y"), None).edit)
    node = graph.producer("y")
    assert (node.domain, node.op_type, dict(node.attributes)) == ("com.microsoft", "FusedRelu", {"activation": "Relu"})
    back = rule_of("y = com.microsoft.FusedRelu(x, activation='Relu')", "y = Relu(x)")
    graph.apply(back.match(graph, graph.producer("y"), None).edit)
    assert graph.producer("y").op == "Relu"


def test_a_value_passed_on():
    rule = rule_of("y = Neg(Neg(x))", "y = x", sentence="{root} undoes {nodes[0]}; '{x}' passed on")
    graph = graph_of("e = Exp(x)  n = Neg(e)  m = Neg(n)  y = Abs(m)")
    assert rule.match(graph, graph.producer("m"), None).sentence == "Neg 'Neg_m' undoes Neg 'Neg_n'; 'e' passed on"
    rewritten(rule, graph, "m")
    assert graph.producer("y").inputs == ("e",)


def test_first_and_further_results_are_both_replaced_and_the_first_new_node_takes_the_name():
    rule = rule_of("a, b = Split(x, axis=0, num_outputs=2)", "a = Relu(x)\nb = workbench.mirror(x)")
    graph = graph_of("p, q = Split<axis=0, num_outputs=2>(x)  y = Neg(q)", made="float[1,3] p, float[1,3] y")
    found = rule.match(graph, graph.producer("p"), None)
    made = [(node.name, node.op, node.outputs) for node in found.edit.insert]
    assert made[0] == ("Split_p", "Relu", ("p",)) and made[1][1:] == ("workbench.mirror", ("q",))


def test_a_result_that_is_not_replaced_must_not_be_read():
    rule = rule_of("a = Split(x, axis=0, num_outputs=2)", "a = Relu(x)")
    graph = graph_of("p, q = Split<axis=0, num_outputs=2>(x)  y = Neg(q)", made="float[1,3] p, float[1,3] y")
    assert refused(rule, graph, "p") == "Neg 'Neg_y' reads 'q' of Split 'Split_p' too"
    both = rule_of("a, b, c = Split(x, axis=0, num_outputs=2)", "a = Relu(x)\nb = Abs(x)\nc = Neg(x)")
    assert refused(both, graph, "p") == "Split 'Split_p' has no result number 3"


@pytest.mark.parametrize(("written", "other"), [("0.0", "-0.0"), ("-0.0", "0.0"), ("0", "-0.0")])
def test_a_zero_has_its_sign(written, other):
    """x + -0.0 is x, and x + 0.0 is not: it turns -0.0 into 0.0."""
    rule = rule_of(f"y = Add(Neg(x), {written})", "y = Neg(x)")

    def with_zero(zero):
        return graph_of("n = Neg(x)  y = Add(n, c)", constants=f"float c = {{{zero}}}")

    assert rewritten(rule, with_zero(written)) == ["Neg"]
    assert f"'c' of Add 'Add_y' is {float(other):g}, not" in refused(rule, with_zero(other))
