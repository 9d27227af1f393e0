"""The end alone is compared; only a failure is traced, over steps and then rewrites, and can be left out."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from dataclasses import dataclass

import pytest

from passes.algebra.algebra_inverse import AlgebraInverse
from tests.commands import OCR, RESHAPE, report_of
from tests.conftest import ROOT
from tests.loading import saved
from tests.pages import compared, fine, opened_file, page, verdicts, words
from tests.running import typed
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces import api
from workbench.ir import Edit
from workbench.presentation.explanations.reporting import history_report
from workbench.rewrite import Excluded, History, Pass, Rewrite
from workbench.run.inputs import seed_inputs

# y is all rounding: the sum of thousands in one step, less that in two, a thousandth, which Mul makes visible.
SOUND = """g (float[256] x) => (float[256] y, float[256] z) <float a = {5000.3}, float b = {4000.7}, float ab = {9001}, float c = {0.25}, float m = {3000}> {
    r = Relu(x)  t = Relu(r)  k = Mul(t, a)  s = Add(k, a)  u = Add(s, b)  q = Add(k, ab)  d = Sub(u, q)
    p = Mul(d, m)  y = Tanh(p)
    v = Add(x, c)  w = Add(v, c)  z = Tanh(w) }"""
SIMPLIFY = ["remove_noops", "cancel_pairs", "algebra_constants", "dead_nodes"]


class Counting(Verifier):
    """Counts what it compares."""

    compared = 0

    def check(self, graph, exact=False, narrowed=False, **how):
        self.compared += 1
        self.only = [*getattr(self, "only", ()), how.get("only")]
        return super().check(graph, exact, narrowed, **how)


@pytest.fixture(scope="module")
def verifier():
    with Counting(typed(SOUND)) as made:
        yield made


def optimized(verifier, **words) -> History:
    verifier.compared = 0
    return api.optimize(typed(SOUND), SIMPLIFY, verifier=verifier, **words)


def test_what_is_right_is_compared_once():
    with Counting(typed("g (float[4] x) => (float[4] y) { a = Relu(x)  b = Relu(a)  y = Neg(b) }")) as verifier:
        history = api.optimize(verifier.original, preset="simplify", verifier=verifier, verify="end")
    assert verifier.compared == 1
    assert [step.verdict is not None for step in history.steps] == [False] * (len(history) - 1) + [True]
    assert history[-1].verdict.ok and history_report(history)["totals"]["verified"] is True


BRANCHES = """g (float[8] x, bool p) => (float[8] y, float[8] z) { r = Relu(x)  z = Relu(r)  y = If(p)<
    then_branch = a() => (float[8] i) { i = THEN(x) }, else_branch = b() => (float[8] j) { j = ELSE(x) }> }"""


@dataclass(frozen=True)
class SpoilBranch(Pass):
    """Replaces the If by one with another branch. then: the operator of the one that is taken if the input is true."""

    then: str = "Sin"
    title = "Spoil a branch"

    def rewrites(self, graph, context):
        other = typed(BRANCHES.replace("THEN", self.then).replace("ELSE", "Cos" if self.then == "Sin" else "Sin"))
        yield Rewrite(Edit(remove=("If_y",), insert=(other.node("If_y"),)), "spoils a branch", ("If_y",))


def test_what_only_the_second_input_shows_is_traced_on_that_input_alone():
    """A single boolean is another one in the second run, which takes the branch that the first did not."""
    graph = typed(BRANCHES.replace("THEN", "Sin").replace("ELSE", "Sin"))
    spoils = SpoilBranch("Sin" if seed_inputs(graph)["p"] else "Cos")
    with Counting(graph) as verifier:
        history = api.optimize(graph, [AlgebraInverse(), spoils], verifier=verifier, verify="end", on_failure="stop")
    assert history.failed.rewrites[history.failed.broken_by].sentence == "spoils a branch"
    assert verifier.only[0] is None and {*verifier.only[1:]} == {1}
    assert history.failed.verdict.run == 1


def test_a_failure_is_traced_to_the_step_and_the_rewrite_as_if_each_step_were_compared(verifier):
    each = optimized(verifier, verify="each")
    runs = verifier.compared
    end = optimized(verifier, verify="end")
    for history in (each, end):
        assert history.failed.pass_name == "algebra_constants"
        assert history.failed.rewrites[history.failed.broken_by].sentence.startswith("the constants of Add 'Add_s'")
    assert verifier.compared <= runs + 1


def test_a_rewrite_that_changes_results_is_left_out_and_the_rest_goes_on(verifier):
    history = optimized(verifier, verify="end", on_failure="skip")
    assert history.failed is None and history[-1].verdict.ok
    (out,) = history.excluded
    assert out.step == "algebra_constants" and "Add 'Add_s'" in out.sentence
    assert str(out).startswith("left out of algebra_constants: 'the constants of Add 'Add_s'")
    assert [node.op for node in history.graph.nodes].count("Add") == 4  # those before Tanh are gathered still
    assert history_report(history)["left_out"] == [
        {"pass": out.step, "rewrite": out.sentence, "id": str(out.rewrite), "why": out.why}
    ]
    again = api.optimize(history.graph, SIMPLIFY, verifier=verifier, verify="end", on_failure="skip")
    assert len(again.graph) == len(history.graph)


def test_a_preset_keeps_the_rest_unless_told_to_stop(verifier):
    graph = typed(SOUND)
    history = api.optimize(graph, verifier=verifier, verify="end")
    assert history.failed is None and [out.step for out in history.excluded] == ["algebra_constants"]
    assert api.optimize(graph, verifier=verifier, verify="end", on_failure="stop").failed is not None
    assert api.optimize(graph, SIMPLIFY, verifier=verifier, verify="end").failed is not None


@pytest.mark.slow
def test_the_app_keeps_the_rest_of_a_preset_and_says_what_it_left_out(tmp_path):
    at = page("optimize", opened_file(saved(tmp_path, SOUND)))
    at.session_state["preset"] = "simplify"
    at = fine(compared(at.run()))  # before that, the page may show the failure that is about to be mended
    assert verdicts(at) == {"equal"} and "Left out of algebra_constants: 'the constants of Add" in words(at).replace(
        "\\", ""
    )
    at.button(key="put_back").click().run()
    assert not compared(at).exception and "NOT EQUAL" in at.error[0].value and at.button(key="leave_out")
    at.session_state["opened"].keeps_failing = False
    at.checkbox(key="on_cancel_pairs").set_value(False).run()  # a list of the user's own leaves nothing out unasked
    assert "NOT EQUAL" in compared(at).error[0].value


def test_after_three_rewrites_the_whole_pass_is_left_out():
    lines = "".join(
        f"s{i} = Add(k, a)  u{i} = Add(s{i}, b)  d{i} = Sub(u{i}, q)  y{i} = Mul(d{i}, m)\n" for i in range(5)
    )
    outputs = ", ".join(f"float[256] y{i}" for i in range(5))
    graph = typed(
        f"g (float[256] x) => ({outputs}) <float a = {{5000.3}}, float b = {{4000.7}}, float ab = {{9001}}, float m = {{3000}}>"
        f"{{ k = Mul(x, a)  q = Add(k, ab)\n{lines} }}"
    )
    with Verifier(graph) as verifier:
        history = api.optimize(graph, ["algebra_constants"], verifier=verifier, verify="end", on_failure="skip")
    assert [out.rewrite is None for out in history.excluded] == [False] * 3 + [True]
    assert history.failed is None and len(history.graph) == len(graph)


def test_what_fails_before_any_pass_is_not_blamed_on_one(monkeypatch):
    graph = typed("g (float[4] x) => (float[4] y) { a = Relu(x)  b = Relu(a)  y = Neg(b) }")
    other = typed("g (float[4] x) => (float[4] y) { y = Relu(x) }")
    with Verifier(other) as verifier:
        history = api.optimize(graph, preset="simplify", verifier=verifier, verify="end", on_failure="skip")
    assert history.failed is history[0] and history.failed.broken_by is None and history.excluded == []


def test_the_command_line_leaves_out_writes_and_says_so(run, tmp_path):
    out = tmp_path / "out.onnx"
    words = ("optimize", RESHAPE, "-o", out, "--target", "npu")
    for how in (("--layout", "wrong-on-purpose"), ("--passes", "layout_wrong_on_purpose", "--on-failure", "skip")):
        code, said, _ = run(*words, *how)
        assert code == 0 and out.exists()
        assert "left out of layout_wrong_on_purpose: 'wrong on purpose: Reshape 'reshape1'" in said
        assert "the end: Equal" in said
        out.unlink()
    code, _, said = run(*words, "--layout", "wrong-on-purpose", "--on-failure", "stop")
    assert code == 1 and not out.exists() and "leave the failing pass out, or add --on-failure skip" in said


def test_passes_that_were_named_one_by_one_stop_at_a_failure(run, tmp_path):
    out = tmp_path / "out.onnx"
    code, _, said = run("optimize", RESHAPE, "-o", out, "--target", "npu", "--passes", "layout_wrong_on_purpose")
    assert code == 1 and not out.exists() and "--on-failure skip" in said


@pytest.mark.slow
def test_each_and_off(done, tmp_path):
    each = report_of(done, tmp_path, OCR, "--verify", "each")
    assert all(step["verified"] is True for step in each["steps"])
    off = report_of(done, tmp_path, OCR, "--verify", "off")
    assert off["totals"]["verified"] is None


@pytest.mark.slow
def test_a_terminal_hears_how_far_it_is_and_a_pipe_does_not(tmp_path):
    words = [sys.executable, "-m", "workbench", "optimize", str(OCR), "-o", str(tmp_path / "out.onnx")]
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                shown += os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
        assert process.wait() == 0
    os.close(ours)
    last = re.search(rb"pass 1 of (\d+): ", shown)[1]
    assert b"pass %b of %b: " % (last, last) in shown
    assert b"comparing step %b, " % last in shown and b"with the original (" in shown
    assert shown.endswith(b"\r\x1b[K")
    piped = subprocess.run(words, cwd=ROOT, capture_output=True, check=True)
    assert piped.stderr == b""


def test_left_out_is_said_in_a_sentence():
    assert (
        str(Excluded("p", None, "", "Output 'y' differs."))
        == "left out of p: all of it, since with it output 'y' differs."
    )
