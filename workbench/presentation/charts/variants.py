"""Charts of measured variants, with units on every axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from workbench.backends.profiling.profile_result import LiveMemory

COLOURS = ("#5B7DB1", "#C08A3E", "#6A9A6A", "#9A6AA0", "#4C9DA0", "#A85C5C", "#777777", "#B59B3A")
DASHES = ("solid", "dash", "dot", "dashdot")
GREY = "#808080"  # legible on a light and on a dark page
HEIGHT = 270  # pixels, without a legend below
_LEGEND_LINE = 19  # pixels
_TOOLBAR = 40  # pixels of width beside the plot, so that it does not cover data
_ROW, _AROUND = 36, 60  # pixels, of a row with two lines of name, of an axis
_FEW = 12  # operators, up to which each has a tick


def empty_figure(x: str, y: str) -> go.Figure:
    """A figure in the common style, with the titles of its axes; a legend is placed above the plot."""
    figure = go.Figure()
    figure.update_layout(
        template="simple_white",
        height=HEIGHT,
        margin={"l": 55, "r": _TOOLBAR, "t": 10, "b": 40},
        xaxis_title=x,
        yaxis_title=y,
        legend={"orientation": "h", "yref": "container", "y": 1, "yanchor": "top", "x": 0},
        font={"family": "Helvetica, Arial, sans-serif", "size": 12},
        hoverlabel={"namelength": -1},
        modebar={"orientation": "v", "bgcolor": "rgba(0,0,0,0)", "color": GREY, "activecolor": COLOURS[0]},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    figure.update_xaxes(linecolor=GREY, tickcolor=GREY)
    figure.update_yaxes(linecolor=GREY, tickcolor=GREY, rangemode="tozero")
    return figure


def put_legend_below(figure: go.Figure, lines: int) -> None:
    """Put the legend below the plot, one line per trace, for long names; the figure grows accordingly."""
    legend = {"orientation": "v", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0}
    figure.update_layout(legend=legend, height=HEIGHT + lines * _LEGEND_LINE, showlegend=True)


def lay_rows(figure: go.Figure, rows: int) -> None:
    """Lay out rows from the top, each with a fixed height and its name."""
    figure.update_yaxes(range=[rows - 0.5, -0.5], automargin=True, rangemode="normal")
    figure.update_layout(height=max(HEIGHT, _AROUND + _ROW * rows))


def byte_unit(largest: float) -> tuple[float, str]:
    """The size in bytes and the name of the unit in which this number of bytes is readable: kB below 1 MB."""
    return (1e6, "MB") if largest >= 1e6 else (1e3, "kB")


def log_ticks(values: Iterable[float]) -> dict[str, Any]:
    """Settings of a logarithmic axis over these values above 0: ticks at powers of ten, over less than three of them
    at 2 and 5 times these too, as plain numbers, not as 100\u00b5."""
    result = list(values)
    low, high = math.floor(math.log10(min(result))), math.ceil(math.log10(max(result)))
    steps = (1,) if high - low > 3 else (1, 2, 5)
    ticks = [step * 10.0**power for power in range(low, high + 1) for step in steps]
    return {"type": "log", "tickvals": ticks, "ticktext": [_plain_number(tick) for tick in ticks]}


def _plain_number(value: float) -> str:
    """The number without an exponent: 0.0001, 20,000."""
    digits = max(0, -math.floor(math.log10(value)))
    return f"{value:,.{digits}f}"


def plain_label(text: str) -> str:
    """The name as a label: plotly interprets some HTML tags in labels, which are escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def latency_chart(times_ms: Mapping[str, Sequence[float]]) -> go.Figure:
    """All repetitions of each variant as points on its box; the median is the line in the box."""
    figure = empty_figure("latency of one run (ms)", "")
    for index, (label, times) in enumerate(times_ms.items()):
        figure.add_trace(
            go.Box(
                x=times,
                name=plain_label(label),
                boxpoints="all",
                hoveron="points",  # the figures of the box stand in the table
                jitter=0.4,
                pointpos=0,
                marker={"color": COLOURS[index % len(COLOURS)], "size": 4, "opacity": 0.55},
                line={"width": 1.5},
            )
        )
    figure.update_xaxes(rangemode="tozero")
    lay_rows(figure, len(times_ms))
    figure.update_layout(showlegend=False)
    return figure


def memory_chart(timelines: Mapping[str, Sequence[LiveMemory]]) -> go.Figure:
    """Live memory while each operator runs, in order; the legend gives the peak, and a mark shows its position.

    timelines: by variant; at least one is not empty.
    """
    scale, unit = byte_unit(max(point.peak_bytes for timeline in timelines.values() for point in timeline))
    figure = empty_figure("operator, in order of execution", f"memory ({unit})")
    longest = max(map(len, timelines.values()))
    figure.update_xaxes(tickformat=",d", dtick=1 if longest <= _FEW else None)
    for index, (label, timeline) in enumerate(timelines.items()):
        if not timeline:
            continue
        during = [point.peak_bytes / scale for point in timeline]
        ops = [point.op.removeprefix("workbench.") for point in timeline]
        names = [plain_label(f"{op} {point.name}") for op, point in zip(ops, timeline, strict=True)]
        peak = max(range(len(during)), key=during.__getitem__)
        sizes = [11 if i == peak else 0 for i in range(len(during))]
        colour = COLOURS[index % len(COLOURS)]
        figure.add_trace(
            go.Scatter(
                x=list(range(1, len(during) + 1)),
                y=during,
                text=names,
                name=plain_label(f"{label}: peak {during[peak]:,.2f} {unit} while {ops[peak]} runs"),
                mode="lines+markers",
                marker={"symbol": "diamond-open", "color": colour, "size": sizes},
                line={"shape": "hv", "color": colour, "width": 1.5, "dash": DASHES[index % len(DASHES)]},
                hovertemplate=f"%{{text}}<br>%{{y:,.2f}} {unit}",
            )
        )
    put_legend_below(figure, len(figure.data))
    return figure
