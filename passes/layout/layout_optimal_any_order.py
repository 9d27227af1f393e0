"""Minimum data movement with axes in any order: the order of each operator from an integer program."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.ir import Graph
from workbench.planning.layout.conversion.convert import store_weights
from workbench.planning.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.planning.layout.problem.cost_model import BYTES, COUNT
from workbench.planning.layout.problem.orders import order_problem, proof
from workbench.planning.layout.problem.transpose_classes import one_transpose_per_order
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.cut_conversions import remove_transposes_that_move_nothing
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.layout.strategies.order_conversions import order_conversions
from workbench.planning.solvers.integer_program import solve_integer_program
from workbench.rewrite import Example, PassContext, Rewrite, option, rewrite_each


@dataclass(frozen=True)
class LayoutOptimalAnyOrder(LayoutStrategy):
    """Chooses for each operator one of the orders of axes that the graph's Transposes and the target name, at the least
    total cost.

    - Also for Tensors: the Transposes that split and join attention heads are chosen like any other.
    - An operator may run in any order that reaches it through operators that propagate it; one that
      the target demands is fixed; one that cannot be converted keeps its order.
    - A value is transposed once for each order in which it is read, whatever the number of readers.
    - A Transpose that moves only axes of size 1 is a Reshape and costs nothing.
    - Of choices with the same cost, the one that changes the fewest operators is taken; then operators
      between Reshapes that move no element are converted too, where that leaves fewer Reshapes.

    The bound of the result is the solver's; the gap is the part of the cost that is left to prove. A result is
    certified if it has no gap and moves exactly the bound. If a value would have more than six orders besides its
    own, the others are omitted, and there is no bound.

    Source: integer program of choices and shared values, multiway cut (Dahlhaus et al. 1994); HiGHS
    (Huangfu and Hall 2018).
    """

    strategy = "optimal-any-order"
    title = "Layout: proven minimum of the orders of axes in use"

    weigh: str = option(BYTES, "What is minimized: bytes moved, or the number of transposes.", choices=(BYTES, COUNT))
    seconds: int = option(60, "Time limit of the search, in seconds; then the best found, with its gap.", least=1)

    extra_examples = (
        Example(
            title="A Slice of an attention's keys: one Transpose, not two, after it, where there is less to move",
            target="cuda",
            before="""g (float[1,4,2,3] k, float[1,2,4,3] q) => (float[1,2,4,2] y)
                <int64[1] start = {0}, int64[1] end = {2}, int64[1] axis = {2}> {
                by_head = Transpose<perm=[0,2,1,3]>(k)
                taken = Slice(by_head, start, end, axis)
                turned = Transpose<perm=[0,1,3,2]>(taken)
                y = MatMul(q, turned)
            }""",
            after="""g (float[1,4,2,3] k, float[1,2,4,3] q) => (float[1,2,4,2] y)
                <int64[1] start = {0}, int64[1] end = {2}, int64[1] axis_0213 = {1}> {
                taken_0213 = Slice(k, start, end, axis_0213)
                turned = Transpose<perm=[0,2,3,1]>(taken_0213)
                y = MatMul(q, turned)
            }""",
            sentences=(
                "case 4, Tensor to Tensor: Slice 'Slice_taken' runs on axes [0, 2, 1, 3], which costs least; "
                "nothing moved",
                "perm [0, 2, 1, 3] then [0, 1, 3, 2] is [0, 2, 3, 1]; 12 elements no longer moved",
            ),
        ),
        Example(
            title="The same order by two paths: one path is enough",
            target="cuda",
            before="""g (float[2,3,4] x) => (float[3,2,4] a, float[3,4,2] y) {
                a = Transpose<perm=[1,0,2]>(x)
                b = Transpose<perm=[0,2,1]>(a)
                c = Transpose<perm=[1,2,0]>(x)
                y = Sub(b, c)
            }""",
            after="""g (float[2,3,4] x) => (float[3,2,4] a, float[3,4,2] y) {
                a = Transpose<perm=[1,0,2]>(x)
                b = Transpose<perm=[1,2,0]>(x)
                y = Sub(b, b)
            }""",
            sentences=(
                "'x' is read in 2 other orders and transposed 3 times; once for each, 24 elements no longer moved",
            ),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, LayoutFacts]:
        target = context.get(Profile)
        yield from rewrite_each(tidy_transposes(graph, reshape=False), "tidied")
        yield from rewrite_each(store_weights(graph, target), "weights")
        layouts = infer_layouts(graph, through_reshapes=True)
        problem = order_problem(graph, layouts, target, self.weigh)
        solution = solve_integer_program(problem.problem, self.seconds)
        chosen = zip(problem.nodes, problem.perms, solution.forms, strict=True)
        perms = {name: perm for name, forms, form in chosen if name and (perm := forms[form]) is not None}
        yield from order_conversions(graph, perms, layouts, target)
        yield from rewrite_each(tidy_transposes(graph, reshape=False), "tidied")
        yield from rewrite_each(one_transpose_per_order(graph, self.weigh), "tidied")
        yield from remove_transposes_that_move_nothing(graph, target, self.weigh)
        yield from rewrite_each(tidy_transposes(graph), "tidied")
        return proof(
            count_transposes(graph),
            self.weigh,
            solution,
            problem.always,
            target,
            over="no choice among the orders of axes that the graph's Transposes and the target name",
            incomplete="" if problem.complete else "some value may have more orders of axes than are searched",
        )
