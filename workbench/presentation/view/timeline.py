"""All nodes and edges of a history with their lifetimes: a union, which is placed once.

Moments are counted over the whole history: moment t is the graph after t rewrites
of all steps. A node is identified by its name; each of its forms is a version.
Every node has one position for all moments, so that nodes do not move from one
moment to the next. A call of a group of operators is recorded as its operators,
with the name of their group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from workbench.analysis.inference.bound_shapes import infer_sizes
from workbench.analysis.metrics.flops import flops_by_node
from workbench.ir import Graph, Node
from workbench.planning.fusion.opened_groups import OpenedChange, OpenedGroups
from workbench.planning.layout.infer import infer_layouts, infer_near
from workbench.planning.layout.profile import Profile
from workbench.presentation.view.border_styles import FOREVER, BorderStyles, StyleSpan
from workbench.presentation.view.diff import diff
from workbench.presentation.view.ids import INPUT_ID, OUTPUT_ID
from workbench.presentation.view.node_style import (
    NodeStyle,
    constant_style,
    fusion_label,
    result_layouts,
    shape_text,
    style_of,
)
from workbench.presentation.view.source_code import modules_of, modules_of_pair
from workbench.presentation.view.value_types import (
    EdgeInterval,
    LabelSpan,
    TypeWidths,
    ValueLabel,
    value_label,
    widths_of,
)
from workbench.rewrite import AppliedRewrite, History, Step


@dataclass(frozen=True)
class Version:
    """A form of a node, from moment `born` until before moment `dies`.

    shapes: of its results, such as "1x3x224x224", "" if unknown.
    layouts: of its results, then of its weights if it has any.

    """

    born: int
    dies: int
    node: Node
    style: NodeStyle
    shapes: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()

    def lives_at(self, moment: int) -> bool:
        return self.born <= moment < self.dies


@dataclass(frozen=True)
class Edge:
    """An edge between boxes, given by names of nodes, or "in:" and "out:" with the name of a graph input or output."""

    source: str
    target: str
    value: str


@dataclass(frozen=True)
class StepSpan:
    """The moments of a step: `first` is the moment before it, and it has `rewrites` moments."""

    title: str
    pass_name: str
    first: int
    rewrites: int
    verdict: str = ""
    ok: bool | None = None
    facts: str = ""


@dataclass(frozen=True)
class Event:
    """A rewrite, or the difference of two graphs: its sentence, its nodes, and the nodes removed and inserted."""

    sentence: str
    case: str
    nodes: tuple[str, ...]
    removed: tuple[Node, ...]
    inserted: tuple[Node, ...]


@dataclass
class Timeline:
    """The union of a history's graphs.

    The nodes of the first moment are in topological order; others follow the nodes after which they were inserted."""

    versions: dict[str, list[Version]] = field(default_factory=dict)
    edges: dict[Edge, list[EdgeInterval]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    step_spans: list[StepSpan] = field(default_factory=list)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    styles_of_values: dict[str, list[StyleSpan]] = field(default_factory=dict)  # by "in:..." and "out:..."
    shapes: dict[str, str] = field(default_factory=dict)  # of each node's first result, by node name
    constant_styles: dict[str, NodeStyle] = field(default_factory=dict)  # by value, of each constant that a node reads
    groups: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # by fused group: its (born, dies) intervals
    group_of: dict[str, str] = field(default_factory=dict)  # by operator: its last fused group
    modules: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by node: its torch modules (`modules_of`)
    widths: TypeWidths = field(default_factory=TypeWidths)  # the types of its values
    is_pair: bool = False  # two graphs and their difference, not a history
    flops: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})  # by node, in the first graph and in the last

    @property
    def last(self) -> int:
        """The last moment."""
        return len(self.events)

    @cached_property
    def short_lived(self) -> frozenset[str]:
        """Nodes that exist only within a step; they are not placed."""
        ends = [0, *(span.first + span.rewrites for span in self.step_spans)]
        return frozenset(
            name
            for name, versions in self.versions.items()
            if not any(version.lives_at(end) for version in versions for end in ends)
        )

    @cached_property
    def readers(self) -> Mapping[str, set[str]]:
        """By node or graph input, what ever reads its results."""
        readers: dict[str, set[str]] = {name: set() for name in self.versions}
        for edge in self.edges:
            readers.setdefault(edge.source, set()).add(edge.target)
        return readers

    def changes(self, name: str) -> bool:
        """Whether the node ever appears, disappears or changes."""
        versions = self.versions[name]
        return len(versions) > 1 or versions[0].born > 0 or versions[0].dies < FOREVER


def timeline_of(history: History, target: Profile) -> Timeline:
    """The union of all moments of `history`."""
    groups = OpenedGroups(history.initial.copy())
    record = _Record(groups, target, infer_layouts(groups.opened))
    for number, step in enumerate(history.steps):
        first = record.now
        for rewrite in step.rewrites:
            _apply(record, groups, rewrite, number)
        if step.rewrites:
            record.settle(groups.opened, infer_layouts(groups.opened))
        record.step_spans.append(
            StepSpan(
                step.title,
                step.pass_name,
                first,
                len(step.rewrites),
                *_verdict(step),
                f"nodes {step.before.text('nodes')} to {step.after.text('nodes')}, "
                f"transposes {step.before.text('transposes')} to {step.after.text('transposes')}",
            )
        )
    record.find_sizes(groups.opened)
    return replace(record.timeline(groups.opened), modules=modules_of(history))


def _verdict(step: Step) -> tuple[str, bool | None]:
    return ("", None) if step.verdict is None else (step.verdict.sentence, step.verdict.ok)


def update_verdicts(timeline: Timeline, history: History) -> bool:
    """Copy the verdicts of the history's steps into the timeline; returns whether one changed."""
    previous = list(timeline.step_spans)
    for index, step in enumerate(history.steps):
        sentence, ok = _verdict(step)
        timeline.step_spans[index] = replace(previous[index], verdict=sentence, ok=ok)
    return timeline.step_spans != previous


def timeline_of_pair(first: Graph, second: Graph, titles: tuple[str, str], sentence: str, target: Profile) -> Timeline:
    """Two graphs as the timeline of one change; nodes of equal name correspond. titles: one of each graph."""
    before, after = OpenedGroups(first), OpenedGroups(second.copy())
    if second.dims:
        infer_sizes(after.opened)  # that rewrites left unknown, for what boxes and edges say
    record = _Record(before, target, infer_layouts(before.opened))
    changes = diff(before.opened, after.opened)
    common = {node.name for node in before.opened.nodes} - changes.removed
    changed = changes.changed | {name for name in common if before.group_of.get(name) != after.group_of.get(name)}
    removed = tuple(node for node in before.opened.nodes if node.name in changes.removed | changed)
    inserted = tuple(node for node in after.opened.nodes if node.name in changes.added | changed)
    record.step_spans.append(StepSpan(titles[0], "", 0, 0))
    record.event(Event(sentence, "", (), removed, inserted))
    all_names = [node.name for node in (*before.opened.nodes, *after.opened.nodes)]
    layouts = infer_layouts(after.opened)
    record.change(after, OpenedChange(removed, inserted), all_names, layouts, 1)
    record.settle(after.opened, layouts)
    record.step_spans.append(
        StepSpan(titles[1], "", 0, 1, facts=f"{len(first):,} and {len(second):,} nodes: {sentence}")
    )
    return replace(record.timeline(after.opened), is_pair=True, modules=modules_of_pair(first, second))


def _apply(record: _Record, groups: OpenedGroups, rewrite: AppliedRewrite, step: int) -> None:
    members = [name for node in rewrite.nodes for name in groups.members(node)]
    inverse, change = groups.apply(rewrite.edit)
    matched = tuple(dict.fromkeys(name for node in members for name in groups.members(node)))
    inserted = tuple(groups.graph.node(name) for name in inverse.remove)
    record.event(Event(rewrite.sentence, rewrite.case, matched, inverse.insert, inserted))
    values = {v for node in (*change.removed, *change.inserted) for v in node.outputs if v}
    users = {user.name for v in values for user in groups.opened.users(v)}
    touched = {node.name for node in (*change.removed, *change.inserted)} | users
    record.change(groups, change, touched, None, step)


@dataclass
class _Open:
    """A version that still exists; its style and layouts are set again at the end of the step."""

    born: int
    node: Node
    step: int
    fused: str
    style: NodeStyle | None = None
    shapes: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()


class _Record:
    """Records, moment by moment, which nodes, edges and groups appear and disappear."""

    def __init__(self, groups: OpenedGroups, target: Profile, layouts: Mapping[str, str]) -> None:
        graph = groups.opened
        self.now = 0
        self.step_spans: list[StepSpan] = []
        self._first = graph.copy()
        self._flops = _known_flops(graph)
        self._target = target
        self._layouts = dict(layouts)
        self._versions: dict[str, list[Version]] = {}
        self._open: dict[str, _Open] = {}
        self._edges: dict[Edge, list[LabelSpan]] = {}
        self._open_edges: dict[str, dict[Edge, tuple[int, ValueLabel]]] = {}
        self._events: list[Event] = []
        self._shapes: dict[str, str] = {}
        self._constants: dict[str, NodeStyle] = {}
        self._border = BorderStyles(target)
        self._fresh: set[str] = set()  # nodes whose style is set again at the end of the step
        self._groups: dict[str, list[tuple[int, int]]] = {}
        self._group_since: dict[str, int] = {}
        self._group_of: dict[str, str] = {}  # by operator: its last group
        self._grouped: Mapping[str, str] = {}  # by operator: its group now
        self._group_operators(groups)
        for node in graph.nodes:
            self._begin(graph, node, 0, "")
        self._connect(graph, [node.name for node in graph.nodes])
        self._connect_outputs(graph)
        self._border.note(graph, self._layouts, self.now)
        self.settle(graph, layouts)

    def event(self, event: Event) -> None:
        self.now += 1
        self._events.append(event)

    def change(
        self,
        groups: OpenedGroups,
        change: OpenedChange,
        touched: Iterable[str],
        layouts: Mapping[str, str] | None,
        step: int,
    ) -> None:
        """Record a change of the open graph: nodes removed and inserted, and changed edges to the `touched` nodes."""
        graph = groups.opened
        for node in change.removed:
            self._end(node.name)
        self._group_operators(groups)
        self._layouts.update(infer_near(graph, change.inserted, self._layouts) if layouts is None else layouts)
        fused = fusion_label(change.removed, change.inserted)
        for node in change.inserted:
            self._begin(graph, node, step, fused if len(change.inserted) == 1 else "")
        self._connect(graph, touched)
        self._connect_outputs(graph)
        self._border.note(graph, self._layouts, self.now)

    def _group_operators(self, groups: OpenedGroups) -> None:
        """Record which fused groups exist now, and their operators."""
        self._grouped = groups.group_of
        now = set(groups.group_of.values())
        for name in self._group_since.keys() - now:
            self._groups.setdefault(name, []).append((self._group_since.pop(name), self.now))
        self._group_since |= dict.fromkeys(now - self._group_since.keys(), self.now)
        self._group_of |= groups.group_of

    def settle(self, graph: Graph, layouts: Mapping[str, str]) -> None:
        """Record the end of a step: nodes that it inserted and that still exist get a style from the whole graph."""
        self._layouts = dict(layouts)
        for name in self._fresh & self._open.keys():
            self._set_style(graph, self._open[name])
        self._fresh.clear()

    def find_sizes(self, graph: Graph) -> None:
        """Infer the sizes in the last graph that rewrites left unknown, for what its boxes and edges say."""
        if not graph.dims or not infer_sizes(graph):
            return
        for opened in self._open.values():
            if any("?" in shape for shape in opened.shapes):
                self._set_style(graph, opened)
        for edges in self._open_edges.values():
            for edge, (born, label) in edges.items():
                if "?" in label.text:
                    edges[edge] = (born, value_label(graph, edge.value, self._layouts, self._target))

    def timeline(self, graph: Graph) -> Timeline:
        # the two files of a pair may have different inputs
        inputs = tuple(dict.fromkeys((*self._first.inputs, *graph.inputs)))
        outputs = tuple(dict.fromkeys((*self._first.outputs, *graph.outputs)))
        for name, since in self._group_since.items():
            self._groups.setdefault(name, []).append((since, FOREVER))
        for name in list(self._open):
            self._end(name, FOREVER)
        for target in list(self._open_edges):
            self._disconnect(target, list(self._open_edges[target]), FOREVER)
        widths = widths_of({label for spans in self._edges.values() for _, _, label in spans})
        return Timeline(
            versions=self._versions,
            edges={edge: widths.intervals(spans) for edge, spans in self._edges.items()},
            events=self._events,
            step_spans=self.step_spans,
            inputs=inputs,
            outputs=outputs,
            styles_of_values=self._border.styles(widths),
            shapes=self._shapes,
            constant_styles=self._constants,
            groups=self._groups,
            group_of=self._group_of,
            widths=widths,
            flops=(self._flops, _known_flops(graph)),
        )

    def _begin(self, graph: Graph, node: Node, step: int, fused: str) -> None:
        opened = self._open[node.name] = _Open(self.now, node, step, fused)
        if self.now:  # at moment 0, settle() sets all styles
            self._set_style(graph, opened)
        self._fresh.add(node.name)
        if node.name not in self._versions:
            self._versions[node.name] = []
            self._shapes[node.name] = shape_text(graph, node.outputs[0]) if node.outputs else ""

        for value in node.operands:
            if graph.constant(value) is not None and value not in self._constants:
                self._constants[value] = constant_style(graph, value, self._layouts, self._target)

    def _set_style(self, graph: Graph, opened: _Open) -> None:
        node = opened.node
        group = self._grouped.get(node.name, "")
        opened.style = style_of(graph, node, self._layouts, self._target, opened.step, opened.fused, group)
        opened.shapes = tuple(shape_text(graph, value) for value in node.outputs if value)
        opened.layouts = result_layouts(graph, node, self._layouts)

    def _end(self, name: str, moment: int | None = None) -> None:
        opened = self._open.pop(name)
        assert opened.style is not None
        dies = self.now if moment is None else moment
        version = Version(opened.born, dies, opened.node, opened.style, opened.shapes, opened.layouts)
        self._versions[name].append(version)

    def _connect(self, graph: Graph, targets: Iterable[str]) -> None:
        """Record the edges into `targets` as they are in `graph` now."""
        for name in targets:
            node = graph.find(name)
            reads = () if node is None else node.operands
            self._reconnect(graph, name, reads)

    def _connect_outputs(self, graph: Graph) -> None:
        for value in dict.fromkeys((*self._first.outputs, *graph.outputs)):
            self._reconnect(graph, f"{OUTPUT_ID}{value}", (value,) if graph.is_output(value) else ())

    def _reconnect(self, graph: Graph, target: str, reads: Iterable[str]) -> None:
        now = {
            edge: value_label(graph, value, self._layouts, self._target)
            for value in reads
            for edge in _edges(graph, value, target)
        }
        before = self._open_edges.setdefault(target, {})
        self._disconnect(target, [edge for edge, (_, label) in before.items() if now.get(edge) != label], self.now)
        for edge, label in now.items():
            before.setdefault(edge, (self.now, label))

    def _disconnect(self, target: str, ended: Iterable[Edge], moment: int) -> None:
        for edge in ended:
            born, label = self._open_edges[target].pop(edge)
            if born < moment:
                self._edges.setdefault(edge, []).append((born, moment, label))


def _known_flops(graph: Graph) -> dict[str, int]:
    return {name: flops.known for name, flops in flops_by_node(graph).items() if flops.known}


def _edges(graph: Graph, value: str, target: str) -> Iterable[Edge]:
    """The edge on which `value` flows to `target`, as a tuple of one; empty for a constant."""
    producer = graph.producer(value)
    if producer is not None:
        return (Edge(producer.name, target, value),)
    return (Edge(f"{INPUT_ID}{value}", target, value),) if graph.is_input(value) else ()
