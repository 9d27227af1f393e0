"""Charts of single operators: a roofline, and when each ran."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.backends.profiling.ceilings import Roofs
from workbench.backends.profiling.profile_result import OperatorRun
from workbench.presentation.charts.variants import COLOURS, GREY, empty_figure, log_ticks, plain_label

if TYPE_CHECKING:
    import plotly.graph_objects as go

_MAX_TYPES = 6  # operator types with a separate colour
_OTHERS = "other operators"
_ROWS = 3  # scopes shown above the operators
_ROW, _AROUND = 32, 160  # pixels: of a row of bars, of the axis and two lines of legend
_SMALLEST, _LARGEST = 6, 40  # pixels, of a mark


def counted_operators(operators: Sequence[OperatorRun]) -> list[OperatorRun]:
    """The operators of known cost, which have a point in the roofline."""
    return [op for op in operators if op.flops and op.bytes and op.time_ms > 0]


def roofline_chart(counted: Sequence[OperatorRun], roofs: Roofs) -> go.Figure:
    """The roofline model (Williams, Waterman, Patterson 2009), with measured roofs; counted: at least one operator.

    Each mark is an operator, its size its time: near the slanted roof it is bound by
    memory, near the level one by arithmetic, far below both by something else.
    """
    figure = empty_figure("arithmetic intensity (FLOP/byte)", "speed (GFLOP/s)")
    figure.update_layout(legend={"orientation": "v", "y": 1, "x": 1.02, "yref": "paper"}, height=340)
    longest = max(op.time_ms for op in counted)
    places = {id(op): _place(op) for op in counted}
    for name, colour, same in _by_type(counted):
        figure.add_scatter(
            x=[places[id(op)][0] for op in same],
            y=[places[id(op)][1] for op in same],
            text=[_words(op) for op in same],
            name=plain_label(name),
            mode="markers",
            marker={
                "color": colour,
                "opacity": 0.6,
                "size": [_SMALLEST + (_LARGEST - _SMALLEST) * (op.time_ms / longest) ** 0.5 for op in same],
            },
            hovertemplate="%{text}<br>%{x:,.3g} FLOP/byte, %{y:,.3g} GFLOP/s<extra></extra>",
        )
    top, slope = roofs.flops_per_s / 1e9, roofs.bytes_per_s / 1e9
    ridge = top / slope
    intensities, speeds = zip(*places.values(), strict=True)
    left, right = min(*intensities, ridge) / 2, max(*intensities, ridge) * 2
    figure.add_scatter(
        x=[left, ridge, right],
        y=[left * slope, top, top],
        mode="lines",
        name=f"measured roofs: {slope:,.0f} GB/s, {top:,.0f} GFLOP/s",
        line={"color": GREY, "width": 2, "dash": "dash"},
    )
    figure.update_xaxes(log_ticks((left, right)))
    figure.update_yaxes(log_ticks((top, left * slope, *speeds)), rangemode="normal")
    return figure


def strip_chart(
    operators: Sequence[OperatorRun], scopes: Mapping[str, tuple[str, ...]], launching_ms: float = 0.0
) -> go.Figure:
    """When each operator ran, from left to right, under its scopes, like a flame graph ordered by time.

    operators: at least one. scopes: by operator name, the outermost first. launching_ms: of launching kernels, which
    is one bar behind all of them.
    """
    figure = empty_figure("time since the run began (ms)", "")
    for name, colour, same in _by_type(operators):
        bars = [_Bar(op.start_ms, op.time_ms, colour, _words(op)) for op in same]
        _add_bars(figure, bars, "operator", name=plain_label(name))
    end = max((op.start_ms + op.time_ms for op in operators), default=1.0)
    if launching_ms:
        words = f"launching kernels one by one<br>{launching_ms:,.3f} ms, of all operators together"
        _add_bars(figure, [_Bar(end, launching_ms, GREY, words)], "operator", name="launching")
    depth = min(_ROWS, max((len(path) for path in scopes.values()), default=0))
    rows = ["operator", *(f"scope {level}" for level in range(depth, 0, -1))]
    for level in range(depth, 0, -1):
        bars = [_scope_bar(path, members) for path, members in _runs_of(operators, scopes, level)]
        _add_bars(figure, bars, f"scope {level}", showlegend=False, text=[bar.text for bar in bars])
    figure.update_layout(barmode="overlay", height=_AROUND + _ROW * len(rows), bargap=0.08)
    figure.update_xaxes(range=[0, end + launching_ms])
    figure.update_yaxes(categoryorder="array", categoryarray=rows, rangemode="normal")
    return figure


@dataclass(frozen=True)
class _Bar:
    """A bar from `start_ms`, `length_ms` long; `words` are its tooltip, `text` is written in it."""

    start_ms: float
    length_ms: float
    colour: str
    words: str
    text: str = ""


def _scope_bar(path: tuple[str, ...], members: Sequence[OperatorRun]) -> _Bar:
    start = members[0].start_ms
    length = members[-1].start_ms + members[-1].time_ms - start
    words = f"{plain_label('/'.join(path))}<br>{length:,.3f} ms, {len(members):,} operators"
    return _Bar(start, length, _shade(path), words, plain_label(path[-1]))


def _add_bars(figure: go.Figure, bars: Sequence[_Bar], row: str, **how: Any) -> None:
    figure.add_bar(
        base=[bar.start_ms for bar in bars],
        x=[bar.length_ms for bar in bars],
        y=[row] * len(bars),
        orientation="h",
        marker={"color": [bar.colour for bar in bars], "line": {"width": 0.4, "color": "white"}},
        customdata=[bar.words for bar in bars],
        textposition="inside",
        insidetextanchor="start",
        hovertemplate="%{customdata}<extra></extra>",
        **how,
    )


def _runs_of(
    operators: Sequence[OperatorRun], scopes: Mapping[str, tuple[str, ...]], level: int
) -> Iterator[tuple[tuple[str, ...], list[OperatorRun]]]:
    """Consecutive operators in the same scope of that depth."""

    def path(op: OperatorRun) -> tuple[str, ...]:
        return scopes.get(op.name, ())[:level]

    for scope, members in itertools.groupby(operators, path):
        if len(scope) == level:
            yield scope, list(members)


def _shade(path: tuple[str, ...]) -> str:
    return ("#D9DEE7", "#E7E0D2", "#DCE7DC")[sum(map(ord, "/".join(path))) % 3]


def _by_type(operators: Sequence[OperatorRun]) -> Iterator[tuple[str, str, list[OperatorRun]]]:
    """(type, colour, operators of it): the types with the largest total time, then the others together."""
    total: defaultdict[str, float] = defaultdict(float)
    for op in operators:
        total[op.op] += op.time_ms
    named = sorted(total, key=lambda name: -total[name])[:_MAX_TYPES]
    for name, colour in zip(named, COLOURS, strict=False):
        yield name.removeprefix("workbench."), colour, [op for op in operators if op.op == name]
    rest = [op for op in operators if op.op not in named]
    if rest:
        yield _OTHERS, GREY, rest


def _place(op: OperatorRun) -> tuple[float, float]:
    """FLOP per byte, and GFLOP/s. Raises ValueError if the work is unknown, see `counted_operators`."""
    if not (op.flops and op.bytes):
        raise ValueError(f"the work of '{op.name}' is not known")
    return op.flops / op.bytes, op.flops / (op.time_ms / 1e3) / 1e9


def _words(op: OperatorRun) -> str:
    name = op.op.removeprefix("workbench.")
    return plain_label(f"{name} {op.name}") + f"<br>{op.time_ms:,.4f} ms"
