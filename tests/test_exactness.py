"""Every rule on hostile values and on empty and single axes: the results are as exact as the rule says."""

import numpy as np
import pytest

import passes
from tests.running import outputs, typed
from workbench.evidence.verification.pass_files.exactness_runs import at_sizes, hostile_inputs, inexact_result
from workbench.planning.layout.strategies.layout_strategy import example_context
from workbench.presentation.explanations.explanation import explain_pass
from workbench.rewrite import Exactness, run_pass, with_options
from workbench.rewrite.core.greedy_driver import apply_rules

RULES = [
    pytest.param(cls, rule, id=f"{name}-{rule.name}")
    for name, cls in passes.all_passes().items()
    for rule in cls.rules
    if not cls.demonstration
]
SEEDS = range(6)
SOME_SEEDS = [range(2), pytest.param(range(2, 6), marks=pytest.mark.slow)]
LARGE_FLOATS = (1e18, -1e18, 3e17, 1.0, 0.5, 0.0)


@pytest.mark.parametrize("seeds", SOME_SEEDS, ids=str)
@pytest.mark.parametrize(("cls", "rule"), RULES)
def test_rule_is_as_exact_as_it_says(cls, rule, seeds):
    """The whole example, its rewrites carried out, on several hostile inputs, and at larger sizes."""
    for sized in at_sizes(cls, rule.example):
        ran, wrong = inexact_result(sized, rule.exactness, seeds)
        assert not wrong
        assert ran or sized.size or not sized.before.inputs, "no input of this test runs through the example"


@pytest.mark.parametrize(("cls", "rule"), [p for p in RULES if p.values[1].exactness is Exactness.ROUNDING])
def test_up_to_1e18_no_infinity_and_no_nan_comes_or_goes(cls, rule):
    """Squares of such numbers do not overflow, so nothing does on the way."""
    example = rule.example
    before, after = typed(example.before), typed(example.before)
    run_pass(with_options(cls, example.options), after, example_context(example))
    for seed in SEEDS:
        inputs = hostile_inputs(before, rule.exactness, seed, 2, LARGE_FLOATS)
        expected = outputs(before, inputs)
        for name, array in outputs(after, inputs).items():
            np.testing.assert_array_equal(np.isnan(array), np.isnan(expected[name]))
            np.testing.assert_array_equal(np.isinf(array), np.isinf(expected[name]))


@pytest.mark.parametrize(("cls", "rule"), RULES)
def test_a_rule_for_the_mode_fast_alone_says_why_with_numbers_that_show_it(cls, rule):
    shown = rule.counterexample
    assert (shown is not None) == (rule.exactness is Exactness.FAST_MATH)
    if shown is None:
        return
    example = rule.example
    before, after = typed(shown.graph or example.before), typed(shown.graph or example.before)
    for found in apply_rules([rule], after, with_options(cls, example.options)):
        after.apply(found.edit)
    given = {}
    for name in before.inputs:
        type_ = before.tensor_type(name)
        shape = [d if isinstance(d, int) else 1 for d in type_.shape]
        given[name] = np.broadcast_to(np.array(shown.inputs[name]), shape).astype(type_.dtype.numpy())
    (was,), (becomes,) = outputs(before, given).values(), outputs(after, given).values()
    same = ((was == becomes) & (np.signbit(was) == np.signbit(becomes))) | (np.isnan(was) & np.isnan(becomes))
    at = np.argmin(same)
    assert not same.ravel()[at]
    for number, said in ((was.ravel()[at], shown.before), (becomes.ravel()[at], shown.after)):
        np.testing.assert_allclose(number, np.asarray(said, was.dtype), rtol=1e-4)
        assert np.isnan(said) or np.signbit(number) == np.signbit(said)
    assert f"since {shown.because}" in explain_pass(cls)


@pytest.mark.parametrize(("index", "overflowed"), [(0, np.inf), (1, 3e38)])
def test_gelu_of_what_overflows_before_it_is_halved_is_the_number_as_its_pass_says(index, overflowed):
    """The second example halves first, and overflows nowhere."""
    cls = passes.all_passes()["recompose_gelu"]
    rule = cls.rules[index]
    before, after = typed(rule.example.before), typed(rule.example.before)
    run_pass(cls(), after, example_context(rule.example))
    x = {"x": np.array([[3e38, 1e38, np.inf]], dtype=np.float32)}
    np.testing.assert_array_equal(outputs(before, x)["y"], np.array([[overflowed, 1e38, np.inf]], np.float32))
    np.testing.assert_array_equal(outputs(after, x)["y"], x["x"])
    assert "intermediate result overflows" in rule.exactness.value and "overflows before it is halved" in cls.__doc__


@pytest.mark.parametrize(("cls", "rule"), RULES)
def test_example_is_marked_with_the_first_mode_in_which_it_happens(cls, rule):
    assert (rule.example.mode == "fast") == (rule.exactness is Exactness.FAST_MATH)
    if rule.exactness in (Exactness.ROUNDING, Exactness.STEP):
        graph = typed(rule.example.before)
        step = run_pass(
            with_options(cls, rule.example.options),
            graph,
            example_context(rule.example).in_mode("exact"),
        )
        assert not any(rewrite.sentence == rule.example.sentences[-1] for rewrite in step.rewrites)
