"""Minimum data movement: the layout of each operator from a minimum cut, with the proof."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.ir import Graph, Node
from workbench.planning.layout.conversion.convert import store_weights, why_there
from workbench.planning.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.planning.layout.problem.blocked import block_problem
from workbench.planning.layout.problem.cost_model import BYTES, COUNT, TIME, in_unit, tie_break
from workbench.planning.layout.problem.operator_benchmark import OperatorTimer
from workbench.planning.layout.problem.orders import BELOW_BOUND, proof
from workbench.planning.layout.problem.times import AUTO, DEVICES, TIMED_IN, OperatorTimes
from workbench.planning.layout.problem.transpose_classes import one_transpose_per_order
from workbench.planning.layout.problem.two_layouts import (
    LayoutProblem,
    layout_problem,
    orders_beyond,
    timed_problem,
)
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.cut_conversions import (
    converted_by,
    cut_conversions,
    remove_transposes_that_move_nothing,
)
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.layout.strategies.rounds import until_nothing_changes
from workbench.planning.solvers.integer_program import IntegerSolution, solve_integer_program
from workbench.planning.solvers.minimum_cut import CutSolution, solve_cut
from workbench.rewrite import Example, PassContext, Rewrite, option, rewrite_each

_OVER = "no choice between channels first and last for the operators that run in both"
_SECONDS = 60  # time limit of the search, if it is an integer program


@dataclass(frozen=True)
class LayoutOptimal(LayoutStrategy):
    """Chooses channels first or channels last for each operator so that the least is moved in total.

    - The layout of an operator that the target demands is fixed; one that cannot be converted keeps
      its layout; every other runs where it costs least.
    - A value is transposed once, however many operators read it in the other layout.
    - Existing Transposes may stay or be removed, as new ones.
    - A Transpose that moves only axes of size 1 is a Reshape, which moves nothing.
    - A broadcast operand of lower rank is reshaped, which is free; one whose axes must be permuted
      is transposed once for all its readers.
    - Of choices with the same cost, the one with the fewest Reshapes is taken, then the one that
      changes the fewest operators.
    - To minimize time, every operator and Transpose is timed on the device in both layouts, and the
      least sum of all times is chosen; the target's demands are then not binding.

    The bound of the result is the maximum flow: no choice of channels first or last for the operators
    that run in both moves less. The result is certified if it moves exactly that, but not if the size
    of a moved value is not known. Transposes of Tensors, and to other orders of axes, count but stay.

    Some costs cannot be stated as a cut: that of a Transpose to a third order between two values that may
    both change. The same choice is then an integer program, and its bound is that of the solver.

    Source: minimum s-t cut, Ford and Fulkerson 1956; shared values as hyperedges, Lawler 1973.
    """

    strategy = "optimal"
    title = "Layout: proven minimum of channels first and last"

    weigh: str = option(
        BYTES,
        "What is minimized: bytes moved, the number of transposes, or the measured time.",
        choices=(BYTES, COUNT, TIME),
    )
    device: str = option(AUTO, "Where operators are timed; auto: a CUDA device if there is one.", choices=DEVICES)
    dtype: str = option(
        "float32",
        "The element type in which operators are timed: that of the run to be fast.",
        choices=TIMED_IN,
    )

    extra_examples = (
        Example(
            title="The pool between two convolutions follows them; the last Transpose, of axes of size 1, is a Reshape",
            target="cuda",
            before="""g (float[1,2,4,4] x) => (float[1,2,1,1] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                a = Conv(x, w)
                b = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a)
                c = Conv(b, w)
                y = GlobalAveragePool(c)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,1,1] y)
                <float[2,2,1,1] w = {1, 2, 3, 4}, int64[4] y_shape = {1, 2, 1, 1}> {
                x_nhwc = Transpose<perm=[0,2,3,1]>(x)
                a_nhwc = workbench.Conv_NHWC(x_nhwc, w)
                b_nhwc = workbench.MaxPool_NHWC<kernel_shape=[2,2], strides=[2,2]>(a_nhwc)
                c_nhwc = workbench.Conv_NHWC(b_nhwc, w)
                y_nhwc = workbench.GlobalAveragePool_NHWC(c_nhwc)
                y = Reshape(y_nhwc, y_shape)
            }""",
            sentences=(
                "case 1, CNN to CNN: Conv 'Conv_a' must run in NHWC on this target; 'x' is transposed, 32 elements",
                "case 1, CNN to CNN: MaxPool 'MaxPool_b' runs in NHWC, which costs least; nothing moved",
                "case 1, CNN to CNN: Conv 'Conv_c' must run in NHWC on this target; nothing moved",
                "case 1, CNN to CNN: GlobalAveragePool 'GlobalAveragePool_y' runs in NHWC, which costs least; "
                "nothing moved",
                "perm [0, 3, 1, 2] of Transpose 'restore_y' moves only axes of size 1; reshaped, no element moved",
            ),
        ),
        Example(
            title="Operators on one pixel follow the convolutions around them: no Reshape is left there",
            target="cuda",
            before="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                a = Conv(x, w)
                p = GlobalAveragePool(a)
                b = Conv(p, w)
                r = Relu(b)
                c = Conv(r, w)
                s = Sigmoid(c)
                y = Mul(a, s)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                x_nhwc = Transpose<perm=[0,2,3,1]>(x)
                a_nhwc = workbench.Conv_NHWC(x_nhwc, w)
                p_nhwc = workbench.GlobalAveragePool_NHWC(a_nhwc)
                b_nhwc = workbench.Conv_NHWC(p_nhwc, w)
                r_nhwc = Relu(b_nhwc)
                c_nhwc = workbench.Conv_NHWC(r_nhwc, w)
                s_nhwc = Sigmoid(c_nhwc)
                y_nhwc = Mul(a_nhwc, s_nhwc)
                y = Transpose<perm=[0,3,1,2]>(y_nhwc)
            }""",
            sentences=(
                "case 1, CNN to CNN: Conv 'Conv_a' must run in NHWC on this target; 'x' is transposed, 32 elements",
                "case 1, CNN to CNN: GlobalAveragePool 'GlobalAveragePool_p' runs in NHWC, which costs least; "
                "nothing moved",
                "case 1, CNN to CNN: Conv 'Conv_b' must run in NHWC on this target; nothing moved",
                "case 1, CNN to CNN: Relu 'Relu_r' runs in NHWC, which costs least; nothing moved",
                "case 1, CNN to CNN: Conv 'Conv_c' must run in NHWC on this target; nothing moved",
                "case 1, CNN to CNN: Sigmoid 'Sigmoid_s' runs in NHWC, which costs least; nothing moved",
                "case 1, CNN to CNN: Mul 'Mul_y' runs in NHWC, which costs least; nothing moved",
            ),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, LayoutFacts]:
        if self.weigh == TIME:
            return self._round(graph, context)
        return until_nothing_changes(lambda: self._round(graph, context))

    def _round(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, LayoutFacts]:
        target = context.get(Profile)
        yield from rewrite_each(tidy_transposes(graph, reshape=False), "tidied")
        yield from rewrite_each(store_weights(graph, target), "weights")
        layouts = infer_layouts(graph, through_reshapes=True)
        times = OperatorTimes(graph, target, context.find(OperatorTimer))
        if self.weigh == TIME:
            problem = timed_problem(graph, layouts, target, times, self.device, self.dtype)
        else:
            problem = layout_problem(graph, layouts, target, self.weigh)
        solved: IntegerSolution | CutSolution
        if problem.inexact and self.weigh != TIME:
            solved, always, converted = _solved_as_program(graph, layouts, target, self.weigh)
        else:
            solved, always = solve_cut(problem.problem), problem.always
            converted = converted_by(problem, solved)
        yield from cut_conversions(
            graph, converted, layouts, target, lambda node, layout: _reason(node, layout, target, times)
        )
        if isinstance(solved, IntegerSolution):
            yield from rewrite_each(tidy_transposes(graph, reshape=False), "tidied")
            yield from rewrite_each(one_transpose_per_order(graph, self.weigh), "tidied")
            yield from remove_transposes_that_move_nothing(graph, target, self.weigh)
        yield from rewrite_each(tidy_transposes(graph), "tidied")
        if isinstance(solved, IntegerSolution):
            beyond = orders_beyond(graph)
            return proof(count_transposes(graph), self.weigh, solved, always, target, over=_OVER, beyond=beyond)
        proved = self._proof(graph, problem, solved, target)
        return replace(proved, device=times.device, times=times.rows(converted))

    def _proof(self, graph: Graph, problem: LayoutProblem, solution: CutSolution, target: Profile) -> LayoutFacts:
        """The bound, and whether the converted graph reaches it."""
        after, cost = count_transposes(graph), solution.cost + problem.always
        bytes_of_cost = in_unit(cost) if self.weigh == BYTES else tie_break(cost)
        reaches_cost = after.transposes == in_unit(cost) if self.weigh == COUNT else after.bytes_moved == bytes_of_cost
        bound = in_unit(solution.lower_bound + problem.always)
        reached = {COUNT: after.transposes, BYTES: after.bytes_moved}.get(self.weigh, bound)
        unknown = 0 if self.weigh == COUNT else after.unknown  # Transposes of unknown size count as 0
        inexact = problem.inexact or (BELOW_BOUND if reached < bound and not unknown else "")
        exact = not inexact and not unknown
        return LayoutFacts(
            weigh=self.weigh,
            over=_OVER,
            beyond=orders_beyond(graph),
            unknown=unknown,
            inexact=inexact,
            lower_bound=bound if exact else None,
            certified=exact and reaches_cost and in_unit(cost) == bound,
            demanded=tuple(target.required_layouts),
        )


def _solved_as_program(
    graph: Graph, layouts: dict[str, str], target: Profile, weigh: str
) -> tuple[IntegerSolution, int, list[str]]:
    """The solution of the integer program, what no choice affects, and the operators that it converts."""
    problem = block_problem(graph, layouts, target, 1, weigh)
    solution = solve_integer_program(problem.problem, _SECONDS)
    chosen = zip(problem.nodes, problem.operand_layouts, solution.forms, strict=True)
    converted = [
        name for name, operand_layouts, form in chosen if name is not None and operand_layouts[form] is not None
    ]
    return solution, problem.always, converted


def _reason(node: Node, layout: str, target: Profile, times: OperatorTimes) -> str:
    timed = times.operator(node.name)
    if timed is not None:
        as_written, converted = (f"{time / 1e3:,.1f} us" for time in timed)
        return f"runs in {layout}, where it takes {converted} instead of {as_written}"
    return why_there(node, f"in {layout}", target)
