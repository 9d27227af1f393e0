"""What an optimization gained: each number with its evidence, and where the time went."""

from __future__ import annotations

from dataclasses import replace

import pytest

import workbench as wb
from workbench.ir import from_text
from workbench.presentation.charts.waterfall import time_chart, waterfall_chart
from workbench.presentation.explanations.gain import AFTER, BEFORE, gain_of, latency_figure
from workbench.presentation.explanations.time_changes import (
    UNCHANGED,
    TimeChange,
    TimeChanges,
    node_of,
    times_by_operator,
)
from workbench.run.measurement.measurement_result import FailedVariant
from workbench.run.measurement.statistics import Ratio

MODEL = """g (float[1,8,32,32] x, float[8,8,3,3] w) => (y)
    { a = Neg (x) c = Neg (a) d = Conv <pads = [1, 1, 1, 1]> (c, w) y = Relu (d) }"""


@pytest.fixture(scope="module")
def history():
    return wb.optimize(wb_graph(), preset="simplify")


def wb_graph():
    return from_text(MODEL)


@pytest.fixture(scope="module")
def measured(history):
    """A measurement in ONNX Runtime, in a worker process."""
    return wb.measure({BEFORE: history.initial, AFTER: history.graph}, backend="onnxruntime", repeat=8)


def variant(measured, low, high, *, busy=False, middle=None):
    ratio = Ratio((low + high) / 2 if middle is None else middle, low, high, busy)
    return replace(measured.ran[AFTER], ratio=ratio)


@pytest.mark.slow
def test_a_gain_is_read_at_a_glance(history, measured):
    found = gain_of(history, measured)
    assert [figure.label for figure in found.figures] == [
        "nodes",
        "latency",
        "peak memory",
        "result",
        "opset",
    ]
    assert found.figures[0].value == "4 → 2" and found.figures[0].better
    assert found.figures[2].better is None, "the growth of a process varies from run to run"
    assert (
        repr(found) == f"<Gain: {found.sentence}>" and "in ONNX Runtime" in found.sentence
    ) or "busy" in found.sentence


def test_without_a_measurement_nothing_is_claimed(history):
    found = gain_of(history)
    assert [figure.label for figure in found.figures] == ["nodes", "result", "opset"]
    assert found.figures[1].value == "not compared"
    assert found.by_operator is None and found._repr_html_().count("<table") == 1  # what changed


@pytest.mark.parametrize(
    ("low", "high", "busy", "words", "better"),
    [
        (0.85, 0.87, False, "13 to 15 % less time in ONNX Runtime here", True),
        (0.86, 0.861, False, "14 % less time in ONNX Runtime here", True),
        (1.03, 1.05, False, "3 to 5 % more time in ONNX Runtime here", False),
        (0.99, 1.02, False, "no clear gain in ONNX Runtime here: -1 to +2 % of the time", None),
        (0.5, 0.6, True, "busy machine, not comparable; minima", None),
    ],
)
def test_the_latency_says_what_its_interval_allows(measured, low, high, busy, words, better):
    figure = latency_figure(measured.ran[BEFORE], variant(measured, low, high, busy=busy))
    assert figure.detail.startswith(words) and figure.better is better


def test_a_result_that_is_wrong_is_no_gain(history, measured):
    class Verdict:
        ok, bit_equal, max_rel_error, sentence = False, False, 0.5, "NOT EQUAL"

    wrong = replace(history, steps=[*history.steps[:-1], replace(history.steps[-1], verdict=Verdict())])
    (figure,) = (figure for figure in gain_of(wrong, measured).figures if figure.label == "result")
    assert (figure.value, figure.better) == ("NOT EQUAL", False)


def test_a_variant_that_does_not_run_says_why(history, measured):
    failed = FailedVariant(AFTER, "onnxruntime", "float32", "ONNX Runtime has no kernel.")
    found = gain_of(history, replace(measured, variants={**measured.variants, AFTER: failed}))
    assert str(found.figures[1]) == "latency not measured (result: ONNX Runtime has no kernel.)"


def test_changes_sum_to_the_difference_of_the_latencies(history, measured):
    found = gain_of(history, measured)
    for changes in (found.by_operator, found.by_pass, found.by_change):
        assert changes.before_ms == measured.ran[BEFORE].latency.median_ms
        total = sum(change.ms for change in changes.changes)
        assert total == pytest.approx(changes.after_ms - changes.before_ms)
        assert [abs(c.ms) for c in changes.changes] == sorted((abs(c.ms) for c in changes.changes), reverse=True)


def test_an_operator_belongs_to_the_pass_that_removed_it(history, measured):
    found = {change.label: change for change in gain_of(history, measured).by_pass.changes}
    removed = {name for label, change in found.items() if label != UNCHANGED for name in change.operators_before}
    assert {"Neg_a", "Neg_c"} <= removed


def test_a_convolution_in_blocked_channels_is_found_by_its_result():
    graph = wb_graph()
    assert node_of("Conv_d", graph) == "Conv_d"
    assert node_of("d_nchwc", graph) == "Conv_d"
    assert node_of("ReorderOutput_token_3", graph) is None


def test_small_changes_are_summed():
    changes = TimeChanges(3.0, 0.0, tuple(TimeChange(f"<{n}>", before_ms=n / 10) for n in range(9, 0, -1)))
    assert [str(change) for change in changes.largest(2)] == ["<9> -0.900 ms", "<8> -0.800 ms", "7 other -2.800 ms"]
    assert len(changes.largest(8)) == 9 and changes.largest(20) == list(changes.changes)


def test_the_card_and_the_waterfall_are_drawn_in_a_notebook(history, measured):
    page = gain_of(history, measured)._repr_html_()
    assert page.count("<table") == 4 and "original" in page and "result" in page and "4 → 2" in page
    assert "<script" not in page


@pytest.mark.slow
def test_the_verb_measures_by_itself(history):
    found = wb.gain(history, repeat=3)
    assert found.by_pass is not None and found.figures[1].label == "latency"


def test_small_changes_can_be_read_and_large_ones_start_at_zero():
    small = TimeChanges(10.0, 9.0, (TimeChange("Conv", 5.0, 4.0),))
    large = TimeChanges(10.0, 5.0, (TimeChange("Conv", 10.0, 5.0),))
    assert waterfall_chart(small).layout.xaxis.range[0] == 8.0
    assert "from 8.000 on" in waterfall_chart(small).layout.xaxis.title.text
    assert waterfall_chart(large).layout.xaxis.range is None
    assert [*waterfall_chart(large).data[0].text] == ["10.000", "-5.000", "5.000"]


def test_the_times_of_one_graph_sum_to_its_latency(measured):
    variant = next(v for v in measured.ran.values() if v.operators)
    times = times_by_operator(variant)
    assert sum(time.ms for time in times.changes) == pytest.approx(variant.latency.median_ms)
    bars = time_chart(times).data[0]
    assert len(bars.x) == len({op.op for op in variant.operators}) and max(bars.x) == bars.x[0]
    assert bars.text[0].endswith("%")
