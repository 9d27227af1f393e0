"""What a history changed, in kinds: rewrites of the same rule that insert the same operators count as one kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from workbench.analysis.inference.bound_shapes import bytes_of_value
from workbench.analysis.metrics.nodes import count_nodes
from workbench.errors import counted
from workbench.ir import Edit, Graph, Node
from workbench.pipeline.repeat import Repeat
from workbench.planning.layout.infer import TENSOR, infer_layouts
from workbench.rewrite import Exactness, History, Step
from workbench.rewrite.core.rule import AppliedRewrite
from workbench.rewrite.external.difference import difference

SHORT = {
    Exactness.BIT_EXACT: "exact",
    Exactness.ROUNDING: "rounding",
    Exactness.STEP: "rounding, or a quantization step",
    Exactness.NARROWED: "narrower type",
    Exactness.QUANTIZED: "8 bits or fewer",
    Exactness.FAST_MATH: "ordinary numbers only",
}  # from the most exact to the least
_LEVELS = list(SHORT)
_NOTHING = "nothing"
_MAX_OPERATORS = 5  # in a text; a picture has all


class ChangePlace(NamedTuple):
    """Where a change is: the step's index, and the rewrite's within it. sentence: of the rewrite.

    removed, inserted: the names of nodes.
    """

    step: int
    rewrite: int
    sentence: str
    removed: tuple[str, ...]
    inserted: tuple[str, ...]


class Operators(NamedTuple):
    """Neighbours of the same operator. layout: of their results, such as "NHWC", or "Tensor"."""

    op: str
    number: int
    layout: str


@dataclass(frozen=True)
class ChangeKind:
    """Rewrites of one rule that insert the same operators.

    pass_name, rule: the pass that proposed them, and its rule; "" for a procedure. case: of a layout strategy.
    places:     all of them, in the order in which they were made.
    before, after: the operators, in topological order, where they are the most frequent ones; within a body, its own.
    nodes:      by how many the graph changed, bodies included; negative: fewer.
    bytes:      by how much the bytes changed that nodes write in a run, as far as sizes are known.
    exactness:  of the least exact one; None if nothing is known of it, as of what lies between two files.
    ms:         by how much the latency changed, if it was measured.
    """

    title: str
    pass_name: str
    rule: str
    case: str
    places: tuple[ChangePlace, ...]
    before: tuple[Operators, ...]
    after: tuple[Operators, ...]
    nodes: int
    bytes: int
    exactness: Exactness | None
    ms: float | None = None

    @property
    def name(self) -> str:
        """As commands name it: "fold_scale: scale or shift" """
        return ": ".join(filter(None, (self.pass_name, self.rule or self.case))) or self.title

    @property
    def short_title(self) -> str:
        """The title without the operators that tell it from others, for where these stand beside it."""
        return self.title.partition(f" ({self.operators})")[0]

    @property
    def operators(self) -> str:
        """ "Conv, Add -> Conv" """
        if not self.before and not self.after:
            return "constants and types"
        return f"{_text(self.before)} -> {_text(self.after)}"


@dataclass(frozen=True)
class Digest:
    """The kinds of change of a history: those with most nodes fewer or more, or most places, first.

    name: of the model. nodes: of the graph before and after, bodies included. layouts: of the results of the nodes
    before.
    """

    name: str
    nodes: tuple[int, int]
    layouts: frozenset[str]
    kinds: tuple[ChangeKind, ...]

    def kind_at(self, step: int, rewrite: int) -> ChangeKind | None:
        """The kind of the rewrite of that number in the step of that index; None if there is no such rewrite."""
        return next((kind for kind in self.kinds if any(place[:2] == (step, rewrite) for place in kind.places)), None)

    @property
    def changes(self) -> int:
        return sum(len(kind.places) for kind in self.kinds)

    @property
    def sentence(self) -> str:
        """ "open_nsfw: 805 nodes to 156, by 575 changes of 12 kinds" """
        before, after = self.nodes
        if not self.kinds:
            return f"{self.name}: {counted(before, 'node')}, nothing changed"
        kinds = f"{counted(self.changes, 'change')} of {counted(len(self.kinds), 'kind')}"
        return f"{self.name}: {counted(before, 'node')} to {after:,}, by {kinds}"

    def with_times(self, ms: Sequence[float]) -> Digest:
        """The same with the change of the latency by each kind, in milliseconds."""
        return replace(self, kinds=tuple(replace(kind, ms=one) for kind, one in zip(self.kinds, ms, strict=True)))

    def by_time(self) -> Digest:
        """The kinds that took most time away first."""
        return replace(self, kinds=tuple(sorted(self.kinds, key=lambda kind: kind.ms or 0.0)))


def change_digest(history: History) -> Digest:
    """The kinds of change of all steps."""
    changes = (
        _Change(
            _key(step, rewrite),
            _place(index, number, rewrite.sentence, rewrite.edit),
            rewrite.edit,
            rewrite.exactness,
            _title(step, rewrite),
        )
        for index, step in enumerate(history.steps)
        for number, rewrite in enumerate(step.rewrites)
    )
    return _digest(history.initial, changes)


def digest_of_difference(before: Graph, after: Graph) -> Digest:
    """The kinds of change that lead from one graph to another of the same inputs and outputs, matched by names.

    Places are in one step. Raises ToolError if inputs or outputs differ.
    """
    edits = (change.edit for change in difference(before, after, None).changes)
    changes = (
        _Change(_Key(("", ""), "", True), _place(0, number, "", edit), edit, None, "")
        for number, edit in enumerate(edits)
    )
    return _digest(before, changes)


def _place(step: int, number: int, sentence: str, edit: Edit) -> ChangePlace:
    return ChangePlace(step, number, sentence, tuple(edit.remove), tuple(node.name for node in edit.insert))


class _Change(NamedTuple):
    """One change, before it is applied. title: of its kind; "": its operators."""

    key: _Key
    place: ChangePlace
    edit: Edit
    exactness: Exactness | None
    title: str


def _digest(initial: Graph, changes: Iterable[_Change]) -> Digest:
    graph = initial.copy()
    groups: dict[tuple[object, ...], _Group] = {}
    for key, place, edit, exactness, title in changes:
        removed = sorted((graph.node(name) for name in edit.remove), key=lambda node: graph.position(node.name))
        taken, added = _changed(removed, edit.insert)
        picture = tuple(node.op for node in taken)
        after = tuple(sorted(node.op for node in added))
        group = groups.setdefault((key, after, tuple(sorted(picture)) if key.by_operators else ()), _Group(key, title))
        is_new = picture not in group.pictures
        before = _operators(graph, taken) if is_new else ()
        written = _bytes(graph, removed)
        graph.apply(edit)
        inserted = [graph.node(node.name) for node in edit.insert]
        if is_new:
            group.pictures[picture] = before, _operators(graph, added)
        group.counts[picture] += 1
        group.nodes += _with_bodies(added) - _with_bodies(taken)
        group.bytes += _bytes(graph, inserted) - written
        group.exactness.append(exactness)
        group.places.append(place)
    kinds = sorted(
        (group.kind() for group in groups.values()), key=lambda kind: -max(abs(kind.nodes), len(kind.places))
    )
    name = initial.name if initial.source is None else Path(initial.source).name
    layouts = frozenset(one.layout for one in _operators(initial, initial.nodes))
    return Digest(name, (count_nodes(initial), count_nodes(graph)), layouts, tuple(_with_distinct_titles(kinds)))


class _Key(NamedTuple):
    """What changes of a kind have in common, besides the operators after them.

    proposed_by: names of the pass and of the rule. by_operators: also the operators before.
    """

    proposed_by: tuple[str, str]
    case: str
    by_operators: bool


def _key(step: Step, rewrite: AppliedRewrite) -> _Key:
    return _Key(_proposed_by(step, rewrite), rewrite.case, rewrite.rule is None)


@dataclass
class _Group:
    """The changes of one kind, while they are collected. pictures: operators before and after, by those before."""

    key: _Key
    title: str
    places: list[ChangePlace] = field(default_factory=list)
    exactness: list[Exactness | None] = field(default_factory=list)
    pictures: dict[tuple[str, ...], tuple[tuple[Operators, ...], tuple[Operators, ...]]] = field(default_factory=dict)
    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    nodes: int = 0
    bytes: int = 0

    def kind(self) -> ChangeKind:
        pass_name, rule = self.key.proposed_by
        known = [one for one in self.exactness if one is not None]
        before, after = self.pictures[self.counts.most_common(1)[0][0]]
        found = ChangeKind(
            self.title,
            pass_name,
            rule,
            self.key.case,
            tuple(self.places),
            before,
            after,
            self.nodes,
            self.bytes,
            max(known, key=_LEVELS.index) if known else None,
        )
        return found if self.title else replace(found, title=found.operators)


def _proposed_by(step: Step, rewrite: AppliedRewrite) -> tuple[str, str]:
    """The pass and the rule, "" for a procedure; within the rounds of a fixpoint, the pass that runs there."""
    rule = "" if rewrite.rule is None else rewrite.rule.name
    inner = rewrite.id.rule.removesuffix(rule).strip(".")
    return inner or step.pass_name, rule


def _title(step: Step, rewrite: AppliedRewrite) -> str:
    """ "Fold constants: constant operands" """
    pass_name, rule = _proposed_by(step, rewrite)
    title = step.title
    if pass_name != step.pass_name:
        passes = step.pass_.passes if isinstance(step.pass_, Repeat) else ()
        title = next((pass_.title for pass_ in passes if pass_.name == pass_name), pass_name)
    return ": ".join(filter(None, (title, rule or rewrite.case)))


def _changed(removed: Sequence[Node], inserted: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The nodes that go and those that come; of a node that stays with another body, those of the body."""
    by_name = {node.name: node for node in inserted}
    kept = [(node, by_name[node.name]) for node in removed if node.bodies and node.name in by_name]
    kept = [(old, new) for old, new in kept if old.op == new.op and old.operands == new.operands]
    names = {old.name for old, _ in kept}
    taken = [node for node in removed if node.name not in names]
    added = [node for node in inserted if node.name not in names]
    for old, new in kept:
        for key, body in old.bodies.items():
            inside = _changed(_others(body, new.bodies[key]), _others(new.bodies[key], body))
            taken, added = taken + inside[0], added + inside[1]
    return taken, added


def _others(body: Graph, other: Graph) -> list[Node]:
    """The nodes of a body that the other one has not, or with other attributes or constants."""

    def is_kept(node: Node) -> bool:
        same = other.find(node.name)
        if same is None or same.op != node.op or same.attributes != node.attributes:
            return False
        ends = {*node.operands} ^ {*same.operands}
        return not any(value in body.constants or value in other.constants for value in ends)

    return [node for node in body.nodes if not is_kept(node)]


def _with_bodies(nodes: Iterable[Node]) -> int:
    return sum(1 + sum(map(count_nodes, node.bodies.values())) for node in nodes)


def _operators(graph: Graph, nodes: Iterable[Node]) -> tuple[Operators, ...]:
    layouts = infer_layouts(graph)
    shown = [(node.op, layouts.get(node.outputs[0], TENSOR) if node.outputs else TENSOR) for node in nodes]
    return tuple(Operators(op, len(list(same)), layout) for (op, layout), same in groupby(shown))


def _bytes(graph: Graph, nodes: Iterable[Node]) -> int:
    """What the nodes write in a run, as far as sizes are known."""
    return sum(bytes_of_value(graph, value) or 0 for node in nodes for value in node.outputs if value)


def _with_distinct_titles(kinds: Iterable[ChangeKind]) -> list[ChangeKind]:
    """The kinds; where several have one title, their operators are added to it, and a number if these are the same."""
    kinds = list(kinds)
    shared = Counter(kind.title for kind in kinds)
    used: Counter[str] = Counter()
    distinct = []
    for kind in kinds:
        title = f"{kind.title} ({kind.operators})" if shared[kind.title] > 1 else kind.title
        used[title] += 1
        distinct.append(replace(kind, title=title if used[title] == 1 else f"{title} #{used[title]}"))
    return distinct


def _text(operators: Sequence[Operators]) -> str:
    """ "2 Transpose, Add" """
    numbers = [(op, sum(one.number for one in same)) for op, same in groupby(operators, lambda one: one.op)]
    shown = [op if number == 1 else f"{number} {op}" for op, number in numbers[:_MAX_OPERATORS]]
    more = len(numbers) - len(shown)
    return ", ".join(shown + ([f"{more} more"] if more else [])) or _NOTHING
