"""Charts of single operators and of matrices: what is drawn says what was measured."""

from __future__ import annotations

import pytest

from workbench.backends.profiling.ceilings import Roofs
from workbench.backends.profiling.profile_result import LiveMemory, OperatorRun
from workbench.presentation.charts.matrix import bars_chart, by_batch_chart
from workbench.presentation.charts.operators import counted_operators, roofline_chart, strip_chart
from workbench.presentation.charts.runs import Bar, quartiles_chart
from workbench.presentation.charts.variants import HEIGHT, latency_chart, log_ticks, memory_chart


def test_a_run_without_operators_has_an_empty_strip():
    assert not strip_chart([], {}).data


ROOFS = Roofs(100e9, 10e9)


def op(
    name: str, kind: str, start: float, time: float, flops: int | None = None, moved: int | None = None
) -> OperatorRun:
    return OperatorRun(name, kind, time, start, flops=flops, bytes=moved)


OPERATORS = [
    op("/a/b/Conv", "Conv", 0.0, 2.0, 10**7, 10**6),
    op("/a/b/Relu", "Relu", 2.0, 1.0, 10**4, 10**6),
    op("/a/c/<b>", "Reshape", 3.0, 0.5, 0, 0),
    op("/d/Conv", "Conv", 3.5, 1.5, 10**7, 10**6),
]
SCOPES = {"/a/b/Conv": ("a", "b"), "/a/b/Relu": ("a", "b"), "/a/c/<b>": ("a", "c"), "/d/Conv": ("d",)}


def test_roofline_places_operators_by_intensity_and_speed():
    figure = roofline_chart(counted_operators(OPERATORS), ROOFS)
    conv, relu, roofs = figure.data
    assert (conv.name, relu.name) == ("Conv", "Relu")  # a Reshape computes nothing
    assert list(conv.x) == [10.0, 10.0]
    assert list(conv.y) == pytest.approx([10**7 / 2e-3 / 1e9, 10**7 / 1.5e-3 / 1e9])
    assert conv.marker.size[0] > conv.marker.size[1] > relu.marker.size[0]
    assert list(roofs.y)[1:] == [100.0, 100.0]
    assert roofs.x[1] == 10.0  # the ridge
    assert roofs.y[0] == pytest.approx(roofs.x[0] * 10.0)


def test_only_operators_of_known_work_have_a_place_under_the_roofs():
    assert counted_operators([op("x", "Fused", 0, 1.0)]) == []
    assert [counted.name for counted in counted_operators(OPERATORS)] == ["/a/b/Conv", "/a/b/Relu", "/d/Conv"]


def test_roofline_axes_are_plain_numbers():
    """plotly's own ticks say 100µ."""
    slow = op("x", "Equal", 0.0, 100.0, 1, 17)
    axis = roofline_chart([slow], ROOFS).layout.yaxis
    assert "0.00001" in axis.ticktext and "100" in axis.ticktext
    assert not any("µ" in text or "e" in text for text in axis.ticktext)
    assert log_ticks([1.5, 30])["ticktext"] == ["1", "2", "5", "10", "20", "50", "100", "200", "500"]


def test_strip_shows_operators_under_their_scopes():
    figure = strip_chart(OPERATORS, SCOPES)
    rows = {}
    for bar in figure.data:
        for row, base, length, words in zip(bar.y, bar.base, bar.x, bar.customdata, strict=True):
            rows.setdefault(row, []).append((base, length, words))
    assert sorted(b[:2] for b in rows["operator"]) == [(0.0, 2.0), (2.0, 1.0), (3.0, 0.5), (3.5, 1.5)]
    assert [b[:2] for b in rows["scope 1"]] == [(0.0, 3.5), (3.5, 1.5)]
    assert [b[:2] for b in rows["scope 2"]] == [(0.0, 3.0), (3.0, 0.5)]
    assert rows["scope 1"][0][2] == "a<br>3.500 ms, 3 operators"
    assert any("&lt;b&gt;" in words for _, _, words in rows["operator"])
    assert len(figure.data) < 8  # a trace a type and a level, not one a scope


ROWS = [
    {"model": "m", "batch": b, "variant": v, "median_ms": ms, "median_error_ms": 0.1, "peak_bytes": 1e6 * b}
    for b, v, ms in ((1, "x", 1.0), (1, "y", 2.0), (4, "x", 3.0), (4, "y", 4.0))
]


def test_launches_are_one_bar_behind_all_operators():
    alone, launched = strip_chart(OPERATORS, SCOPES), strip_chart(OPERATORS, SCOPES, 3.2)
    ends = max(op.start_ms + op.time_ms for op in OPERATORS)
    (bar,) = (trace for trace in launched.data if trace.name == "launching")
    assert (bar.base[0], bar.x[0]) == (ends, 3.2) and "3.200 ms" in bar.customdata[0]
    assert launched.layout.xaxis.range[1] == ends + 3.2 and len(launched.data) == len(alone.data) + 1


def test_bars_carry_their_intervals():
    figure = bars_chart([*ROWS[:3]])
    x, y = figure.data
    assert list(x.x) == ["m, batch 1", "m, batch 4"]
    assert list(x.y) == [1.0, 3.0]
    assert list(x.error_y.array) == [0.1, 0.1]
    assert list(y.y) == [2.0, None]


def test_an_interval_ends_at_zero():
    unsure = bars_chart([{**ROWS[0], "median_error_ms": 3.0}]).data[0].error_y
    assert (list(unsure.array), list(unsure.arrayminus)) == ([3.0], [1.0])


def memory(*peaks: int) -> list[LiveMemory]:
    return [LiveMemory(f"n{index}", "Conv", 0, peak) for index, peak in enumerate(peaks)]


def test_memory_has_whole_operators_and_a_unit_that_fits():
    few = memory_chart({"a": memory(3072, 4096, 1024)})
    assert few.layout.xaxis.dtick == 1
    assert few.layout.yaxis.title.text == "memory (kB)"
    assert few.data[0].name == "a: peak 4.10 kB while Conv runs"
    many = memory_chart({"a": memory(*range(10**6, 10**6 + 99)), "b": memory(5 * 10**6), "c": []})
    assert many.layout.yaxis.title.text == "memory (MB)"
    assert many.layout.xaxis.dtick is None
    assert many.layout.height > few.layout.height > HEIGHT  # a legend below takes no room of the plot


def test_legends_lie_beside_the_plot():
    """The container's edge holds them: plotly then moves the plot, however many lines a legend has."""
    for figure in (strip_chart(OPERATORS, SCOPES), by_batch_chart(ROWS, "median_ms", "ms")):
        assert figure.layout.legend.yref == "container"
    assert bars_chart(ROWS).layout.legend.x > 1


def test_every_bar_and_box_has_its_height():
    bars = [Bar(f"variant {index}", "now", 1.0, 2.0, 3.0, index) for index in range(12)]
    figure = quartiles_chart(bars)
    assert figure.layout.height >= 12 * 30
    assert len(figure.layout.yaxis.ticktext) == 12
    boxes = latency_chart({f"variant {index}": [1.0, 2.0] for index in range(12)})
    assert boxes.layout.height == figure.layout.height


def test_lines_by_batch():
    figure = by_batch_chart(ROWS, "peak_bytes", "MB", 1e6)
    assert [(line.name, list(line.x), list(line.y)) for line in figure.data] == [
        ("x", [1, 4], [1.0, 4.0]),
        ("y", [1, 4], [1.0, 4.0]),
    ]
    two = by_batch_chart([*ROWS, {**ROWS[0], "model": "n"}], "median_ms", "ms")
    assert [line.name for line in two.data] == ["m, x", "m, y", "n, x"]
    assert list(two.layout.xaxis.ticktext) == ["1", "4"]
