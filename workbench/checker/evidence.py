"""Checks what a step carries besides its rewrites, against the file that was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.checker.arena import ArenaChecked, checked_plan
from workbench.checker.flow import checked_flow
from workbench.checker.groups import checked_groups
from workbench.checker.linear import LinearBound, checked_bound
from workbench.checker.order import checked_order
from workbench.checker.outcome import DoesNotHold, Statement, Unreadable, escaped, in_quotes, one_line
from workbench.checker.output import Output
from workbench.checker.plain import PlainModel
from workbench.checker.rebuilding import rebuilt_proto
from workbench.checker.records import Fields

OF_THE_GRAPH = ("order", "plan")  # kinds of evidence whose sizes are of the graph after the step
UNITS = {"bytes": "bytes", "count": "Transposes", "time": "nanoseconds"}


@dataclass(frozen=True)
class StepDone:
    """A step after its rewrites. replaced: the nodes that each of them removed. later: whether later steps change the
    graph; before: the graph after this one then, if its evidence is of that."""

    name: str
    replaced: Sequence[frozenset[str]]
    before: PlainModel | None
    later: bool


@dataclass(frozen=True)
class EvidenceChecked:
    """bound: whether the step says that nothing is less; proven: whether that is proven of the output itself."""

    statements: Sequence[Statement]
    bound: bool = True
    proven: bool = False


def checked_evidence(record: Fields, step: StepDone, output: Output) -> EvidenceChecked:
    """Raises DoesNotHold with the first statement of the evidence that does not hold."""
    kind = record.text("kind")
    if kind not in _CHECKS:
        raise Unreadable(f"the certificate's {record.where} is of the unknown kind {in_quotes(kind)}")
    if kind in OF_THE_GRAPH:
        try:
            output = output if step.before is None else _graph_after(step.before, output)
        except Unreadable as error:
            return EvidenceChecked([Statement(f"{step.name}: {error}: its {kind} is not checked", proven=False)])
        why = _unchecked(output)
        if why:
            return EvidenceChecked([Statement(f"{step.name}: {why}: its {kind} is not checked", proven=False)])
    result = _CHECKS[kind](record, step, output)
    return replace(result, proven=result.proven and not step.later)


def _graph_after(before: PlainModel, output: Output) -> Output:
    """That of the step, if later ones changed it. Raises Unreadable if sizes in it cannot be inferred."""
    model = replace(before, proto=rebuilt_proto(before))
    return Output(model, output.dims, "the graph after it, which later steps change,", is_file=False)


def _unchecked(output: Output) -> str:
    """Why nothing can be said of sizes."""
    if any(size < 1 for size in output.dims.values()):
        return f"its sizes are those{output.with_dims}, and where nothing is computed nothing is proven"
    if output.inferred.why:
        return f"sizes cannot be inferred ({escaped(output.inferred.why, 200)})"
    return ""


# ---- layouts ---------------------------------------------------------------------------------


def _cut(record: Fields, step: StepDone, output: Output) -> EvidenceChecked:
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
        f"{step.name}: of the network in the certificate ({edges:,} edges{paid}), no cut costs less than {bound:,}"
        f" {name}: a flow through it has the value of the cut"
    )
    return EvidenceChecked([Statement(sentence), *_network(step), *_reached(record, step, output, bound)])


def _layout_program(record: Fields, step: StepDone, output: Output) -> EvidenceChecked:
    linear_bound = checked_bound(record)
    bound = _bound_statement(record, step.name, linear_bound, _unit(record))
    return EvidenceChecked([bound, *_network(step), *_reached(record, step, output, linear_bound.cost)])


def _network(step: StepDone) -> Iterator[Statement]:
    yield Statement(
        f"{step.name}: that what the certificate minimizes is what layouts of this graph cost is the engine's word",
        False,
    )


def _reached(record: Fields, step: StepDone, output: Output, least: int) -> Iterator[Statement]:
    """Whether the Transposes of the output are those of the solution, of this cost."""
    weigh, name = record.text("weigh"), _unit(record)
    if weigh == "time":
        yield Statement(f"{step.name}: the times are those that the engine measured", proven=False)
        return
    moved, claims = output.moved, record.fields.get("certified") is True
    if moved.why or moved.unknown:
        yield Statement(f"{step.name}: whether the output reaches that is not known; sizes cannot be inferred", False)
        return
    result = moved.bytes if weigh == "bytes" else moved.transposes
    if result != least and claims and not step.later:
        raise DoesNotHold(
            f"{step.name} is claimed to reach {least:,} {name}, but the output's Transposes make {result:,}"
        )
    if result != least:
        why = "the engine does not claim it" if not step.later else "later steps changed the graph"
        yield Statement(f"{step.name}: the output's Transposes make {result:,} {name}, and not that; {why}", False)
        return
    yield Statement(f"{step.name}: the output's own Transposes make exactly {least:,} {name}{output.with_dims}")
    if not claims:
        yield Statement(f"{step.name}: the engine claims no minimum", proven=False)


def transposes(output: Output) -> Iterator[Statement]:
    """What the file's Transposes move for a runtime with kernels for the workbench's functions, and for any other."""
    own, all_ = output.moved, output.moved_inlined
    if own.why or all_.why:
        yield Statement(
            f"what its Transposes move cannot be inferred ({escaped(own.why or all_.why, 200)})", proven=False
        )
        return
    if own == all_:
        yield Statement(f"in any runtime {output.name} runs {own}{output.with_dims}")
        return
    yield Statement(
        f"a runtime with kernels for the functions of the domain 'workbench', as the workbench's own, runs in"
        f" {output.name} {own}{output.with_dims}"
    )
    yield Statement(f"any other, as ONNX Runtime, puts their bodies in place of the calls, and runs {all_}")


# ---- groupings -------------------------------------------------------------------------------


def _grouping(record: Fields, step: StepDone, output: Output) -> EvidenceChecked:
    linear_bound = checked_bound(record)
    count = checked_groups(record, linear_bound.chosen, step.replaced)
    return EvidenceChecked(
        [
            Statement(f"{step.name}: the solution's {count:,} groups are those that the log made"),
            _bound_statement(record, step.name, linear_bound, "bytes of memory traffic"),
            Statement(f"{step.name}: that the program states what groups cost is the engine's word", proven=False),
        ]
    )


def _bound_statement(record: Fields, name: str, linear_bound: LinearBound, unit: str) -> Statement:
    rows = f"{len(record.items('rows')):,} rows"
    paid = f", {record.whole('constant'):,} {unit} that no choice changes" if record.whole("constant") else ""
    reached = (
        f"{name}: of the program in the certificate ({rows}{paid}), the solution costs {linear_bound.cost:,} {unit}"
    )
    if linear_bound.proven is not None and linear_bound.proven >= linear_bound.cost:
        return Statement(f"{reached}; proven by the linear program: none costs less")
    message = (
        "the solver says that none costs less"
        if linear_bound.claimed >= linear_bound.cost
        else f"the solver says that none costs less than {linear_bound.claimed:,}"
    )
    proves = (
        "its duals are not here"
        if linear_bound.proven is None
        else f"the linear program proves only {linear_bound.proven:,}"
    )
    return Statement(f"{reached}; {message}, {proves}", proven=False)


# ---- orders and plans ------------------------------------------------------------------------


def _order(record: Fields, step: StepDone, output: Output) -> EvidenceChecked:
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
        word = f"{reached}; of {peak.unknown:,} sizes that is the engine's word"
        return EvidenceChecked([Statement(word, proven=False)])
    if peak.bytes == peak.least:
        return EvidenceChecked(
            [Statement(f"{reached}; proven: one operator alone needs as much in any order")], proven=True
        )
    bound = record.whole("bound")
    message = "that no order has less" if bound >= peak.bytes else f"that none has less than {bound:,}"
    word = f"{step.name}: the search says {message}; one operator alone needs {peak.least:,}"
    return EvidenceChecked([Statement(reached), Statement(word, proven=False)])


def _plan(record: Fields, step: StepDone, output: Output) -> EvidenceChecked:
    arena = checked_plan(record, output)
    values = f"{arena.values:,} of the {arena.of:,} values that {output.name} computes"
    placed = (
        f"{step.name}: {values} lie in an arena of {arena.total:,} bytes{output.with_dims}, and no two of them on the"
        f" same bytes while in use, but as views, parts of a Concat, or elementwise results over an operand"
    )
    statements = [Statement(placed, proven=not arena.open)]
    if arena.shared:
        word = f"{step.name}: {arena.shared:,} pairs of values share bytes; that kernels exist which run so is"
        statements.append(Statement(f"{word} the engine's word", proven=False))
    if arena.open:
        word = f"{step.name}: of {arena.open:,} sizes, or pairs of unknown shape, that is the engine's word"
        statements.append(Statement(word, proven=False))
    if arena.inside:
        word = f"{step.name}: where the {arena.inside:,} values of bodies and functions lie is the engine's word"
        statements.append(Statement(word, proven=False))
    if arena.nowhere:
        statements.append(Statement(f"{step.name}: {arena.nowhere:,} computed values have no place", proven=False))
    if arena.total == arena.least and not arena.open:
        proof = "proven: so placed on each other, its values need as much at one step, so no arena for them is smaller"
        return EvidenceChecked(
            [*statements, Statement(f"{step.name}: {proof}")],
            proven=not (arena.nowhere or arena.inside),
        )
    return EvidenceChecked([*statements, Statement(f"{step.name}: {_said(record, arena)}", proven=False)])


def _said(record: Fields, arena: ArenaChecked) -> str:
    certified = record.fields.get("certified") is True
    message = (
        "that no arena is smaller" if certified else f"that every arena has at least {record.whole('bound'):,} bytes"
    )
    return f"the planner says {message}; its values need {arena.least:,} at one step"


def _unit(record: Fields) -> str:
    weigh = record.text("weigh")
    if weigh not in UNITS:
        raise Unreadable(f"the certificate's {record.where} weighs {in_quotes(weigh)}, which is unknown")
    return UNITS[weigh]


def _word(record: Fields, step: StepDone, output: Output) -> EvidenceChecked:
    return EvidenceChecked([Statement(f"{step.name}: {one_line(record.text('sentence'))}", proven=False)], bound=False)


_CHECKS: Mapping[str, Callable[[Fields, StepDone, Output], EvidenceChecked]] = {
    "minimum cut": _cut,
    "layout program": _layout_program,
    "grouping program": _grouping,
    "order": _order,
    "plan": _plan,
    "word": _word,
}
