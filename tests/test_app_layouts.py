"""The page that compares the layout strategies, without a browser."""

import itertools
import re
from dataclasses import replace

import pytest

import passes as library
from tests.pages import drawn, fine, opened_sample, page, words
from workbench.interfaces.ui.screens import layouts_page
from workbench.interfaces.ui.state import snapshots
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.model_inputs import use_inputs
from workbench.interfaces.ui.state.record_runs import measure_here
from workbench.interfaces.ui.state.strategies import LayoutComparisons, layouts_of
from workbench.interfaces.ui.state.work import Stopped
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.profile import load_profile
from workbench.run.measurement.measurement_result import FailedVariant
from workbench.run.worker.client import RunError


def compared(stem: str, target: str = "cuda"):
    at = fine(page("layouts", opened_sample(stem)).run())
    fine(at.selectbox(key="target").set_value(target).run())
    return at


@pytest.mark.parametrize("target", ["cuda", *(pytest.param(t, marks=pytest.mark.slow) for t in ("npu", "cpu", "nchw"))])
def test_every_strategy_is_a_row_and_equal(target):
    at = compared("tvm_two_convs_nhwc", target)
    rows = at.dataframe[0].value.to_dict("records")
    untimed = [name for name, cls in library.compared_strategies().items() if not cls.times_operators]
    assert [row["strategy"] for row in rows] == ["leave as it is", *untimed], "nothing is timed unasked"
    assert {row["verdict"] for row in rows} == {"equal"}
    least = next(row for row in rows if row["strategy"] == "optimal")
    assert least["bound"] == f"{least['bytes']:,}, reached"


def test_two_strategies_stand_against_each_other():
    at = compared("conv_relu_conv_relu")
    left = next(box for box in at.selectbox if box.label == "Strategy")
    fine(left.set_value("greedy").run())
    found = drawn(at)["scene"]
    assert [step["title"] for step in found["steps"]] == ["greedy", "optimal"]
    assert "nodes of 'greedy' are not in 'optimal'" in found["rewrites"][0]["s"]
    fine(left.set_value("optimal").run())
    assert "0 nodes" in drawn(at)["scene"]["rewrites"][0]["s"]


def test_operators_are_timed_on_a_click_only():
    at = compared("conv_relu_conv_relu")
    assert "measured" not in [row["strategy"] for row in at.dataframe[0].value.to_dict("records")]
    assert "measured: times operators of the model here" in words(at).replace("\\", "")
    fine(at.button(key="compare_timed").click().run())
    rows = at.dataframe[0].value.to_dict("records")
    assert {row["verdict"] for row in rows if row["strategy"] == "measured"} == {"equal"}
    assert not [button for button in at.button if button.key == "compare_timed"]


def test_a_large_model_waits_for_a_click(monkeypatch):
    monkeypatch.setattr(layouts_page, "_QUICK_NODES", 0)
    at = fine(page("layouts", opened_sample("npu_path")).run())
    assert not at.dataframe
    assert "compared with the original" in words(at)
    assert fine(at.button(key="compare").click().run()).dataframe


def test_results_are_kept_until_the_inputs_change():
    opened, npu = opened_sample("npu_path"), load_profile("npu")
    found = layouts_of(opened, npu, lambda name, share: None)
    assert layouts_of(opened, npu, lambda name, share: None) is found
    use_inputs(opened, None, 3)
    assert layouts_of(opened, npu, lambda name, share: None) is not found


@pytest.mark.slow
def test_every_result_is_measured_by_turns_when_asked_and_kept_by_device():
    at = compared("conv_relu_conv_relu")
    assert "latency" not in at.dataframe[0].value
    fine(at.button(key="measure_layouts").click().run())
    rows = at.dataframe[0].value.to_dict("records")
    assert all(row["latency"] > 0 for row in rows)
    assert rows[0]["ratio"] in ("1.00 (1.00 and 1.00)", "busy")
    assert all(re.fullmatch(r"\d+\.\d\d \(\d+\.\d\d and \d+\.\d\d\)|busy", row["ratio"]) for row in rows)
    assert "Measured on " in words(at)
    kept = at.session_state["opened"].state(LayoutComparisons).complete["cuda"].measured
    assert list(kept) == [at.selectbox(key="layouts_device").value]
    fine(at.selectbox(key="target").set_value("npu").run())
    assert "latency" not in at.dataframe[0].value
    fine(at.selectbox(key="target").set_value("cuda").run())
    assert at.dataframe[0].value.to_dict("records") == rows


def test_a_measurement_that_breaks_off_is_a_sentence(monkeypatch):
    def broken(*_, **__):
        raise RunError("The run was killed.", "process")

    at = compared("npu_path")
    monkeypatch.setattr(layouts_page, "measure_here", broken)
    at.button(key="measure_layouts").click().run()
    assert not at.exception
    assert [error.value for error in at.error] == [markdown_escaped("The run was killed.")]
    assert at.dataframe


@pytest.mark.slow
def test_a_strategy_that_could_not_be_measured_costs_no_other(monkeypatch):
    def one_fails(*args, **how):
        found = measure_here(*args, **how)
        failed = FailedVariant("greedy", "torch", "float32", "Out of memory.")
        return replace(found, variants={**found.variants, "greedy": failed})

    at = compared("npu_path")
    monkeypatch.setattr(layouts_page, "measure_here", one_fails)
    fine(at.button(key="measure_layouts").click().run())
    rows = {row["strategy"]: row for row in at.dataframe[0].value.to_dict("records")}
    assert rows["greedy"]["ratio"] == "failed" and rows["optimal"]["latency"] > 0
    assert at.warning[0].value == markdown_escaped("greedy: Out of memory.")


def test_pictures_are_made_once(monkeypatch):
    at = compared("conv_relu_conv_relu")
    asked = []
    monkeypatch.setattr(snapshots, "infer_layouts", lambda graph: asked.append(graph) or infer_layouts(graph))
    fine(at.run())
    assert not asked


def test_a_stopped_comparison_keeps_its_strategies_and_goes_on_with_the_others():
    opened, profile = opened_sample("tvm_two_convs_nhwc"), load_profile("cuda")

    def stopping(words: str, share: float | None) -> None:
        if words.startswith("greedy"):
            raise Stopped

    with pytest.raises(Stopped):
        layouts_of(opened, profile, stopping)
    begun = dict(opened.state(LayoutComparisons).stopped["cuda"].results)
    assert list(begun) == ["none", *itertools.takewhile(lambda name: name != "greedy", library.compared_strategies())]
    opened.jobs.cancel("layouts")
    at = fine(page("layouts", opened).run())
    assert "leave as it is, blocked, convert" in words(at)
    found = layouts_of(opened, profile, lambda words, share: None, timed=True).results
    assert list(found) == ["none", *library.compared_strategies()]
    assert all(found[name] is laid_out for name, laid_out in begun.items())
    assert not opened.state(LayoutComparisons).stopped
