"""The peak of memory of a file's execution order, added up operator by operator, and a bound of every order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.checker.outcome import DoesNotHold, in_quotes
from workbench.checker.output import Output
from workbench.checker.plain import PlainNode
from workbench.checker.records import Fields, as_whole
from workbench.checker.sharing import MemorySharing


@dataclass(frozen=True)
class OrderPeak:
    """bytes: the most in use at once. least: what one operator alone needs, in any order. values: how many are counted;
    unknown: those of which the certificate alone says the size."""

    bytes: int
    least: int
    values: int
    unknown: int


def checked_order(record: Fields, output: Output) -> OrderPeak:
    """Checks that the order runs, and is the file's own, and adds up what is in use.

    Counted are computed values. A view is in its operand's memory; a node may overwrite an operand of its result's
    shape that nothing reads later, as far as the certificate says so and `MemorySharing` allows it. Raises DoesNotHold.
    """
    operators = list(record.records("operators", "operator"))
    keys = [message.text("node") for message in operators]
    sharing, nodes = MemorySharing(output), output.model.graph.nodes
    if len(keys) != len(nodes) or set(keys) != set(nodes):
        raise DoesNotHold(f"{record.where} does not list each node of the graph once")
    if output.is_file and tuple(keys) != output.model.order:
        raise DoesNotHold(f"the output's nodes are not in the order of {record.where}")
    check_runs(keys, nodes, output.makers, record.where)
    memory: dict[str, int] = {}
    sizes: list[int] = []
    uses: list[_Use] = []
    unknown = 0
    for message, key in zip(operators, keys, strict=True):
        call = nodes[key]
        reads = {memory[value] for value in call.reads if value in memory}
        own: list[int] = []
        if sharing.is_view(call):
            if call.inputs[0] in memory:
                memory[key] = memory[call.inputs[0]]
            uses.append(_Use(frozenset(reads), (), frozenset(), frozenset()))
            continue
        for value in filter(None, call.outputs):
            size, known = _size(message, value, output)
            memory[value] = len(sizes)
            own.append(len(sizes))
            sizes.append(size)
            unknown += not known
        sure, open_ = sharing.overwritable(call)
        odd = next((value for value in message.texts("over") if value not in (*sure, *open_)), None)
        if odd is not None:
            raise DoesNotHold(f"{message.where} overwrites {in_quotes(odd)}, over which the {call} cannot be written")
        unknown += len(set(open_).intersection(message.texts("over")))
        over, most = ({memory[v] for v in values if v in memory} for values in (message.texts("over"), (*sure, *open_)))
        uses.append(_Use(frozenset(reads | set(own)), tuple(own), frozenset(over), frozenset(most)))
    kept = {memory[value] for value in output.model.graph.outputs if value in memory}
    return OrderPeak(_peak(uses, sizes, kept), _least(uses, sizes), len(sizes), unknown)


@dataclass(frozen=True)
class _Use:
    """Memories of one operator: those that it touches and makes, those that it does and that it could overwrite."""

    touched: frozenset[int]
    made: tuple[int, ...]
    over: frozenset[int]
    could: frozenset[int]


def _peak(uses: Sequence[_Use], sizes: Sequence[int], kept: set[int]) -> int:
    last_use = {number: place for place, use in enumerate(uses) for number in use.touched}
    peak = in_use = 0
    for place, use in enumerate(uses):
        free = {number for number in use.touched if last_use[number] == place and number not in kept}
        in_use += sum(sizes[number] for number in use.made)
        peak = max(peak, in_use - max((sizes[number] for number in use.over & free), default=0))
        in_use -= sum(sizes[number] for number in free)
    return peak


def _least(uses: Sequence[_Use], sizes: Sequence[int]) -> int:
    alone = (sum(sizes[n] for n in use.touched) - max((sizes[n] for n in use.could), default=0) for use in uses)
    return max(alone, default=0)


def _size(fields: Fields, value: str, output: Output) -> tuple[int, bool]:
    """The bytes of a value, and whether the checker knows them itself."""
    size, real = as_whole(fields.named("sizes").get(value), f"{fields.where}, size of {in_quotes(value)}"), None
    real = output.inferred.bytes(value)
    check_bytes(size, real, f"{fields.where}, size of {in_quotes(value)}")
    return size, real is not None


def check_bytes(size: int, real: int | None, where: str) -> None:
    """Raises DoesNotHold if the stated bytes are not those that follow from the file."""
    if size < 0 or (real is not None and real != size):
        has = "it is negative" if real is None else f"by the file's own shapes it has {real:,}"
        raise DoesNotHold(f"the certificate's {where} is {size:,} bytes; {has}")


def check_runs(
    keys: Sequence[str], nodes: Mapping[str, PlainNode], producers: Mapping[str, PlainNode], where: str
) -> None:
    """Raises DoesNotHold if a node stands before one whose result it reads."""
    done: set[str] = set()
    for key in keys:
        for value in nodes[key].reads:
            if value in producers and producers[value].key not in done:
                raise DoesNotHold(f"in {where}, {in_quotes(key)} is computed before {in_quotes(value)}, which it needs")
        done.add(key)
