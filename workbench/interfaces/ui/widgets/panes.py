"""The views of a step beside its graph: its rewrites, its texts, the times of its operators."""

from __future__ import annotations

import html

import streamlit as st

from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened
from workbench.interfaces.ui.state.snapshots import Snapshot
from workbench.interfaces.ui.widgets.parts import pane, shown_mark
from workbench.interfaces.ui.widgets.steps import go_to
from workbench.interfaces.ui.widgets.tables import table
from workbench.ir import Graph
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.strategy_facts import layout_facts
from workbench.presentation.view.dot import dot_of
from workbench.presentation.view.text import MARKS, TextRow
from workbench.rewrite import Step

GRAPH = "Graph"
TIMES = "Times"
WHY_NOT = "Why not"
STEP_TABLE = "Steps"
_VIEWS = (GRAPH, "Rewrites", WHY_NOT, "Text", STEP_TABLE)
_SHOWN_CHARACTERS = 100_000  # the most characters of a text that are shown; the whole text can be downloaded
_SHOWN_LINES = 1_500
_ONNX_TEXT, _GRAPHVIZ = "ONNX", "Graphviz"
_MAX_DRAWN = 300  # nodes; the browser places a larger graph for seconds
_WIDTHS = "<colgroup><col style='width:1.6rem'><col><col style='width:1.6rem'><col></colgroup>"


def show_rewrites(opened: Opened, index: int, step: Step, height: int) -> None:
    """Draw a table of the rewrites with their sentences; a click shows one in the graph."""
    if not step.rewrites:
        no_rewrites = f"This step ran and rewrote nothing; {WHY_NOT} shows the nodes that it considered."
        st.caption("As loaded: nothing was rewritten." if not index else no_rewrites)
        return
    rows = [
        {"#": number, "sentence": rewrite.sentence, "nodes": ", ".join(rewrite.nodes)}
        for number, rewrite in enumerate(step.rewrites, 1)
    ]
    columns = {
        "#": st.column_config.NumberColumn(width=50),
        "sentence": st.column_config.TextColumn(width=760),
        "nodes": st.column_config.TextColumn(width=200),
    }
    key = f"rewrites_{opened.number}_{index}"

    def show(row: int) -> None:
        go_to(opened, index, row + 1)

    st.caption("Click a rewrite to see the graph just after it.")
    table(rows, columns, height=height, key=key, on_click=show)


def views_of(step: Step) -> tuple[str, ...]:
    """The views of a step; Times only if the step timed operators."""
    return (*_VIEWS, TIMES) if layout_facts(step).times else _VIEWS


def show_times(step: Step, height: int) -> None:
    """Draw a table of the operators' times in both layouts, the longest total first."""
    facts = layout_facts(step)
    device = markdown_escaped(facts.device)
    st.caption(f"Each operator timed alone on {device}: the fastest of several runs. The times are cached.")
    rows = [
        {
            "operator": row.operator,
            "operands": row.operands,
            "nodes": row.nodes,
            "written": row.us,
            "other": row.other_us,
            "converted": row.converted,
            "spread": row.spread_us,
        }
        for row in facts.times
    ]
    us = st.column_config.NumberColumn
    columns = {
        "operands": st.column_config.TextColumn(width=420),
        "nodes": us(width=60, format="localized", help="Nodes of this operator and shape, or values converted."),
        "written": us("as written (us)", format="%.1f"),
        "other": us("other layout (us)", format="%.1f"),
        "converted": us(width=80, format="localized", help="Number of these nodes that now run in the other layout."),
        "spread": us("spread (us)", format="%.1f", help="From the fastest run to the lower quartile of all runs."),
    }
    table(rows, columns, height=height)


def show_texts(moment: Snapshot, target: Profile, height: int) -> None:
    """Draw the graphs before and after as ONNX text, side by side, or the one after as Graphviz places it.

    target: by whose layouts nodes are coloured there.
    """
    before, after = moment.texts
    kind, caption, left, right = st.columns([2, 4, 1, 1], vertical_alignment="center")
    kinds = (_ONNX_TEXT, _GRAPHVIZ)
    chosen = kind.segmented_control(
        "Kind of text", kinds, default=_ONNX_TEXT, required=True, key="text_kind", label_visibility="collapsed"
    )
    if chosen == _GRAPHVIZ:
        with pane("text", height - 16):
            _show_dot(moment.after, target)
        return
    for column, side, text in ((left, "before", before), (right, "after", after)):
        column.download_button(
            f"Download {side}", text, f"{side}.onnxtxt", "text/plain", key=f"text_{side}", width="stretch"
        )
    if moment.changes.is_empty:
        caption.caption(_cut("Before and after are the same text", len(text), _SHOWN_CHARACTERS, "characters"))
        with pane("text", height - 16):
            st.code(text[:_SHOWN_CHARACTERS], language=None)
        return
    lines = moment.lines
    about = "Before on the left, after on the right: changed lines with their context"
    caption.caption(_cut(about, len(lines), _SHOWN_LINES, "lines"))
    with pane("text", height - 16):
        rows = "".join(_table_row(line) for line in lines[:_SHOWN_LINES])
        st.html(f'<table class="wb-text">{_WIDTHS}{rows}</table>')


def _show_dot(graph: Graph, target: Profile) -> None:
    """Draw the graph as the browser's Graphviz places it, and its DOT, which can be copied."""
    source = dot_of(graph, target).source
    if len(graph) <= _MAX_DRAWN:
        st.graphviz_chart(source)
    else:
        st.caption(f"Graphviz draws graphs of up to {_MAX_DRAWN:,} nodes here; this one has {len(graph):,}.")
    st.code(source[:_SHOWN_CHARACTERS], language=None)


def _cut(title: str, size: int, limit: int, unit: str) -> str:
    return title if size <= limit else f"{title}; the first {limit:,} of {size:,} {unit}, download for the rest"


def _table_row(line: TextRow) -> str:
    if line.hidden:
        return f'<tr><td class="rest" colspan="4">{line.hidden:,} equal lines</td></tr>'
    colour = MARKS[line.mark][0] if line.mark else ""
    left = line.mark if line.mark in ("-", "~") else ""
    right = line.mark if line.mark in ("+", "~") else ""
    return "<tr>" + _cells(left, line.before, colour) + _cells(right, line.after, colour) + "</tr>"


def _cells(mark: str, text: str, colour: str) -> str:
    tint = f' style="background:{colour}30"' if mark else ""
    sign = f' style="color:{colour}"' if mark else ""
    return f'<td class="mark"{sign}>{shown_mark(mark)}</td><td{tint}>{html.escape(text)}</td>'
