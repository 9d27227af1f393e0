"""Cached views of the model as loaded, of its history, and of two graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import streamlit as st

from workbench.errors import counted
from workbench.interfaces.ui.state.gains import compared_pair
from workbench.interfaces.ui.state.kernels import kernel_sections
from workbench.interfaces.ui.state.lru import Recent
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.session import MeasuredHere, Opened, Spec
from workbench.interfaces.ui.state.shown_view import AskProviders, Seen, Shown
from workbench.interfaces.ui.state.snapshots import Snapshot, graphs_of_steps, moment_of, moment_of_whole
from workbench.ir import Graph
from workbench.pipeline import running as pipeline
from workbench.planning.fusion.opened_groups import OpenedGroups
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.profile import Profile, machine_target
from workbench.presentation.explanations.gain import AFTER, BEFORE
from workbench.presentation.view.inspection import inspect_element
from workbench.presentation.view.report import inspected, report_html
from workbench.presentation.view.scene import Costs, CostsOfSides, View
from workbench.presentation.view.timeline import timeline_of, timeline_of_pair
from workbench.presentation.view.why_not import PassReason, not_run, reasons_of
from workbench.rewrite import History, Pass
from workbench.run.measurement.measurement_result import MeasuredVariant
from workbench.run.placement import onnxruntime_placement

_MOMENTS = 3  # cached moments of a history on Lockstep
_MAX_VIEWS = 4


def shown_history(opened: Opened, history: History, spec: Spec) -> Shown:
    """A view of the pipeline's history with all its moments."""
    target = effective_profile(history, spec.profile)

    def make() -> Shown:
        timeline = timeline_of(history, target)
        view = View(timeline, opened.title, target.layout, opened.toggled)
        inspect_moment = partial(_inspected, opened, history, view, target, passes_of(spec))
        return Shown(
            view, inspect_moment, opened.overlay, ask_providers=_placer(opened, history.initial, history.graph)
        )

    shown = cached_view(opened, ("history", spec, id(history)), make)
    _show_measured(shown, opened.records.get(spec))
    shown.send_verdicts(history)
    return shown


def report_of(opened: Opened, history: History, spec: Spec) -> str:
    """The history as the text of an HTML file, with the costs that the page Measure measured."""
    target = effective_profile(history, spec.profile)
    costs, backend = costs_of(opened.records.get(spec))
    view = View(timeline_of(history, target), opened.title, target.layout, costs=costs, measured_in=backend)
    return report_html(view, inspected(history, view, target, passes_of(spec)))


def shown_side(opened: Opened, history: History, title: str, spec: Spec, lockstep: str) -> Shown:
    """A view of a history on Lockstep. lockstep: views with the same name step together."""
    target = effective_profile(history, spec.profile)
    view = View(timeline_of(history, target), title, target.layout)
    moments: Recent[Snapshot] = Recent(_MOMENTS)

    def inspect_moment(seen: Seen) -> Mapping[str, Any]:
        step, rewrites = _moment_of(history, seen)
        moment = moments.get((step, rewrites), lambda: Snapshot(history.before(step), history.at(step, rewrites)))
        return _inspect(history, step, rewrites, seen.id, moment.groups[1], moment.layouts[1], view, target)

    return Shown(view, inspect_moment, opened.overlay, lockstep, _placer(opened, history.initial, history.graph))


def shown_graph(opened: Opened, name: str, graph: Graph, target: Profile) -> Shown:
    """A view of one graph without steps. name: of the graph, as its title."""

    def make() -> Shown:
        history = pipeline.start(graph, target)
        timeline = timeline_of(history, target)
        title = pipeline.LOADED if graph is opened.graph else name
        timeline.step_spans[0] = replace(timeline.step_spans[0], title=title)
        view = View(timeline, name, target.layout)
        groups = OpenedGroups(graph)
        layouts = infer_layouts(groups.opened)
        inspect_graph = lambda seen: _inspect(history, 0, 0, seen.id, groups, layouts, view, target)  # noqa: E731
        return Shown(view, inspect_graph, opened.overlay, ask_providers=_placer(opened, graph, graph))

    return cached_view(opened, ("graph", name, id(graph), target), make)


def shown_pair(
    opened: Opened,
    key: tuple[Any, ...],
    moment: Snapshot,
    titles: tuple[str, str],
    sentence: str,
    target: Profile,
) -> Shown:
    """A view of two graphs as if the first were rewritten to the second; nodes correspond by name.

    key: the key of the cache. sentence: describes the differences.
    """

    def make() -> Shown:
        timeline = timeline_of_pair(moment.before, moment.after, titles, sentence, target)
        title = f"{titles[0]} and {titles[1]}"
        view = View(timeline, title, target.layout)
        histories = [pipeline.start(graph, target) for graph in (moment.before, moment.after)]

        def inspect_side(seen: Seen) -> Mapping[str, Any]:
            after = seen.moment not in ((0, None), (0, 0), (1, 0))
            first, second = moment.groups
            side = int(after and (seen.id in second.opened or seen.id not in first.opened))
            groups, layouts = moment.groups[side], moment.layouts[side]
            return _inspect(histories[side], 0, 0, seen.id, groups, layouts, view, target, loaded=moment.before)

        return Shown(view, inspect_side, opened.overlay, ask_providers=_placer(opened, moment.before, moment.after))

    return cached_view(opened, ("pair", *key), make)


def shown_whole(opened: Opened, history: History, spec: Spec) -> Shown:
    """A view of the original and the result of a history."""
    key = "whole", id(history), spec
    moment = moment_of_whole(opened, history)
    sentence = f"{counted(sum(len(step.rewrites) for step in history.steps), 'rewrite')} of all passes"
    titles, profile = ("original", "result"), effective_profile(history, spec.profile)
    shown = shown_pair(opened, key, moment, titles, sentence, profile)
    _show_measured(shown, opened.records.get(spec))
    return shown


@dataclass
class GraphViews(ModelState):
    """The most recent views."""

    recent: Recent[Shown] = field(default_factory=lambda: Recent(_MAX_VIEWS))

    def reload(self) -> None:
        for shown in self.recent:
            shown.forget_requests()


def cached_view(opened: Opened, key: tuple[Any, ...], make: Callable[[], Shown]) -> Shown:
    """The view of that key, made by `make` unless it is among the most recent ones, which are cached."""

    def make_with_spinner() -> Shown:
        with st.spinner("Placing the graph"):
            return make()

    return opened.state(GraphViews).recent.get(key, make_with_spinner)


def effective_profile(history: History, target: Profile) -> Profile:
    """The target profile, as changed by the options of the step `layout_convert_layout` if there is one."""
    by_class: Any = next((s.pass_ for s in reversed(history.steps) if s.pass_name == "layout_convert_layout"), None)
    return target if by_class is None else by_class.aim(target)


def passes_of(spec: Spec) -> list[Pass]:
    """The passes of the pipeline that ran; the inspector asks them why they did not match a node."""
    return [planned.pass_ for planned in pipeline.without(spec.pipeline, spec.excluded)]


def _placer(opened: Opened, first: Graph, last: Graph) -> AskProviders:
    """Asks ONNX Runtime for the providers of both graphs, on the GPU if this machine has one; equal graphs once."""

    def place() -> tuple[Mapping[str, str], Mapping[str, str]]:
        worker, device = opened.verifier.worker, "cuda:0" if machine_target() == "cuda" else "cpu"
        before = onnxruntime_placement(first, worker, device)
        return before, before if first is last else onnxruntime_placement(last, worker, device)

    return place


def _show_measured(shown: Shown, measured: MeasuredHere | None) -> None:
    """Show the costs of a measurement, unless the view shows them already."""
    if shown.measured is not measured:
        shown.show_costs(*costs_of(measured))
        shown.measured = measured


def costs_of(measured: MeasuredHere | None) -> tuple[CostsOfSides, str]:
    """The costs of operators on both sides, and the backend that ran them; none of a busy machine.

    The sides are the pair of the card; without that pair, the last variant and the one that it is compared with.
    """
    if measured is None or not measured.measurement.ran:
        return ({}, {}), ""
    ran = measured.measurement.ran
    pair = compared_pair(measured.measurement)
    if pair is not None:
        before, after = pair.ran[BEFORE], pair.ran[AFTER]
    else:
        after = [*ran.values()][-1]
        before = ran[after.ratio_to]
    if after.ratio.ratio_busy:
        return ({}, {}), ""
    return (_costs(before), _costs(after)), after.backend


def _costs(variant: MeasuredVariant) -> dict[str, Costs]:
    live = {point.name: point.live_bytes / 1e6 for point in variant.memory.timeline}
    return {op.name: Costs(round(op.time_ms * 1e3, 1), live.get(op.name)) for op in variant.operators}


def _inspected(
    opened: Opened, history: History, view: View, target: Profile, passes: list[Pass], seen: Seen
) -> Mapping[str, Any]:
    step, rewrites = _moment_of(history, seen)
    moment = moment_of(opened, history, step, rewrites)
    graphs = graphs_of_steps(opened, history)
    reasons = reasons_of(history, graphs, passes, target, [seen.id]).get(seen.id, [])
    groups, layouts = moment.groups[1], moment.layouts[1]
    others = not_run(history, passes)
    content = _inspect(history, step, rewrites, seen.id, groups, layouts, view, target, others, reasons)
    sections = content["sections"]
    index = next((i for i, section in enumerate(sections, 1) if section["title"] in ("Cost", "Inside")), 0)
    measured = None if opened.measured is None else opened.measured.measurement
    return {**content, "sections": [*sections[:index], *kernel_sections(measured, seen.id), *sections[index:]]}


def _moment_of(history: History, seen: Seen) -> tuple[int, int]:
    """The step on screen and the number of its rewrites that are done; before the browser reports: the last."""
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
    reasons: Sequence[PassReason] = (),
    loaded: Graph | None = None,
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
        reasons=reasons,
        loaded=loaded,
    )
