"""A plan of memory: when each value is in use by the graph's own edges, and that no two then overlap in the arena."""

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

MOST_PAIRS = 2_000_000  # of values that are in use together


@dataclass(frozen=True)
class PlacedValue:
    """A value at bytes `offset` to `end` of the arena, in use from step `born` to before step `dies`, as the plan says.

    inside: whether it is of a body or function, whose edges are not followed. known: whether its size is inferred.
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
    """total: bytes of the arena. least: what its values need at one step, placed on each other as they are. values, of:
    those of the main graph in the plan, and all that it computes. inside: of bodies and functions. shared: pairs that
    lie on each other. open: what the engine alone says of sharing and of sizes. nowhere: values that are not in the
    plan and no pieces of inputs and constants."""

    total: int
    least: int
    values: int
    of: int
    inside: int
    shared: int
    open: int
    nowhere: int


def checked_plan(record: Fields, output: Output) -> ArenaChecked:
    """Checks the steps, the lifetimes, the places and the size of the arena. Raises DoesNotHold."""
    steps = [
        None if message is None else as_text(message, f"{record.where}, step") for message in record.items("steps")
    ]
    keys = [key for key in steps if key is not None]
    nodes = output.model.graph.nodes
    if len(keys) != len(nodes) or set(keys) != set(nodes):
        raise DoesNotHold(f"the steps of {record.where} are not each node of the graph once")
    check_runs(keys, nodes, output.makers, record.where)
    bodies = output.calls_functions or any(True for call in nodes.values() for _ in call.bodies)
    values = _placed(record, output, bodies)
    if None in steps and not bodies:
        raise DoesNotHold(f"{record.where} has steps of bodies, and the graph has none")
    edges = _Edges(output, {key: number for number, key in enumerate(steps) if key is not None}, len(steps), values)
    total = record.whole("total")
    for value in values.values():
        if value.offset < 0 or value.end > total:
            raise DoesNotHold(f"{value} is not in the arena of {total:,} bytes")
        if not value.inside:
            edges.check_lifetime(value)
    shared = open_ = 0
    for one, other in _meeting(values.values()):
        shared += 1
        if one.inside or other.inside:
            continue
        if edges.cannot_be_said(one, other):
            open_ += 1
        elif not edges.may_share(one, other):
            raise DoesNotHold(
                f"{one} and {other} are in use at the same step, and no view, Concat or elementwise operator lets them"
                " lie there"
            )
    own = [value for value in values.values() if not value.inside]
    open_ += sum(not value.known for value in own)
    nowhere = sum(not edges.needs_no_place(name) for name in output.makers.keys() - values.keys())
    inside = len(values) - len(own)
    return ArenaChecked(total, edges.least(own), len(own), len(output.makers), inside, shared, open_, nowhere)


def _placed(record: Fields, output: Output, bodies: bool) -> dict[str, PlacedValue]:
    results: dict[str, PlacedValue] = {}
    for message in record.records("values", "value"):
        name, offset, size = message.text("name"), message.whole("offset"), message.whole("bytes")
        inside = name not in output.makers
        if inside and (not bodies or "/" not in name):
            raise DoesNotHold(f"{record.where} places {in_quotes(name)}, which nothing computes")
        real = None if inside else output.inferred.bytes(name)
        check_bytes(size, real, f"{message.where}, bytes of {in_quotes(name)}")
        if name in results:
            raise DoesNotHold(f"{record.where} has {in_quotes(name)} twice")
        born, dies = message.whole("born"), message.whole("dies")
        results[name] = PlacedValue(name, offset, offset + size, born, dies, inside, real is not None)
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
        made = self.step_of[self.output.makers[name].key]
        if name in self.output.model.graph.outputs:
            return made, self.steps
        return made, max(made, self.last_read.get(name, made)) + 1

    def check_lifetime(self, value: PlacedValue) -> None:
        made, last = self.lifetime(value.name)
        if value.born > made or value.dies < last:
            raise DoesNotHold(
                f"{in_quotes(value.name)} is in use from step {made:,} to before {last:,}, and the plan says"
                f" {value.born:,} to {value.dies:,}"
            )

    def needs_no_place(self, name: str) -> bool:
        """Whether it is a piece of an input or a constant, or no tensor."""
        while name in self.output.makers:
            call = self.output.makers[name]
            if name not in dict(self.sharing.pieces(call)):
                return not is_tensor(self.output.inferred.types.get(name)) and not self.output.inferred.why
            name = call.inputs[0]
        return True

    @cached_property
    def holders(self) -> Mapping[str, list[str]]:
        """By value, those in whose bytes it lies in the plan, as the same elements."""
        results: dict[str, list[str]] = {}
        for call in self.output.model.graph.nodes.values():
            for part, begin in self.sharing.pieces(call):
                self._enter(results, part, call.inputs[0], begin)
                if self.sharing.is_view(call):
                    self._enter(results, call.inputs[0], part, 0)
            for part, begin in self.sharing.parts(call):
                self._enter(results, part, call.key, begin)
        return results

    def _enter(self, results: dict[str, list[str]], part: str, whole: str, begin: int) -> None:
        one, other = self.values.get(part), self.values.get(whole)
        if one is not None and other is not None and one.offset == other.offset + begin and one.end <= other.end:
            results.setdefault(part, []).append(whole)

    def may_share(self, one: PlacedValue, other: PlacedValue) -> bool:
        """Whether both are the same elements where they meet, or one is written over the other by the last node that
        reads it."""
        if self._overwrites(other, one) or self._overwrites(one, other):
            return True
        return not self._all_holders(one.name).isdisjoint(self._all_holders(other.name))

    def cannot_be_said(self, one: PlacedValue, other: PlacedValue) -> bool:
        """Whether they share by an operator that may, of which a shape is not known."""
        if self.may_share(one, other):
            return False
        pairs = ((one, other), (other, one))
        return any(a.name in self.sharing.overwritable(self.output.makers[b.name])[1] for a, b in pairs) or not (
            one.known and other.known
        )

    def _overwrites(self, later: PlacedValue, earlier: PlacedValue) -> bool:
        call = self.output.makers[later.name]
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

    def least(self, values: Iterable[PlacedValue]) -> int:
        """The most bytes in use at one step, by the graph's own lifetimes: where values that share lie on each other,
        each byte once. Values of unknown size are left out."""
        known = [value for value in values if value.known]
        group = _Groups(known)
        for one, other in _meeting(known):
            group.join(one.name, other.name)
        members: dict[str, list[PlacedValue]] = {}
        for value in known:
            members.setdefault(group.first(value.name), []).append(value)
        change: dict[int, int] = {}
        for together in members.values():
            before = 0
            for moment, held in _held(together, self.lifetime):
                change[moment] = change.get(moment, 0) + held - before
                before = held
        most = held = 0
        for moment in sorted(change):
            held += change[moment]
            most = max(most, held)
        return most


def _held(together: Sequence[PlacedValue], lifetime: Callable[[str], tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The bytes that values which lie on each other cover, from each moment on at which one comes or goes."""
    comes: dict[int, list[PlacedValue]] = {}
    goes: dict[int, list[PlacedValue]] = {}
    for value in together:
        born, dies = lifetime(value.name)
        comes.setdefault(born, []).append(value)
        goes.setdefault(dies, []).append(value)
    living: dict[str, PlacedValue] = {}
    for moment in sorted({*comes, *goes}):
        for value in goes.get(moment, ()):
            del living[value.name]
        living |= {value.name: value for value in comes.get(moment, ())}
        covered = end = 0
        for value in sorted(living.values(), key=lambda value: value.offset):
            covered += max(0, value.end - max(value.offset, end))
            end = max(end, value.end)
        yield moment, covered


class _Groups:
    """Sets of values that are joined."""

    def __init__(self, values: Iterable[PlacedValue]) -> None:
        self._above = {value.name: value.name for value in values}

    def first(self, name: str) -> str:
        while self._above[name] != name:
            self._above[name] = self._above[self._above[name]]
            name = self._above[name]
        return name

    def join(self, one: str, other: str) -> None:
        self._above[self.first(one)] = self.first(other)


def _meeting(values: Iterable[PlacedValue]) -> Iterator[tuple[PlacedValue, PlacedValue]]:
    living: list[PlacedValue] = []
    looked = 0
    for value in sorted(values, key=lambda value: value.born):
        living = [other for other in living if other.dies > value.born]
        looked += len(living)
        if looked > MOST_PAIRS:
            raise Unreadable(f"the plan has more than {MOST_PAIRS:,} pairs of values that are in use together")
        yield from ((other, value) for other in living if other.meets(value))
        living.append(value)
