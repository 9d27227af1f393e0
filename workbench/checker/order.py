"""The peak memory of a file's execution order, summed operator by operator, and a lower bound over all orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.checker.outcome import DoesNotHold, in_quotes
from workbench.checker.output import Output
from workbench.checker.plain import PlainNode
from workbench.checker.records import Fields, as_int
from workbench.checker.sharing import MemorySharing


@dataclass(frozen=True)
class OrderPeak:
    """bytes: the most in use at once. lower_bound: what one operator alone needs, in any order. values: how many are
    counted. unknown: how many sizes only the certificate states."""

    bytes: int
    lower_bound: int
    values: int
    unknown: int


def checked_order(record: Fields, output: Output) -> OrderPeak:
    """The peak of an order, after checks that it is topological and the file's. Raises DoesNotHold.

    Only computed values count. A view is in its operand's memory. A node may overwrite an operand of its result's shape
    that nothing reads later, if the certificate says so and `MemorySharing` allows it.
    """
    operators = list(record.records("operators", "operator"))
    keys = [fields.text("node") for fields in operators]
    sharing, nodes = MemorySharing(output), output.model.graph.nodes
    if len(keys) != len(nodes) or set(keys) != set(nodes):
        raise DoesNotHold(f"{record.where} does not list each node of the graph once")
    if output.is_file and tuple(keys) != output.model.order:
        raise DoesNotHold(f"the output's nodes are not in the order of {record.where}")
    check_runs(keys, nodes, output.producers, record.where)
    memory: dict[str, int] = {}
    sizes: list[int] = []
    uses: list[_Use] = []
    unknown = 0
    for fields, key in zip(operators, keys, strict=True):
        call = nodes[key]
        reads = {memory[value] for value in call.reads if value in memory}
        results: list[int] = []
        if sharing.is_view(call):
            if call.inputs[0] in memory:
                memory[key] = memory[call.inputs[0]]
            uses.append(_Use(frozenset(reads), (), frozenset(), frozenset()))
            continue
        for value in filter(None, call.outputs):
            size, known = _size(fields, value, output)
            memory[value] = len(sizes)
            results.append(len(sizes))
            sizes.append(size)
            unknown += not known
        certain, undecided = sharing.overwritable(call)
        refused = next((value for value in fields.texts("over") if value not in (*certain, *undecided)), None)
        if refused is not None:
            raise DoesNotHold(f"{fields.where} overwrites {in_quotes(refused)}, which the {call} cannot overwrite")
        unknown += len(set(undecided).intersection(fields.texts("over")))
        overwritten, overwritable = (
            {memory[v] for v in values if v in memory} for values in (fields.texts("over"), (*certain, *undecided))
        )
        uses.append(
            _Use(frozenset(reads | set(results)), tuple(results), frozenset(overwritten), frozenset(overwritable))
        )
    outputs = {memory[value] for value in output.model.graph.outputs if value in memory}
    return OrderPeak(_peak(uses, sizes, outputs), _lower_bound(uses, sizes), len(sizes), unknown)


@dataclass(frozen=True)
class _Use:
    """Blocks of memory of one operator, by number: read or written, new, overwritten, and allowed to be overwritten."""

    touched: frozenset[int]
    allocated: tuple[int, ...]
    overwritten: frozenset[int]
    overwritable: frozenset[int]


def _peak(uses: Sequence[_Use], sizes: Sequence[int], outputs: set[int]) -> int:
    last_use = {block: step for step, use in enumerate(uses) for block in use.touched}
    peak = in_use = 0
    for step, use in enumerate(uses):
        free = {block for block in use.touched if last_use[block] == step and block not in outputs}
        in_use += sum(sizes[block] for block in use.allocated)
        peak = max(peak, in_use - max((sizes[block] for block in use.overwritten & free), default=0))
        in_use -= sum(sizes[block] for block in free)
    return peak


def _lower_bound(uses: Sequence[_Use], sizes: Sequence[int]) -> int:
    needs = (sum(sizes[n] for n in use.touched) - max((sizes[n] for n in use.overwritable), default=0) for use in uses)
    return max(needs, default=0)


def _size(fields: Fields, value: str, output: Output) -> tuple[int, bool]:
    """The bytes of a value, and whether the checker knows them itself."""
    size = as_int(fields.named("sizes").get(value), f"{fields.where}, size of {in_quotes(value)}")
    inferred = output.inferred.bytes(value)
    check_bytes(size, inferred, f"{fields.where}, size of {in_quotes(value)}")
    return size, inferred is not None


def check_bytes(size: int, inferred: int | None, where: str) -> None:
    """Raises DoesNotHold if the stated bytes are negative or differ from the inferred ones."""
    if size < 0 or (inferred is not None and inferred != size):
        has = "it is negative" if inferred is None else f"by the file's own shapes it has {inferred:,}"
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
