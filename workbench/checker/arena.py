"""A plan of memory: when each value is in use by the graph's own edges, and that no two then overlap in the arena."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from workbench.checker.order import VIEW_OPERATORS, check_runs
from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.plain import PlainModel, PlainNode
from workbench.checker.records import Fields, as_text
from workbench.checker.replay import Replay
from workbench.checker.sizes import compared_size

_PARTS = ("Slice", "Split")  # of which a result may be a piece of the operand


@dataclass(frozen=True)
class PlacedValue:
    """A value at bytes `offset` to `end` of the arena, in use from step `born` to before step `dies`.

    block: of memory, which values share. inside: whether it is of a body or function, whose edges are not followed.
    """

    name: str
    offset: int
    end: int
    born: int
    dies: int
    block: int
    inside: bool

    def meets(self, other: PlacedValue) -> bool:
        """Whether both are in use at one moment at one byte."""
        at_once = self.born < other.dies and other.born < self.dies
        return at_once and self.offset < other.end and other.offset < self.end

    def __str__(self) -> str:
        return f"'{self.name}' at bytes {self.offset:,} to {self.end:,}"


@dataclass(frozen=True)
class ArenaChecked:
    """total: bytes of the arena. in_use: the most that its blocks need at one step. shared: pairs of values that lie
    on each other rightly; unfollowed: those of them that the engine alone vouches for. outside: computed values that
    the plan has not."""

    total: int
    in_use: int
    values: int
    confirmed: int
    shared: int
    unfollowed: int
    outside: int


def checked_plan(record: Fields, graph: Replay, written: PlainModel, last: bool) -> ArenaChecked:
    """Checks the steps, the lifetimes, the places and the size of the arena. last: see `compared_size`.

    Raises DoesNotHold.
    """
    steps = [None if told is None else as_text(told, f"{record.where}, step") for told in record.items("steps")]
    keys = [key for key in steps if key is not None]
    if len(keys) != len(graph.nodes) or set(keys) != set(graph.nodes):
        raise DoesNotHold(f"the steps of {record.where} are not each node of the graph once")
    check_runs(keys, graph, record.where)
    step_of = {key: number for number, key in enumerate(steps) if key is not None}
    values, confirmed = _placed(record, graph, written, last)
    total = record.whole("total")
    edges = _Edges(graph, step_of, record)
    for value in values.values():
        if value.offset < 0 or value.end > total:
            raise DoesNotHold(f"{value} is not in the arena of {total:,} bytes")
        if not value.inside:
            edges.check_lifetime(value, len(steps))
            edges.check_view(value, values)
    shared = unfollowed = 0
    for one, other in _meeting(values.values(), graph):
        if one.block != other.block:
            raise DoesNotHold(f"{one} and {other} are in use at the same step")
        if one.inside or other.inside:
            unfollowed += 1
        elif not edges.may_share(one, other):
            raise DoesNotHold(f"{one} and {other} are in use at the same step, and no edge lets them share memory")
        shared += 1
    computed = sum(bool(value) for call in graph.nodes.values() for value in call.outputs)
    known = sum(not value.inside for value in values.values())
    in_use = _most_in_use(values.values(), len(steps))
    return ArenaChecked(total, in_use, len(values), confirmed, shared, unfollowed, computed - known)


def _placed(record: Fields, graph: Replay, written: PlainModel, last: bool) -> tuple[dict[str, PlacedValue], int]:
    """The values of the plan, and how many have the size that the output declares."""
    found: dict[str, PlacedValue] = {}
    confirmed = 0
    for told in record.records("values", "value"):
        name, offset = told.text("name"), told.whole("offset")
        inside = graph.producer(name) is None
        size, sure = compared_size(told.whole("bytes"), name, f"{told.where}, bytes of '{name}'", written, last)
        confirmed += sure
        born, dies, block = (told.whole(field) for field in ("born", "dies", "block"))
        if name in found:
            raise DoesNotHold(f"{record.where} has '{name}' twice")
        found[name] = PlacedValue(name, offset, offset + size, born, dies, block, inside)
    return found, confirmed


class _Edges:
    """What the edges of the graph say of lifetimes and shared memory. views: of a result, the operand that it is."""

    def __init__(self, graph: Replay, step_of: dict[str, int], record: Fields) -> None:
        self.graph = graph
        self.step_of = step_of
        self.last_read: dict[str, int] = {}
        for key, call in graph.nodes.items():
            for value in call.reads:
                self.last_read[value] = max(self.last_read.get(value, 0), step_of[key])
        self.views = {
            as_text(result, record.where): as_text(operand, record.where)
            for result, operand in record.named("views").items()
        }

    def maker(self, value: str) -> PlainNode:
        return self.graph.nodes[self.graph.producer(value) or ""]

    def step(self, value: str) -> int:
        """The step that computes it."""
        return self.step_of[self.maker(value).key]

    def check_lifetime(self, value: PlacedValue, steps: int) -> None:
        made = self.step(value.name)
        last = steps if value.name in self.graph.outputs else max(made, self.last_read.get(value.name, made)) + 1
        if value.born > made or value.dies < last:
            raise DoesNotHold(
                f"'{value.name}' is in use from step {made:,} to before {last:,}, and the plan says {value.born:,} to"
                f" {value.dies:,}"
            )

    def check_view(self, value: PlacedValue, values: dict[str, PlacedValue]) -> None:
        if value.name not in self.views:
            return
        operand, call = self.views[value.name], self.maker(value.name)
        if call.domain or call.op_type not in (*VIEW_OPERATORS, *_PARTS) or call.inputs[0] != operand:
            raise DoesNotHold(f"'{value.name}' is no view of '{operand}', as the plan says")
        if operand not in values:
            return
        whole = values[operand]
        if call.op_type not in _PARTS and value.end - value.offset != whole.end - whole.offset:
            raise DoesNotHold(
                f"'{value.name}' is a view of '{operand}' and of another size, as if the model could not run with these"
                " dims"
            )
        if value.offset < whole.offset or value.end > whole.end:
            raise DoesNotHold(f"'{value.name}' is a view of '{operand}' and lies elsewhere")

    def source(self, value: str) -> str:
        """The value of which this is a view, itself if it is none."""
        seen = 0
        while value in self.views:
            value, seen = self.views[value], seen + 1
            if seen > len(self.views):
                raise Unreadable("the certificate's views go round in a circle")
        self.graph.spend(seen)
        return value

    def may_share(self, one: PlacedValue, other: PlacedValue) -> bool:
        """Whether they are the same elements, one is a part of the other's Concat, or one is written over the other by
        the last node that reads it."""
        if self.source(one.name) == self.source(other.name):
            return True
        pairs = ((one, other), (other, one))
        return any(self._is_part(a, b) or self._overwrites(b, a) for a, b in pairs)

    def _is_part(self, part: PlacedValue, whole: PlacedValue) -> bool:
        """Whether the elements of `part` reach `whole` through Concats alone."""
        if part.offset < whole.offset or part.end > whole.end:
            return False
        waiting, seen = [self.source(whole.name)], set()
        while waiting:
            call = self.maker(waiting.pop()) if self.graph.producer(waiting[-1]) else None
            if call is None or call.operator != "Concat" or call.key in seen:
                continue
            seen.add(call.key)
            self.graph.spend(len(call.inputs))
            sources = [self.source(value) for value in call.inputs]
            if self.source(part.name) in sources:
                return True
            waiting += sources
        return False

    def _overwrites(self, later: PlacedValue, earlier: PlacedValue) -> bool:
        step = self.step(later.name)
        reads = {self.source(value) for value in self.maker(later.name).reads}
        return later.born == step and earlier.dies == step + 1 and self.source(earlier.name) in reads


def _meeting(values: Iterable[PlacedValue], graph: Replay) -> Iterator[tuple[PlacedValue, PlacedValue]]:
    living: list[PlacedValue] = []
    for value in sorted(values, key=lambda value: value.born):
        graph.spend(len(living))
        living = [other for other in living if other.dies > value.born]
        yield from ((other, value) for other in living if other.meets(value))
        living.append(value)


def _most_in_use(values: Iterable[PlacedValue], steps: int) -> int:
    """The most bytes of blocks that are in use at one step; a block is, from its first value on to its last."""
    blocks: dict[int, list[PlacedValue]] = {}
    for value in values:
        blocks.setdefault(value.block, []).append(value)
    change: dict[int, int] = {}
    for members in blocks.values():
        size = max(value.end for value in members) - min(value.offset for value in members)
        born, dies = min(value.born for value in members), max(value.dies for value in members)
        change[born] = change.get(born, 0) + size
        change[dies] = change.get(dies, 0) - size
    most = held = 0
    for step in sorted(change):
        held += change[step]
        most = max(most, held)
    return most
