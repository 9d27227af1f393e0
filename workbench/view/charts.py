"""Charts of what was measured. plotly; units on every axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

COLOURS = ("#5B7DB1", "#C08A3E", "#6A9A6A", "#9A6AA0", "#4C9DA0", "#A85C5C", "#777777", "#B59B3A")
DASHES = ("solid", "dash", "dot", "dashdot")
GREY = "#808080"  # legible on a light and on a dark page
_HEIGHT = 270  # pixels


def empty_figure(x: str, y: str) -> go.Figure:
    """A figure in the look of all charts, with the titles of its axes."""
    figure = go.Figure()
    figure.update_layout(
        template="simple_white",
        height=_HEIGHT,
        margin={"l": 55, "r": 15, "t": 10, "b": 40},
        xaxis_title=x,
        yaxis_title=y,
        legend={"orientation": "h", "y": 1.12},
        font={"family": "Helvetica, Arial, sans-serif", "size": 12},
        hoverlabel={"namelength": -1},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    figure.update_xaxes(linecolor=GREY, tickcolor=GREY)
    figure.update_yaxes(linecolor=GREY, tickcolor=GREY, rangemode="tozero")
    return figure


def plain_label(text: str) -> str:
    """plotly reads a few HTML tags in labels: names are text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def latency_chart(variants: Mapping[str, Mapping[str, Any]]) -> go.Figure:
    """Every repetition of each variant as a point beside its box; the median is the line in the box."""
    figure = empty_figure("", "latency of one run (ms)")
    for index, (label, found) in enumerate(variants.items()):
        figure.add_trace(
            go.Box(
                y=found["times_ms"],
                name=plain_label(label),
                boxpoints="all",
                jitter=0.4,
                pointpos=0,
                marker={"color": COLOURS[index % len(COLOURS)], "size": 4, "opacity": 0.55},
                line={"width": 1.5},
            )
        )
    figure.update_layout(showlegend=False)
    return figure


def memory_chart(variants: Mapping[str, Mapping[str, Any]]) -> go.Figure:
    """What lives while each operator runs, in order; the legend names the peak, a mark shows where it is."""
    figure = empty_figure("operator, in order of execution", "memory while it runs, without weights (MB)")
    figure.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0})
    for index, (label, found) in enumerate(variants.items()):
        timeline = found["memory"].get("timeline") or []
        if not timeline:
            continue
        during = [point["peak_bytes"] / 1e6 for point in timeline]
        ops = [point["op"].removeprefix("workbench.") for point in timeline]
        names = [plain_label(f"{op} {point['name']}") for op, point in zip(ops, timeline, strict=True)]
        peak = max(range(len(during)), key=during.__getitem__)
        sizes = [11 if i == peak else 0 for i in range(len(during))]
        colour = COLOURS[index % len(COLOURS)]
        figure.add_trace(
            go.Scatter(
                x=list(range(1, len(during) + 1)),
                y=during,
                text=names,
                name=plain_label(f"{label}: peak {during[peak]:,.2f} MB while {ops[peak]} runs"),
                mode="lines+markers",
                marker={"symbol": "diamond-open", "color": colour, "size": sizes},
                line={"shape": "hv", "color": colour, "width": 1.5, "dash": DASHES[index % len(DASHES)]},
                hovertemplate="%{text}<br>%{y:,.2f} MB",
            )
        )
    return figure
