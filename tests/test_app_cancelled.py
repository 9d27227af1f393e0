"""Histories in the app: what two pipelines share is not run again, and what a cancelled one has done is kept."""

from __future__ import annotations

import threading

import pytest

from tests.pages import fine, opened_sample, page, steps, verdicts, words
from workbench.interfaces.ui.state.histories import history_of
from workbench.interfaces.ui.state.session import Opened, Spec, stop_checking, worker
from workbench.interfaces.ui.state.work import Job, Jobs, Report, Stopped
from workbench.pipeline.pipeline import Pipeline
from workbench.pipeline.registry.pass_choice import choose
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import Excluded

NAMES = ("fold_constants", "fold_batchnorm", "cancel_transposes", "dead_nodes")


def spec_of(*names: str, excluded: tuple[Excluded, ...] = ()) -> Spec:
    return Spec(choose(list(names)), load_profile("cuda"), excluded=excluded)


def silent(words: str, share: float | None) -> None:
    pass


def stopping_before(title: str) -> Report:
    def report(words: str, share: float | None) -> None:
        if title in words:
            raise Stopped

    return report


def test_only_the_passes_from_the_changed_one_on_run_again():
    opened = opened_sample("conv_relu_conv_relu")
    heard: list[str] = []
    first = history_of(opened, spec_of(*NAMES), lambda text, share: heard.append(text)).steps
    assert [text for text in heard if "rewrites" not in text] == [
        "pass 1 of 4: Fold constants. Compute at compile time what does not depend on the model's inputs.",
        "pass 2 of 4: Fold batch normalization into convolution. Fold batch normalization, in inference a factor and a "
        "summand per channel, into the convolution before it.",
        "pass 3 of 4: Cancel and merge transposes. Remove transposes that undo each other, and merge consecutive ones.",
        "pass 4 of 4: Remove dead nodes. Remove nodes whose results are unused.",
    ]
    heard.clear()
    changed = spec_of(*NAMES[:2], "dead_nodes", "cancel_transposes")
    second = history_of(opened, changed, lambda text, share: heard.append(text)).steps
    assert all(a is b for a, b in zip(first[:3], second[:3], strict=True))
    assert not any(text.startswith(("pass 1", "pass 2")) for text in heard)
    assert second[3] is not first[3]
    assert history_of(opened, changed, lambda *_: pytest.fail("nothing is to run")).steps == second


def test_a_pass_that_is_left_out_has_no_step_and_shifts_none():
    opened = opened_sample("conv_relu_conv_relu")
    whole = (Excluded("fold_batchnorm", None),)
    history_of(opened, spec_of(*NAMES[:3], excluded=whole), silent)
    found = history_of(opened, spec_of("fold_constants", "fold_batchnorm", "dead_nodes", excluded=whole), silent)
    assert [step.pass_name for step in found.steps] == ["as loaded", "fold_constants", "dead_nodes"]


def test_a_stopped_pipeline_keeps_the_passes_that_are_done_and_goes_on_from_there():
    opened = opened_sample("ppocr_cls_v2")
    whole = history_of(opened_sample("ppocr_cls_v2"), spec_of(*NAMES), silent)
    with pytest.raises(Stopped):
        history_of(opened, spec_of(*NAMES), stopping_before("Cancel and merge"))
    assert opened.history is not None
    assert opened.spec == spec_of(*NAMES[:2])
    assert [step.pass_name for step in opened.history.steps] == ["as loaded", *NAMES[:2]]
    assert str(opened.history.graph) == str(whole.at(2))
    kept = list(opened.history.steps)
    found = history_of(opened, spec_of(*NAMES), silent)
    assert all(a is b for a, b in zip(kept, found.steps, strict=False))
    assert str(found.graph) == str(whole.graph)


def test_what_a_pass_had_begun_when_it_was_stopped_is_not_kept():
    opened = opened_sample("ppocr_cls_v2")
    with pytest.raises(Stopped):
        history_of(opened, spec_of(*NAMES), stopping_before("into convolution, 2 rewrites"))
    assert opened.history is not None and opened.spec == spec_of("fold_constants")
    assert str(opened.history.graph) == str(opened.history.at(1))


def cancelled(stem: str, keep: bool) -> tuple[Opened, Spec]:
    """A model whose pipeline the user cancelled in its third pass; keep: whether its steps are still there."""
    at = page("optimize", opened_sample(stem))
    fine(at.run())
    opened = at.session_state["opened"]
    stop_checking(opened)
    spec, done = opened.spec, opened.history.steps[:3]
    opened.spec, opened.history.steps = Spec(Pipeline(spec.pipeline.passes[:2]), spec.profile, spec.mode), done
    opened.history.graph = opened.history.at(2)
    if not keep:
        opened.history, opened.spec = None, None
    opened.jobs.cancel("pipeline")
    at.session_state["cancelled_spec"] = spec
    return at, opened


def test_a_cancelled_pipeline_shows_what_was_done_and_waits_for_a_word():
    at, opened = cancelled("conv_relu_conv_relu", keep=True)
    count = len(opened.spec.pipeline.passes)
    fine(at.run())
    assert f"The pipeline was cancelled after {count} of" in words(at)
    assert steps(at)[-1]["#"].lstrip("> ") in ("0", "1", "2")
    fine(next(b for b in at.button if b.label == "Run the rest").click().run())
    assert verdicts(at) == {"equal"}
    assert len(opened.history) == 1 + len(opened.spec.pipeline.passes) > 3 and "cancelled" not in words(at)


def test_a_pipeline_that_was_cancelled_before_anything_was_done():
    at, _ = cancelled("conv_relu_conv_relu", keep=False)
    fine(at.run())
    assert "after 0 of" in words(at)
    assert not at.dataframe


def test_a_job_begins_when_the_one_that_it_replaces_has_ended():
    jobs, order, holds = Jobs(), [], threading.Event()

    def first(report: Report) -> None:
        try:
            while True:
                report("working", None)
        except Stopped:
            holds.wait(10)
            order.append("first ended")
            raise

    jobs.start("key", Job(first, worker()))
    second = Job(lambda report: order.append("second began"), worker())
    jobs.start("key", second)
    assert not second.is_done(within_s=0.2) and order == []
    holds.set()
    second.result()
    assert order == ["first ended", "second began"]
