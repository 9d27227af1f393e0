"""Charts of single operators and of matrices: what is drawn says what was measured."""

from __future__ import annotations

import pytest

from workbench.view.matrix_charts import bars_chart, by_batch_chart
from workbench.view.operator_charts import roofline_chart, strip_chart

ROOFS = {"flops_per_s": 100e9, "bytes_per_s": 10e9}


def op(name: str, kind: str, start: float, time: float, flops: int | None = None, moved: int | None = None) -> dict:
    return {"name": name, "op": kind, "start_ms": start, "time_ms": time, "flops": flops, "bytes": moved}


OPERATORS = [
    op("/a/b/Conv", "Conv", 0.0, 2.0, 10**7, 10**6),
    op("/a/b/Relu", "Relu", 2.0, 1.0, 10**4, 10**6),
    op("/a/c/<b>", "Reshape", 3.0, 0.5, 0, 0),
    op("/d/Conv", "Conv", 3.5, 1.5, 10**7, 10**6),
]
SCOPES = {"/a/b/Conv": ("a", "b"), "/a/b/Relu": ("a", "b"), "/a/c/<b>": ("a", "c"), "/d/Conv": ("d",)}


def test_roofline_places_operators_by_intensity_and_speed():
    figure = roofline_chart(OPERATORS, ROOFS)
    conv, relu, roofs = figure.data
    assert (conv.name, relu.name) == ("Conv", "Relu")  # a Reshape computes nothing
    assert list(conv.x) == [10.0, 10.0]
    assert list(conv.y) == pytest.approx([10**7 / 2e-3 / 1e9, 10**7 / 1.5e-3 / 1e9])
    assert conv.marker.size[0] > conv.marker.size[1] > relu.marker.size[0]
    assert list(roofs.y)[1:] == [100.0, 100.0]
    assert roofs.x[1] == 10.0  # the ridge
    assert roofs.y[0] == pytest.approx(roofs.x[0] * 10.0)


def test_without_counts_there_is_no_roofline():
    assert roofline_chart([op("x", "Fused", 0, 1.0)], ROOFS) is None


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


def test_bars_carry_their_intervals():
    figure = bars_chart([*ROWS[:3]])
    x, y = figure.data
    assert list(x.x) == ["m, batch 1", "m, batch 4"]
    assert list(x.y) == [1.0, 3.0]
    assert list(x.error_y.array) == [0.1, 0.1]
    assert list(y.y) == [2.0, None]


def test_lines_by_batch():
    figure = by_batch_chart(ROWS, "peak_bytes", "MB", 1e6)
    assert [(line.name, list(line.x), list(line.y)) for line in figure.data] == [
        ("x", [1, 4], [1.0, 4.0]),
        ("y", [1, 4], [1.0, 4.0]),
    ]
    two = by_batch_chart([*ROWS, {**ROWS[0], "model": "n"}], "median_ms", "ms")
    assert [line.name for line in two.data] == ["m, x", "m, y", "n, x"]
