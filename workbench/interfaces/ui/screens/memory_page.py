"""The page Memory: lifetimes of values, values that share memory, and the arena of each planner, beside the graph."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from workbench.errors import UserError, counted
from workbench.interfaces.ui.screens.memory_steps import play_steps
from workbench.interfaces.ui.state.graph_views import shown_graph
from workbench.interfaces.ui.state.lru import Recent
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.session import Opened, worker
from workbench.interfaces.ui.state.shown_view import seen_in
from workbench.interfaces.ui.state.work import Report, forget_cancel, was_cancelled
from workbench.interfaces.ui.widgets.graph_view import graph_view, selection
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.numbers import above_table, download_button, show_table, shown_csv
from workbench.interfaces.ui.widgets.parts import header, show_error
from workbench.interfaces.ui.widgets.progress import run_with_progress
from workbench.interfaces.ui.widgets.tables import table
from workbench.interfaces.ui.widgets.units import in_units
from workbench.ir import Graph
from workbench.planning.memory.blocks.actions import labels_of
from workbench.planning.memory.blocks.minimalloc import write_packing
from workbench.planning.memory.orders import ORDERS, ordered
from workbench.planning.memory.planners import planners
from workbench.planning.memory.planning import DEFAULT_PLANNER, SECONDS, MemoryPlan, plan_memory, sharing_of
from workbench.presentation.charts.memory import arena_chart
from workbench.presentation.charts.memory_drawings import MOST_DRAWN, conflict_graph, recycle_box

AS_OPENED, AS_OPTIMIZED = "original", "result"
_GRAPH = 470  # pixels of height of the graph
_WIDTHS = [10, 2]
_MAX_PLANS = 24


@dataclass(frozen=True)
class _Choice:
    """The settings of one picture. of: the name of the graph."""

    of: str
    planner: str
    order: str


@dataclass
class MemoryPlans(ModelState):
    """The most recent plans."""

    outlives_inputs = True

    recent: Recent[MemoryPlan] = field(default_factory=lambda: Recent(_MAX_PLANS))


def memory_page() -> None:
    opened = optimized_here()
    if opened is None:
        return
    header(opened)
    graphs = graphs_of(opened)
    choices = _choices(opened, graphs)
    if was_cancelled(opened.jobs, "memory"):
        st.info("Planning was cancelled.", icon=":material/block:")
        st.button("Plan again", type="primary", on_click=forget_cancel, args=(opened.jobs, "memory"))
        return
    plans = [_plan_of(opened, graphs[choice.of], choice) for choice in choices]
    if any(plan is None for plan in plans):
        return
    results = [plan for plan in plans if plan is not None]
    shown = choices[-1].of
    key, graph = f"memory_graph_{opened.number}_{shown}", graphs[shown]
    if len(results) > 1:
        st.markdown(markdown_escaped(_difference(choices, results)))
        _pictures(opened, results, key)
        _graph(opened, shown, graph, results, key)
        _details(opened, graph, results[-1])
        return
    picture, graph_column = st.columns(2, gap="medium")
    with picture:
        _pictures(opened, results, key)
        _details(opened, graph, results[0])
    with graph_column:
        _graph(opened, shown, graph, results, key)


def graphs_of(opened: Opened) -> dict[str, Graph]:
    """The graphs that can be planned for, by name."""
    graphs = {AS_OPENED: opened.graph}
    if opened.history is not None and len(opened.history) > 1:
        graphs[AS_OPTIMIZED] = opened.history.graph
    return graphs


def _choices(opened: Opened, graphs: dict[str, Graph]) -> list[_Choice]:
    """Draw the fields for one picture or two; returns their settings.

    Two pictures are at first the original and the result by one planner or, where nothing is optimized, two planners.
    """
    has_result = len(graphs) > 1
    key = "memory_two_graphs" if has_result else "memory_two_planners"
    is_pair = st.toggle("Side by side", has_result, key=key, bind="query-params")
    columns = st.columns(2) if is_pair else [st.container()]
    names, defaults = list(planners()), (DEFAULT_PLANNER, DEFAULT_PLANNER if has_result else "no_reuse")
    first_graph = len(graphs) - len(columns) if has_result else 0
    choices = []
    for number, column in enumerate(columns):
        of, planner, order = column.columns(3)
        choices.append(
            _Choice(
                of.selectbox(
                    "Graph",
                    list(graphs),
                    min(first_graph + number, len(graphs) - 1),
                    key=f"memory_graph_{number}" if is_pair else "memory_graph",
                    bind="query-params",
                ),
                planner.selectbox(
                    "Planner",
                    names,
                    names.index(defaults[number]),
                    format_func=lambda name: planners()[name].title,
                    key=f"{key}_planner_{number}",
                    bind="query-params",
                ),
                order.selectbox("Order", list(ORDERS), key=f"memory_order_{number}", bind="query-params"),
            )
        )
    return choices


def _plan_of(opened: Opened, graph: Graph, choice: _Choice) -> MemoryPlan | None:
    """The plan, cached; None if planning failed, which is shown."""
    key = (id(graph), choice)

    def work(report: Report) -> MemoryPlan:
        report(f"{planners()[choice.planner].title}, at most {SECONDS} s", None)
        return plan_memory(sharing_of(graph, choice.order, ordered(graph, choice.order)), choice.planner)

    def make() -> MemoryPlan:
        return run_with_progress(opened.jobs, "memory", "Memory", work, worker(), request=key)

    try:
        return opened.state(MemoryPlans).recent.get(key, make)
    except UserError as error:
        show_error(error)
        return None


def _difference(choices: Sequence[_Choice], plans: Sequence[MemoryPlan]) -> str:
    """What the second of two plans takes beside the first."""
    (first, second), (left, right) = plans, choices
    before, after = first.packed.total, second.packed.total
    names = (left.of, right.of) if left.of != right.of else tuple(planners()[one.planner].title for one in choices)
    sizes = f"{names[0]}: {_size(before)}; {names[1]}: {_size(after)}"
    if before == after or not before:
        return f"{sizes}, as much."
    return f"{sizes}, {100 * abs(after / before - 1):.1f} % {'less' if after < before else 'more'}."


def _pictures(opened: Opened, plans: Sequence[MemoryPlan], graph_key: str) -> None:
    """Draw one picture, or two side by side; a click on a value shows its operator in the graph."""
    seen = seen_in(graph_key).id
    marked = [_values_at(plan, seen) for plan in plans]
    for number, (column, plan) in enumerate(zip(st.columns(len(plans)), plans, strict=True)):
        with column:
            st.caption(markdown_escaped(_sentence(plan)))
            st.plotly_chart(
                arena_chart(plan, marked[number], beside=plans),
                key=f"memory_chart_{opened.number}_{number}",
                on_select="rerun",
                selection_mode="points",
            )
    if any(marked):
        st.caption(markdown_escaped(f"Framed: what '{seen}' reads and computes."))


def _size(size: int) -> str:
    return f"{size} bytes" if size < 1000 else in_units(size, "B")


def _exact_size(size: int) -> str:
    return _size(size) if size < 1000 else f"{_size(size)} ({size:,} bytes)"


def _sentence(plan: MemoryPlan) -> str:
    packed, sharing = plan.packed, plan.sharing
    proven = f"; no smaller arena exists for {plan.certified_of}" if packed.certified else ""
    proven = proven or f"; gap {packed.gap:.1%} to the lower bound"
    unshared_text = f", {packed.lower_bound / sharing.unshared_bound:.3f} of what is in use without shared memory"
    unknown = f"; {len(sharing.unknown):,} values of unknown size are left out" if sharing.unknown else ""
    return (
        f"{planners()[packed.planner].title}, order {sharing.order}: {_exact_size(packed.total)} for"
        f" {counted(len(sharing.packing.blocks), 'block')}{proven}. Most in use at once: {_size(packed.lower_bound)}"
        f"{unshared_text if sharing.unshared_bound else ''}{unknown}."
    )


def _values_at(plan: MemoryPlan, node: str) -> Collection[str]:
    """The names of the values that a node reads or computes."""
    for number, step in enumerate(plan.sharing.lifetimes.steps):
        if step.label == node:
            names = filter(None, (*step.node.operands, *step.node.outputs))
            return {plan.sharing.lifetimes.operand(number, name) for name in names}
    return ()


def _graph(opened: Opened, name: str, graph: Graph, plans: Sequence[MemoryPlan], key: str) -> None:
    """Draw the graph; a click on an operator frames its values in the pictures, and vice versa."""
    shown = shown_graph(opened, name, graph, opened.profile)
    for number, plan in enumerate(plans):
        clicked = clicked_in(f"memory_chart_{opened.number}_{number}")
        if not clicked or st.session_state.get(f"{key}_{number}_revealed") == clicked:
            continue
        st.session_state[f"{key}_{number}_revealed"] = clicked
        value = plan.sharing.lifetimes.values.get(clicked)
        if value is not None and value.producer is not None:
            shown.reveal({"id": plan.sharing.lifetimes.steps[value.producer].outermost})
    graph_view(key, shown, _GRAPH, follow=selection)


def clicked_in(key: str) -> str:
    """The value or operator that was last clicked in the chart of that key, or ""."""
    points = ((st.session_state.get(key) or {}).get("selection") or {}).get("points") or []
    data = points[0].get("customdata") if points else None
    return str(data[0]) if data else ""


# ---- tables ------------------------------------------------------------------------------


def _details(opened: Opened, graph: Graph, plan: MemoryPlan) -> None:
    names = ["Planners", "Values", "Shared memory", "Step by step", "Conflicts"]
    by_planner, values, sharing, steps, conflicts = st.tabs(names)
    with by_planner:
        _planners(opened, graph, plan)
    with values:
        _values(plan)
    with sharing:
        _sharing(plan)
    with steps:
        play_steps(opened.number, plan)
    with conflicts:
        _conflicts(plan)


def _conflicts(plan: MemoryPlan) -> None:
    """Draw the conflict graph, and for a planner with labels the labels at each step, if they are small enough."""
    count = len(plan.sharing.packing.blocks)
    if count > MOST_DRAWN:
        st.caption(
            f"The conflict graph of {counted(count, 'block')} is too large; it is drawn for up to {MOST_DRAWN} blocks."
        )
        return
    st.caption("An edge joins two blocks that are in use at once. Blocks of one colour share memory.")
    st.image(conflict_graph(plan))
    if labels_of(plan.packed):
        st.caption("The block that has each label at each step; the recycle box has the free labels.")
        st.image(recycle_box(plan))


def _planners(opened: Opened, graph: Graph, plan: MemoryPlan) -> None:
    st.markdown(markdown_escaped(planners()[plan.packed.planner].explanation))
    rows = []
    for name, planner in planners().items():
        packed = _plan_of(opened, graph, _Choice("", name, plan.sharing.order))
        if packed is not None:
            rows.append(
                {
                    "planner": planner.title,
                    "arena (bytes)": packed.packed.total,
                    "lower bound (bytes)": packed.packed.lower_bound,
                    "gap (%)": 100 * packed.packed.gap,
                    "no smaller arena exists": "proven" if packed.certified else "",
                    "seconds": packed.packed.seconds,
                }
            )
    text, as_csv = above_table(_WIDTHS)
    text.caption("All planners on the same blocks, in the same order.")
    download_button(as_csv, "CSV", shown_csv(rows), "planners.csv", "planners_csv")
    first = ("planner", "arena (bytes)", "gap (%)", "no smaller arena exists", "seconds")
    show_table(rows, {"gap (%)": 2, "seconds": 3}, _localized("arena (bytes)", "lower bound (bytes)"), first=first)


def _values(plan: MemoryPlan) -> None:
    rows: list[dict[str, Any]] = [
        {
            "value": value.name,
            "kind": str(value.kind),
            "bytes": value.bytes,
            "offset": value.offset,
            "born": value.born,
            "dies": value.dies,
            "block": value.block,
            "in the memory of": value.alias_of or "",
            "how": "" if value.how is None else str(value.how),
        }
        for value in plan.values
    ]
    text, as_csv, as_json, as_problem = above_table([6, 2, 2, 3])
    text.caption("Steps are half-open: a value is in use from the step it is born to before the step it dies.")
    download_button(as_csv, "CSV", shown_csv(rows), "memory_values.csv", "memory_values_csv")
    download_button(as_json, "JSON", json.dumps(plan.to_json(), indent=1), "memory_plan.json", "memory_plan_json")
    problem = write_packing(plan.sharing.packing, plan.packed.offsets)
    download_button(as_problem, "MiniMalloc CSV", problem, "minimalloc.csv", "memory_minimalloc")
    first = ("value", "bytes", "offset", "born", "dies")
    table(rows, _localized("bytes", "offset", "born", "dies", "block"), first=first)


def _localized(*names: str) -> dict[str, Any]:
    """Configurations of columns of numbers with separators of thousands."""
    return {name: st.column_config.NumberColumn(format="localized") for name in names}


def _sharing(plan: MemoryPlan) -> None:
    rows = [
        {
            "step": decision.step,
            "how": str(decision.how),
            "value": decision.value,
            "shared": "yes" if decision.accepted else "no",
            "why": decision.sentence,
        }
        for decision in plan.sharing.decisions
    ]
    if not rows:
        st.caption("No operator of this graph could share memory.")
        return
    accepted = sum(row["shared"] == "yes" for row in rows)
    text, as_csv = above_table(_WIDTHS)
    text.caption(f"{accepted:,} of {len(rows):,} possible ways to share memory are used; each with its reason.")
    download_button(as_csv, "CSV", shown_csv(rows), "shared_memory.csv", "memory_sharing_csv")
    table(rows, {"why": st.column_config.TextColumn(width=760)})
