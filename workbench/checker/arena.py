"""Checks a memory plan: no two values in use overlap in the arena, unless the graph lets them share its bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from workbench.checker.lifetimes import FileLifetimes
from workbench.checker.outcome import DoesNotHold, Unreadable, in_quotes
from workbench.checker.output import Output
from workbench.checker.records import Fields, as_int
from workbench.checker.shared_elements import SharedElements
from workbench.checker.sharing import MemorySharing

MAX_PAIRS = 2_000_000  # the most pairs of values in use at the same step
MAX_HOLDERS = 10_000_000  # the most values in which others lie that are visited for all pairs


@dataclass(frozen=True)
class PlacedValue:
    """A value of the plan at bytes `offset` to `end` of the arena, in use in steps `born` to `dies`, both half-open."""

    name: str
    offset: int
    end: int
    born: int
    dies: int

    def meets(self, other: PlacedValue) -> bool:
        """Whether both are in use at one moment at one byte."""
        at_once = self.born < other.dies and other.born < self.dies
        return at_once and self.offset < other.end and other.offset < self.end

    def __str__(self) -> str:
        return f"{in_quotes(self.name)} at bytes {self.offset:,} to {self.end:,}"


@dataclass(frozen=True)
class ArenaChecked:
    """total: bytes of the arena. least: what the values take at least at one step, however they share memory; None if
    some have no place. values: those in the plan; computed: all of the main graph. shared: pairs of values with common
    bytes. unplaced: values outside of the plan that are not pieces of inputs or constants. unknown: values of the plan
    whose size is not known. inside: nodes with bodies or functions, in which there are further values."""

    total: int
    least: int | None
    values: int
    computed: int
    shared: int
    unplaced: int
    unknown: int
    inside: int


def checked_plan(record: Fields, output: Output) -> ArenaChecked:
    """Checks that no two values of a plan share bytes that they may not. Raises DoesNotHold."""
    lifetimes, sharing = FileLifetimes(output), MemorySharing(output)
    values, unknown = {}, 0
    for name, offset in record.named("offsets").items():
        if name not in lifetimes.born:
            raise DoesNotHold(f"{record.where} places {in_quotes(name)}, which nothing computes")
        begin, size = as_int(offset, f"{record.where}, offset of {in_quotes(name)}"), output.inferred.bytes(name)
        if begin < 0:
            raise DoesNotHold(f"{record.where} places {in_quotes(name)} at byte {begin:,}")
        if size is None:
            unknown += 1
        else:
            values[name] = PlacedValue(name, begin, begin + size, *lifetimes.of(name))
    edges = _Edges(output, lifetimes, sharing, values)
    shared = 0
    for one, other in _overlapping_pairs(values.values()):
        shared += 1
        if not edges.may_share(one, other):
            raise DoesNotHold(
                f"{one} and {other} are in use at the same step, and no view, Concat or elementwise operator lets them"
                " share bytes"
            )
    unplaced = len(lifetimes.born.keys() - record.named("offsets").keys() - edges.needless)
    return ArenaChecked(
        max((value.end for value in values.values()), default=0),
        None if unplaced else SharedElements(output, lifetimes, sharing, edges.needless).least(),
        len(values),
        len(lifetimes.born),
        shared,
        unplaced,
        unknown,
        output.opaque,
    )


class _Edges:
    """What the edges of the graph say of shared memory."""

    def __init__(
        self, output: Output, lifetimes: FileLifetimes, sharing: MemorySharing, values: Mapping[str, PlacedValue]
    ) -> None:
        self.output, self.lifetimes, self.sharing, self.values = output, lifetimes, sharing, values
        self.needless: set[str] = set()  # pieces of inputs and constants, which need no place
        self.seen: dict[str, str] = {}  # by view at the bytes of its operand, the first value of which it is one
        self.holders: dict[str, list[str]] = {}  # by value, those whose bytes contain its bytes as the same elements
        self.visits = 0
        for call in output.model.graph.nodes.values():
            for part, begin in sharing.pieces(call):
                if call.inputs[0] not in lifetimes.born or call.inputs[0] in self.needless:
                    self.needless.add(part)
                if sharing.is_view(call) and self._lies_in(part, call.inputs[0], begin):
                    self.seen[part] = self._first(call.inputs[0])
                else:
                    self._add_holder(part, call.inputs[0], begin)
            for part, begin in sharing.parts(call):
                self._add_holder(part, call.key, begin)

    def _first(self, name: str) -> str:
        return self.seen.get(name, name)

    def _lies_in(self, part: str, whole: str, begin: int) -> bool:
        one, other = self.values.get(part), self.values.get(whole)
        return one is not None and other is not None and one.offset == other.offset + begin and one.end <= other.end

    def _add_holder(self, part: str, whole: str, begin: int) -> None:
        if self._lies_in(part, whole, begin):
            self.holders.setdefault(self._first(part), []).append(self._first(whole))

    def may_share(self, one: PlacedValue, other: PlacedValue) -> bool:
        """Whether both are the same elements where they overlap, or one overwrites the other in the last node that
        reads it."""
        if self._overwrites(other, one) or self._overwrites(one, other):
            return True
        return not self._all_holders(self._first(one.name)).isdisjoint(self._all_holders(self._first(other.name)))

    def _overwrites(self, later: PlacedValue, earlier: PlacedValue) -> bool:
        call = self.output.model.graph.producers[later.name]
        if later.offset != earlier.offset or later.name != call.key:
            return False
        return self.lifetimes.is_last_read(earlier.name, later.born) and earlier.name in self.sharing.overwritable(call)

    def _all_holders(self, name: str) -> set[str]:
        result, waiting = {name}, [name]
        while waiting:
            fresh = set(self.holders.get(waiting.pop(), ())) - result
            result |= fresh
            waiting += fresh
        self.visits += len(result)
        if self.visits > MAX_HOLDERS:
            raise Unreadable(f"the plan takes more than {MAX_HOLDERS:,} visits of values that contain others")
        return result


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
