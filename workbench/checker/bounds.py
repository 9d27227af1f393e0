"""Checks the bounds of a certificate, each a question about the output that the checker answers from the file alone.

A certificate says only what is asked: which operators a target holds in place, which rules groups follow, where a plan
places values. Costs and lower bounds are the checker's own, and each proof says on which premises it rests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.checker.arena import checked_plan
from workbench.checker.axes import AxisUses
from workbench.checker.cast_bound import CastBound, cast_bound, narrowest_bits, narrowest_bytes
from workbench.checker.cast_traffic import converted_by_casts
from workbench.checker.grouping_bound import bytes_of_groups, grouping_bound
from workbench.checker.grouping_problem import GROUPING_RULES, grouping_problem
from workbench.checker.inference import bodies_of
from workbench.checker.operators import IMAGE_OPERATORS
from workbench.checker.order import order_peak
from workbench.checker.outcome import (
    DoesNotHold,
    NotFinished,
    Statement,
    Unreadable,
    escaped,
    in_quotes,
    listed,
    one_line,
)
from workbench.checker.output import Output
from workbench.checker.plain import kernel_name
from workbench.checker.records import Fields
from workbench.checker.transpose_bound import INPUTS, OUTPUTS, TransposeBound, transpose_bound
from workbench.checker.transpose_traffic import stored_bytes
from workbench.checker.types import PlainType

_BYTES, _COUNT = "bytes", "count"
_EINSUMS = "that no alternative moves less, as an Einsum permutes axes too, which no count of Transposes has"


@dataclass(frozen=True)
class BoundChecked:
    """proven: whether it is proven that no alternative to the output is better."""

    statements: Sequence[Statement]
    proven: bool = False


def checked_bound(record: Fields, output: Output) -> BoundChecked:
    """Raises DoesNotHold if what the certificate says of the output is wrong."""
    kind = record.text("kind")
    if kind not in _CHECKS:
        raise Unreadable(f"the certificate's {record.where} has the unknown kind {in_quotes(kind)}")
    check = _CHECKS[kind](record, output)
    why = _why_unchecked(output)
    if why:
        return _unproven(f"its {kind}: not checked, since {why}")
    try:
        return check()
    except NotFinished as error:
        return _unproven(f"its {kind}: not checked, since {error}")


def _why_unchecked(output: Output) -> str:
    """Why sizes cannot be checked; "" if they can."""
    if any(size < 1 for size in output.dims.values()):
        return f"its sizes are those{output.with_dims}, with which nothing is computed"
    if output.unknown:
        return f"only a runtime says what {listed(output.unknown)} do"
    why = output.inferred.why or output.with_kernels.why
    return f"sizes cannot be inferred ({one_line(why)})" if why else ""


def _unproven(sentence: str) -> BoundChecked:
    return BoundChecked([Statement(sentence, proven=False)])


def _compared(
    what: Sequence[Statement], cost: int, least: int, alternative: Callable[[int], str], premise: str
) -> BoundChecked:
    """what: states the cost of the output. least: below which no alternative is, on the premise. alternative: says that
    none is below a cost."""
    if cost == least:
        return BoundChecked([*what, Statement(f"proven: {alternative(cost)}, {premise}")], proven=True)
    claim = f"that {alternative(cost)}; proven is only that {alternative(least)}, {premise}"
    return BoundChecked([*what, Statement(claim, proven=False)])


def _no_alternative(does: str, weigh: str, nodes: str) -> Callable[[int], str]:
    if weigh == _COUNT:
        return lambda count: f"no alternative runs fewer than {count:,} {nodes}"
    return lambda size: f"no alternative {does} less than {size:,} bytes"


def _weigh(record: Fields) -> str:
    weigh = record.text("weigh")
    if weigh not in (_BYTES, _COUNT):
        raise Unreadable(f"the certificate's {record.where} weighs {in_quotes(weigh)}, which is unknown")
    return weigh


def _joined(parts: Iterable[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


# ---- Transposes and Casts ------------------------------------------------------------------------------------------


def _transposes(record: Fields, output: Output) -> Callable[[], BoundChecked]:
    weigh, held = _weigh(record), _held_in_order(record)

    def cost(type_: PlainType) -> int:
        return stored_bytes(type_) or 0 if weigh == _BYTES else min(stored_bytes(type_) or 0, 1)

    def check() -> BoundChecked:
        moved = output.moved
        if moved.unknown:
            return _unproven("that no alternative moves less, as some sizes are not known")
        if moved.einsums:
            return _unproven(_EINSUMS)
        bound, own = _transpose_bound(output, held, cost), moved.bytes if weigh == _BYTES else moved.transposes
        return _compared(
            [], own, bound.least, _no_alternative("moves", weigh, "Transposes"), _if_orders_stay(bound, output)
        )

    return check


def with_kernels(output: Output) -> str:
    """The runtime that a count of Transposes is of, for the beginning of a sentence."""
    names = sorted({".".join(filter(None, (domain, kernel_name(domain, name)))) for domain, name, _ in output.kernels})
    return f"in a runtime with kernels for {listed(names, len(names))}, " if names else ""


def _held_in_order(record: Fields) -> frozenset[str]:
    """The operators whose order of axes a target demands, of those that would not run in any order by themselves."""
    return IMAGE_OPERATORS.intersection(record.texts("in_order"))


def _transpose_bound(
    output: Output, held: frozenset[str], cost: Callable[[PlainType], int], through_casts: bool = False
) -> TransposeBound:
    result = output.with_kernels
    uses = AxisUses(result.proto.graph, result.types, output.version, output.kernels, held)
    return transpose_bound(result.proto.graph, result.types, output.fixed, uses, cost, through_casts)


def _if_orders_stay(bound: TransposeBound, output: Output) -> str:
    operators = sorted(bound.held - {INPUTS, OUTPUTS})
    stay = [*sorted(bound.held & {INPUTS, OUTPUTS}), *([listed(operators, len(operators))] if operators else [])]
    held = f"the orders of axes of {_joined(stay)} stay, and any other operator" if stay else "every operator"
    return f"{with_kernels(output)}if {held} has one order, whichever, for all that it reads and writes"


def _casts(record: Fields, output: Output) -> Callable[[], BoundChecked]:
    weigh, held = _weigh(record), _held_in_type(record, output)

    def check() -> BoundChecked:
        converted = converted_by_casts(output.with_kernels, output.fixed, output.dims)
        what = f"between types of floats {output.name} runs {converted}{output.with_dims}"
        if converted.unknown:
            return _unproven(what)
        by_bytes = weigh == _BYTES
        bound = _cast_bound(output, held, lambda elements, bits: elements * bits // 8 if by_bytes else 1)
        own = converted.bytes if by_bytes else converted.casts
        less = _no_alternative("reads and writes", weigh, "Casts")
        return _compared([Statement(what)], own, bound.least, less, _if_types_stay(bound))

    return check


def _held_in_type(record: Fields, output: Output) -> frozenset[str]:
    """The nodes that run only in the types in which they stand, by their first results."""
    held = record.texts("in_type")
    unknown = next((key for key in held if key not in output.model.graph.nodes), None)
    if unknown is not None:
        raise DoesNotHold(f"{record.where} holds the node that computes {in_quotes(unknown)}, which is not there")
    if len(set(held)) < len(held):
        raise DoesNotHold(f"{record.where} holds a node twice")
    return frozenset(held)


def _cast_bound(
    output: Output, held: frozenset[str], cost: Callable[[int, int], int], through_transposes: bool = False
) -> CastBound:
    result = output.with_kernels
    return cast_bound(result.proto.graph, result.types, output.fixed, held, cost, through_transposes)


def _if_types_stay(bound: CastBound) -> str:
    clauses = ["inputs and outputs keep their types"]
    for sides, bits in (((True,), "32 bits or more"), ((False,), "fewer than 32 bits"), ((False, True), "both")):
        held = sorted(f"{count:,} {escaped(name)}" for (name, own), count in bound.held.items() if own == {*sides})
        clauses += [f"{_joined(held)} run in {bits}"] if held else []
    other = f"any other operator has all its floats in 32 bits or more, or all in fewer, {bound.narrowest} at least"
    return f"if {', '.join(clauses)}, and {other}"


def _traffic(record: Fields, output: Output) -> Callable[[], BoundChecked]:
    in_order, in_type = _held_in_order(record), _held_in_type(record, output)

    def in_narrowest(type_: PlainType) -> int:
        return narrowest_bytes(type_, narrowest_bits(output.with_kernels.types))

    def check() -> BoundChecked:
        converted = converted_by_casts(output.with_kernels, output.fixed, output.dims)
        moved = output.moved
        cost = converted.bytes + 2 * moved.bytes
        what = (
            f"{with_kernels(output)}the Casts and Transposes of {output.name} read and write"
            f" {cost:,} bytes{output.with_dims}"
        )
        if converted.unknown or moved.unknown:
            return _unproven(what)
        if moved.einsums:
            return _unproven(_EINSUMS)
        types = _cast_bound(output, in_type, lambda elements, bits: elements * bits // 8, through_transposes=True)
        orders = _transpose_bound(output, in_order, in_narrowest, through_casts=True)
        premise = f"{_if_types_stay(types)}, and {_if_orders_stay(orders, output)}"
        less = _no_alternative("reads and writes", _BYTES, "")
        return _compared([Statement(what)], cost, types.least + 2 * orders.least, less, premise)

    return check


# ---- groups of operators -------------------------------------------------------------------------------------------


def _groups(record: Fields, output: Output) -> Callable[[], BoundChecked]:
    name = record.text("rules")
    if name not in GROUPING_RULES:
        raise Unreadable(f"the certificate's {record.where} has the unknown rules {in_quotes(name)}")
    rules = GROUPING_RULES[name]

    def check() -> BoundChecked:
        nodes, calls = output.opened.nodes, output.opened.call_of
        outputs, types = frozenset(output.model.graph.outputs), output.with_kernels.types
        problem = grouping_problem(nodes, outputs, types, output.fixed, output.version, output.kernels, rules)
        group = [calls.get(values[0], -1 - number) for number, values in enumerate(problem.results)]
        cost = bytes_of_groups(problem, group)
        what = (
            f"the operators of {output.name}, with each call of a function as one group, read and write"
            f" {cost:,} bytes{output.with_dims}"
        )
        if any(value.bytes is None for value in problem.stored):
            return _unproven(f"{what}, without values of unknown size")
        if any(any(bodies_of(node)) for node in nodes):
            return _unproven(f"{what}, without what bodies read and write")
        bound = grouping_bound(problem, group, rules.multi_output)
        if cost < bound.least:
            return _unproven(f"{what}, which is less than {rules} allow: other operators are in one group")
        stopped = "" if bound.finished else " (the search was stopped)"
        less = _no_alternative("reads and writes", _BYTES, "")
        alone = f", and {listed(sorted(problem.alone), len(problem.alone))} in none" if problem.alone else ""
        return _compared([Statement(what)], cost, bound.least, less, f"if {rules}{alone}{stopped}")

    return check


# ---- orders and plans ----------------------------------------------------------------------------------------------


def _order(record: Fields, output: Output) -> Callable[[], BoundChecked]:
    def check() -> BoundChecked:
        peak = order_peak(output)
        what = (
            f"in the order of {output.name} its {peak.values:,} computed values take {peak.bytes:,} bytes at most"
            f"{output.with_dims}, with views in place, elementwise results over an operand, and Concats that copy"
        )
        if peak.unknown or output.opaque:
            excluded = f"{peak.unknown:,} values of unknown size, and {output.opaque:,} nodes with bodies or functions"
            return _unproven(f"{what}, without what is in {excluded}")
        if peak.bytes == peak.lower_bound:
            proof = "proven: one operator alone needs as much in any order"
            return BoundChecked([Statement(f"{what}; {proof}")], proven=True)
        claim = f"that no order takes less; proven is only that one operator alone needs {peak.lower_bound:,}"
        return BoundChecked([Statement(what), Statement(claim, proven=False)])

    return check


def _plan(record: Fields, output: Output) -> Callable[[], BoundChecked]:
    def check() -> BoundChecked:
        arena = checked_plan(record, output)
        what = (
            f"in the order of {output.name}, {arena.values:,} of the {arena.computed:,} values that it computes lie in"
            f" an arena of {arena.total:,} bytes{output.with_dims}, and no two of them share bytes while in use, except"
            " as views, parts of a Concat, or elementwise results over an operand"
        )
        missing = [
            (arena.unplaced, "computed values have no place"),
            (arena.unknown, "values in the plan have an unknown size"),
            (arena.inside, "nodes have bodies or call functions, whose own values are in no plan"),
        ]
        gaps = [Statement(f"of the plan: {count:,} {what_}", proven=False) for count, what_ in missing if count]
        if arena.shared:
            kernels = f"that kernels exist for the {arena.shared:,} pairs of values that share bytes"
            gaps.append(Statement(kernels, proven=False))
        if arena.total == arena.least:
            proof = "proven: in this order they need as much at one step, however they share bytes so"
            return BoundChecked([Statement(f"{what}; {proof}"), *gaps], not (arena.unknown or arena.inside))
        only = "" if arena.least is None else f"; proven is only that the values need {arena.least:,} bytes at one step"
        return BoundChecked([Statement(what), *gaps, Statement(f"that no arena is smaller{only}", proven=False)])

    return check


_CHECKS: Mapping[str, Callable[[Fields, Output], Callable[[], BoundChecked]]] = {
    "transposes": _transposes,
    "casts": _casts,
    "traffic": _traffic,
    "groups": _groups,
    "order": _order,
    "plan": _plan,
}
