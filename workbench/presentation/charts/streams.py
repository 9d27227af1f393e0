"""The chart of a schedule: time from left to right, a row for each stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.planning.streams.analysis import StreamsAnalysis
from workbench.planning.streams.scheduling import Scheduled
from workbench.presentation.charts.variants import COLOURS, GREY, empty_figure, plain_label

if TYPE_CHECKING:
    import plotly.graph_objects as go

_ROW, _AROUND = 46, 130  # pixels: of a stream; of the axis and the legend
_KINDS = ((True, "bound by arithmetic", COLOURS[0], ""), (False, "bound by memory", COLOURS[1], "/"))
_NAMED = 60  # operators, up to which each has its name in its bar


def streams_chart(streams_analysis: StreamsAnalysis, marked: str = "") -> go.Figure:
    """A bar for each operator; a dotted line is the end of the longest path through the graph.

    marked: the name of an operator with a frame.
    """
    made = streams_analysis.schedule
    figure = empty_figure("time since the run began (us)", "")
    for is_computing, name, colour, pattern in _KINDS:
        same = [run for run in made.runs if made.dependencies.computing[run.operator] == is_computing]
        if same:
            _add_bars(figure, streams_analysis, same, name, colour, pattern)
    for run in made.runs:
        if streams_analysis.problem.operators[run.operator].name == marked:
            figure.add_shape(
                type="rect",
                x0=run.start_us,
                x1=run.end_us,
                y0=run.stream - 0.42,
                y1=run.stream + 0.42,
                line={"color": "#C2185B", "width": 3},
                fillcolor="rgba(0,0,0,0)",
            )
    figure.add_vline(x=made.dependencies.critical_path, line={"color": GREY, "width": 1.5, "dash": "dot"})
    rows = len(made.streams)
    figure.update_layout(barmode="overlay", height=_AROUND + _ROW * rows, bargap=0.15, showlegend=True)
    figure.update_xaxes(range=[0, max(made.makespan_us * 1.02, 1e-9)])
    names = [f"stream {number}" for number in range(rows)]
    figure.update_yaxes(
        tickvals=list(range(rows)), ticktext=names, range=[rows - 0.5, -0.5], rangemode="normal", automargin=True
    )
    return figure


def _add_bars(
    figure: go.Figure,
    streams_analysis: StreamsAnalysis,
    runs: Sequence[Scheduled],
    name: str,
    colour: str,
    pattern: str,
) -> None:
    operators = [streams_analysis.problem.operators[run.operator] for run in runs]
    words = [
        f"{plain_label(str(node))}<br>{run.end_us - run.start_us:,.2f} us from {run.start_us:,.2f} us,"
        f" stream {run.stream}"
        for node, run in zip(operators, runs, strict=True)
    ]
    named = len(streams_analysis.schedule.runs) <= _NAMED
    figure.add_bar(
        base=[run.start_us for run in runs],
        x=[run.end_us - run.start_us for run in runs],
        y=[run.stream for run in runs],
        orientation="h",
        name=name,
        customdata=[(node.name, message) for node, message in zip(operators, words, strict=True)],
        text=[plain_label(node.name) for node in operators] if named else None,
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        marker={
            "color": colour,
            "opacity": 0.8,
            "line": {"width": 0.6, "color": "white"},
            "pattern": {"shape": pattern, "size": 5, "fgcolor": "rgba(255,255,255,0.65)"},
        },
        hovertemplate="%{customdata[1]}<extra></extra>",
    )
