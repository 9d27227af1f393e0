"""The picture of a memory plan: steps from left to right, bytes of the arena from bottom to top."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.planning.memory.planning import MemoryPlan, PlannedValue
from workbench.presentation.charts.variants import COLOURS, GREY, byte_unit, empty_figure, plain_label

if TYPE_CHECKING:
    import plotly.graph_objects as go

# By how a value got its bytes: name in the legend, colour, and a pattern as a second sign.
_STYLES = {
    None: ("own memory", COLOURS[0], ""),
    "in place": ("written over an operand", COLOURS[1], "/"),
    "placed": ("computed inside a Concat's result", COLOURS[2], "."),
    "view": ("view of another value", COLOURS[3], "x"),
}
_HEIGHT = 380  # pixels
_FEW_STEPS = 8  # below, plotly has ticks between steps too
_NAMED = 40  # values, up to which each has its name in its rectangle
_MARKED = "#C2185B"


def arena_chart(
    plan: MemoryPlan, marked: Collection[str] = (), until: int | None = None, beside: Sequence[MemoryPlan] = ()
) -> go.Figure:
    """Each value is a rectangle from its birth to its death, at its offset; a dashed line is the lower bound.

    marked: values with a frame. until: the step up to which values are drawn, by default all.
    beside: the plans whose pictures stand beside this one: all have the same scale and the same legend.
    """
    steps = len(plan.sharing.lifetimes.steps)
    drawn = _drawn(plan)
    ways = {value.how for one in (plan, *beside) for value in _drawn(one)}
    highest = max(one.packed.total for one in (plan, *beside))
    scale, unit = byte_unit(highest)
    figure = empty_figure("step of the execution order", f"offset in the arena ({unit})")
    ends = {value.alias_of: value.born for value in reversed(drawn) if value.how == "in place"}
    for how, (name, colour, pattern) in _STYLES.items():
        same = [value for value in drawn if value.how == how and (until is None or value.born <= until)]
        if how in ways:
            rectangles = [_Rectangle(value, ends.get(value.name, value.dies), scale) for value in same]
            _add_rectangles(figure, rectangles, name, colour, pattern, len(drawn) <= _NAMED)
    _add_line(figure, steps, plan.packed.lower_bound / scale, f"at least {plan.packed.lower_bound:,} bytes", "dash")
    _add_line(figure, steps, plan.packed.total / scale, f"arena {plan.packed.total:,} bytes", "solid")
    for value in drawn:
        if value.name in marked:
            _frame(figure, _Rectangle(value, value.dies, scale))
    if until is not None:
        figure.add_vline(x=until + 0.5, line={"color": GREY, "width": 1})
    figure.update_layout(barmode="overlay", height=_HEIGHT, dragmode="zoom", legend={"font": {"size": 11}})
    figure.update_xaxes(range=[0, max(steps, 1)], tickformat=",d", dtick=1 if steps < _FEW_STEPS else None)
    figure.update_yaxes(range=[0, max(highest / scale * 1.04, 1e-9)], rangemode="normal")
    return figure


def _drawn(plan: MemoryPlan) -> list[PlannedValue]:
    return [value for value in plan.values if value.offset is not None and value.bytes and value.dies > value.born]


@dataclass(frozen=True)
class _Rectangle:
    """A value from its birth to `end`, its death or its being overwritten; scale: bytes of a unit of the axis."""

    value: PlannedValue
    end: int
    scale: float

    @property
    def bottom(self) -> float:
        return (self.value.offset or 0) / self.scale

    @property
    def height(self) -> float:
        return (self.value.bytes or 0) / self.scale


def _add_rectangles(
    figure: go.Figure, drawn: Sequence[_Rectangle], name: str, colour: str, pattern: str, named: bool
) -> None:
    middles: list[float | None] = [(one.value.born + one.end) / 2 for one in drawn]
    heights: list[float | None] = [one.height for one in drawn]
    figure.add_bar(
        x=middles or [None],  # the legend leaves out what has no bar
        width=[one.end - one.value.born for one in drawn],
        base=[one.bottom for one in drawn],
        y=heights or [None],
        customdata=[(one.value.name, _words(one.value)) for one in drawn],
        text=[plain_label(one.value.name) for one in drawn] if named else None,
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        name=name,
        marker={
            "color": colour,
            "opacity": 0.75,
            "line": {"width": 0.6, "color": "white"},
            "pattern": {"shape": pattern, "size": 5, "fgcolor": "rgba(255,255,255,0.65)"},
        },
        hovertemplate="%{customdata[1]}<extra></extra>",
    )


def _add_line(figure: go.Figure, steps: int, height: float, name: str, dash: str) -> None:
    figure.add_scatter(
        x=[0, max(steps, 1)],
        y=[height, height],
        mode="lines",
        name=name,
        line={"color": GREY, "width": 1.5, "dash": dash},
    )


def _frame(figure: go.Figure, around: _Rectangle) -> None:
    figure.add_shape(
        type="rect",
        x0=around.value.born,
        x1=around.end,
        y0=around.bottom,
        y1=around.bottom + around.height,
        line={"color": _MARKED, "width": 3},
        fillcolor="rgba(0,0,0,0)",
    )


def _words(value: PlannedValue) -> str:
    lines: Iterable[str] = (
        plain_label(value.name),
        f"{value.kind}, {value.bytes:,} bytes at {value.offset:,}, block {value.block}",
        f"in use from step {value.born:,} to before {value.dies:,}",
        *([f"{value.how}: {plain_label(value.alias_of)}"] if value.alias_of else []),
    )
    return "<br>".join(lines)
