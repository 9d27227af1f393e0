"""Verification in the app: each step, only the end, or off; what is exported is compared unless it is off."""

from __future__ import annotations

import pytest

from tests.pages import compared, fine, history, opened_sample, page, steps, words
from workbench.interfaces.ui.state.checking import HOW

SAMPLE = "ppocr_cls_v2"


def optimized(how: str):
    at = compared(fine(page("optimize", opened_sample(SAMPLE)).run()))
    at = compared(fine(at.selectbox(key="verification").set_value(how).run()))
    return fine(at.run())


def fresh(how: str):
    """Optimize, with that choice made before anything is compared."""
    at = page("optimize", opened_sample(SAMPLE))
    at.session_state["verification"] = how
    return fine(compared(fine(at.run())).run())


@pytest.mark.slow
def test_each_step_has_a_verdict():
    assert {step.verdict is not None for step in history(fresh("each")).steps} == {True}


@pytest.mark.slow
def test_only_the_end_has_a_verdict_until_each_is_wanted():
    at = fresh("end")
    found = history(at)
    changed = [step for step in found.steps if step.changed]
    assert found[-1].verdict.ok and found[0].verdict is None and len(changed) > 1
    assert {row["verdict"] for row in steps(at)} <= {"-", "equal"}
    at = compared(fine(at.selectbox(key="verification").set_value("each").run()))
    assert all(step.verdict is not None for step in history(at).steps)


@pytest.mark.slow
def test_off_compares_nothing_and_says_so():
    at = fresh("off")
    assert all(step.verdict is None for step in history(at).steps)
    assert "Verification is off: the result is not compared" in words(at)
    assert at.session_state["opened"].checking is None
    assert "--no-verify" in at.code[0].value and "--no-verify" in at.code[1].value


@pytest.mark.slow
def test_what_is_known_stays_known_when_it_is_switched_off():
    at = optimized("off")
    assert history(at)[-1].verdict.ok
    assert "Verification is off" not in words(at)


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
def test_the_result_is_compared_before_export_unless_that_is_off(how):
    opened = fresh("off").session_state["opened"]
    at = page("export", opened)
    at.session_state["verification"] = how
    fine(at.run())
    if how != "off":
        assert opened.history[-1].verdict.ok
        return
    assert opened.history[-1].verdict is None
    assert "not verified: verification is switched off" in words(at)
    assert "--no-verify" in at.code[-2].value and "verify" not in at.code[-1].value
    fine(at.button(key="verify_now").click().run())
    assert opened.history[-1].verdict.ok
    assert "not verified" not in words(fine(at.run()))


@pytest.mark.slow
def test_a_comparison_that_was_cancelled_does_not_begin_again_by_itself():
    opened = fresh("off").session_state["opened"]
    opened.jobs.cancel("verify_export")
    at = fine(page("export", opened).run())
    assert "not verified: the comparison was cancelled" in words(at)
    assert opened.history[-1].verdict is None
    fine(at.button(key="verify_now").click().run())
    assert opened.history[-1].verdict.ok
