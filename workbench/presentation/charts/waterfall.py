"""Where the time went, as a waterfall from one latency to the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from workbench.errors import counted
from workbench.presentation.charts.variants import GREY, empty_figure, lay_rows, plain_label
from workbench.presentation.explanations.time_changes import TimeChange, TimeChanges

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST = 10  # changes that have a bar of their own
_LARGE_CHANGE = 0.3  # a relative change of the latency, above which the axis starts at 0
FASTER, SLOWER = "#4C9A4C", "#C2564B"


def waterfall_chart(changes: TimeChanges) -> go.Figure:
    """A bar for the latency before, one for each change, one for the latency after; the sign is at the bar too."""
    shown = changes.largest(MOST)
    labels = ["before", *(change.label for change in shown), "after"]
    figure = empty_figure("latency (ms)", "")
    figure.add_waterfall(
        orientation="h",
        y=list(range(len(labels))),
        x=[changes.before_ms, *(change.ms for change in shown), changes.after_ms],
        measure=["absolute", *("relative" for _ in shown), "total"],
        text=[f"{changes.before_ms:,.3f}", *(f"{change.ms:+,.3f}" for change in shown), f"{changes.after_ms:,.3f}"],
        textposition="outside",
        decreasing={"marker": {"color": FASTER}},
        increasing={"marker": {"color": SLOWER}},
        totals={"marker": {"color": GREY}},
        connector={"line": {"color": GREY, "width": 1, "dash": "dot"}},
        hovertemplate="%{customdata}<extra></extra>",
        customdata=["the original", *map(_hover_text, shown), "the result"],
    )
    figure.update_yaxes(tickvals=list(range(len(labels))), ticktext=[plain_label(label) for label in labels])
    lay_rows(figure, len(labels))
    start = _axis_start(changes.before_ms, [change.ms for change in shown])
    if start > 0:
        figure.update_xaxes(range=[start, None], title=f"latency (ms), from {start:,.3f} on")
    figure.update_layout(showlegend=False)
    return figure


def time_chart(times: TimeChanges) -> go.Figure:
    """A bar for each kind of operator of one graph, the slowest at the top. times: from `times_by_operator`."""
    shown = times.largest(MOST)
    figure = empty_figure("time (ms)", "")
    figure.add_bar(
        orientation="h",
        y=list(range(len(shown))),
        x=[time.ms for time in shown],
        text=[f"{time.ms:,.3f}, {time.ms / times.after_ms:.0%}" for time in shown],
        textposition="auto",
        marker={"color": GREY},
        hovertemplate="%{customdata}<extra></extra>",
        customdata=[
            f"{plain_label(time.label)}: {time.ms:,.3f} ms in {counted(len(time.operators_after), 'operator')}"
            for time in shown
        ],
    )
    figure.update_yaxes(tickvals=list(range(len(shown))), ticktext=[plain_label(time.label) for time in shown])
    lay_rows(figure, len(shown))
    figure.update_layout(showlegend=False)
    return figure


def _axis_start(before_ms: float, changes_ms: Sequence[float]) -> float:
    """0, or more where the changes are small beside the latency and could not be read."""
    levels = [before_ms, *accumulate(changes_ms, initial=before_ms)]
    span = max(levels) - min(levels)
    return 0.0 if span > _LARGE_CHANGE * before_ms else max(0.0, min(levels) - span)


def _hover_text(change: TimeChange) -> str:
    counts = len(change.operators_before), len(change.operators_after)
    return (
        f"{plain_label(change.label)}: {change.before_ms:,.3f} ms in {counted(counts[0], 'operator')} before, "
        f"{change.after_ms:,.3f} ms in {counts[1]:,} after"
    )
