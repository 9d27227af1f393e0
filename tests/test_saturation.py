"""Equality saturation: proved equations, the true minimum on what can be enumerated, the certificate's words, limits."""

import json
import random
import re
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

import passes
import workbench as wb
from tests.conftest import ROOT
from tests.running import outputs, random_inputs, typed
from tests.slow import thorough_unless
from workbench.evidence.verification.pass_files.proofs import prove
from workbench.formats.io import load_model
from workbench.formats.io.samples import FOLDER
from workbench.ir import to_text
from workbench.planning.layout.profile import load_profile
from workbench.planning.saturation.choices import Choices, Option, choices_of
from workbench.planning.saturation.equations import EQUATIONS, SIGN_LAWS, Equation, equations_for
from workbench.planning.saturation.exact_numbers import ExactNumbers, as_number
from workbench.planning.saturation.extraction import CycleError, extract, needed_of
from workbench.planning.saturation.program import ARITIES, program_of, rules_of
from workbench.planning.saturation.regions import algebraic_groups, algebraic_region
from workbench.planning.saturation.saturating import EgglogError, ENode, SaturationBudget, saturate
from workbench.rewrite import Exactness, PassContext, run_pass
from workbench.rewrite.patterns.laws import read_laws, read_term
from workbench.rewrite.patterns.terms import COMMUTATIVE, Number, Operation, Variable, terms_of

FAST_MATH = Exactness.FAST_MATH
PASS = passes.find_pass("saturate_algebra")
EGGLOG = pytest.mark.skipif(bool(PASS.missing()), reason=PASS.missing())
REALS = ExactNumbers("1/1000000", "1000000", False, None, True, ("1/1000", "1000"))
ENOUGH = SaturationBudget(40, 20_000, 60)


def saturated(text, mode="fast", **options):
    """The graph of a text after the pass, and its step."""
    graph = typed(text)
    return graph, run_pass(PASS(**options), graph, PassContext(load_profile("cpu"), mode=mode), check_each=True)


def one_region(text):
    graph = typed(text)
    (names,), _ = algebraic_groups(graph, 60)
    return algebraic_region(graph, names)


# ---- equations ---------------------------------------------------------------------------


@pytest.mark.parametrize("equation", EQUATIONS, ids=lambda equation: equation.law)
def test_each_equation_is_proved_for_every_kind_of_numbers_that_it_names(equation):
    proof = prove(equation.law, equation.exactness)
    assert not proof.wrong and not proof.missing
    assert set(proof.proved) == set(equation.read.kinds)
    assert equation.exactness is Exactness.BIT_EXACT or equation.read.kinds == ("reals",)


@pytest.mark.parametrize("law", SIGN_LAWS)
def test_each_law_of_signs_is_proved(law):
    assert prove(law, FAST_MATH).proved == ("reals",)


@pytest.mark.parametrize("equation", EQUATIONS, ids=lambda equation: equation.law)
def test_no_equation_loses_or_brings_in_a_variable(equation):
    left, right = ({term for term in terms_of(side) if isinstance(term, Variable)} for side in equation.sides)
    assert left == right
    assert all(isinstance(found, Operation) for found, _ in equation.directions)
    assert set(ARITIES.values()) == {1, 2}  # so n inputs need n - 1 operators to meet


def test_a_mode_is_given_no_equation_that_is_less_exact():
    kinds = {Exactness.BIT_EXACT: "exact", Exactness.ROUNDING: "ieee", FAST_MATH: "fast"}
    for exactness, mode in kinds.items():
        offered = equations_for("floats", mode)
        assert exactness in {equation.exactness for equation in offered}
        assert all(equation.exactness.runs_in(mode) for equation in offered)
    assert {equation.exactness for equation in equations_for("floats", "fast", steps=True)} == {Exactness.BIT_EXACT}


# Laws that are not of equations: the first three lose their operand, and with it the shape of the result; the square
# of the last one overflows, which a saturation of mode `fast` would then do anywhere.
NO_EQUATIONS = {
    "integers": {"x - x == 0", "x / x == 1", "x ^ x == 0"},
    "floats": {"x - x == 0", "x / x == 1", "sqrt(x * x) == abs(x)"},
}


@pytest.mark.slow
@EGGLOG
@pytest.mark.parametrize(
    "kind", [thorough_unless(kind == "booleans", kind) for kind in ("floats", "integers", "booleans")]
)
def test_every_law_of_the_passes_of_algebra_follows_from_these(kind):
    """Both sides of each law are in one e-graph, of mode `fast`."""
    laws = [
        law for name, cls in passes.all_passes().items() if name.startswith("algebra_") for law in _laws_of(cls, kind)
    ]
    terms = []
    for first, law in zip(range(0, 100 * len(laws), 100), laws, strict=True):
        places = {}
        sides = [_as_command(read_term(side), places, first) for side in law.sides[:2]]
        terms += [f"(union (Value {first + 50 + i}) {side})" for i, side in enumerate(sides)]
        facts = ("Tensor", "NotNegative", "Positive", "Nonzero")  # whatever the law's condition is
        terms += [f"({fact} (Value {place}))" for place in places.values() for fact in facts]
    program = program_of(rules_of(equations_for(kind, "fast")), terms)
    eclass = saturate(program, REALS, SaturationBudget(6, 20_000, 60)).eclass_of
    unequal = {" == ".join(law.sides) for i, law in enumerate(laws) if eclass[100 * i + 50] != eclass[100 * i + 51]}
    assert len(laws) >= 5
    assert unequal == NO_EQUATIONS.get(kind, set())


def _laws_of(cls, kind):
    """The equations of a pass's rules that hold for a kind of numbers, in operators of equations."""
    for rule in cls.rules:
        for law in read_laws(rule.law) if rule.law else ():
            alone = " == ".join(law.sides) + (f" if {law.condition}" if law.condition else "")
            kinds = law.kinds or prove(alone, rule.exactness).proved
            try:
                terms = [read_term(side) for side in law.sides[:2]]
            except ValueError:
                continue
            operators = {term.operator for term in terms_of(*terms) if isinstance(term, Operation)}
            logic = {"And", "Or", "Not", "Xor"}
            fits = operators <= logic if kind == "booleans" else operators <= ARITIES.keys() - logic
            if (
                fits
                and {kind, "reals" if kind == "floats" else kind} & {*kinds}
                and not _is_bitwise_for(kind, operators)
            ):
                yield law


def _is_bitwise_for(kind, operators):
    return kind == "floats" and any(operator.startswith("Bitwise") for operator in operators)


def _as_command(term, places, start):
    match term:
        case Variable(name):
            return f"(Value {places.setdefault(name, start + len(places))})"
        case Number(value):
            return f'(Num "{as_number(value)}")'
        case Operation(operator, operands):
            return f"({operator} {' '.join(_as_command(operand, places, start) for operand in operands)})"


# ---- the true minimum, by brute force ----------------------------------------------------

FEW = (
    Equation("for reals: x + z == z + x", FAST_MATH),
    Equation("for reals: x * z == z * x", FAST_MATH),
    Equation("for reals: (x + y) + z == x + (y + z)", FAST_MATH, both=True),
    Equation("for reals: (x * y) * z == x * (y * z)", FAST_MATH, both=True),
    Equation("for reals: x * a + z * a == (x + z) * a", FAST_MATH, both=True),
)


def _random_term(draw, operators):
    if not operators:
        return Variable(draw.choice("abc"))
    left = draw.randrange(operators)
    operands = (_random_term(draw, left), _random_term(draw, operators - 1 - left))
    return Operation(draw.choice(("Add", "Mul")), operands)


def _reachable(term):
    """Every term that plain rewriting at any place reaches."""
    seen, waiting = {term}, [term]
    while waiting:
        new = {one for one in _rewritten(waiting.pop()) if one not in seen}
        seen |= new
        waiting += new
    return seen


def _rewritten(term):
    for equation in FEW:
        for left, right in equation.directions:
            found = {}
            if _matches(left, term, found):
                yield _filled(right, found)
    if isinstance(term, Operation):
        for place, operand in enumerate(term.operands):
            for other in _rewritten(operand):
                yield Operation(term.operator, (*term.operands[:place], other, *term.operands[place + 1 :]))


def _matches(pattern, term, found):
    if isinstance(pattern, Variable):
        return found.setdefault(pattern, term) == term
    if not isinstance(term, Operation) or term.operator != pattern.operator:
        return False
    return all(_matches(part, operand, found) for part, operand in zip(pattern.operands, term.operands, strict=True))


def _filled(pattern, found):
    if isinstance(pattern, Variable):
        return found[pattern]
    return Operation(pattern.operator, tuple(_filled(part, found) for part in pattern.operands))


def _as_graph(term):
    """The text of a graph that computes the term, each subterm once."""
    lines, names = [], {}
    for part in terms_of(term):
        if isinstance(part, Variable) or part in names:
            continue
        names[part] = f"v{len(names)}"
        operands = (one.name if isinstance(one, Variable) else names[one] for one in part.operands)
        lines.append(f"{names[part]} = {part.operator}({', '.join(operands)})")
    return f"g (float[2] a, float[2] b, float[2] c) => (float[2] {names[term]}) {{ {' '.join(lines)} }}"


def _operators(term):
    """Of the term, each different one once."""
    return len({part for part in terms_of(term) if isinstance(part, Operation)})


@EGGLOG
@pytest.mark.parametrize("seed", [thorough_unless(seed < 2, seed) for seed in range(12)])
def test_the_smallest_expression_is_that_of_all_which_rewriting_reaches(seed):
    draw = random.Random(seed)
    term = _random_term(draw, 3 + seed % 2)
    region = one_region(_as_graph(term))
    program = program_of(rules_of(FEW), list(region.terms()))
    egraph = saturate(program, region.number_rules("fast"), ENOUGH)
    assert egraph.saturated
    found = extract(choices_of(region, egraph, new_constants=True), 60)
    least = min(map(_operators, _reachable(term)))
    assert found.operators == found.lower_bound == least


def _random_choices(draw):
    """Six e-classes whose options need any others, circles included; the last has an option that needs nothing."""
    options = {}
    for eclass in range(6):
        elements = draw.choice((1, 10))
        needs = {frozenset(draw.sample(range(6), draw.choice((0, 1, 1, 2, 2)))) - {eclass} for _ in range(3)}
        if eclass == 5:
            needs.add(frozenset())
        made = [Option(ENode("Add", eclass, tuple(sorted(n))), n, 1, elements) for n in sorted(needs, key=sorted)]
        options[eclass] = made
    return options


def _selections(options, roots):
    for every in product(*options.values()):
        try:
            yield needed_of(dict(zip(options, every, strict=True)), roots)
        except CycleError:
            continue


def test_extraction_is_the_minimum_of_all_selections_and_shared_work_counts_once():
    draw, compared = random.Random(1), 0
    while compared < 60:
        options = _random_choices(draw)
        roots = tuple(draw.sample(range(6), draw.choice((1, 2))))
        every = list(_selections(options, roots))
        if not every:
            continue
        start = draw.choice(every)
        found = extract(Choices(options, roots, start, True, {}, 0), 60)
        costs = [(sum(o.cost for o in s.values()), sum(o.elements for o in s.values())) for s in every]
        assert (found.operators, found.elements) == min(costs)
        assert found.lower_bound == found.operators
        compared += 1


@EGGLOG
def test_work_that_is_shared_counts_once():
    """Alone, x * z + x * w is smaller as x * (z + w); here both products are needed anyhow."""
    text = "g (float[3] x, float[3] z, float[3] w) => (float[3] y, float[3] p, float[3] q) { p = Mul(x, z)  q = Mul(x, w)  y = Add(p, q) }"
    graph, step = saturated(text)
    (facts,) = step.facts.regions
    assert not step.rewrites and len(graph) == 3
    assert (facts.smallest, facts.least, facts.as_tree, facts.certified) == (3, 3, 4, True)
    alone, _ = saturated(text.replace(", float[3] p, float[3] q)", ")"))
    assert [node.op for node in alone.nodes] == ["Add", "Mul"]


# ---- what is said ------------------------------------------------------------------------

CANCELS = PASS.extra_examples[0].before


def sum_of_products(count):
    """Of inputs in a ring, so that each shares a factor with two others."""
    inputs = ", ".join(f"float[3] x{i}" for i in range(count))
    products = " ".join(f"p{i} = Mul(x{i}, x{(i + 1) % count})" for i in range(count))
    sums = " ".join(f"s{i} = Add({'p0' if i == 1 else f's{i - 1}'}, p{i})" for i in range(1, count))
    return f"g ({inputs}) => (float[3] s{count - 1}) {{ {products} {sums} }}"


@EGGLOG
def test_no_smaller_expression_is_said_only_where_it_is_saturated_or_no_operator_can_go():
    _, step = saturated(CANCELS)
    assert step.conclusion.endswith("no smaller expression under these 94 rules (saturated after 6 rounds, 29 e-nodes)")
    _, cut = saturated(CANCELS, rounds=2)
    assert "no smaller" not in cut.conclusion
    assert "within the budget (not saturated after 2 rounds" in cut.conclusion
    assert not cut.facts.regions[0].certified
    _, floor = saturated(
        "g (float a, float b, float c, float d) => (float y) { p = Add(a, b) q = Add(c, d) y = Mul(p, q) }", rounds=1
    )
    assert "since they lose no input" in floor.conclusion and floor.facts.regions[0].certified


@EGGLOG
def test_a_region_where_nothing_is_gained_has_its_certificate_in_the_report(done, tmp_path):
    wb.export(
        typed("g (float[3] x, float[3] z) => (float[3] y) { a = Exp(x)  b = Neg(z)  y = Mul(a, b) }"),
        tmp_path / "m.onnx",
    )
    report = tmp_path / "report.json"
    said = done(
        *("optimize", tmp_path / "m.onnx", "-o", tmp_path / "out.onnx", "--passes", "saturate_algebra"),
        *("--report", report, "--mode", "fast"),
    )
    (step,) = json.loads(report.read_text())["steps"]
    (region,) = step["saturation"]["regions"]
    assert region["certified"] and region["saturated"]
    assert region["operators"] == region["smallest"] == region["least"] == 3
    assert region["rules"] == 94 and region["rounds"] > 0 and region["enodes"] > 3
    assert "no smaller expression under these 94 rules (saturated after" in said
    told = done("explain", "saturate_algebra", tmp_path / "m.onnx", "--mode", "fast")
    assert "considered 3, acted on 0, refused 3" in told and "no smaller expression under these 94 rules" in told


@EGGLOG
def test_a_second_run_changes_nothing():
    graph, first = saturated(NAMES)
    before = to_text(graph)
    second = run_pass(PASS(), graph, PassContext(load_profile("cpu"), mode="fast"))
    assert first.rewrites and not second.rewrites and to_text(graph) == before


# ---- limits ------------------------------------------------------------------------------


@pytest.mark.slow
@EGGLOG
def test_the_time_ends_egglog_and_what_it_had_found_stays():
    region = one_region(sum_of_products(25))
    program = program_of(rules_of(equations_for("floats", "fast")), list(region.terms()))
    egraph = saturate(program, region.number_rules("fast"), SaturationBudget(10**6, 10**9, 2))
    assert not egraph.saturated and 0 < egraph.rounds < 100


@EGGLOG
@pytest.mark.slow
def test_no_more_e_nodes_are_kept_than_are_allowed():
    _, step = saturated(sum_of_products(9), enodes=300)
    (facts,) = step.facts.regions
    assert facts.enodes <= 300 and not facts.saturated


@EGGLOG
def test_a_program_that_egglog_refuses_is_an_error_with_its_words():
    with pytest.raises(EgglogError, match="Unbound function Nothing"):
        saturate(program_of((), ["(Nothing 1)"]), REALS, ENOUGH)


@EGGLOG
def test_a_larger_region_is_cut_and_said():
    graph, step = saturated(sum_of_products(9), most_operators=7)
    assert [facts.operators for facts in step.facts.regions] == [7, 7, 3]
    assert "3 of them are pieces of regions with more than 7 operators" in step.conclusion
    assert len(graph) == 17


@pytest.mark.slow
def test_without_egglog_the_step_says_so_and_changes_nothing(tmp_path):
    wb.export(typed(CANCELS), tmp_path / "m.onnx")
    blocked = (
        "import sys; sys.modules['egglog'] = None; from workbench.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )

    def run(*arguments):
        command = [sys.executable, "-c", blocked, *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout

    said = run("optimize", tmp_path / "m.onnx", "-o", tmp_path / "out.onnx", "--passes", "saturate_algebra")
    assert "saturate_algebra: nothing was done: egglog is not installed; pip install egglog" in said
    assert len(wb.load(tmp_path / "out.onnx")) == 3
    assert "Not available: egglog is not installed; pip install egglog." in run("passes", "--json")
    lesson = run("lesson", "check", ROOT / "lessons" / "13_saturation.md")
    said = (
        r"13_saturation\.md, line \d+: saturate_algebra cannot act here: egglog is not installed; pip install egglog\n"
    )
    assert re.search(said, lesson)


# ---- regions and what is built -----------------------------------------------------------

NAMES = """g (float[N,3] x, float[3] z, float[N,3] w) => (float[N,3] y, float[N,3] p) <float half = {0.5}, float[3] c = {1, 2, 3}> {
    p = Mul(x, z)
    q = Mul(w, z)
    a = Add(p, q)
    b = Mul(a, half)
    e = Mul(b, c)
    n = Neg(e)
    y = Neg(n)
}"""
BUILT = {
    "outputs that become equal": "g (float[3] x, float[3] z) => (float[3] y, float[3] p) { a = Neg(x) b = Neg(a) y = Add(b, z) p = Add(z, x) }",
    "an output that becomes an input": "g (float[3] x) => (float[3] y) { a = Neg(x)  y = Neg(a) }",
    "a constant of more axes": "g (float[3] x, float[1,3] z) => (float[1,3] y) <float[1,1] one = {1}> { a = Mul(x, one)  y = Mul(a, z) }",
    "logic": "g (bool[2,2] p, bool[2] q) => (bool[2,2] y) { a = Not(p)  b = Not(q)  c = And(a, b)  y = Not(c) }",
    "integers": "g (int64[3] x, int64[3] z) => (int64[3] y) <int64 c = {3}> { a = Mul(x, c)  b = Mul(z, c)  s = Add(a, b)  y = Sub(s, x) }",
    "doubles": "g (double[3] x, double[3] z) => (double[3] y) <double c = {0.1}> { a = Mul(x, c)  b = Mul(z, a)  y = Div(b, c) }",
    "names": NAMES,
}


@EGGLOG
@pytest.mark.parametrize("mode", [thorough_unless(mode == "fast", mode) for mode in ("exact", "ieee", "fast")])
@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in BUILT.items()])
def test_results_stay_the_same_in_every_mode(text, mode):
    before = typed(text)
    graph, _ = saturated(text, mode)
    given = random_inputs(before)
    expected, found = outputs(before, given), outputs(graph, given)
    for name in before.outputs:
        if mode == "exact":
            np.testing.assert_array_equal(found[name], expected[name])
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6)
        assert graph.type(name) == before.type(name)


@EGGLOG
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["exact", "ieee", "fast"])
@pytest.mark.parametrize("sample", sorted((FOLDER / "algebra").glob("*.onnxtxt")), ids=lambda path: path.stem)
def test_samples_of_algebra_give_the_same_results(sample, mode):
    before = load_model(sample, {})
    graph = before.copy()
    run_pass(PASS(), graph, PassContext(load_profile("cpu"), mode=mode), check_each=True)
    given = random_inputs(before)
    expected, found = outputs(before, given), outputs(graph, given)
    for name in before.outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6)


@EGGLOG
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_regions_give_the_same_results(seed):
    draw = random.Random(seed)
    values, lines = ["x", "z", "half", "three"], []
    for i in range(8):
        operator = draw.choice(("Add", "Mul", "Sub", "Neg", "Abs", "Relu", "Max"))
        operands = [draw.choice(values[-5:]), draw.choice(values)][: ARITIES[operator]]
        lines.append(f"v{i} = {operator}({', '.join(operands)})")
        values.append(f"v{i}")
    text = (
        "g (double[4] x, double[4] z) => (double[4] v7, double[4] v6) <double half = {0.5}, double[4] three = {3, 1, 2, 5}> {"
        f" {' '.join(lines)} }}"
    )
    before = typed(text)
    graph, _ = saturated(text, seconds=20, enodes=2000)
    given = random_inputs(before)
    expected, found = outputs(before, given), outputs(graph, given)
    for name in before.outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-9)


@EGGLOG
@pytest.mark.slow
def test_operators_keep_their_names_and_a_leaf_of_more_axes_its_shape():
    graph, step = saturated(NAMES)
    assert next(node.name for node in graph.nodes if node.op == "Mul") == "Mul_p"
    assert len(graph) == 4 and step.facts.regions[0].certified
    text = BUILT["a constant of more axes"]
    assert len(saturated(text)[0]) == 2
    assert len(saturated(text.replace("float[3] x", "float[2,3] x").replace("[1,3] y", "[2,3] y"))[0]) == 1
    alone, _ = saturated("g (float[3] x) => (float[1,3] y) <float[1,1] one = {1}> { a = Mul(x, one)  y = Relu(a) }")
    assert len(alone) == 2


@EGGLOG
@pytest.mark.slow
def test_before_a_discontinuous_operator_nothing_is_rounded():
    text = (
        "g (float[3] x) => (float[3] y) <float a = {3}, float b = {7}> { p = Mul(x, a)  q = Mul(p, b)  y = Sub(q, p) }"
    )
    assert len(saturated(text)[0]) == 1
    stepped = text.replace("(float[3] y)", "(float[3] t)").replace(" }", "  t = Cast<to=1>(y) }")
    assert len(saturated(stepped)[0]) == 4


@EGGLOG
@pytest.mark.slow
def test_a_constant_that_would_overflow_leaves_the_region_as_it_is():
    text = "g (float[2] x) => (float[2] y) <float[2] a = {1e30, 1}, float[2] b = {1e30, 2}> { p = Mul(x, a)  y = Mul(p, b) }"
    graph, step = saturated(text)
    assert len(graph) == 2 and not step.rewrites
    assert "nothing is proved: Mul of the constants" in step.conclusion and "is not finite" in step.conclusion


def test_operators_of_two_element_types_are_two_regions_and_a_single_operator_is_none():
    graph = typed(
        "g (float[3] x) => (float[3] y, int64[3] z) { a = Neg(x)  y = Exp(a)  i = Cast<to=7>(x)  b = Neg(i)  z = Abs(b)"
        " t = Tanh(y)  u = Exp(t) }"
    )
    groups, pieces = algebraic_groups(graph, 60)
    assert groups == [("Neg_a", "Exp_y"), ("Neg_b", "Abs_z")] and pieces == 0
    assert "Softmax" not in ARITIES and {"Add", "Mul"} <= COMMUTATIVE


def test_numbers_are_exact_and_a_result_that_is_none_is_left_alone():
    exact = ExactNumbers("1/1000", "1000", False, 4, False, ("1/8", "8"))
    assert exact.computed("Mul", ["3", "5"]) == "15"
    assert exact.computed("Mul", ["3", "7"]) is None  # five digits
    assert exact.computed("Div", ["1", "3"]) is None and exact.computed("Div", ["1", "0"]) is None
    assert exact.computed("Sub", ["3", "3"]) is None and exact.computed("Mul", ["100", "100"]) is None
    assert REALS.computed("Div", ["1", "3"]) == "1/3" and REALS.computed("Sub", ["3", "3"]) == "0"
    assert REALS.computed("Neg", ["-0"]) is None and REALS.computed("Exp", ["1"]) is None
    assert exact.known("-4") == ["Constant", "Nonzero", "Factor"] and "Factor" not in exact.known("9")
    assert (as_number(0.1), as_number(-0.0), as_number(0.5)) == ("3602879701896397/36028797018963968", "-0", "1/2")
