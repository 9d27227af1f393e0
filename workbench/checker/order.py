"""The peak of memory of an execution order, added up operator by operator, and a bound of every order."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.checker.outcome import DoesNotHold
from workbench.checker.plain import PlainModel
from workbench.checker.records import Fields
from workbench.checker.replay import Replay
from workbench.checker.sizes import compared_size

VIEW_OPERATORS = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose")


@dataclass(frozen=True)
class OrderPeak:
    """bytes: the most in use at once. least: what one operator alone needs, in any order. confirmed: sizes that OUT
    declares too."""

    bytes: int
    least: int
    confirmed: int
    operators: int


def checked_order(record: Fields, graph: Replay, written: PlainModel, last: bool) -> OrderPeak:
    """Checks that the order has each node once, behind what it reads, and adds up what is in use.

    Counted are computed values. A view is in its operand's memory; a node may overwrite an operand of its result's
    size that nothing reads later, as far as the certificate says so. last: whether the output must be in this order.
    Raises DoesNotHold.
    """
    operators = list(record.records("operators", "operator"))
    keys = [told.text("node") for told in operators]
    _check_topological(record, keys, graph)
    if last and tuple(keys) != written.order:
        raise DoesNotHold(f"the output's nodes are not in the order of {record.where}")
    memory: dict[str, int] = {}
    sizes: list[int] = []
    touched: list[set[int]] = []
    over: list[set[int]] = []
    made: list[list[int]] = []
    confirmed = 0
    for told, key in zip(operators, keys, strict=True):
        call = graph.nodes[key]
        reads = {memory[value] for value in call.reads if value in memory}
        own: list[int] = []
        if told.has("view"):
            if call.domain or call.op_type not in VIEW_OPERATORS:
                raise DoesNotHold(f"{told.where} says that the {call} is a view, which it is not")
            if call.inputs[0] in memory:
                memory[key] = memory[call.inputs[0]]
        else:
            named = told.named("sizes")
            for value in filter(None, call.outputs):
                size = compared_size(named.get(value), value, f"{told.where}, size of '{value}'", written, last)
                memory[value] = len(sizes)
                own.append(len(sizes))
                sizes.append(size[0])
                confirmed += size[1]
        overwritten = {memory[value] for value in told.texts("over") if value in call.inputs and value in memory}
        if any(sizes[i] != sizes[own[0]] for i in overwritten if own):
            raise DoesNotHold(f"{told.where} overwrites an operand of another size than its result '{key}'")
        touched.append(reads | set(own))
        over.append(overwritten)
        made.append(own)
    kept = {memory[value] for value in graph.outputs if value in memory}
    last_use = {number: place for place, found in enumerate(touched) for number in found}
    peak = in_use = least = 0
    for place, found in enumerate(touched):
        free = {number for number in found if last_use[number] == place and number not in kept}
        saved = max((sizes[number] for number in over[place] & free), default=0)
        in_use += sum(sizes[number] for number in made[place])
        peak = max(peak, in_use - saved)
        in_use -= sum(sizes[number] for number in free)
        alone = sum(sizes[number] for number in found)
        least = max(least, alone - max((sizes[number] for number in over[place]), default=0))
    return OrderPeak(peak, least, confirmed, len(operators))


def _check_topological(record: Fields, keys: list[str], graph: Replay) -> None:
    if len(keys) != len(graph.nodes) or set(keys) != set(graph.nodes):
        raise DoesNotHold(f"{record.where} does not list each node of the graph once")
    check_runs(keys, graph, record.where)


def check_runs(keys: list[str] | tuple[str, ...], graph: Replay, where: str) -> None:
    """Raises DoesNotHold if a node stands before one whose result it reads."""
    graph.spend(len(keys))
    done: set[str] = set()
    for key in keys:
        for value in graph.nodes[key].reads:
            maker = graph.producer(value)
            if maker is not None and maker not in done:
                raise DoesNotHold(f"in {where}, '{key}' is computed before '{value}', which it needs")
        done.add(key)
