"""Charts of kept runs: medians with their quartiles side by side, and medians over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from workbench.presentation.charts.variants import (
    COLOURS,
    DASHES,
    GREY,
    empty_figure,
    lay_rows,
    plain_label,
    put_legend_below,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

_BESIDE_A_BAR, _IN_THE_LEGEND = 40, 70  # characters
_SHORTEST = timedelta(minutes=1)  # the shortest span that the axis of time shows


@dataclass(frozen=True)
class Bar:
    """One run: its median and quartiles in milliseconds, its label in two lines, and the index of its colour."""

    name: str
    about: str
    low_ms: float
    median_ms: float
    high_ms: float
    colour: int


@dataclass(frozen=True)
class Trend:
    """Runs of one kind: the time of each, oldest first, and its median in milliseconds."""

    name: str
    times: Sequence[datetime]
    medians_ms: Sequence[float]


def quartiles_chart(bars: Sequence[Bar]) -> go.Figure:
    """One bar per run, as long as its median; the mark on it reaches from the lower to the upper quartile.

    Bars have a fixed height, so that the figure grows with their number and no name is omitted.
    """
    figure = empty_figure("median (ms)", "")
    places = list(range(len(bars)))
    names = [(_short(bar.name, _BESIDE_A_BAR), _short(bar.about, _BESIDE_A_BAR)) for bar in bars]
    figure.add_bar(
        x=[bar.median_ms for bar in bars],
        y=places,
        orientation="h",
        width=0.6,
        marker={"color": [COLOURS[bar.colour % len(COLOURS)] for bar in bars], "opacity": 0.75},
        error_x={
            "type": "data",
            "array": [bar.high_ms - bar.median_ms for bar in bars],
            "arrayminus": [bar.median_ms - bar.low_ms for bar in bars],
            "color": GREY,
        },
        customdata=[(*name, bar.low_ms, bar.high_ms) for name, bar in zip(names, bars, strict=True)],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<br>median %{x:.3f} ms<br>"
        "quartiles %{customdata[2]:.3f} and %{customdata[3]:.3f} ms<extra></extra>",
    )
    figure.update_yaxes(
        tickvals=places,
        ticktext=["<br>".join(name) for name in names],
    )
    figure.update_xaxes(rangemode="tozero")
    lay_rows(figure, len(bars))
    return figure


def change_chart(lines: Sequence[Trend]) -> go.Figure:
    """Medians by the time of their runs, one line for each kind of run; at least one run."""
    figure = empty_figure("time (UTC)", "median (ms)")
    for index, line in enumerate(lines):
        colour = COLOURS[index % len(COLOURS)]
        figure.add_scatter(
            x=list(line.times),
            y=list(line.medians_ms),
            name=_short(line.name, _IN_THE_LEGEND),
            mode="lines+markers",
            marker={"color": colour, "size": 6},
            line={"color": colour, "width": 1.5, "dash": DASHES[index % len(DASHES)]},
            hovertemplate="%{x|%d %b %Y %H:%M:%S}<br>%{y:.3f} ms",
        )
    put_legend_below(figure, len(lines))
    times = [time for line in lines for time in line.times]
    if max(times) - min(times) < _SHORTEST:
        figure.update_xaxes(range=[min(times) - _SHORTEST, max(times) + _SHORTEST])
    return figure


def _short(name: str, most: int) -> str:
    return plain_label(name if len(name) <= most else f"{name[: most - 3]}...")
