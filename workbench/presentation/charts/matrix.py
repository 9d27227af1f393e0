"""Charts of a matrix: every variant at its batch sizes, with its median's interval; latency and memory by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.presentation.charts.variants import COLOURS, DASHES, HEIGHT, empty_figure, plain_label, put_legend_below

if TYPE_CHECKING:
    import plotly.graph_objects as go

_LEGEND_LINE, _AROUND = 19, 60  # pixels

_Row = Mapping[str, Any]  # see `matrix.COLUMNS`


def bars_chart(rows: Sequence[_Row]) -> go.Figure:
    """One group per model and batch size, one bar per variant, as high as its median, with the 95 % interval.

    The part of an interval below 0 is not drawn.
    """
    figure = empty_figure("", "median latency of one run (ms)")
    groups = list(dict.fromkeys(_group(row) for row in rows))
    for index, (variant, same) in enumerate(_by_variant(rows).items()):
        results = {_group(row): row for row in same}
        figure.add_bar(
            x=[plain_label(group) for group in groups],
            y=[results[group]["median_ms"] if group in results else None for group in groups],
            error_y={
                "type": "data",
                "array": [results[group]["median_error_ms"] if group in results else None for group in groups],
                "arrayminus": [
                    min(results[group]["median_error_ms"], results[group]["median_ms"]) if group in results else None
                    for group in groups
                ],
            },
            name=plain_label(variant),
            marker={"color": COLOURS[index % len(COLOURS)]},
            hovertemplate="%{x}<br>%{y:,.3f} ms",
        )
    figure.update_layout(
        barmode="group",
        bargap=max(0.2, 0.8 - 0.05 * len(groups) * len(figure.data)),  # so that a few bars are not too wide
        showlegend=True,
        legend={"orientation": "v", "yref": "paper", "y": 1, "x": 1.02},
        height=max(HEIGHT, _AROUND + _LEGEND_LINE * len(figure.data)),
    )
    return figure


def by_batch_chart(rows: Sequence[_Row], column: str, title: str, scale: float = 1.0) -> go.Figure:
    """A line for each variant of each model over the batch size. column: of the rows, divided by `scale`.

    Batch sizes mostly double, so their axis is logarithmic, with a tick at each.
    """
    figure = empty_figure("batch", title)
    batches = sorted({row["batch"] for row in rows})
    figure.update_xaxes(type="log", tickvals=batches, ticktext=[f"{batch:,}" for batch in batches])
    several = len({row["model"] for row in rows}) > 1
    lines: dict[str, list[_Row]] = {}
    for row in rows:
        lines.setdefault(f"{row['model']}, {row['variant']}" if several else row["variant"], []).append(row)
    for index, (name, same) in enumerate(lines.items()):
        colour = COLOURS[index % len(COLOURS)]
        figure.add_scatter(
            x=[row["batch"] for row in same],
            y=[row[column] / scale for row in same],
            name=plain_label(name),
            mode="lines+markers",
            line={"color": colour, "width": 1.5, "dash": DASHES[index % len(DASHES)]},
            marker={"color": colour, "size": 6},
            hovertemplate="batch %{x}: %{y:,.3f}",
        )
    put_legend_below(figure, len(lines))
    return figure


def _group(row: _Row) -> str:
    return row["model"] if row["batch"] is None else f"{row['model']}, batch {row['batch']:,}"


def _by_variant(rows: Sequence[_Row]) -> dict[str, list[_Row]]:
    results: dict[str, list[_Row]] = {}
    for row in rows:
        results.setdefault(row["variant"], []).append(row)
    return results
