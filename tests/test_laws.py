"""The law of every rule, proved by z3; and that the prover finds what is wrong."""

import pytest

import passes
from tests.running import typed
from workbench.evidence.verification.pass_files.proofs import prove
from workbench.evidence.verification.pass_files.sampled_laws import sample_law
from workbench.presentation.explanations.explanation import explain_pass
from workbench.rewrite import Exactness, Example, NoMatch
from workbench.rewrite.patterns.algebra import algebraic_rule
from workbench.rewrite.patterns.laws import read_laws

BIT_EXACT, ROUNDING, FAST_MATH = Exactness.BIT_EXACT, Exactness.ROUNDING, Exactness.FAST_MATH
LONG_PROOFS = ("dequantize and quantize", "clip of clip")  # seconds each
EVERY_RULE = [rule for cls in passes.all_passes().values() for rule in cls.rules]
WITH_LAW = [
    pytest.param(rule, id=f"{name}-{rule.name}", marks=[pytest.mark.slow] if rule.name in LONG_PROOFS else [])
    for name, cls in passes.all_passes().items()
    for rule in cls.rules
    if rule.law
]


@pytest.mark.parametrize("rule", WITH_LAW)
def test_law_is_proved_for_every_kind_of_numbers_that_it_speaks_of(rule):
    proof = prove(rule.law, rule.exactness)
    assert not proof.wrong
    if not proof.proved:
        assert proof.missing
        print(f"not proved: {rule.law}, since {proof.missing}")


@pytest.mark.parametrize("rule", WITH_LAW)
def test_rule_that_is_exact_to_the_last_bit_rests_on_no_law_of_reals(rule):
    assert rule.exactness is not BIT_EXACT or not any("reals" in law.kinds for law in read_laws(rule.law))


@pytest.mark.parametrize("wrong", [wrong for rule in EVERY_RULE for wrong in rule.wrong_laws], ids=lambda w: w.law)
def test_a_law_that_is_said_to_be_wrong_is_wrong_for_its_numbers_and_for_z3(wrong):
    law = read_laws(wrong.law)[0]
    for side, value in zip(law.sides, wrong.sides, strict=True):
        assert eval(side, {"reciprocal": lambda x: 1 / x, **wrong.numbers}) == value
    assert wrong.sides[0] != wrong.sides[1]
    assert "is wrong for" in prove(wrong.law, FAST_MATH).wrong
    assert wrong.law.rpartition(": ")[2] in str(wrong)


def test_the_equation_that_the_course_misprints_is_told_beside_the_one_that_holds():
    rule = next(rule for rule in EVERY_RULE if rule.name == "reciprocal of a product")
    (wrong,) = rule.wrong_laws
    assert rule.law.partition(" if ")[0] == wrong.law.replace(")) * z", ")) * reciprocal(z)")
    assert "with x = 2 and z = 4 it says 0.0625 == 1" in explain_pass(passes.find_pass("algebra_products"))


@pytest.mark.parametrize(
    ("law", "kinds"),
    [
        ("-(-x) == x", ("integers", "floats")),
        ("not (not p) == p", ("booleans",)),
        ("(p and q) or (p and r) == p and (q or r)", ("booleans",)),
        ("for integers: (x * a) * b == x * (a * b)", ("integers",)),
        ("for floats: x + -0.0 == x", ("floats",)),
        ("for reals: sqrt(x) * sqrt(x) == x if x >= 0", ("reals",)),
        ("for floats and integers: relu(relu(x)) == relu(x)", ("integers", "floats")),
        ("a + x == x + a; r and p == p and r", ("integers", "booleans", "floats")),
        ("for integers: where(x <= a, x, a) == min(x, a)", ("integers",)),
        ("for floats and integers: narrow(narrow(widen(widen(x)))) == x", ("integers", "floats")),
        ("for sizes: (n * m) / m == n if m > 0", ("sizes",)),
        ("for reals: exp(x - x) == 1", ("reals",)),
        ("for reals: exp(x + z) == exp(z) * exp(x)", ("reals",)),
        ("for integers: x << 1 == x + x", ("integers",)),
        ("abs(-x) == abs(x)", ("integers", "floats")),  # of integers with a sign: Neg takes no other
        ("for signed integers: x * -1 == -x", ("signed integers",)),
        ("for reals: exp(-x) == 1 / exp(x)", ("reals",)),
        ("for reals: 1 / exp(-x) == exp(x)", ("reals",)),
        ("for reals: exp(0 * x) == 1", ("reals",)),
    ],
)
def test_true_law_is_proved(law, kinds):
    assert prove(law, BIT_EXACT).proved == kinds


@pytest.mark.parametrize(
    "law",
    [
        "for floats: x + 0.0 == x",  # -0.0
        "for floats: x * 0 == 0",  # NaN
        "for floats: (x + a) + b == x + (a + b)",
        "for floats: 1 / (1 / x) == x",
        "for integers: (x * a) / a == x if a != 0",  # wraps around
        "for reals: sqrt(x * x) == x",
        "for booleans: not p == p",
        "for integers: widen(narrow(x)) == x",
        "for floats: widen(x + a) == widen(x) + widen(a)",
        "for sizes: (n - m) + m == max(n, m)",
        "for sizes: (n / m) * m == n if m > 0",
        "for reals: exp(log(x)) == x",  # of x <= 0
        "for reals: log(exp(x)) == x + 1",
        "for reals: exp(x + z) == exp(x) + exp(z)",
        "for integers: (x >> k) + (z >> k) == (x + z) >> k",  # bits that the sum carries on
        "x - a == a - x",
        "x + a == a + x; x - a == a - x",
    ],
)
def test_wrong_law_is_found_to_be_wrong(law):
    proof = prove(law, BIT_EXACT)
    assert "is wrong for" in proof.wrong
    assert not proof.proved


@pytest.mark.parametrize(
    "law",
    [
        "for reals: exp(2 * x) == exp(x) * exp(x)",
        "for reals: log(1 / x) == -log(x) if x > 0",
        "for reals: log(sqrt(x)) == log(x) / 2 if x > 0",
        "for reals: sqrt(exp(x)) == exp(x / 2)",
        "for reals: exp(x) ** 2 == exp(2 * x)",
        "for reals: sqrt(x * 4) == 2 * sqrt(x) if x >= 0",
        "for reals: log(exp(x)) == x",
        "for reals: exp(-log(x)) == 1 / x if x > 0",
        "for reals: log(x * x) == 2 * log(x) if x > 0",
        "for reals: exp(x) / (exp(x) + exp(z)) == 1 / (1 + exp(z - x))",
    ],
)
def test_a_true_law_is_never_called_wrong(law):
    """z3 takes exp, log and sqrt for functions that they are not; numbers are computed before they are believed."""
    proof = prove(law, ROUNDING)
    assert not proof.wrong and (proof.proved or proof.missing)


@pytest.mark.parametrize(
    "law",
    [
        "for reals: exp(-x) == -exp(x)",
        "for reals: sqrt(x * 4) == 4 * sqrt(x)",
        "for reals: log(x / z) == log(z) - log(x) if x > 0 and z > 0",
        "for reals: exp(x) * exp(z) == exp(x * z)",
    ],
)
def test_a_wrong_law_of_such_functions_is_refuted_by_one_of_both(law):
    assert prove(law, ROUNDING).wrong or sample_law(law, ROUNDING).wrong


def test_law_beyond_z3_is_said_to_be_so():
    assert prove("erf(-x) == -erf(x)", FAST_MATH).missing == "z3 has no erf for reals"
    assert not prove("erf(-x) == -erf(x)", FAST_MATH).proved
    assert prove("gelu(x) == x; x == x", BIT_EXACT).proved == ()


@pytest.mark.parametrize("text", ["x + 0 = x", "x + 0", "for numbers: x + 0 == x"])
def test_what_is_no_law_is_refused(text):
    with pytest.raises(ValueError, match=r"a law is an equation|is not a kind of numbers"):
        read_laws(text)


def test_a_wrong_law_names_the_type_and_the_kind_that_would_be_right():
    with pytest.raises(ValueError, match="has Neg, which takes no unsigned integers; say 'for signed integers: x"):
        algebraic_rule("negated", "for integers: x * -1 == -x", "", Example("", "", ()), exactness=BIT_EXACT)
    assert (
        "is wrong for integers (int8): with a = " in prove("for integers: (x * a) / a == x if a != 0", BIT_EXACT).wrong
    )


def test_a_rule_for_signed_integers_names_another_type():
    rule = algebraic_rule(
        "negated",
        "for signed integers: x * -1 == -x",
        "{root} negates '{x}'; no node fewer",
        Example("", "", ()),
        exactness=BIT_EXACT,
    )
    for element, said in (("int32", ""), ("uint8", "is uint8, not a signed integer"), ("float", "is float, not")):
        graph = typed(
            f"g ({element}[2] x) => ({element}[2] y) <{element} m = {{{-1 if element != 'uint8' else 255}}}>"
            "{ y = Mul(x, m) }"
        )
        node = graph.nodes[0]
        if not said:
            assert rule.match(graph, node, None).sentence == "Mul 'Mul_y' negates 'x'; no node fewer"
            continue
        with pytest.raises(NoMatch, match=said if element != "uint8" else "Mul"):
            rule.match(graph, node, None)
