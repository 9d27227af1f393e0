"""The evidence of a step that minimizes a cost: a cut with its flow, a linear program with its duals, an order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from workbench.certification.flat import Json, node_key
from workbench.fusion.fusion_facts import FusionFacts
from workbench.fusion.minimum_traffic import grouping_program
from workbench.fusion.problem import fusion_problem
from workbench.fusion.rules import RULES
from workbench.fusion.traffic import is_view, stored_values
from workbench.ir import Graph
from workbench.layout.layout_facts import LayoutFacts, SolvedCut, SolvedProgram
from workbench.layout.problem.cost_model import DECIDES
from workbench.memory.order_facts import OrderFacts
from workbench.memory.scheduling import UnknownSizeError, scheduling_problem
from workbench.precision.precision_facts import PrecisionFacts
from workbench.rewrite import Step
from workbench.solvers.binary_program import DENOMINATOR, BinaryProgram, dual_values, scaled_row
from workbench.solvers.integer_program import linear_form
from workbench.solvers.minimum_cut import SINK, SOURCE, maximum_flow

MAX_COEFFICIENTS = 500_000  # the most in the rows of a program; for a larger one only the solver's claim is kept
RELAXATION_SECONDS = 60  # the time limit of a linear relaxation


def step_evidence(step: Step, before: Graph, after: Graph) -> Json | None:
    """The evidence of a step besides its rewrites, or the claim of its pass; None if there is neither.

    before, after: the graph before and after the step.
    """
    facts, result = step.facts, None
    if isinstance(facts, LayoutFacts) and facts.solved is not None:
        result = _layout(facts)
    elif isinstance(facts, PrecisionFacts) and facts.solved is not None and facts.bound is not None:
        result = _precision(facts)
    elif isinstance(facts, FusionFacts) and facts.traffic.bound_bytes is not None:
        result = _grouping(step, facts, before)
    elif isinstance(facts, OrderFacts) and facts.after_bytes is not None:
        result = _order(facts, after)
    if result is not None:
        return result
    return {"kind": "word", "sentence": step.conclusion} if step.conclusion else None


# ---- layouts ---------------------------------------------------------------------------------


def _layout(facts: LayoutFacts) -> Json | None:
    if facts.lower_bound is None:
        return None
    solved = facts.solved
    result = _cut(solved) if isinstance(solved, SolvedCut) else _layout_program(solved)
    if result is None:
        return None
    return {**result, "weigh": facts.weigh, "bound": facts.lower_bound, "certified": bool(facts.certified)}


def _precision(facts: PrecisionFacts) -> Json | None:
    solved = facts.solved
    result = _cut(solved) if isinstance(solved, SolvedCut) else _layout_program(solved)
    if result is None:
        return None
    weigh = {"bytes": "cast bytes", "count": "casts"}.get(str(facts.weigh), facts.weigh)
    return {**result, "weigh": weigh, "type": facts.type, "bound": facts.bound, "certified": facts.certified}


def _cut(solved: SolvedCut) -> Json:
    flow = maximum_flow(solved.problem)
    vertices: dict[Hashable, int] = {SOURCE: 0, SINK: 1}
    edges = [
        [vertices.setdefault(e.tail, len(vertices)), vertices.setdefault(e.head, len(vertices)), e.capacity, e.flow]
        for e in flow.edges
    ]
    return {
        "kind": "minimum cut",
        "vertices": [_vertex(vertex, solved.names) for vertex in vertices],
        "edges": edges,
        "first_side": sorted(number for vertex, number in vertices.items() if vertex in flow.first),
        "always": flow.always + solved.always,
        "unit": DECIDES,
    }


def _vertex(vertex: Hashable, names: Sequence[str | None]) -> str:
    if isinstance(vertex, int):
        return names[vertex] or f"choice {vertex}"
    return f"shared value {vertex[1]}, {vertex[0]}" if isinstance(vertex, tuple) else str(vertex)


def _layout_program(solved: SolvedProgram | None) -> Json | None:
    if solved is None:
        return None
    program = linear_form(solved.problem, solved.solution.forms)
    return _program("layout program", program, solved.always, solved.solution.lower_bound + solved.always)


def _program(kind: str, program: BinaryProgram, constant: int, bound: int) -> Json | None:
    """The program with its solution and duals; None if it is too large to be written."""
    if sum(len(row.coefficients) for row in program.rows) > MAX_COEFFICIENTS:
        return None
    rows = [scaled_row(row) for row in program.rows]
    chosen = [column for column, value in enumerate(program.solution) if value > 0.5]
    duals = dual_values(program.costs, rows, RELAXATION_SECONDS)
    return {
        "kind": kind,
        "costs": list(program.costs),
        "rows": [
            {
                "columns": list(row.coefficients),
                "numbers": list(row.coefficients.values()),
                **({} if row.lower is None else {"least": row.lower}),
                **({} if row.upper is None else {"most": row.upper}),
            }
            for row in rows
        ],
        "solution": chosen,
        "constant": constant,
        "cost": sum(program.costs[column] for column in chosen) + constant,
        "bound": bound,
        **({} if duals is None else {"duals": duals, "denominator": DENOMINATOR}),
    }


# ---- groupings and orders --------------------------------------------------------------------


def _grouping(step: Step, facts: FusionFacts, before: Graph) -> Json | None:
    index = {node.name: i for i, node in enumerate(before.nodes)}
    last_of = {index[name]: max(index[m] for m in group.members) for group in facts.groups for name in group.members}
    group = [last_of[i] for i in range(len(before.nodes))]
    options: Mapping[str, object] = step.options
    rules, max_operators = RULES[str(options["rules"])], int(str(options["max_operators"]))
    result = grouping_program(fusion_problem(before), stored_values(before), rules, max_operators, group)
    bound = facts.traffic.bound_bytes or 0
    program = _program("grouping program", result.program, result.constant, bound)
    keys = [node_key(node) for node in before.nodes]
    return None if program is None else {**program, "operators": keys, "together": [list(t) for t in result.together]}


def _order(facts: OrderFacts, after: Graph) -> Json | None:
    """The operators in order, each with the bytes of its results, unless it is a view, and overwritable operands."""
    try:
        problem = scheduling_problem(after)
    except UnknownSizeError:
        return None
    memory: dict[str, int] = {}
    operators = []
    for node, operator in zip(after.nodes, problem.operators, strict=True):
        record: Json = {"node": node_key(node)}
        if is_view(after, node):
            if node.inputs[0] in memory:
                memory[node.outputs[0]] = memory[node.inputs[0]]
        else:
            results = dict(zip(filter(None, node.outputs), operator.writes, strict=True))
            record["sizes"] = {value: problem.sizes[number] for value, number in results.items()}
            memory |= results
        if overwritable := [value for value in node.inputs if memory.get(value) in operator.overwritable]:
            record["over"] = overwritable
        operators.append(record)
    return {
        "kind": "order",
        "operators": [record for record in operators if record["node"]],
        "peak": facts.after_bytes,
        "bound": facts.bound_bytes,
    }
