"""All nodes and edges of a history with their lifetimes: the union that the picture places once.

Time counts over the whole history: moment t is the graph after t rewrites of all
steps. A node is identified by its name; each of its forms is a version. Since
everything that ever exists has one position, nothing that stays moves, whatever
moment is shown.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from workbench.ir import Graph, Node
from workbench.layout.infer import TENSOR, infer_layouts, infer_near
from workbench.layout.profile import Profile
from workbench.rewrite import AppliedRewrite, History, Step
from workbench.view.diff import diff
from workbench.view.ids import INPUT_ID, OUTPUT_ID
from workbench.view.node_style import (
    NO_KIND,
    OWN,
    Look,
    box_kind_of,
    constant_look,
    is_of_weights,
    look_of,
    shape_words,
    value_words,
)

FOREVER = 1_000_000_000  # a moment that never comes: a version that dies then exists at the end


@dataclass(frozen=True)
class Version:
    """A node as it was from moment `born` until moment `dies`."""

    born: int
    dies: int
    node: Node
    look: Look

    def lives_at(self, moment: int) -> bool:
        return self.born <= moment < self.dies


@dataclass(frozen=True)
class EdgeInterval:
    """The time for which a value flows along an edge, the edge's label meanwhile, and its kind of layout."""

    born: int
    dies: int
    words: str
    kind: int


@dataclass(frozen=True)
class Edge:
    """An edge between boxes, given by names of nodes, or "in:" and "out:" with the name of a graph input or output."""

    source: str
    target: str
    value: str


@dataclass(frozen=True)
class StepSpan:
    """The time of a step: `first` is the moment before it, and it lasts `rewrites` moments."""

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
    gone: tuple[Node, ...]
    come: tuple[Node, ...]


@dataclass
class Timeline:
    """The union of a history. The order of nodes is topological at the first moment; new ones follow the nodes
    after which they were inserted."""

    versions: dict[str, list[Version]] = field(default_factory=dict)
    edges: dict[Edge, list[EdgeInterval]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    chapters: list[StepSpan] = field(default_factory=list)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    looks_of_values: dict[str, Look] = field(default_factory=dict)  # by "in:..." and "out:..."
    shapes: dict[str, str] = field(default_factory=dict)  # of the first result, by node
    constant_looks: dict[str, Look] = field(default_factory=dict)  # of constants that a node reads, by value
    is_pair: bool = False  # two graphs and their difference, not a history

    @property
    def last(self) -> int:
        """The last moment."""
        return len(self.events)

    @cached_property
    def short_lived(self) -> frozenset[str]:
        """Nodes that exist only within a step, which are not placed."""
        ends = [0, *(chapter.first + chapter.rewrites for chapter in self.chapters)]
        return frozenset(
            name
            for name, versions in self.versions.items()
            if not any(version.lives_at(end) for version in versions for end in ends)
        )

    def changes(self, name: str) -> bool:
        """Whether it ever appears, disappears or changes."""
        versions = self.versions[name]
        return len(versions) > 1 or versions[0].born > 0 or versions[0].dies < FOREVER


def timeline_of(history: History, target: Profile) -> Timeline:
    """The union of all moments of `history`."""
    graph = history.initial.copy()
    record = _Record(history.initial, target, infer_layouts(graph))
    for number, step in enumerate(history.steps):
        first = record.now
        for rewrite in step.rewrites:
            _apply(record, graph, rewrite, number)
        if step.rewrites:
            record.settle(graph, infer_layouts(graph))
        record.chapters.append(
            StepSpan(
                step.title,
                step.pass_name,
                first,
                len(step.rewrites),
                *_verdict(step),
                f"{step.before.text('nodes')} to {step.after.text('nodes')} nodes, "
                f"{step.before.text('transposes')} to {step.after.text('transposes')} transposes",
            )
        )
    return record.timeline(graph)


def _verdict(step: Step) -> tuple[str, bool | None]:
    return ("", None) if step.verdict is None else (step.verdict.sentence, step.verdict.ok)


def take_verdicts(timeline: Timeline, history: History) -> bool:
    """Take over the verdicts that the steps have by now; returns whether any is new."""
    before = list(timeline.chapters)
    for index, step in enumerate(history.steps):
        words, ok = _verdict(step)
        timeline.chapters[index] = replace(before[index], verdict=words, ok=ok)
    return timeline.chapters != before


def timeline_of_pair(first: Graph, second: Graph, titles: tuple[str, str], sentence: str, target: Profile) -> Timeline:
    """Two graphs as a history of one change; their nodes correspond by name."""
    record = _Record(first, target, infer_layouts(first))
    changes = diff(first, second)
    gone = tuple(node for node in first.nodes if node.name in changes.removed | changes.changed)
    come = [node for node in second.nodes if node.name in changes.added | changes.changed]
    record.chapters.append(StepSpan(titles[0], "", 0, 0))
    record.event(Event(sentence, "", (), gone, tuple(come)))
    everywhere = [node.name for node in (*first.nodes, *second.nodes)]
    layouts = infer_layouts(second)
    record.change(second, gone, come, everywhere, layouts, 1)
    record.settle(second, layouts)
    record.chapters.append(StepSpan(titles[1], "", 0, 1, facts=f"{len(first):,} and {len(second):,} nodes: {sentence}"))
    timeline = record.timeline(second)
    timeline.is_pair = True
    return timeline


def _apply(record: _Record, graph: Graph, rewrite: AppliedRewrite, step: int) -> None:
    gone = rewrite.inverse.insert
    graph.apply(rewrite.edit)
    come = tuple(graph.node(name) for name in rewrite.inverse.remove)
    record.event(Event(rewrite.sentence, rewrite.case, rewrite.nodes, gone, come))
    values = {v for node in (*gone, *come) for v in node.outputs if v}
    touched = {node.name for node in (*gone, *come)} | {user.name for v in values for user in graph.users(v)}
    record.change(graph, gone, come, touched, None, step)


@dataclass
class _Open:
    """A version that has not ended; its look may be set at the end of the step."""

    born: int
    node: Node
    step: int
    fused: str
    look: Look | None = None


class _Record:
    """Records what appears and disappears, in order of time."""

    def __init__(self, graph: Graph, target: Profile, layouts: Mapping[str, str]) -> None:
        self.now = 0
        self.chapters: list[StepSpan] = []
        self._first = graph
        self._target = target
        self._layouts = dict(layouts)
        self._versions: dict[str, list[Version]] = {}
        self._open: dict[str, _Open] = {}
        self._edges: dict[Edge, list[EdgeInterval]] = {}
        self._open_edges: dict[str, dict[Edge, tuple[int, str, int]]] = {}
        self._events: list[Event] = []
        self._shapes: dict[str, str] = {}
        self._constants: dict[str, Look] = {}
        self._fresh: set[str] = set()  # nodes whose look is set at the end of the step
        for node in graph.nodes:
            self._begin(graph, node, 0, "")
        self._connect(graph, [node.name for node in graph.nodes])
        self._connect_outputs(graph)
        self.settle(graph, layouts)

    def event(self, event: Event) -> None:
        self.now += 1
        self._events.append(event)

    def change(
        self,
        graph: Graph,
        gone: Iterable[Node],
        come: Iterable[Node],
        touched: Iterable[str],
        layouts: Mapping[str, str] | None,
        step: int,
    ) -> None:
        """Record a change of `graph`: removed nodes, inserted nodes, and changed edges to the `touched` nodes."""
        gone, come = tuple(gone), tuple(come)
        for node in gone:
            self._end(node.name)
        self._layouts.update(infer_near(graph, come, self._layouts) if layouts is None else layouts)
        fused = _made_of(gone, come)
        for node in come:
            self._begin(graph, node, step, fused if len(come) == 1 else "")
        self._connect(graph, touched)
        self._connect_outputs(graph)

    def settle(self, graph: Graph, layouts: Mapping[str, str]) -> None:
        """Record the end of a step: what it produced and still exists gets its look from the layouts."""
        self._layouts = dict(layouts)
        for name in self._fresh & self._open.keys():
            opened = self._open[name]
            opened.look = look_of(graph, opened.node, layouts, self._target, opened.step, opened.fused)
        self._fresh.clear()

    def timeline(self, graph: Graph) -> Timeline:
        ends = (graph, self._first)  # two files may have different ones
        inputs = tuple(dict.fromkeys((*self._first.inputs, *graph.inputs)))
        outputs = tuple(dict.fromkeys((*self._first.outputs, *graph.outputs)))
        values = {f"{INPUT_ID}{v}": self._look_of_value(g, v, "input") for g in ends for v in g.inputs}
        values |= {f"{OUTPUT_ID}{v}": self._look_of_value(g, v, "output") for g in ends for v in g.outputs}
        for name in list(self._open):
            self._end(name, FOREVER)
        for target in list(self._open_edges):
            self._disconnect(target, list(self._open_edges[target]), FOREVER)
        return Timeline(
            versions=self._versions,
            edges=self._edges,
            events=self._events,
            chapters=self.chapters,
            inputs=inputs,
            outputs=outputs,
            looks_of_values=values,
            shapes=self._shapes,
            constant_looks=self._constants,
        )

    def _look_of_value(self, graph: Graph, value: str, what: str) -> Look:
        words, kind = self._words(graph, value)
        if what == "input" and is_of_weights(self._layouts.get(value, TENSOR)):
            kind = OWN  # the input arrives so, whatever the hardware's layout
        return Look(what, value, words, kind, NO_KIND, what, "")

    def _begin(self, graph: Graph, node: Node, step: int, fused: str) -> None:
        opened = self._open[node.name] = _Open(self.now, node, step, fused)
        if self.now:  # at first all are settled at once
            opened.look = look_of(graph, node, self._layouts, self._target, step, fused)
        self._fresh.add(node.name)
        if node.name not in self._versions:
            self._versions[node.name] = []
            self._shapes[node.name] = shape_words(graph, node.outputs[0]) if node.outputs else ""

        for value in node.operands:
            if graph.constant(value) is not None and value not in self._constants:
                self._constants[value] = constant_look(graph, value, self._layouts, self._target)

    def _end(self, name: str, moment: int | None = None) -> None:
        opened = self._open.pop(name)
        assert opened.look is not None
        dies = self.now if moment is None else moment
        self._versions[name].append(Version(opened.born, dies, opened.node, opened.look))

    def _connect(self, graph: Graph, targets: Iterable[str]) -> None:
        """Record the edges into `targets` as they are in `graph` now."""
        for name in targets:
            node = graph.find(name)
            reads = () if node is None else node.operands
            self._reconnect(graph, name, reads)

    def _connect_outputs(self, graph: Graph) -> None:
        for value in dict.fromkeys((*self._first.outputs, *graph.outputs)):
            self._reconnect(graph, f"{OUTPUT_ID}{value}", (value,) if value in graph.outputs else ())

    def _reconnect(self, graph: Graph, target: str, reads: Iterable[str]) -> None:
        now = {edge: self._words(graph, edge.value) for value in reads for edge in _edges(graph, value, target)}
        before = self._open_edges.setdefault(target, {})
        ended = [edge for edge, (_, words, kind) in before.items() if now.get(edge) != (words, kind)]
        self._disconnect(target, ended, self.now)
        for edge, (words, kind) in now.items():
            before.setdefault(edge, (self.now, words, kind))

    def _disconnect(self, target: str, ended: Iterable[Edge], moment: int) -> None:
        for edge in ended:
            born, words, kind = self._open_edges[target].pop(edge)
            if born < moment:
                self._edges.setdefault(edge, []).append(EdgeInterval(born, moment, words, kind))

    def _words(self, graph: Graph, value: str) -> tuple[str, int]:
        return value_words(graph, value, self._layouts), box_kind_of(self._layouts.get(value, TENSOR), self._target)


def _edges(graph: Graph, value: str, target: str) -> Iterable[Edge]:
    """The edge on which `value` flows to `target`; none for a constant."""
    maker = graph.producer(value)
    if maker is not None:
        return (Edge(maker.name, target, value),)
    return (Edge(f"{INPUT_ID}{value}", target, value),) if value in graph.inputs else ()


def _made_of(gone: tuple[Node, ...], come: tuple[Node, ...]) -> str:
    """ "made of Conv and BatchNormalization", if several nodes became fewer."""
    if len(gone) < 2 or not come or len(come) >= len(gone):
        return ""
    ops = [node.op.removeprefix("workbench.") for node in gone]
    counted = [f"{len(list(same))} {op}" if ops.count(op) > 1 else op for op, same in itertools.groupby(sorted(ops))]
    return f"made of {', '.join(counted[:-1])} and {counted[-1]}"
