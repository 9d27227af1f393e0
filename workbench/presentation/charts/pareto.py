"""The candidates of a tuning by latency and memory, those that no other beats in everything joined by a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.presentation.charts.variants import COLOURS, DASHES, byte_unit, empty_figure, plain_label
from workbench.run.verdict_words import relative_error_text

if TYPE_CHECKING:
    import plotly.graph_objects as go

_SYMBOLS = ("circle", "square", "diamond", "triangle-up")


def pareto_chart(rows: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Relative latency against memory, a trace for each thing that peaks count, since only those can be compared.

    rows: as `Evidence.row` gives them; those without a latency or a peak are left out. Latencies are ratios to the
    best, since medians of different rounds are of different moments. Points that no other beats are
    filled and joined, in the order of their latencies; others are open. The error of each is told beside it.
    """
    shown = [row for row in rows if row["latency_ratio"] is not None and row["peak_bytes"] is not None]
    scale, unit = byte_unit(max((row["peak_bytes"] for row in shown), default=0))
    figure = empty_figure("latency, times that of the best", f"peak memory ({unit})")
    for index, counted in enumerate(dict.fromkeys(row["peak_counted"] for row in shown)):
        own = sorted((row for row in shown if row["peak_counted"] == counted), key=lambda row: row["latency_ratio"])
        colour, symbol = COLOURS[index % len(COLOURS)], _SYMBOLS[index % len(_SYMBOLS)]
        for front in (True, False):
            part = [row for row in own if row["pareto"] is front]
            figure.add_scatter(
                x=[row["latency_ratio"] for row in part],
                y=[row["peak_bytes"] / scale for row in part],
                text=[_words(row) for row in part],
                hovertemplate=f"%{{text}}<br>%{{x:,.3f}} times the best, %{{y:,.2f}} {unit}<extra></extra>",
                name=f"{counted}, {'not beaten' if front else 'beaten'}",
                mode="lines+markers" if front else "markers",
                marker={"color": colour, "size": 9, "symbol": symbol if front else f"{symbol}-open"},
                line={"dash": DASHES[index % len(DASHES)], "color": colour, "width": 1.5},
            )
    return figure


def _words(row: Mapping[str, Any]) -> str:
    error = row["max_rel_error"]
    return plain_label(row["label"]) + ("" if error is None else f"<br>error {relative_error_text(error)}")
