"""Charts of what was measured. plotly; units on every axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

_COLOURS = ("#5B7DB1", "#C08A3E", "#6A9A6A", "#9A6AA0", "#4C9DA0", "#A85C5C", "#777777", "#B59B3A")

_DASHES = ("solid", "dash", "dot", "dashdot")


def _figure(x: str, y: str, height: int) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        template="simple_white",
        height=height,
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        xaxis_title=x,
        yaxis_title=y,
        legend={"orientation": "h", "y": 1.12},
        font={"family": "Helvetica, Arial, sans-serif", "size": 12},
        hoverlabel={"namelength": -1},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    return figure


def plain_label(text: str) -> str:
    """plotly reads a few HTML tags in labels: names are text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def latency_chart(variants: Mapping[str, Mapping[str, Any]]) -> go.Figure:
    """Every repetition of each variant as a point beside its box; the median is the line in the box."""
    figure = _figure("", "latency of one run (ms)", 380)
    for index, (label, found) in enumerate(variants.items()):
        figure.add_trace(
            go.Box(
                y=found["times_ms"],
                name=plain_label(label),
                boxpoints="all",
                jitter=0.4,
                pointpos=0,
                marker={"color": _COLOURS[index % len(_COLOURS)], "size": 4, "opacity": 0.55},
                line={"width": 1.5},
            )
        )
    figure.update_layout(showlegend=False)
    figure.update_yaxes(rangemode="tozero")
    return figure


def memory_chart(variants: Mapping[str, Mapping[str, Any]]) -> go.Figure:
    """Live bytes after each operator, in order; the peak is named."""
    figure = _figure("operator, in order of execution", "live memory (MB)", 380)
    for index, (label, found) in enumerate(variants.items()):
        timeline = found["memory"].get("timeline") or []
        if not timeline:
            continue
        live = [point["live_bytes"] / 1e6 for point in timeline]
        names = [plain_label(f"{point['op']} {point['name']}") for point in timeline]
        colour = _COLOURS[index % len(_COLOURS)]
        figure.add_trace(
            go.Scatter(
                x=list(range(len(live))),
                y=live,
                text=names,
                name=plain_label(label),
                mode="lines",
                line={
                    "shape": "hv",
                    "color": colour,
                    "width": 1.5,
                    "dash": ("solid", "dash", "dot", "dashdot")[index % 4],
                },
                hovertemplate="%{text}<br>%{y:,.2f} MB",
            )
        )
        peak = max(range(len(live)), key=live.__getitem__)
        figure.add_annotation(
            x=peak,
            y=live[peak],
            text=f"{plain_label(label)}: {live[peak]:,.1f} MB",
            showarrow=True,
            arrowhead=2,
            ax=30,
            ay=-20 - 16 * index,
            font={"color": colour, "size": 11},
        )
    figure.update_yaxes(rangemode="tozero")
    return figure
