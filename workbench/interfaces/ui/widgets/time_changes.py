"""The tab "Where the time went": the changes of latency by operator and by pass, as a waterfall and a table.

Where only the original was measured, the time of its operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import MeasuredHere, Opened
from workbench.interfaces.ui.widgets.numbers import show_table
from workbench.interfaces.ui.widgets.steps import go_to, show_query
from workbench.presentation.charts.waterfall import MOST, time_chart, waterfall_chart
from workbench.presentation.explanations.time_changes import (
    TimeChange,
    TimeChanges,
    changes_by_operator,
    changes_by_pass,
    main_operator,
    times_by_operator,
)
from workbench.rewrite import History
from workbench.run.measurement.measurement_result import MeasuredVariant

_BY_OPERATOR, _BY_PASS = "By operator", "By pass"
_DECIMALS = {"before (ms)": 3, "after (ms)": 3, "change (ms)": 3}
_MAX_NAMES = 8  # the most names of operators in a row


def show_time_changes(opened: Opened, measured: MeasuredHere, optimize: Any) -> None:
    """Draw the changes of latency from the first variant of the same backend and precision to a chosen one.

    A bar leads to its nodes in the graph: that of an operator to its nodes in the original and the result, that of a
    pass to its step. optimize: the page with the graph, or None.
    """
    ran = measured.measurement.ran
    pairs = {label: variant for label, variant in ran.items() if variant.ratio_to != label and variant.operators}
    if not pairs:
        _show_times(opened, {label: variant for label, variant in ran.items() if variant.operators}, optimize)
        return
    history = opened.history if measured.spec == opened.spec else None
    which, how = st.columns([3, 2], vertical_alignment="bottom")
    label = which.selectbox("Result", list(pairs), key="changes_of", persist_state="session")
    groupings = [_BY_OPERATOR, _BY_PASS] if history is not None else [_BY_OPERATOR]
    grouping = how.segmented_control("Changes", groupings, default=groupings[0], required=True, key="changes_by")
    after = pairs[label]
    before = ran[after.ratio_to]
    if after.ratio.ratio_busy:
        st.caption(
            markdown_escaped(
                f"The machine was busy while '{label}' and '{after.ratio_to}' ran, so that their times do not compare: "
                "no change of an operator is shown. Measure again when nothing else runs."
            )
        )
        return
    history = None if history is None else _until(history, after.step)
    if grouping == _BY_PASS and history is not None:
        changes = changes_by_pass(before, after, history)
    else:
        changes = changes_by_operator(before, after)
    st.caption(
        markdown_escaped(
            f"{before.latency.median_ms:,.3f} → {after.latency.median_ms:,.3f} ms ({after.ratio_to} → {label}). "
            "Each operator has its share of the profile of the median latency, so the bars sum to the difference."
        )
    )
    if history is None or optimize is None:
        st.plotly_chart(waterfall_chart(changes), key="waterfall")
    else:
        shown = changes.largest(MOST)
        labels = [change.label for change in shown if _is_in_graph(change, history, grouping)]
        chosen = _chosen_change(waterfall_chart(changes), shown, labels, 1)  # the first bar is the original
        if chosen is not None and _show_in_graph(opened, history, chosen, grouping):
            st.switch_page(optimize)
    show_table(_rows(changes), _DECIMALS, first=("what", *_DECIMALS, "operators before", "operators after"))


def _show_times(opened: Opened, variants: Mapping[str, MeasuredVariant], optimize: Any) -> None:
    """Draw the time of each kind of operator of one variant; a bar leads to its nodes in the graph."""
    if not variants:
        st.caption("No backend reported the times of its operators.")
        return
    label = next(iter(variants))
    if len(variants) > 1:
        label = st.selectbox("Variant", list(variants), key="times_of", persist_state="session")
    variant, graph = variants[label], opened.graph
    times = times_by_operator(variant)
    st.caption(
        markdown_escaped(
            f"{variant.latency.median_ms:,.3f} ms ({label}), by kind of operator. Each has its share of the profile of "
            "the median latency. Measure the original beside a result to see what changed."
        )
    )
    shown = times.largest(MOST)
    labels = [time.label for time in shown if main_operator(time, graph, graph) is not None]
    chosen = _chosen_change(time_chart(times), shown, labels, 0)
    operator = None if chosen is None else main_operator(chosen, graph, graph)
    if operator is not None and optimize is not None:
        show_query(f"op:{operator}")
        st.switch_page(optimize)
    rows = [
        {
            "what": time.label,
            "time (ms)": time.ms,
            "share (%)": 100 * time.ms / times.after_ms,
            "operators": len(time.operators_after),
            "names": _names(time.operators_after),
        }
        for time in times.changes
    ]
    show_table(rows, {"time (ms)": 3, "share (%)": 1})


def _chosen_change(chart: Any, shown: list[TimeChange], labels: list[str], first: int) -> TimeChange | None:
    """Draw the chart, and the choice of a bar as buttons too; returns the change that the user has just chosen.

    labels: those of the changes that are in the graph. first: the bar of the first change.
    """
    turn = st.session_state.setdefault("waterfall_turn", 0)  # a new key clears the choice
    state = st.plotly_chart(chart, key=f"waterfall_{turn}", on_select="rerun", selection_mode="points")
    label = st.pills("Show in the graph", labels, key=f"waterfall_labels_{turn}")
    points = [point["point_index"] - first for point in state["selection"]["points"]]
    if label is None and not points:
        return None
    st.session_state["waterfall_turn"] = turn + 1
    if label is not None:
        return next(change for change in shown if change.label == label)
    return shown[points[0]] if 0 <= points[0] < len(shown) else None


def _is_in_graph(change: TimeChange, history: History, grouping: str | None) -> bool:
    if grouping == _BY_PASS:
        return _step_of(change, history) is not None
    return main_operator(change, history.initial, history.graph) is not None


def _step_of(change: TimeChange, history: History) -> int | None:
    """The number of the step that a bar by pass is about."""
    return next((i for i, step in enumerate(history.steps) if i and step.title == change.label and step.changed), None)


def _show_in_graph(opened: Opened, history: History, change: TimeChange, grouping: str | None) -> bool:
    """Choose what the page Optimize shows; returns whether there is something to show."""
    if grouping == _BY_PASS:
        step = _step_of(change, history)
        if step is not None:
            go_to(opened, step, len(history[step].rewrites))
        return step is not None
    operator = main_operator(change, history.initial, history.graph)
    if operator is not None:
        show_query(f"op:{operator}")
    return operator is not None


def _until(history: History, step: str) -> History:
    """The history up to the step with that label, such as "5 fold_batchnorm"."""
    number = step.partition(" ")[0]
    index = int(number) if number.isdecimal() else len(history) - 1
    return replace(history, graph=history.at(index), steps=history.steps[: index + 1])


def _rows(changes: TimeChanges) -> list[dict[str, object]]:
    return [
        {
            "what": change.label,
            "before (ms)": change.before_ms,
            "after (ms)": change.after_ms,
            "change (ms)": change.ms,
            "operators before": len(change.operators_before),
            "operators after": len(change.operators_after),
            "names before": _names(change.operators_before),
            "names after": _names(change.operators_after),
        }
        for change in changes.changes
    ]


def _names(operators: tuple[str, ...]) -> str:
    return ", ".join(operators[:_MAX_NAMES]) + (", ..." if len(operators) > _MAX_NAMES else "")
