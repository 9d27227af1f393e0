"""Where the time went: what each kind of operator, of change, or each pass, adds to the latency or takes from it.

A profile costs time itself, and its operators' times seldom sum to the latency. Operator times are therefore scaled so
that they sum to the median latency. All changes then sum to the difference of the two medians.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from workbench.ir import Graph
from workbench.presentation.explanations.digest import Digest
from workbench.rewrite import History
from workbench.run.measurement.measurement_result import MeasuredVariant

NAMES_OF_BACKENDS = {"onnxruntime": "ONNX Runtime"}  # names of backends in sentences
UNCHANGED = "operators that no pass changed"
_BLOCKED = "_nchwc"  # ONNX Runtime names a convolution in blocked channels after its result
_OTHERS = "other"


@dataclass(frozen=True)
class TimeChange:
    """The time of one kind of operator, or of what one pass rewrote, in both graphs.

    operators_before, operators_after: their names in the two profiles; `node_of` finds their nodes.
    """

    label: str
    before_ms: float = 0.0
    after_ms: float = 0.0
    operators_before: tuple[str, ...] = ()
    operators_after: tuple[str, ...] = ()

    @property
    def ms(self) -> float:
        """Negative if it became faster."""
        return self.after_ms - self.before_ms

    def __str__(self) -> str:
        """ "BatchNormalization -0.12 ms" """
        return f"{self.label} {self.ms:+,.3f} ms"


@dataclass(frozen=True)
class TimeChanges:
    """All changes between the median latencies of two variants, the largest first; they sum to the difference."""

    before_ms: float
    after_ms: float
    changes: tuple[TimeChange, ...]

    def largest(self, count: int) -> list[TimeChange]:
        """The `count` largest changes, with the sum of the rest as a further one if there are more."""
        head, rest = self.changes[:count], self.changes[count:]
        if len(rest) < 2:
            return [*head, *rest]
        return [*head, _sum(f"{len(rest):,} {_OTHERS}", rest)]


def changes_by_operator(before: MeasuredVariant, after: MeasuredVariant) -> TimeChanges:
    """The changes by the operator that ran, as the backend names it: "Conv", "ReorderInput"."""
    return _grouped(before, after, [op.op for op in before.operators], [op.op for op in after.operators])


def times_by_operator(variant: MeasuredVariant) -> TimeChanges:
    """The time of each kind of operator of one variant, as changes from nothing: they sum to its median latency."""
    nothing = replace(variant, operators=())
    changes = _grouped(nothing, variant, [], [op.op for op in variant.operators]).changes
    return TimeChanges(0.0, variant.latency.median_ms, changes)


def changes_by_pass(before: MeasuredVariant, after: MeasuredVariant, history: History) -> TimeChanges:
    """The changes by the pass that removed an operator of the original, or inserted one of the result.

    What a backend runs that is no node of the graph (ONNX Runtime's reorders) is a group of its own.
    """
    return _by_rewrite(before, after, history, lambda step, rewrite: history[step].title)


def changes_by_kind(
    before: MeasuredVariant, after: MeasuredVariant, history: History, digest: Digest
) -> tuple[TimeChanges, Digest]:
    """The same by the kind of change, under its title; and the digest with the time of each kind."""
    titles = {(place.step, place.rewrite): kind.title for kind in digest.kinds for place in kind.places}
    found = _by_rewrite(before, after, history, lambda step, rewrite: titles[step, rewrite])
    ms = {change.label: change.ms for change in found.changes}
    return found, digest.with_times([ms.get(kind.title, 0.0) for kind in digest.kinds])


def difference_with_times(
    before: MeasuredVariant, after: MeasuredVariant, graphs: tuple[Graph, Graph], digest: Digest
) -> Digest:
    """The digest of the difference of two graphs, with the time of each kind; what is in both is in none.

    graphs: those that were measured. digest: of `digest_of_difference`.
    """
    places = [(str(index), place) for index, kind in enumerate(digest.kinds) for place in kind.places]
    removed = {name: kind for kind, place in places for name in place.removed}
    inserted = {name: kind for kind, place in places for name in place.inserted}
    befores, afters = (
        [kinds.get(node_of(op.name, graph) or "", UNCHANGED) for op in ran.operators]
        for ran, graph, kinds in zip((before, after), graphs, (removed, inserted), strict=True)
    )
    ms = {change.label: change.ms for change in _grouped(before, after, befores, afters).changes}
    return digest.with_times([ms.get(str(index), 0.0) for index in range(len(digest.kinds))])


def _by_rewrite(
    before: MeasuredVariant, after: MeasuredVariant, history: History, label_of: Callable[[int, int], str]
) -> TimeChanges:
    """The changes by the label of the rewrite, given by its step's index and its own."""
    first_removed: dict[str, str] = {}
    last_inserted: dict[str, str] = {}
    for index, step in enumerate(history.steps):
        for number, rewrite in enumerate(step.rewrites):
            title = label_of(index, number)
            for name in rewrite.edit.remove:
                first_removed.setdefault(name, title)
            last_inserted |= dict.fromkeys((node.name for node in rewrite.edit.insert), title)

    def label(name: str | None, rewritten_by: Mapping[str, str], backend: str) -> str:
        if name is None:
            return f"operators that {NAMES_OF_BACKENDS.get(backend, backend)} adds"
        return rewritten_by.get(name, UNCHANGED)

    befores = [label(node_of(op.name, history.initial), first_removed, before.backend) for op in before.operators]
    afters = [label(node_of(op.name, history.graph), last_inserted, after.backend) for op in after.operators]
    return _grouped(before, after, befores, afters)


def node_of(operator: str, graph: Graph) -> str | None:
    """The graph node that the operator of that name in a profile stands for; None if a backend added it."""
    if operator in graph:
        return operator
    producer = graph.producer(operator.removesuffix(_BLOCKED))
    return None if producer is None else producer.name


def main_operator(change: TimeChange, before: Graph, after: Graph) -> str | None:
    """The operator of a change in the graphs: its own, or else the most frequent one of the nodes behind it.

    A backend names fused operators in its own way. None if it added all operators of the change.
    """
    if any(node.op_type == change.label for graph in (before, after) for node in graph.nodes):
        return change.label
    runs = [(name, before) for name in change.operators_before] + [(name, after) for name in change.operators_after]
    nodes = [(graph, node_of(name, graph)) for name, graph in runs]
    counts = Counter(graph.node(node).op_type for graph, node in nodes if node is not None)
    return counts.most_common(1)[0][0] if counts else None


def _grouped(
    before: MeasuredVariant, after: MeasuredVariant, befores: Iterable[str], afters: Iterable[str]
) -> TimeChanges:
    """befores, afters: the group of each operator."""
    parts: dict[str, list[TimeChange]] = defaultdict(list)
    scale = _scale(before)
    for label, op in zip(befores, before.operators, strict=True):
        parts[label].append(TimeChange(label, before_ms=scale * op.time_ms, operators_before=(op.name,)))
    scale = _scale(after)
    for label, op in zip(afters, after.operators, strict=True):
        parts[label].append(TimeChange(label, after_ms=scale * op.time_ms, operators_after=(op.name,)))
    changes = sorted((_sum(label, group) for label, group in parts.items()), key=lambda change: -abs(change.ms))
    return TimeChanges(before.latency.median_ms, after.latency.median_ms, tuple(changes))


def _scale(variant: MeasuredVariant) -> float:
    """The median latency over the sum of the operators' times."""
    return variant.latency.median_ms / (sum(op.time_ms for op in variant.operators) or 1.0)


def _sum(label: str, changes: Iterable[TimeChange]) -> TimeChange:
    group = list(changes)
    return TimeChange(
        label,
        sum(change.before_ms for change in group),
        sum(change.after_ms for change in group),
        tuple(name for change in group for name in change.operators_before),
        tuple(name for change in group for name in change.operators_after),
    )
