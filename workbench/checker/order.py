"""The peak memory of a file's execution order, summed operator by operator, and a lower bound over all orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.checker.outcome import DoesNotHold, in_quotes
from workbench.checker.output import Output
from workbench.checker.plain import PlainNode
from workbench.checker.sharing import MemorySharing


@dataclass(frozen=True)
class OrderPeak:
    """bytes: the most in use at once. lower_bound: what one operator alone needs, in any order. values: how many are
    counted. unknown: how many of them are of unknown size, which counts as 0."""

    bytes: int
    lower_bound: int
    values: int
    unknown: int


def order_peak(output: Output) -> OrderPeak:
    """The peak of the file's order.

    Only computed values count. A view is in its operand's memory. A node writes over the largest operand of its
    result's shape that nothing reads later, if `MemorySharing` allows it.
    """
    sharing = MemorySharing(output)
    memory: dict[str, int] = {}
    sizes: list[int | None] = []
    uses: list[_Use] = []
    for call in output.model.steps:
        reads = {memory[value] for value in call.reads if value in memory}
        if sharing.is_view(call):
            if call.inputs[0] in memory:
                memory[call.key] = memory[call.inputs[0]]
            uses.append(_Use(frozenset(reads), (), frozenset()))
            continue
        results = list(filter(None, call.outputs))
        memory |= {value: len(sizes) + number for number, value in enumerate(results)}
        sizes += [output.inferred.bytes(value) for value in results]
        new = tuple(memory[value] for value in results)
        overwritable = {memory[value] for value in sharing.overwritable(call) if value in memory} if results else set()
        uses.append(_Use(frozenset(reads | {*new}), new, frozenset(overwritable)))
    outputs = {memory[value] for value in output.model.graph.outputs if value in memory}
    known = [size or 0 for size in sizes]
    return OrderPeak(_peak(uses, known, outputs), _lower_bound(uses, known), len(sizes), sizes.count(None))


@dataclass(frozen=True)
class _Use:
    """Blocks of memory of one operator, by number: read or written, new, and those that may be overwritten."""

    touched: frozenset[int]
    allocated: tuple[int, ...]
    overwritable: frozenset[int]


def _peak(uses: Sequence[_Use], sizes: Sequence[int], outputs: set[int]) -> int:
    last_use = {block: step for step, use in enumerate(uses) for block in use.touched}
    peak = in_use = 0
    for step, use in enumerate(uses):
        free = {block for block in use.touched if last_use[block] == step and block not in outputs}
        in_use += sum(sizes[block] for block in use.allocated)
        peak = max(peak, in_use - max((sizes[block] for block in use.overwritable & free), default=0))
        in_use -= sum(sizes[block] for block in free)
    return peak


def _lower_bound(uses: Sequence[_Use], sizes: Sequence[int]) -> int:
    needs = (sum(sizes[n] for n in use.touched) - max((sizes[n] for n in use.overwritable), default=0) for use in uses)
    return max(needs, default=0)


def check_runs(nodes: Sequence[PlainNode], producers: Mapping[str, PlainNode], where: str) -> None:
    """Raises DoesNotHold if a node stands before one whose result it reads."""
    done: set[str] = set()
    for call in nodes:
        for value in call.reads:
            if value in producers and producers[value].key not in done:
                raise DoesNotHold(f"in {where}, the {call} is before the node that computes {in_quotes(value)}")
        done.add(call.key)
