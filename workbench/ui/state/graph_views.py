"""Cached views: of the model as loaded, of its history, of two graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from workbench.fusion.opened_groups import OpenedGroups
from workbench.ir import Graph
from workbench.layout.infer import infer_layouts
from workbench.layout.profile import Profile
from workbench.pipeline import running as pipeline
from workbench.rewrite import History, Pass
from workbench.run.measurement.measured import MeasuredVariant
from workbench.ui.state.kernels import kernel_sections
from workbench.ui.state.lru import Recent
from workbench.ui.state.session import Opened, Spec
from workbench.ui.state.shown_view import Seen, Shown
from workbench.ui.state.snapshots import Snapshot, graphs_of_steps, moment_of
from workbench.view.inspection import inspect_element
from workbench.view.report import inspected, report_html
from workbench.view.scene import Costs, View
from workbench.view.timeline import timeline_of, timeline_of_pair
from workbench.view.why_not import PassSaid, not_run, said_of

_MOMENTS = 3  # of a history in lockstep that are cached


def shown_history(opened: Opened, history: History, spec: Spec) -> Shown:
    """A view of the history of the pipeline, at every moment of it."""
    target = aimed(history, spec.profile)

    def make() -> Shown:
        timeline = timeline_of(history, target)
        costs = measured_costs(opened) if opened.measured_spec == spec else ({}, {})
        view = View(timeline, opened.title, target.layout, opened.toggled, costs=costs)
        return Shown(view, partial(_inspected, opened, history, view, target, passes_of(spec)), opened.overlay)

    shown = kept(opened, ("history", spec, id(history), id(opened.measured)), make)
    shown.tell_verdicts(history)
    return shown


def report_of(opened: Opened, history: History, spec: Spec) -> str:
    """The history as one HTML file, with the costs that Run measured."""
    target = aimed(history, spec.profile)
    costs = measured_costs(opened) if opened.measured_spec == spec else ({}, {})
    view = View(timeline_of(history, target), opened.title, target.layout, costs=costs)
    return report_html(view, inspected(history, view, target, passes_of(spec)))


def shown_side(opened: Opened, history: History, title: str, spec: Spec, lockstep: str) -> Shown:
    """A view of a history that steps together with the other views of that name."""
    target = aimed(history, spec.profile)
    view = View(timeline_of(history, target), title, target.layout)
    moments: Recent[Snapshot] = Recent(_MOMENTS)

    def inspect_moment(seen: Seen) -> Mapping[str, Any]:
        step, rewrites = _place(history, seen)
        moment = moments.get((step, rewrites), lambda: Snapshot(history.before(step), history.at(step, rewrites)))
        return _inspect(history, step, rewrites, seen.id, moment.groups[1], moment.layouts[1], view, target)

    return Shown(view, inspect_moment, opened.overlay, lockstep)


def shown_graph(opened: Opened, name: str, graph: Graph, target: Profile) -> Shown:
    """A view of one graph of the model as it was loaded, with no further steps."""

    def make() -> Shown:
        history = pipeline.start(graph, target)
        view = View(timeline_of(history, target), name, target.layout)
        groups = OpenedGroups(graph)
        layouts = infer_layouts(groups.opened)
        return Shown(view, lambda seen: _inspect(history, 0, 0, seen.id, groups, layouts, view, target), opened.overlay)

    return kept(opened, ("graph", name, id(graph), target), make)


def shown_pair(
    opened: Opened,
    key: tuple[Any, ...],
    moment: Snapshot,
    titles: tuple[str, str],
    sentence: str,
    target: Profile,
) -> Shown:
    """A view of two graphs as if the first became the second; nodes of equal names are the same node."""

    def make() -> Shown:
        timeline = timeline_of_pair(moment.before, moment.after, titles, sentence, target)
        view = View(timeline, f"{titles[0]} and {titles[1]}", target.layout)
        histories = [pipeline.start(graph, target) for graph in (moment.before, moment.after)]

        def inspect_side(seen: Seen) -> Mapping[str, Any]:
            after = seen.moment not in ((0, None), (0, 0), (1, 0))
            first, second = moment.groups
            side = int(after and (seen.id in second.opened or seen.id not in first.opened))
            return _inspect(histories[side], 0, 0, seen.id, moment.groups[side], moment.layouts[side], view, target)

        return Shown(view, inspect_side, opened.overlay)

    return kept(opened, ("pair", *key), make)


def kept(opened: Opened, key: tuple[Any, ...], make: Callable[[], Shown]) -> Shown:
    """The view of that key, from `make` if it is not cached; the most recent ones are cached."""

    def placed() -> Shown:
        with st.spinner("Placing the graph"):
            return make()

    result: Shown = opened.views.get(key, placed)
    return result


def aimed(history: History, target: Profile) -> Profile:
    """The target as modified by the options of the step `layout_convert_layout`, if there is one."""
    by_class: Any = next((s.pass_ for s in reversed(history.steps) if s.pass_name == "layout_convert_layout"), None)
    return target if by_class is None else by_class.aim(target)


def passes_of(spec: Spec) -> list[Pass]:
    """The passes of the pipeline as they ran; they say again why they did not act on a node."""
    return [planned.pass_ for planned in pipeline.without(spec.pipeline, spec.left_out)]


def measured_costs(opened: Opened) -> tuple[Mapping[str, Costs], Mapping[str, Costs]]:
    """The costs of operators that the page Measure measured, in the first variant and in the last."""
    variants = [*opened.measured.ran.values()] if opened.measured else []
    if not variants:
        return {}, {}
    return _costs(variants[0]), _costs(variants[-1])


def _costs(variant: MeasuredVariant) -> dict[str, Costs]:
    live = {point.name: point.live_bytes / 1e6 for point in variant.memory.timeline}
    return {op.name: Costs(round(op.time_ms * 1e3, 1), live.get(op.name)) for op in variant.operators}


def _inspected(
    opened: Opened, history: History, view: View, target: Profile, passes: list[Pass], seen: Seen
) -> Mapping[str, Any]:
    step, rewrites = _place(history, seen)
    moment = moment_of(opened, history, step, rewrites)
    graphs = graphs_of_steps(opened, history)
    message = said_of(history, graphs, passes, target, [seen.id]).get(seen.id, [])
    groups, layouts = moment.groups[1], moment.layouts[1]
    others = not_run(history, passes)
    content = _inspect(history, step, rewrites, seen.id, groups, layouts, view, target, others, message)
    sections = content["sections"]
    place = next((i for i, section in enumerate(sections, 1) if section["title"] in ("Cost", "Inside")), 0)
    return {**content, "sections": [*sections[:place], *kernel_sections(opened.measured, seen.id), *sections[place:]]}


def _place(history: History, seen: Seen) -> tuple[int, int]:
    """The step that is on screen, and how many of its rewrites are done; at first the last."""
    step, done = seen.moment or (len(history) - 1, None)
    step = min(step, len(history) - 1)
    total = len(history[step].rewrites)
    return step, total if done is None else min(done, total)


def _inspect(
    history: History,
    step: int,
    rewrites: int,
    id_: str,
    groups: OpenedGroups,
    layouts: Mapping[str, str],
    view: View,
    target: Profile,
    passes: Sequence[Pass] = (),
    messages: Sequence[PassSaid] = (),
) -> Mapping[str, Any]:
    members = view.members(id_)
    return inspect_element(
        history,
        step,
        rewrites,
        id_,
        passes,
        groups=groups,
        layouts=layouts,
        target=target,
        members=members,
        said=messages,
    )
