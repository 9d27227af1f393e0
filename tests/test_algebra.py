"""Rules that are equations: what their left sides match, what their right sides make, what is said where they do not."""

import numpy as np
import pytest

import passes
from tests.running import outputs, random_inputs, typed
from workbench.ir import from_text, graph_text
from workbench.planning.layout.strategies.layout_strategy import example_context
from workbench.rewrite import Exactness, Example, NoMatch
from workbench.rewrite.patterns.algebra import algebraic_rule, same_shape
from workbench.rewrite.patterns.laws import Number, Operation, Variable, read_laws, read_term

FLOATS = "float[2,3] x, float[2,3] z, float[2,3] w"


def rule_of(law: str, **words):
    words.setdefault("exactness", Exactness.FAST_MATH)
    return algebraic_rule("rule", law, "{root} goes", Example("", "", ()), **words)


def rewritten(rule, body: str, given: str = FLOATS, made: str = "float[2,3] y") -> list[str]:
    """The nodes after the rewrite of the node that makes y, which computes the same as before."""
    graph = typed(f"g ({given}) => ({made}) {body}")
    inputs = random_inputs(graph)
    before = outputs(graph, inputs)
    found = rule.match(graph, graph.producer("y"), None)
    graph.apply(found.edit)
    for name, array in outputs(graph, inputs).items():
        np.testing.assert_allclose(array, before[name], rtol=1e-5)
    assert len({node.name for node in graph.nodes}) == len(graph)
    return [line.split("] ")[-1].strip() for line in graph_text(graph).splitlines() if " = " in line and "(" in line]


def refused(rule, body: str, given: str = FLOATS, made: str = "float[2,3] y") -> str:
    graph = typed(f"g ({given}) => ({made}) {body}")
    with pytest.raises(NoMatch) as no:
        rule.match(graph, graph.producer("y"), None)
    return str(no.value)


# ---- reading -------------------------------------------------------------------------


def test_a_side_is_read_as_an_expression_of_onnx_operators():
    x, a = Variable("x"), Variable("a")
    assert read_term("-(x * a) + 2") == Operation("Add", (Operation("Neg", (Operation("Mul", (x, a)),)), Number(2)))
    assert read_term("x ** -1") == Operation("Pow", (x, Number(-1)))
    assert read_term("where(not p, x, a)") == Operation("Where", (Operation("Not", (Variable("p"),)), x, a))
    assert read_term("a != 0") == Operation("Not", (Operation("Equal", (a, Number(0))),))


@pytest.mark.parametrize("text", ["x.y", "x if p else a", "[x]", "x // a"])
def test_what_is_no_expression_of_operators_is_refused(text):
    with pytest.raises(ValueError, match="is not an expression of ONNX operators"):
        read_term(text)


def test_an_unknown_function_is_refused_with_those_that_there_are():
    with pytest.raises(
        ValueError, match=r"^'pow' is not a function of equations; there are abs, ceil, .*, where, xor$"
    ):
        read_term("pow(x, 3)")


@pytest.mark.parametrize("law", ["x == x + 0", "x * 0 == 0"])
def test_an_equation_that_rewrites_no_operator_is_refused(law):
    with pytest.raises(ValueError, match="does not rewrite one operator expression into another"):
        rule_of(law)


# ---- matching -------------------------------------------------------------------------


@pytest.mark.parametrize("p", ["Mul(x, w)", "Mul(w, x)"])
@pytest.mark.parametrize("q", ["Mul(z, w)", "Mul(w, z)"])
@pytest.mark.parametrize("y", ["Add(p, q)", "Add(q, p)"])
def test_operands_of_commutative_operators_match_in_every_order(p, q, y):
    lines = rewritten(rule_of("x * a + z * a == (x + z) * a"), f"{{ p = {p}  q = {q}  y = {y} }}")
    assert len(lines) == 2 and lines[1] in ("y = Mul (y_add, w)", "y = Mul(y_add, w)")


def test_operands_of_others_match_in_their_own_order_alone():
    rule = rule_of("x - -z == x + z")
    assert len(rewritten(rule, "{ n = Neg(z)  y = Sub(x, n) }")) == 1
    assert refused(rule, "{ n = Neg(z)  y = Sub(n, x) }") == "Sub 'Sub_y' does not follow a Neg"


def test_a_variable_is_one_value_wherever_it_stands():
    said = refused(rule_of("x * a + z * a == (x + z) * a"), "{ p = Mul(x, w)  q = Mul(z, z)  y = Add(p, q) }")
    assert said == "x * a + z * a needs 'w' where Mul 'Mul_q' reads 'z'"


def test_two_operators_of_a_pattern_are_two_nodes():
    said = refused(rule_of("x * a + z * a == (x + z) * a"), "{ p = Mul(x, w)  y = Add(p, p) }")
    assert said == "Add 'Add_y' reads 'p' twice"


def test_the_same_expression_twice_is_one_node():
    body = "{ p = Abs(w)  r = Sqrt(p)  s = Mul(x, r)  t = Mul(r, z)  y = Mul(s, t) }"
    lines = rewritten(rule_of("(x * sqrt(b)) * (sqrt(b) * z) == (x * b) * z"), body)
    assert [line.partition(" = ")[2].replace(" ", "") for line in lines] == ["Abs(w)", "Mul(x,p)", "Mul(y_mul,z)"]


@pytest.mark.parametrize("written", ["x ** 2 - x * a == x * (x - a)", "x * x - x * a == x * (x - a)"])
@pytest.mark.parametrize("square", ["Mul(s, s)", "Pow(s, two)"])
def test_a_square_is_found_as_mul_and_as_pow_however_the_law_writes_it(written, square):
    graph = typed(
        "g (float[2,3] x, float[2,3] z, float[3] w) => (float[2,3] y) <float two = {2}>"
        f" {{ s = Add(x, z)  p = {square}  q = Mul(w, s)  y = Sub(p, q) }}"
    )
    inputs = random_inputs(graph)
    before = outputs(graph, inputs)["y"]
    graph.apply(rule_of(written).match(graph, graph.producer("y"), None).edit)
    assert [node.op for node in graph.nodes] == ["Add", "Sub", "Mul"]
    np.testing.assert_allclose(outputs(graph, inputs)["y"], before, rtol=1e-5, atol=1e-6)


def test_the_square_that_a_law_rewrites_is_not_what_it_makes():
    assert refused(rule_of("x * x == x ** 2"), "{ y = Mul(x, z) }")
    rule = rule_of("x ** 2 == x * x")
    assert rule.operators == ("Pow",)


@pytest.mark.parametrize(("square", "known"), [("Pow(v, two)", True), ("Mul(v, v)", True), ("Pow(v, three)", False)])
def test_a_square_is_never_negative_as_mul_and_as_pow(square, known):
    rule = next(rule for rule in passes.find_pass("algebra_products").rules if rule.name == "root twice")
    graph = typed(
        "g (float[3] x, float[3] z, float[3] v) => (float[3] y) <float two = {2}, float three = {3}>"
        f" {{ b = {square}  s = Sqrt(b)  p = Mul(x, s)  q = Mul(s, z)  y = Mul(p, q) }}"
    )
    if known:
        assert rule.match(graph, graph.producer("y"), None)
    else:
        with pytest.raises(NoMatch, match="'b' is not known to be 0 or more"):
            rule.match(graph, graph.producer("y"), None)


@pytest.mark.parametrize(
    ("biases", "bias"), [(("", ""), None), ((", a", ""), [3]), (("", ", b"), [4]), ((", a", ", b"), [7])]
)
def test_convolutions_of_one_operand_add_the_biases_that_they_have(biases, bias):
    graph = typed(
        "g (float[1,2,4] x) => (float[1,1,4] y)"
        " <float[1,2,1] c = {1, 2}, float[1,2,1] d = {4, -1}, float[1] a = {3}, float[1] b = {4}>"
        f' {{ p = Conv<auto_pad="NOTSET">(x, c{biases[0]})  q = Conv<pads=[0,0], group=1>(x, d{biases[1]})  y = Add(q, p) }}'
    )
    inputs = random_inputs(graph)
    before = outputs(graph, inputs)["y"]
    rule = next(rule for rule in passes.find_pass("algebra_products").rules if rule.name.startswith("convolutions"))
    graph.apply(rule.match(graph, graph.producer("y"), None).edit)
    (conv,) = graph.nodes
    assert bias == (graph.constant(conv.inputs[2]).numpy().tolist() if len(conv.inputs) > 2 else None)
    np.testing.assert_allclose(outputs(graph, inputs)["y"], before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("product", ["MatMul(x, {})", "MatMul({}, x)"])
def test_weights_of_one_operand_are_added_on_either_side(product):
    graph = typed(
        "g (float[2,2] x) => (float[2,2] y) <float[2,2] c = {1, 2, 3, 4}, float[2,2] d = {1, 0, 0, 1}>"
        f" {{ p = {product.format('c')}  q = {product.format('d')}  y = Add(q, p) }}"
    )
    inputs = random_inputs(graph)
    before = outputs(graph, inputs)["y"]
    rule = next(rule for rule in passes.find_pass("algebra_products").rules if rule.name == "weights of one operand")
    graph.apply(rule.match(graph, graph.producer("y"), None).edit)
    assert [node.op for node in graph.nodes] == ["MatMul"]
    np.testing.assert_allclose(outputs(graph, inputs)["y"], before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    ("x", "k", "axes"),
    [("[2,3]", "", "[0, 1]"), ("[2,3]", "[3]", "[0]"), ("[2,3,2]", "[3,1]", "[0]"), ("[4]", "", "[0]")],
)
@pytest.mark.parametrize("kind", ["uint32", "uint64"])
def test_a_sum_of_what_is_shifted_to_the_left_wraps_as_the_shifted_sum_does(kind, x, k, axes, keepdims):
    count = axes.count(",") + 1
    graph = typed(
        f"g ({kind}{x} x, {kind}{k} k) => ({kind} y) <int64[{count}] axes = {{{axes[1:-1]}}}>"
        f' {{ s = BitShift<direction="LEFT">(x, k)  y = ReduceSum<keepdims={keepdims}>(s, axes) }}'
    )
    random = np.random.default_rng(0)
    shape, by = (graph.shape(value) for value in ("x", "k"))
    inputs = {
        "x": random.integers(2**30, 2**32, shape).astype(kind),  # whose sums do not fit, shifted or not
        "k": random.integers(0, 8, by).astype(kind),
    }
    before = outputs(graph, inputs)["y"]
    rule = next(rule for rule in passes.find_pass("algebra_reduce").rules if rule.name == "shifted to the left")
    graph.apply(rule.match(graph, graph.producer("y"), None).edit)
    assert [node.op for node in graph.nodes] == ["ReduceSum", "BitShift"]
    after = outputs(graph, inputs)["y"]
    assert before.shape == after.shape and (before == after).all()


def test_what_goes_has_no_other_reader_unless_it_is_shared():
    body, made = "{ n = Neg(z)  y = Add(x, n)  v = Relu(n) }", "float[2,3] y, float[2,3] v"
    assert refused(rule_of("x + -z == x - z"), body, made=made) == "Relu 'Relu_v' reads 'n' of Neg 'Neg_n' too"
    assert len(rewritten(rule_of("x + -z == x - z", shared=True), body, made=made)) == 3
    said = refused(rule_of("x + -z == x - z"), "{ n = Neg(z)  y = Add(x, n) }", made="float[2,3] y, float[2,3] n")
    assert said == "'n' of Neg 'Neg_n' is an output of the graph"


def test_what_the_right_side_keeps_may_be_read_elsewhere():
    body, made = "{ a = Abs(x)  s = Sqrt(a)  r = Reciprocal(s)  y = Mul(r, z) }", "float[2,3] y, float[2,3] s"
    lines = rewritten(rule_of("x * reciprocal(sqrt(z)) == x / sqrt(z)"), body, made=made)
    assert [line.partition(" = ")[2].split("(")[0].strip() for line in lines] == ["Abs", "Sqrt", "Div"]


def test_numbers_and_constants_are_asked_for():
    rule = rule_of("x ** 3 == x * x * x")
    given = f"{FLOATS}) => (float[2,3] y) <float three = {{3}}, float two = {{2}}, float[1,1,1] more = {{3}}> {{"
    for operand, said in (
        ("two", "'two' of Pow 'Pow_y' is 2, not 3"),
        ("z", "'z', an operand of Pow 'Pow_y', is not a constant"),
        ("more", "'more' of Pow 'Pow_y' is not one number for all"),
    ):
        graph = from_text(f"g ({given} y = Pow(x, {operand}) }}")
        with pytest.raises(NoMatch) as no:
            rule.match(graph, graph.producer("y"), None)
        assert str(no.value) == said


def test_the_sentence_names_every_operator_that_would_have_done():
    law = "(x + a) + z == x + (a + z); (x - a) + z == x + (z - a)"
    assert refused(rule_of(law), "{ p = Relu(x)  y = Add(p, z) }") == "Add 'Add_y' does not follow an Add or Sub"


def test_a_condition_on_constants_is_looked_at():
    rule = rule_of("(x * a) / b == x * (a / b) if b != 0", constants=("a", "b"))
    text = (
        "g (float[2] x) => (float[2] y) <float[2] a = {{2, 3}}, float[2] b = {{{}}}> {{ p = Mul(x, a)  y = Div(p, b) }}"
    )
    graph = typed(text.format("4, 0"))
    with pytest.raises(NoMatch, match="does not meet the condition of "):
        rule.match(graph, graph.producer("y"), None)
    graph = typed(text.format("4, 2"))
    edit = rule.match(graph, graph.producer("y"), None).edit
    assert [tensor.numpy().tolist() for tensor in edit.constants.values()] == [[0.5, 1.5]]


def as_one_node(name: str, text: str) -> tuple[np.ndarray, np.ndarray]:
    """y before and after this rule of algebra_constants, which leaves one node."""
    graph = typed(text)
    given = random_inputs(graph)
    before = outputs(graph, given)["y"]
    rule = next(rule for rule in passes.find_pass("algebra_constants").rules if rule.name == name)
    graph.apply(rule.match(graph, graph.producer("y"), None).edit)
    assert len(graph) == 1
    return before, outputs(graph, given)["y"]


@pytest.mark.parametrize("outer", ["Mul(p, b)", "Mul(b, p)", "Div(p, b)", "Div(b, p)"])
@pytest.mark.parametrize("inner", ["Mul(x, a)", "Div(x, a)", "Div(a, x)"])
def test_every_equation_of_products_computes_its_constant(inner, outer):
    constants = "float a = {5}, float[3] b = {0.25, 2, 3}"
    before, after = as_one_node(
        "product", f"g (float[3] x) => (float[3] y) <{constants}> {{ p = {inner}  y = {outer} }}"
    )
    np.testing.assert_allclose(after, before, rtol=1e-5)


@pytest.mark.parametrize("outer", ["Add(p, b)", "Sub(p, b)", "Sub(b, p)"])
@pytest.mark.parametrize("inner", ["Add(x, a)", "Sub(x, a)", "Sub(a, x)"])
def test_every_equation_of_sums_computes_its_constant(inner, outer):
    constants = "int32 a = {5}, int32[3] b = {-7, 2, 3}"
    before, after = as_one_node(
        "sum of integers", f"g (int32[3] x) => (int32[3] y) <{constants}> {{ p = {inner}  y = {outer} }}"
    )
    assert (after == before).all()


def test_kinds_of_the_law_are_kinds_on_which_it_acts():
    integers = rule_of("for integers: -(x - z) == z - x", exactness=Exactness.BIT_EXACT)
    assert "is not known to hold integers" in refused(integers, "{ s = Sub(x, z)  y = Neg(s) }")
    given, made = "int64[2,3] x, int64[2,3] z", "int64[2,3] y"
    assert len(rewritten(integers, "{ s = Sub(x, z)  y = Neg(s) }", given, made)) == 1
    said = refused(rule_of("-(x - z) == z - x"), "{ s = Sub(x, z)  y = Neg(s) }", given, made)
    assert "is not known to hold floating-point numbers" in said


# ---- building ------------------------------------------------------------------------


def test_new_names_are_new_also_among_each_other():
    rule = rule_of("x - z - w == x + (-z + (-w + 0 * x))")
    lines = rewritten(rule, "{ p = Sub(x, z)  y = Sub(p, w) }")
    results = [line.partition(" = ")[0].split()[-1] for line in lines]
    assert len(set(results)) == len(results) == 6


def test_a_number_of_the_right_side_has_the_operands_type():
    for kind in ("float", "double", "int32", "uint8"):
        graph = typed(f"g ({kind}[2] x, {kind}[2] z) => ({kind}[2] y) {{ p = Mul(x, z)  y = Add(x, p) }}")
        rule = rule_of("x + x * z == x * (z + 1)", exactness=Exactness.BIT_EXACT)
        constants = rule.match(graph, graph.producer("y"), None).edit.constants
        assert [tensor.dtype for tensor in constants.values()] == [graph.tensor_type("x").dtype]


def test_a_constraint_refuses_with_its_sentence():
    rule = rule_of("x * a + z * a == (x + z) * a", where=(same_shape("x", "z"),))
    body = "{ p = Mul(x, w)  q = Mul(z, w)  y = Add(p, q) }"
    said = refused(rule, body, "float[3] x, float[2,3] z, float[2,3] w")
    assert said == "'x' and 'z' are not known to have the same shape"


@pytest.mark.parametrize("name", passes.all_passes())
def test_every_value_that_a_rule_makes_has_a_type(name):
    cls = passes.all_passes()[name]
    for rule in cls.rules:
        graph = typed(rule.example.before)
        pass_ = cls()
        for found in pass_.run(graph, example_context(rule.example)):
            graph.apply(found.edit)
            made = {value for node in found.edit.insert for value in node.outputs if graph.has_value(value)}
            assert not [value for value in made if graph.type(value) is None], found.sentence


def test_laws_of_every_rule_can_be_read():
    assert all(read_laws(rule.law) for cls in passes.all_passes().values() for rule in cls.rules if rule.law)
