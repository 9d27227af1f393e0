"""Checks what a step carries besides its rewrites: a bound, and that the graph reaches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.checker.arena import checked_plan
from workbench.checker.flow import checked_flow
from workbench.checker.groups import checked_groups
from workbench.checker.linear import LinearBound, checked_bound
from workbench.checker.moved import checked_moves
from workbench.checker.order import checked_order
from workbench.checker.outcome import DoesNotHold, Statement, Unreadable
from workbench.checker.plain import PlainModel
from workbench.checker.records import Fields
from workbench.checker.replay import Replay

UNITS = {"bytes": "bytes", "count": "transposes", "time": "nanoseconds"}


@dataclass(frozen=True)
class StepDone:
    """A step after its rewrites. replaced: the nodes that each of them removed. last: whether no later one changes
    the graph."""

    name: str
    graph: Replay
    written: PlainModel
    replaced: Sequence[frozenset[str]]
    last: bool


def checked_evidence(record: Fields, step: StepDone) -> Iterator[Statement]:
    """The statements that hold. Raises DoesNotHold with the first that does not."""
    kind = record.text("kind")
    if kind not in _CHECKS:
        raise Unreadable(f"the certificate's {record.where} is of the unknown kind '{kind[:40]}'")
    yield from _CHECKS[kind](record, step)


def _cut(record: Fields, step: StepDone) -> Iterator[Statement]:
    unit = record.whole("unit")
    if unit < 1:
        raise Unreadable(f"the certificate's {record.where} has a unit below 1")
    bound = (checked_flow(record) + record.whole("always")) // unit
    if bound != record.whole("bound"):
        raise DoesNotHold(f"the bound of {record.where} is said to be {record.whole('bound'):,}, and is {bound:,}")
    edges = len(record.items("edges"))
    yield Statement(
        f"{step.name}: a flow through {edges:,} edges has the value of the cut, so that no cut of this network costs"
        f" less than {bound:,} {_unit(record)}"
    )
    yield Statement(f"{step.name}: that the network states what layouts cost is the engine's word", proven=False)
    yield from _reached(record, step, bound)


def _layout_program(record: Fields, step: StepDone) -> Iterator[Statement]:
    found = checked_bound(record)
    yield _bound_statement(step.name, found, _unit(record))
    yield Statement(f"{step.name}: that the program states what layouts cost is the engine's word", proven=False)
    yield from _reached(record, step, found.cost)


def _reached(record: Fields, step: StepDone, least: int) -> Iterator[Statement]:
    """Whether the Transposes after the step are those of the solution, of this cost."""
    if record.text("weigh") == "time":
        yield Statement(f"{step.name}: the times are those that the engine measured", proven=False)
        return
    moved = checked_moves(record, step.graph, step.written, step.last)
    by_bytes = record.text("weigh") == "bytes"
    inside = moved.inside[by_bytes]
    found = (moved.bytes if by_bytes else moved.transposes) + inside
    claims = record.fields.get("certified") is True
    if found != least:
        if claims:
            raise DoesNotHold(f"{step.name} is said to reach {least:,} {_unit(record)}, and its graph has {found:,}")
        words = f"its graph has {found:,} {_unit(record)}, and the engine does not claim the bound"
        yield Statement(f"{step.name}: {words}", proven=False)
        return
    sizes = f"{moved.confirmed:,} of {moved.transposes:,} sizes as the output declares them"
    yield Statement(f"{step.name}: the Transposes of its graph are exactly that, {sizes}")
    if inside:
        yield Statement(f"{step.name}: {inside:,} of these are in bodies and functions", proven=False)
    if not claims:
        yield Statement(f"{step.name}: the engine claims no minimum", proven=False)


def _grouping(record: Fields, step: StepDone) -> Iterator[Statement]:
    found = checked_bound(record)
    count = checked_groups(record, found.chosen, step.replaced)
    yield Statement(f"{step.name}: the solution's {count:,} groups are those that the log made")
    yield _bound_statement(step.name, found, "bytes of memory traffic")
    yield Statement(f"{step.name}: that the program states what groups cost is the engine's word", proven=False)


def _bound_statement(name: str, found: LinearBound, unit: str) -> Statement:
    reached = f"{name}: the solution satisfies every row and costs {found.cost:,} {unit}"
    if found.proven is not None and found.proven >= found.cost:
        return Statement(f"{reached}; proven by the linear program: none costs less")
    said = (
        "the solver says that none costs less"
        if found.claimed >= found.cost
        else f"the solver says that none costs less than {found.claimed:,}"
    )
    proves = "its duals are not here" if found.proven is None else f"the linear program proves only {found.proven:,}"
    return Statement(f"{reached}; {said}, {proves}", proven=False)


def _order(record: Fields, step: StepDone) -> Iterator[Statement]:
    found = checked_order(record, step.graph, step.written, step.last)
    if found.bytes != record.whole("peak"):
        raise DoesNotHold(
            f"the peak of {record.where} is said to be {record.whole('peak'):,} bytes and adds up to {found.bytes:,}"
        )
    place = ", the output's own," if step.last else ""
    reached = (
        f"{step.name}: the order{place} is topological, and its peak {found.bytes:,} bytes,"
        f" {found.confirmed:,} sizes as the output declares them"
    )
    if found.bytes == found.least:
        yield Statement(f"{reached}; proven: one operator alone needs as much in any order")
        return
    yield Statement(f"{reached}")
    bound = record.whole("bound")
    said = "that no order has less" if bound >= found.bytes else f"that none has less than {bound:,}"
    yield Statement(f"{step.name}: the search says {said}; one operator alone needs {found.least:,}", proven=False)


def _unit(record: Fields) -> str:
    weigh = record.text("weigh")
    if weigh not in UNITS:
        raise Unreadable(f"the certificate's {record.where} weighs '{weigh[:40]}', which is unknown")
    return UNITS[weigh]


def _plan(record: Fields, step: StepDone) -> Iterator[Statement]:
    found = checked_plan(record, step.graph, step.written, step.last)
    placed = f"{step.name}: of {found.values:,} values in an arena of {found.total:,} bytes no two overlap while in use"
    yield Statement(f"{placed}; {found.confirmed:,} sizes as the output declares them")
    if found.shared:
        yield Statement(
            f"{step.name}: {found.shared:,} pairs share memory at a step as edges allow: views, parts of a Concat,"
            f" results over an operand; that kernels allow it too is the engine's word, and all of it for the"
            f" {found.unfollowed:,} in bodies and functions",
            proven=False,
        )
    if found.outside:
        yield Statement(f"{step.name}: {found.outside:,} computed values lie outside of the arena", proven=False)
    if found.total == found.in_use:
        yield Statement(f"{step.name}: proven: its blocks need as much at one step, so no arena for them is smaller")
        return
    certified = record.fields.get("certified") is True
    said = "that no arena is smaller" if certified else f"that every arena has at least {record.whole('bound'):,} bytes"
    yield Statement(f"{step.name}: the planner says {said}; its blocks need {found.in_use:,} at one step", proven=False)


def _word(record: Fields, step: StepDone) -> Iterator[Statement]:
    yield Statement(f"{step.name}: {record.text('sentence')}", proven=False)


_CHECKS: Mapping[str, Callable[[Fields, StepDone], Iterator[Statement]]] = {
    "minimum cut": _cut,
    "layout program": _layout_program,
    "grouping program": _grouping,
    "order": _order,
    "plan": _plan,
    "word": _word,
}
