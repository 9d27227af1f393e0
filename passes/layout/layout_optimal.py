"""Minimum data movement: the order of axes of each operator from one problem over all values, with the proof."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation
from workbench.planning.layout.conversion.convert import store_weights, why_there
from workbench.planning.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.planning.layout.problem.cost_model import BYTES, COUNT, TIME
from workbench.planning.layout.problem.operator_benchmark import OperatorTimer
from workbench.planning.layout.problem.orders import order_problem, proof, timed_order_problem
from workbench.planning.layout.problem.times import AUTO, DEVICES, TIMED_IN, OperatorTimes
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.layout.strategies.order_conversions import relayout
from workbench.planning.layout.strategies.rounds import until_nothing_changes
from workbench.planning.solvers.solving import solve_integer_program
from workbench.rewrite import Example, PassContext, Rewrite, option, rewrite_each


@dataclass(frozen=True)
class LayoutOptimal(LayoutStrategy):
    """Chooses for each operator one of the orders of axes that the graph's Transposes and the target name, at the least
    total cost.

    - An operator may run in any order that reaches it through operators that propagate it, Tensors too: the
      Transposes that split and join attention heads are chosen like those around images. One that the target
      demands is fixed; one that cannot be converted keeps its order.
    - A value is transposed once for each order in which it is read, whatever the number of readers.
    - Existing Transposes may stay or be removed, as new ones.
    - A Transpose that moves only axes of size 1 is a Reshape, which moves nothing.
    - A broadcast operand of lower rank is reshaped, which is free; one whose axes must be permuted
      is transposed once for all its readers.
    - Of choices with the same cost, the one with the fewest Reshapes is taken, then the one that
      changes the fewest operators.
    - To minimize time, every operator and Transpose is timed on the device in each order, and the
      least sum of all times is chosen; the target's demands are then not binding.

    Parts of the graph that share no value with a choice are solved alone. Where each value has two orders, the bound is
    the maximum flow, else the solver's; the gap is the part of the cost that is left to prove. A result is certified
    if it has no gap and moves exactly the bound, but not if the size of a moved value is not known. If a value would
    have more than six orders besides its own, the others are omitted, and there is no bound.

    Source: minimum s-t cut, Ford and Fulkerson 1956; shared values as hyperedges, Lawler 1973; more than two orders:
    multiway cut (Dahlhaus et al. 1994) as an integer program, HiGHS (Huangfu and Hall 2018).
    """

    strategy = "optimal"
    title = "Layout: proven minimum of the orders of axes in use"

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

    seconds: int = option(60, "Time limit of the search, in seconds; then the best found, with its gap.", least=1)

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
        if self.weigh == TIME:
            return self._round(graph, context)
        return until_nothing_changes(graph, lambda: self._round(graph, context))

    def _round(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, LayoutFacts]:
        target = context.get(Profile)
        yield from rewrite_each(tidy_transposes(graph, reshape=False), "tidied")
        yield from rewrite_each(store_weights(graph, target), "weights")
        layouts = infer_layouts(graph, through_reshapes=True)
        times = OperatorTimes(graph, target, context.find(OperatorTimer))
        if self.weigh == TIME:
            problem = timed_order_problem(graph, layouts, target, times, self.device, self.dtype)
        else:
            problem = order_problem(graph, layouts, target, self.weigh)
        solution = solve_integer_program(problem.problem, self.seconds)
        perms = problem.chosen(solution.forms)

        def reason(node: Node, where: str) -> str:
            return _reason(node, where, perms[node.name], target, times)

        yield from relayout(graph, perms, layouts, target, self.weigh, reason)
        facts = proof(
            count_transposes(graph),
            self.weigh,
            solution,
            problem.always,
            target,
            over=problem.over,
            incomplete=problem.incomplete,
        )
        return replace(facts, device=times.device, times=times.rows(perms))


def _reason(node: Node, where: str, perm: Permutation, target: Profile, times: OperatorTimes) -> str:
    timed = times.operator(node.name, perm)
    if timed is None:
        return why_there(node, where, target)
    as_written, converted = (f"{time / 1e3:,.1f} us" for time in timed)
    return f"runs {where}, where it takes {converted} instead of {as_written}"
