"""Checks the evidence of a step, such as a bound or a memory plan, against the written file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.checker.arena import ArenaChecked, checked_plan
from workbench.checker.cast_traffic import CAST_TYPES
from workbench.checker.flow import checked_flow
from workbench.checker.groups import checked_groups
from workbench.checker.linear_program_bound import LinearBound, checked_bound
from workbench.checker.order import checked_order
from workbench.checker.outcome import DoesNotHold, Statement, Unreadable, escaped, in_quotes, one_line
from workbench.checker.output import Output
from workbench.checker.plain import PlainModel
from workbench.checker.rebuilding import rebuilt_proto
from workbench.checker.records import Fields

GRAPH_EVIDENCE_KINDS = ("order", "plan")  # kinds of evidence about the graph after the step
UNITS = {
    "bytes": "bytes",
    "count": "Transposes",
    "time": "nanoseconds",
    "cast bytes": "bytes",
    "casts": "Casts",
    "traffic": "bytes",
}


@dataclass(frozen=True)
class CompletedStep:
    """A step after its rewrites. replaced: the nodes that each rewrite removed, by key. later: whether later steps
    change the graph. graph_after: the graph after this step, if they do and the evidence is about it."""

    name: str
    replaced: Sequence[frozenset[str]]
    graph_after: PlainModel | None
    later: bool


@dataclass(frozen=True)
class EvidenceChecked:
    """bound: whether the step claims a minimum. proven: whether that minimum is proven for the output."""

    statements: Sequence[Statement]
    bound: bool = True
    proven: bool = False


def checked_evidence(record: Fields, step: CompletedStep, output: Output) -> EvidenceChecked:
    """Raises DoesNotHold with the first statement of the evidence that does not hold."""
    kind = record.text("kind")
    if kind not in _CHECKS:
        raise Unreadable(f"the certificate's {record.where} has the unknown kind {in_quotes(kind)}")
    if kind in GRAPH_EVIDENCE_KINDS:
        try:
            output = output if step.graph_after is None else _graph_after(step.graph_after, output)
        except Unreadable as error:
            return EvidenceChecked([Statement(f"{step.name}: {error}: its {kind} is not checked", proven=False)])
        why = _why_unchecked(output)
        if why:
            return EvidenceChecked([Statement(f"{step.name}: {why}: its {kind} is not checked", proven=False)])
    result = _CHECKS[kind](record, step, output)
    return replace(result, proven=result.proven and not step.later)


def _graph_after(graph: PlainModel, output: Output) -> Output:
    """The graph after a step, which later steps change. Raises Unreadable if its sizes cannot be inferred."""
    model = replace(graph, proto=rebuilt_proto(graph))
    return Output(model, output.dims, "the graph after it, which later steps change,", is_file=False)


def _why_unchecked(output: Output) -> str:
    """Why sizes cannot be checked; "" if they can."""
    if any(size < 1 for size in output.dims.values()):
        return f"its sizes are those{output.with_dims}, with which nothing is computed"
    if output.inferred.why:
        return f"sizes cannot be inferred ({escaped(output.inferred.why, 200)})"
    return ""


# ---- layouts and element types ---------------------------------------------------------------------------------


def _cut(record: Fields, step: CompletedStep, output: Output) -> EvidenceChecked:
    unit = record.whole("unit")
    if unit < 1:
        raise Unreadable(f"the certificate's {record.where} has a unit below 1")
    always = record.whole("always")
    bound = (checked_flow(record) + always) // unit
    if bound != record.whole("bound"):
        raise DoesNotHold(f"the bound of {record.where} is claimed to be {record.whole('bound'):,}, and is {bound:,}")
    edges, name = len(record.items("edges")), _unit(record)
    paid = f", and {always // unit:,} {name} that no cut changes" if always // unit else ""
    sentence = (
        f"{step.name}: no cut of the network in the certificate ({edges:,} edges{paid}) costs less than {bound:,}"
        f" {name}: a flow through it has the value of the cut"
    )
    if record.text("weigh") in ("cast bytes", "casts"):
        return EvidenceChecked(
            [Statement(sentence), _types_claim(step), *_reached_by_casts(record, step, output, bound)]
        )
    return EvidenceChecked([Statement(sentence), _cost_claim(step), *_reached(record, step, output, bound)])


def _layout_program(record: Fields, step: CompletedStep, output: Output) -> EvidenceChecked:
    linear_bound = checked_bound(record)
    bound = _bound_statement(record, step.name, linear_bound, _unit(record))
    if record.text("weigh") == "traffic":
        reached = _reached_by_traffic(record, step, output, linear_bound.cost)
        return EvidenceChecked([bound, _types_claim(step), *reached])
    return EvidenceChecked([bound, _cost_claim(step), *_reached(record, step, output, linear_bound.cost)])


def _cost_claim(step: CompletedStep) -> Statement:
    return Statement(f"{step.name}: that the certificate minimizes the cost of this graph's layouts", proven=False)


def _reached(record: Fields, step: CompletedStep, output: Output, cost: int) -> Iterator[Statement]:
    """Whether the Transposes of the output cost what the solution costs. cost: of the solution."""
    weigh, name = record.text("weigh"), _unit(record)
    if weigh == "time":
        yield Statement(f"{step.name}: the times are those that the engine measured", proven=False)
        return
    transposed = output.moved
    result = transposed.bytes if weigh == "bytes" else transposed.transposes
    known = not (transposed.why or transposed.unknown)
    yield from _compared(record, step, output, cost, result if known else None, "Transposes", name)


def _types_claim(step: CompletedStep) -> Statement:
    return Statement(f"{step.name}: that the certificate minimizes the cost of this graph's Casts", proven=False)


def _reached_by_traffic(record: Fields, step: CompletedStep, output: Output, cost: int) -> Iterator[Statement]:
    """Whether the Casts and Transposes of the output read and write together what the solution costs."""
    converted, moved = output.converted(_narrow(record)), output.moved
    known = not (converted.why or converted.unknown or moved.unknown)
    result = converted.bytes + 2 * moved.bytes
    yield from _compared(record, step, output, cost, result if known else None, "Casts and Transposes", _unit(record))


def _narrow(record: Fields) -> int:
    """The element type that the certificate names."""
    narrow = CAST_TYPES.get(record.text("type"))
    if narrow is None:
        raise Unreadable(f"the certificate's {record.where} has the type {in_quotes(record.text('type'))}")
    return narrow


def _reached_by_casts(record: Fields, step: CompletedStep, output: Output, cost: int) -> Iterator[Statement]:
    """Whether the Casts of the output cost what the solution costs. cost: of the solution."""
    converted = output.converted(_narrow(record))
    result = converted.bytes if record.text("weigh") == "cast bytes" else converted.casts
    known = not (converted.why or converted.unknown)
    yield from _compared(record, step, output, cost, result if known else None, "Casts", _unit(record))


def _compared(
    record: Fields, step: CompletedStep, output: Output, cost: int, result: int | None, nodes: str, unit: str
) -> Iterator[Statement]:
    """Whether the nodes of this kind cost in the output what the solution costs. result: None if it is not known."""
    certified = record.fields.get("certified") is True
    if result is None:
        yield Statement(f"{step.name}: the cost of the output is not known; its sizes cannot be inferred", False)
        return
    if result != cost and certified and not step.later:
        raise DoesNotHold(f"{step.name} is claimed to reach {cost:,} {unit}, but the output's {nodes} make {result:,}")
    if result != cost:
        why = "the engine does not claim it" if not step.later else "later steps changed the graph"
        yield Statement(f"{step.name}: the output's {nodes} make {result:,} {unit} instead; {why}", False)
        return
    yield Statement(f"{step.name}: the output's own {nodes} make exactly {cost:,} {unit}{output.with_dims}")
    if not certified:
        yield Statement(f"{step.name}: the engine claims no minimum", proven=False)


def transposes(output: Output) -> Iterator[Statement]:
    """What the file's Transposes move for a runtime with kernels for the workbench's functions, and for any other."""
    native, inlined = output.moved, output.moved_inlined
    if native.why or inlined.why:
        yield Statement(
            f"what its Transposes move cannot be inferred ({escaped(native.why or inlined.why, 200)})", proven=False
        )
        return
    if native == inlined:
        yield Statement(f"in {output.name}, any runtime runs {native}{output.with_dims}")
        return
    yield Statement(
        f"in {output.name}, a runtime with kernels for the functions of the domain 'workbench', such as the workbench,"
        f" runs {native}{output.with_dims}"
    )
    yield Statement(f"any other runtime, such as ONNX Runtime, inlines these functions and runs {inlined}")


# ---- groupings -------------------------------------------------------------------------------


def _grouping(record: Fields, step: CompletedStep, output: Output) -> EvidenceChecked:
    linear_bound = checked_bound(record)
    count = checked_groups(record, linear_bound.chosen, step.replaced)
    return EvidenceChecked(
        [
            Statement(f"{step.name}: the solution's {count:,} groups are those that the log made"),
            _bound_statement(record, step.name, linear_bound, "bytes of memory traffic"),
            Statement(f"{step.name}: that the program states the cost of this graph's groups", proven=False),
        ]
    )


def _bound_statement(record: Fields, name: str, linear_bound: LinearBound, unit: str) -> Statement:
    rows = f"{len(record.items('rows')):,} rows"
    paid = f", {record.whole('constant'):,} {unit} that no choice changes" if record.whole("constant") else ""
    reached = (
        f"{name}: the solution of the program in the certificate ({rows}{paid}) costs {linear_bound.cost:,} {unit}"
    )
    if linear_bound.proven is not None and linear_bound.proven >= linear_bound.cost:
        return Statement(f"{reached}; proven by the linear program: none costs less")
    claim = (
        "the solver says that none costs less"
        if linear_bound.claimed >= linear_bound.cost
        else f"the solver says that none costs less than {linear_bound.claimed:,}"
    )
    proof = (
        "the certificate has no duals"
        if linear_bound.proven is None
        else f"the linear program proves only {linear_bound.proven:,}"
    )
    return Statement(f"{reached}; {claim}, {proof}", proven=False)


# ---- orders and plans ------------------------------------------------------------------------


def _order(record: Fields, step: CompletedStep, output: Output) -> EvidenceChecked:
    peak = checked_order(record, output)
    if peak.bytes != record.whole("peak"):
        raise DoesNotHold(
            f"the peak of {record.where} is claimed to be {record.whole('peak'):,} bytes and adds up to {peak.bytes:,}"
        )
    reached = (
        f"{step.name}: in the order of {output.name} its {peak.values:,} computed values take"
        f" {peak.bytes:,} bytes at most{output.with_dims}, with views in place and elementwise results over an operand"
    )
    if peak.unknown:
        claim = f"{reached}; the engine claims {peak.unknown:,} of the sizes"
        return EvidenceChecked([Statement(claim, proven=False)])
    if peak.bytes == peak.lower_bound:
        return EvidenceChecked(
            [Statement(f"{reached}; proven: one operator alone needs as much in any order")], proven=True
        )
    bound = record.whole("bound")
    minimum = "that no order has less" if bound >= peak.bytes else f"that none has less than {bound:,}"
    claim = f"{step.name}: the search says {minimum}; one operator alone needs {peak.lower_bound:,}"
    return EvidenceChecked([Statement(reached), Statement(claim, proven=False)])


def _plan(record: Fields, step: CompletedStep, output: Output) -> EvidenceChecked:
    arena = checked_plan(record, output)
    values = f"{arena.values:,} of the {arena.computed:,} values that {output.name} computes"
    placed = (
        f"{step.name}: {values} lie in an arena of {arena.total:,} bytes{output.with_dims}, and no two of them share"
        f" bytes while in use, except as views, parts of a Concat, or elementwise results over an operand"
    )
    statements = [Statement(placed, proven=not arena.unchecked)]
    if arena.shared:
        claim = f"{step.name}: that kernels exist for the {arena.shared:,} pairs of values that share bytes"
        statements.append(Statement(claim, proven=False))
    if arena.unchecked:
        claim = f"{step.name}: that {arena.unchecked:,} sizes, or pairs of unknown shape, are as the plan says"
        statements.append(Statement(claim, proven=False))
    if arena.inside:
        claim = f"{step.name}: where the {arena.inside:,} values of bodies and functions lie"
        statements.append(Statement(claim, proven=False))
    if arena.unplaced:
        statements.append(Statement(f"{step.name}: {arena.unplaced:,} computed values have no place", proven=False))
    if arena.total == arena.lower_bound and not arena.unchecked:
        proof = "proven: with this sharing, its values need as much at one step, so no arena for them is smaller"
        return EvidenceChecked(
            [*statements, Statement(f"{step.name}: {proof}")],
            proven=not (arena.unplaced or arena.inside),
        )
    return EvidenceChecked([*statements, Statement(f"{step.name}: {_planner_claim(record, arena)}", proven=False)])


def _planner_claim(record: Fields, arena: ArenaChecked) -> str:
    certified = record.fields.get("certified") is True
    bound = (
        "that no arena is smaller" if certified else f"that every arena has at least {record.whole('bound'):,} bytes"
    )
    return f"the planner says {bound}; its values need {arena.lower_bound:,} at one step"


def _unit(record: Fields) -> str:
    weigh = record.text("weigh")
    if weigh not in UNITS:
        raise Unreadable(f"the certificate's {record.where} weighs {in_quotes(weigh)}, which is unknown")
    return UNITS[weigh]


def _claim(record: Fields, step: CompletedStep, output: Output) -> EvidenceChecked:
    return EvidenceChecked([Statement(f"{step.name}: {one_line(record.text('sentence'))}", proven=False)], bound=False)


_CHECKS: Mapping[str, Callable[[Fields, CompletedStep, Output], EvidenceChecked]] = {
    "minimum cut": _cut,
    "layout program": _layout_program,
    "grouping program": _grouping,
    "order": _order,
    "plan": _plan,
    "word": _claim,
}
