"""What the orders of axes cost without one Transpose: the problem of `layout_optimal`, solved with it forbidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.ir import Graph, Node
from workbench.planning.layout.problem.orders import order_problem
from workbench.planning.layout.profile import Profile
from workbench.planning.solvers.integer_program import OrderedValue
from workbench.planning.solvers.regions import IndependentRegion, regions
from workbench.planning.solvers.solving import solve_integer_program

_SECONDS = 2  # of search: somebody waits for the answer
NONE_WITHOUT = "no choice of orders does without it"


def cost_without(graph: Graph, transpose: Node, layouts: Mapping[str, str], target: Profile) -> str:
    """What the cheapest choice of orders moves if no Transpose gives that value in that order, as a clause.

    "" if the sizes are not known, or no bound was found in time.
    """
    if bound_shape(graph, transpose.inputs[0]) is None:
        return ""
    stated = order_problem(graph, dict(layouts), target)
    use = stated.conversions.get(transpose.outputs[0])
    if use is None or stated.incomplete:
        return ""
    region = next((one for one in regions(stated.problem) if _uses(one, use)), None)
    if region is None:
        return NONE_WITHOUT
    program = region.problem
    forms = [form for choice in program.choices for form in choice]
    needed = {need for form in forms for need in form.needs}
    costs = (*(form.cost for form in forms), *(program.conversion_cost(need) or (0,) for need in needed))
    dearest = 1 + sum(cost[0] for cost in costs)  # more than any assignment
    forbidden = replace(program, order_costs={use: (dearest, 0, 0, 0)})
    best = solve_integer_program(program, _SECONDS)
    if forbidden.cost(best.forms)[0] < dearest:
        return f"`layout_optimal` does without it, for '{target.name}'"
    other = solve_integer_program(forbidden, _SECONDS)
    if best.gap or other.gap:
        return ""
    if other.cost[0] >= dearest:
        return NONE_WITHOUT
    more = other.cost[0] - best.cost[0]
    if not more:
        return "another choice of orders, without it, moves as many bytes"
    return f"without it the cheapest choice of orders moves {more:,} bytes more"


def _uses(region: IndependentRegion, use: OrderedValue) -> bool:
    return any(use in (*form.gives, *form.needs) for forms in region.problem.choices for form in forms)
