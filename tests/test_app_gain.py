"""The app answers first: goals set the pipeline, the card says what was gained, original and result come first."""

from __future__ import annotations

from dataclasses import replace
from threading import Event

import pytest

from tests.pages import compared, drawn, fine, history, optimize, page
from tests.waiting import LIMIT_S
from workbench.errors import UserError
from workbench.interfaces.ui.state import checking, gains, session
from workbench.interfaces.ui.state.goals import GOALS
from workbench.interfaces.ui.state.work import Job
from workbench.ir import DataType
from workbench.presentation.explanations.gain import AFTER, BEFORE, ms_text
from workbench.run.records.store import find_runs, model_hash


def card(at) -> str:
    return next(html.proto.body for html in at.get("html") if "wb-card" in html.proto.body)


def _in_float16(graph) -> int:
    return sum(constant.dtype == DataType.FLOAT16 for constant in graph.constants.values())


def measured(at):
    """The page once the measurement of the gain has ended."""
    at.session_state["opened"].jobs.by_key[gains.JOB].is_done(within_s=LIMIT_S)
    return fine(at.run())


def test_a_new_session_is_to_become_smaller():
    at = optimize("ppocr_cls_v2")
    assert at.radio(key="goal").value == "simplify" and at.selectbox(key="preset").value == "simplify"
    assert "261 → 125" in card(at) and "not measured" in card(at)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("goal", GOALS)
def test_a_goal_sets_the_preset_and_the_strategy(goal):
    at = optimize()
    fine(at.radio(key="goal").set_value(goal).run())
    assert (at.selectbox(key="preset").value, at.radio(key="strategy").value) == (
        GOALS[goal].preset,
        GOALS[goal].strategy,
    )
    assert at.radio(key="goal").value == goal
    spec = at.session_state["opened"].spec
    assert ("layout_optimal" in spec.pipeline.names) == (goal == "hardware")
    if goal == "hardware":
        assert spec.profile.layout == "NHWC", "a model has channels first, so a target that wants that shows nothing"
    assert ("precision_optimal" in spec.pipeline.names) == (goal == "float16")


@pytest.mark.slow
def test_float16_within_an_error_is_a_goal_whose_error_is_stated_beside_it():
    at = optimize("ppocr_cls_v2")
    fine(at.radio(key="goal").set_value("float16").run())
    field = at.number_input(key="option_precision_optimal.max_error")
    assert (field.label, field.value) == ("Largest relative error of an output", 1e-3)
    result = history(compared(at))
    assert result[-1].verdict.ok and result[-1].verdict.max_rel_error <= 1e-3
    halves = _in_float16(result.graph)
    assert halves > 20, "most weights take half their bytes"
    fine(field.set_value(1e-6).run())
    assert at.radio(key="goal").value == "float16", "another error is the same goal"
    assert _in_float16(history(at).graph) < halves, "less may change within a smaller error"
    fine(at.radio(key="goal").set_value("simplify").run())
    assert "precision_optimal" not in at.session_state["opened"].spec.pipeline.names


def test_settings_of_no_goal_leave_none_chosen():
    at = optimize()
    fine(at.radio(key="strategy").set_value("greedy").run())
    assert at.radio(key="goal").value is None
    fine(at.radio(key="strategy").set_value("none").run())
    for on, goal in ((False, None), (True, "simplify")):
        fine(at.checkbox(key="on_fold_batchnorm").set_value(on).run())
        assert at.radio(key="goal").value == goal


def test_original_and_result_come_first_and_a_step_on_a_click():
    at = optimize("ppocr_cls_v2")
    scene = drawn(at)["scene"]
    assert scene["pair"] and [step["title"] for step in scene["steps"]] == ["original", "result"]
    fine(at.segmented_control(key="digest_order").set_value("By step").run())
    steps = at.radio(key="step_list")
    changed = [index for index, step in enumerate(history(at).steps) if step.changed]
    assert steps.value is None and len(steps.options) == len(changed)
    fine(steps.set_value(changed[1]).run())
    scene = drawn(at)["scene"]
    assert not scene["pair"] and len(scene["steps"]) == len(history(at))
    assert at.session_state["step"] == changed[1]


@pytest.mark.slow
def test_the_gain_is_measured_on_a_click_and_shown_on_three_pages():
    at = optimize()
    fine(next(button for button in at.button if button.key == "measure_gain").click().run())
    opened = measured(at).session_state["opened"]
    assert "latency" in card(at) and "not measured" not in card(at)
    for name in ("run", "export"):
        other = fine(page(name, opened).run())
        assert card(other) == card(at)
    assert any(button.label == "Measure again" for button in at.button)


def test_the_card_says_what_its_measurement_waits_for_and_it_can_be_cancelled():
    at = optimize()
    opened, ended = at.session_state["opened"], Event()
    opened.jobs.start("tune", Job(lambda report: ended.wait(LIMIT_S), session.worker(), "cpu", "Tuning something"))
    fine(at.button(key="measure_gain").click().run())
    while "waiting for its turn" not in card(at):
        fine(at.run())
    assert "1 job before it on cpu: Tuning something (" in card(at)
    fine(at.button(key="cancel_latency").click().run())
    assert "not measured" in card(at) and gains.JOB not in opened.jobs.by_key
    ended.set()
    opened.jobs.by_key["tune"].wait()


def test_the_card_says_that_it_waits_for_the_comparison_of_the_result(monkeypatch):
    monkeypatch.setattr(gains, "listens_beyond_this_machine", lambda: False)
    monkeypatch.delenv(gains.MEASURE_VARIABLE)
    begin, real = Event(), checking.verify_end

    def later(*arguments):
        while not begin.wait(0.1):
            arguments[2]("waiting")  # raises where it is stopped
        real(*arguments)

    monkeypatch.setattr(checking, "verify_end", later)
    at = optimize()
    opened = at.session_state["opened"]
    assert "waiting" in card(at) and "for the verification (" in card(at)
    fine(at.button(key="cancel_latency").click().run())
    assert "not measured" in card(at) and opened.checking.is_done and gains.JOB not in opened.jobs.by_key
    begin.set()


@pytest.mark.slow
def test_a_small_model_is_measured_automatically_once(monkeypatch):
    monkeypatch.setattr(gains, "listens_beyond_this_machine", lambda: False)
    monkeypatch.delenv(gains.MEASURE_VARIABLE)
    at = optimize()
    opened = at.session_state["opened"]
    while opened.checking is not None and not opened.checking.is_done:
        opened.checking.wait(1.0)
    fine(at.run())
    if gains.measured_gain(opened) is None:
        assert "measuring..." in card(at)
        measured(at)
    first = opened.measured
    assert gains.measured_gain(opened) is not None
    fine(at.run())
    assert opened.measured is first and gains.JOB not in opened.jobs.by_key
    kept = find_runs(model_hash=model_hash(opened.graph))
    newest = [run for run in kept if run.measurement == kept[0].measurement]
    assert {run.label: bool(run.pipeline) for run in newest} == {BEFORE: False, AFTER: True}, "it stands among the runs"


def test_a_large_model_and_a_shared_app_wait_to_be_asked(monkeypatch):
    at = optimize()
    opened = at.session_state["opened"]
    monkeypatch.delenv(gains.MEASURE_VARIABLE)
    for shared in (True, False):
        monkeypatch.setattr(gains, "listens_beyond_this_machine", lambda shared=shared: shared)
        assert gains.is_measured_automatically(opened, history(at)) != shared
    monkeypatch.setattr(gains, "_MAX_FLOPS", 1)
    assert not gains.is_measured_automatically(opened, history(at))


def test_a_measurement_that_fails_is_said_and_not_tried_again(monkeypatch):
    def fail(*_, **__):
        raise UserError("the device is gone")

    monkeypatch.setattr(gains, "measure_here", fail)
    at = optimize()
    next(button for button in at.button if button.key == "measure_gain").click().run()
    job = at.session_state["opened"].jobs.by_key.get(gains.JOB)
    if job is not None:
        measured(at)
    assert gains.JOB not in at.session_state["opened"].jobs.by_key
    assert "not measured" in card(at)
    monkeypatch.setattr(gains, "listens_beyond_this_machine", lambda: False)
    monkeypatch.delenv(gains.MEASURE_VARIABLE)
    assert not gains.is_measured_automatically(at.session_state["opened"], history(at))


def be_quiet(opened) -> None:
    """As if nothing else had run meanwhile; on a busy machine, pages compare nothing."""
    measurement = opened.measured.measurement
    variants = {
        label: replace(one, ratio=replace(one.ratio, ratio_busy=False)) for label, one in measurement.variants.items()
    }
    opened.take_measurement(replace(opened.measured, measurement=replace(measurement, variants=variants)))


@pytest.mark.slow
def test_measure_says_where_the_time_went():
    opened = optimize("ppocr_cls_v2").session_state["opened"]
    at = fine(page("run", opened).run())
    assert next(m for m in at.multiselect if m.label == "Backends").value == ["onnxruntime"], (
        "torch only where asked for"
    )
    next(n for n in at.number_input if n.label == "Repetitions").set_value(2)
    at = fine(next(button for button in at.button if button.label == "Measure").click().run())
    be_quiet(opened)
    at = fine(at.run())
    for way in ("By operator", "By pass"):
        fine(at.segmented_control(key="changes_by").set_value(way).run())
        rows = next(d.value for d in at.dataframe if "change (ms)" in d.value)
        before, after = (v.latency.median_ms for v in opened.measured.measurement.ran.values())
        assert rows["change (ms)"].sum() == pytest.approx(after - before)
    assert "Recompose HardSigmoid, HardSwish and Swish" in [*rows["what"]]


@pytest.mark.slow
def test_card_table_waterfall_colours_and_export_show_one_measurement():
    at = optimize("ppocr_cls_v2")
    opened = at.session_state["opened"]
    fine(at.button(key="measure_gain").click().run())
    measured(at)
    record = opened.measured
    run = fine(page("run", opened).run())
    rows = run.dataframe[0].value.to_dict("records")
    assert [row["variant"] for row in rows] == ["original", "result"]
    first, last = (variant.latency.median_ms for variant in record.measurement.ran.values())
    assert [row["median (ms)"] for row in rows] == pytest.approx([first, last], abs=1e-3)
    value = f"{ms_text(first)} → {ms_text(last)} ms"
    assert all(value in card(fine(one)) for one in (at, run, page("export", opened).run()))
    scene = drawn(fine(at.run()))["scene"]
    groups = [box["us"] for box in scene["boxes"] if box["kind"] == "group"]
    assert len(groups) > 4, "and the graph can be coloured by it"
    if None in groups:  # a busy machine's times are not shown
        return
    sums = [sum(filter(None, us)) for us in zip(*groups, strict=True)]
    assert all(0 < us <= total for us, total in zip(sums, scene["measured"]["totals"], strict=True))
    fine(measured_by_the_form(run))
    assert opened.measured is not record
    again = [variant.latency.median_ms for variant in opened.measured.measurement.ran.values()]
    assert f"{ms_text(again[0])} → {ms_text(again[1])} ms" in card(fine(at.run())), "the newest, on every page"


def measured_by_the_form(at):
    next(n for n in at.number_input if n.label == "Repetitions").set_value(2)
    return next(button for button in at.button if button.label == "Measure").click().run()


@pytest.mark.slow
def test_another_pipeline_and_back_shows_its_own_measurement_again():
    at = optimize()
    opened = at.session_state["opened"]
    fine(at.button(key="measure_gain").click().run())
    measured(at)
    shown = card(compared(at))
    fine(at.radio(key="goal").set_value("learn").run())
    assert "not measured" in card(at)
    fine(at.radio(key="goal").set_value("simplify").run())
    assert card(compared(at)) == shown and len(opened.records) == 1
