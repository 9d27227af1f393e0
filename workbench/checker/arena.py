"""Checks a memory plan: lifetimes follow from the graph's edges, and no two values in use overlap in the arena."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from workbench.checker.order import check_bytes, check_runs
from workbench.checker.outcome import DoesNotHold, Unreadable, in_quotes
from workbench.checker.output import Output
from workbench.checker.records import Fields, as_text
from workbench.checker.sharing import MemorySharing
from workbench.checker.types import is_tensor

MAX_PAIRS = 2_000_000  # the most pairs of values in use at the same step


@dataclass(frozen=True)
class PlacedValue:
    """A value of the plan at bytes `offset` to `end` of the arena, in use in steps `born` to `dies`, both half-open.

    inside: whether a body or function computes it, whose edges are not followed. known: whether its size is inferred.
    """

    name: str
    offset: int
    end: int
    born: int
    dies: int
    inside: bool
    known: bool

    def meets(self, other: PlacedValue) -> bool:
        """Whether both are in use at one moment at one byte."""
        at_once = self.born < other.dies and other.born < self.dies
        return at_once and self.offset < other.end and other.offset < self.end

    def __str__(self) -> str:
        return f"{in_quotes(self.name)} at bytes {self.offset:,} to {self.end:,}"


@dataclass(frozen=True)
class ArenaChecked:
    """total: bytes of the arena. lower_bound: the most bytes in use at one step, shared bytes counted once. values:
    those of the main graph in the plan; computed: all of the main graph. inside: values of bodies and functions.
    shared: pairs of values with common bytes. unchecked: pairs and sizes that only the engine states. unplaced: values
    outside the plan that are not pieces of inputs or constants."""

    total: int
    lower_bound: int
    values: int
    computed: int
    inside: int
    shared: int
    unchecked: int
    unplaced: int


def checked_plan(record: Fields, output: Output) -> ArenaChecked:
    """Checks the steps, lifetimes and offsets of a plan and the size of its arena. Raises DoesNotHold."""
    steps = [None if step is None else as_text(step, f"{record.where}, step") for step in record.items("steps")]
    keys = [key for key in steps if key is not None]
    nodes = output.model.graph.nodes
    if len(keys) != len(nodes) or set(keys) != set(nodes):
        raise DoesNotHold(f"the steps of {record.where} do not list each node of the graph once")
    check_runs(keys, nodes, output.producers, record.where)
    bodies = output.calls_functions or any(True for call in nodes.values() for _ in call.bodies)
    values = _placed_values(record, output, bodies)
    if None in steps and not bodies:
        raise DoesNotHold(f"{record.where} has steps of bodies, and the graph has none")
    edges = _Edges(output, {key: number for number, key in enumerate(steps) if key is not None}, len(steps), values)
    total = record.whole("total")
    for value in values.values():
        if value.offset < 0 or value.end > total:
            raise DoesNotHold(f"{value} is not in the arena of {total:,} bytes")
        if not value.inside:
            edges.check_lifetime(value)
    shared = unchecked = 0
    for one, other in _overlapping_pairs(values.values()):
        shared += 1
        if one.inside or other.inside:
            continue
        if edges.is_undecided(one, other):
            unchecked += 1
        elif not edges.may_share(one, other):
            raise DoesNotHold(
                f"{one} and {other} are in use at the same step, and no view, Concat or elementwise operator lets them"
                " share bytes"
            )
    outer = [value for value in values.values() if not value.inside]
    unchecked += sum(not value.known for value in outer)
    unplaced = sum(not edges.needs_no_place(name) for name in output.producers.keys() - values.keys())
    inside = len(values) - len(outer)
    return ArenaChecked(
        total, edges.lower_bound(outer), len(outer), len(output.producers), inside, shared, unchecked, unplaced
    )


def _placed_values(record: Fields, output: Output, bodies: bool) -> dict[str, PlacedValue]:
    results: dict[str, PlacedValue] = {}
    for fields in record.records("values", "value"):
        name, offset, size = fields.text("name"), fields.whole("offset"), fields.whole("bytes")
        inside = name not in output.producers
        if inside and (not bodies or "/" not in name):
            raise DoesNotHold(f"{record.where} places {in_quotes(name)}, which nothing computes")
        inferred_size = None if inside else output.inferred.bytes(name)
        check_bytes(size, inferred_size, f"{fields.where}, bytes of {in_quotes(name)}")
        if name in results:
            raise DoesNotHold(f"{record.where} has {in_quotes(name)} twice")
        born, dies = fields.whole("born"), fields.whole("dies")
        results[name] = PlacedValue(name, offset, offset + size, born, dies, inside, inferred_size is not None)
    return results


class _Edges:
    """What the edges of the graph say of lifetimes and shared memory."""

    def __init__(
        self, output: Output, step_of: Mapping[str, int], steps: int, values: Mapping[str, PlacedValue]
    ) -> None:
        self.output = output
        self.sharing = MemorySharing(output)
        self.step_of = step_of
        self.steps = steps
        self.values = values
        self.last_read: dict[str, int] = {}
        for key, call in output.model.graph.nodes.items():
            for value in call.reads:
                self.last_read[value] = max(self.last_read.get(value, 0), step_of[key])

    def lifetime(self, name: str) -> tuple[int, int]:
        """The steps in which a value is in use, half-open."""
        born = self.step_of[self.output.producers[name].key]
        if name in self.output.model.graph.outputs:
            return born, self.steps
        return born, max(born, self.last_read.get(name, born)) + 1

    def check_lifetime(self, value: PlacedValue) -> None:
        born, dies = self.lifetime(value.name)
        if value.born > born or value.dies < dies:
            raise DoesNotHold(
                f"{in_quotes(value.name)} is in use from step {born:,} to before {dies:,}, and the plan says"
                f" {value.born:,} to {value.dies:,}"
            )

    def needs_no_place(self, name: str) -> bool:
        """Whether the value is a piece of an input or a constant, or not a tensor."""
        while name in self.output.producers:
            call = self.output.producers[name]
            if name not in dict(self.sharing.pieces(call)):
                return not is_tensor(self.output.inferred.types.get(name)) and not self.output.inferred.why
            name = call.inputs[0]
        return True

    @cached_property
    def holders(self) -> Mapping[str, list[str]]:
        """For each value, the values whose bytes in the plan contain its bytes, as the same elements."""
        results: dict[str, list[str]] = {}
        for call in self.output.model.graph.nodes.values():
            for part, begin in self.sharing.pieces(call):
                self._add_holder(results, part, call.inputs[0], begin)
                if self.sharing.is_view(call):
                    self._add_holder(results, call.inputs[0], part, 0)
            for part, begin in self.sharing.parts(call):
                self._add_holder(results, part, call.key, begin)
        return results

    def _add_holder(self, results: dict[str, list[str]], part: str, whole: str, begin: int) -> None:
        one, other = self.values.get(part), self.values.get(whole)
        if one is not None and other is not None and one.offset == other.offset + begin and one.end <= other.end:
            results.setdefault(part, []).append(whole)

    def may_share(self, one: PlacedValue, other: PlacedValue) -> bool:
        """Whether both are the same elements where they overlap, or one overwrites the other in the last node that
        reads it."""
        if self._overwrites(other, one) or self._overwrites(one, other):
            return True
        return not self._all_holders(one.name).isdisjoint(self._all_holders(other.name))

    def is_undecided(self, one: PlacedValue, other: PlacedValue) -> bool:
        """Whether their operator may let them share, and a shape that decides it is unknown."""
        if self.may_share(one, other):
            return False
        pairs = ((one, other), (other, one))
        return any(a.name in self.sharing.overwritable(self.output.producers[b.name])[1] for a, b in pairs) or not (
            one.known and other.known
        )

    def _overwrites(self, later: PlacedValue, earlier: PlacedValue) -> bool:
        call = self.output.producers[later.name]
        step = self.step_of[call.key]
        if later.born != step or earlier.dies != step + 1 or later.offset != earlier.offset or later.name != call.key:
            return False
        if earlier.name in self.output.model.graph.outputs:  # which is in use to the end
            return False
        return earlier.name in self.sharing.overwritable(call)[0]

    def _all_holders(self, name: str) -> set[str]:
        result, waiting = {name}, [name]
        while waiting:
            fresh = set(self.holders.get(waiting.pop(), ())) - result
            result |= fresh
            waiting += fresh
        return result

    def lower_bound(self, values: Iterable[PlacedValue]) -> int:
        """The most bytes in use at one step, by the graph's own lifetimes. Bytes that values share count once; values
        of unknown size are left out."""
        known = [value for value in values if value.known]
        groups = _Groups(known)
        for one, other in _overlapping_pairs(known):
            groups.join(one.name, other.name)
        members: dict[str, list[PlacedValue]] = {}
        for value in known:
            members.setdefault(groups.root(value.name), []).append(value)
        change: dict[int, int] = {}
        for together in members.values():
            before = 0
            for moment, in_use in _covered_bytes(together, self.lifetime):
                change[moment] = change.get(moment, 0) + in_use - before
                before = in_use
        peak = in_use = 0
        for moment in sorted(change):
            in_use += change[moment]
            peak = max(peak, in_use)
        return peak


def _covered_bytes(
    together: Sequence[PlacedValue], lifetime: Callable[[str], tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Each step at which one of some overlapping values starts or ends, with the bytes that they cover from then on."""
    starting: dict[int, list[PlacedValue]] = {}
    ending: dict[int, list[PlacedValue]] = {}
    for value in together:
        born, dies = lifetime(value.name)
        starting.setdefault(born, []).append(value)
        ending.setdefault(dies, []).append(value)
    living: dict[str, PlacedValue] = {}
    for step in sorted({*starting, *ending}):
        for value in ending.get(step, ()):
            del living[value.name]
        living |= {value.name: value for value in starting.get(step, ())}
        covered = end = 0
        for value in sorted(living.values(), key=lambda value: value.offset):
            covered += max(0, value.end - max(value.offset, end))
            end = max(end, value.end)
        yield step, covered


class _Groups:
    """Disjoint sets of values, by name (union-find)."""

    def __init__(self, values: Iterable[PlacedValue]) -> None:
        self._parent = {value.name: value.name for value in values}

    def root(self, name: str) -> str:
        while self._parent[name] != name:
            self._parent[name] = self._parent[self._parent[name]]
            name = self._parent[name]
        return name

    def join(self, one: str, other: str) -> None:
        self._parent[self.root(one)] = self.root(other)


def _overlapping_pairs(values: Iterable[PlacedValue]) -> Iterator[tuple[PlacedValue, PlacedValue]]:
    """The pairs of values that are in use at one step at a common byte. Raises Unreadable if there are too many."""
    living: list[PlacedValue] = []
    pairs = 0
    for value in sorted(values, key=lambda value: value.born):
        living = [other for other in living if other.dies > value.born]
        pairs += len(living)
        if pairs > MAX_PAIRS:
            raise Unreadable(f"the plan has more than {MAX_PAIRS:,} pairs of values that are in use at the same step")
        yield from ((other, value) for other in living if other.meets(value))
        living.append(value)
