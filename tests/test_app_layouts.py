"""The page that compares the layout strategies, without a browser."""

import pytest

import passes as library
from tests.pages import fine, opened_sample, page, words
from workbench.ui.session import layouts_of, use_inputs


def compared(stem: str, target: str = "cuda"):
    at = fine(page("layouts", opened_sample(stem)).run())
    fine(at.selectbox(key="target").set_value(target).run())
    return fine(at.button[0].click().run())


@pytest.mark.parametrize("target", ["cuda", "npu", "cpu", "nchw"])
def test_every_strategy_is_a_row_and_equal(target):
    at = compared("tvm_two_convs_nhwc", target)
    rows = at.dataframe[0].value.to_dict("records")
    assert [row["strategy"] for row in rows] == ["leave as it is", *library.strategies()]
    assert {row["verdict"] for row in rows} == {"equal"}
    least = next(row for row in rows if row["strategy"] == "optimal")
    assert least["bound"] == f"{least['bytes']:,}, reached"


def test_two_strategies_stand_against_each_other():
    at = compared("conv_relu_conv_relu")
    left = next(box for box in at.selectbox if box.label == "This")
    fine(left.set_value("greedy").run())
    assert "greedy: " in words(at) and "optimal: " in words(at)
    fine(left.set_value("optimal").run())


def test_nothing_runs_before_it_is_asked_for():
    at = fine(page("layouts", opened_sample("npu_path")).run())
    assert not at.dataframe
    assert "compared with the original" in words(at)


def test_results_are_kept_until_the_inputs_change():
    opened = opened_sample("npu_path")
    found = layouts_of(opened, "npu", lambda name, share: None)
    assert layouts_of(opened, "npu", lambda name, share: None) is found
    use_inputs(opened, None, 3)
    assert layouts_of(opened, "npu", lambda name, share: None) is not found
