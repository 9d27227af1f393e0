"""Fewest transposes around operators that run in any order of axes, by one problem over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.analysis.inference.bound_shapes import infer_sizes
from workbench.analysis.metrics.transpose_cost import computed_from_constants, count_transposes
from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.problem.cost_model import BYTES, COUNT
from workbench.planning.layout.problem.orders import transpose_problem
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.order_conversions import relayout
from workbench.planning.solvers.solving import solve_integer_program
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite
from workbench.rewrite.core.guards import layout_strategy_of

# What computes each element alone, or along axes that an attribute names. In ONNX Runtime a max or min may lose a NaN
# or the sign of a zero in another order, and sums of integers saturate. A Cast stays where a precision strategy put it.
_MOVABLE = frozenset(
    (
        *("Abs", "Add", "And", "Ceil", "Clip", "Cos", "Div", "Elu", "Equal", "Erf", "Exp", "Floor"),
        *("Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu"),
        *("Less", "LessOrEqual", "Log", "Mish", "Mul", "Neg", "Not", "Or", "Pow", "PRelu", "Reciprocal", "Relu"),
        *("Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tanh"),
        *("ThresholdedRelu", "Where", "Xor", "QuantizeLinear", "DequantizeLinear"),
        *("Concat", "Expand", "Gather", "Pad", "Slice", "Split", "Squeeze", "Tile", "Unsqueeze", "Reshape", "Flatten"),
        *("LogSoftmax", "Softmax"),
    )
)
_SUMS = ("ReduceMean", "ReduceSum", "ReduceL2")  # of floats alone


@dataclass(frozen=True)
class MinimizeTransposes(Pass):
    """Runs elementwise operators, Concat, Split, Slice, Pad, Softmax, sums and the like in the orders of axes with
    which the fewest Transposes are left, then the fewest bytes moved.

    - The orders are those that the graph's own Transposes make. A value that is read by several operators, and joins
      again, is moved as a whole: x * sigmoid(x) between two Transposes.
    - Convolutions, pools and matrix products stay as they are, and so does what a layout strategy laid out.
    - Nothing is done unless fewer Transposes or fewer bytes are left, neither gets more, and no node is added.

    Does not apply to a max or min, which may lose a NaN in another order, nor to sums of integers.

    Source: the problem of `layout_optimal`, without a target; ONNX Runtime's transpose optimizer, which decides one
    Transpose after the other.
    """

    title = "Fewest transposes around operators that run in any order"
    packages = ("highspy",)
    exactness = Exactness.ROUNDING

    extra_examples = (
        Example(
            title="x * sigmoid(x) between a Transpose and the one back",
            before="""g (float[1,4,6,2] x) => (float[1,4,6,2] y) {
                t = Transpose<perm=[0,3,1,2]>(x)
                s = Sigmoid(t)
                m = Mul(t, s)
                y = Transpose<perm=[0,2,3,1]>(m)
            }""",
            after="""g (float[1,4,6,2] x) => (float[1,4,6,2] y) {
                s_0231 = Sigmoid(x)
                y = Mul(x, s_0231)
            }""",
            sentences=(
                "case 4, Tensor to Tensor: Sigmoid 'Sigmoid_s' runs on axes [0, 2, 3, 1], with which fewer transposes "
                "are left; nothing moved",
                "case 4, Tensor to Tensor: Mul 'Mul_m' runs on axes [0, 2, 3, 1], with which fewer transposes are "
                "left; nothing moved",
                "perm [0, 3, 1, 2] then [0, 2, 3, 1] is the identity; 96 elements no longer moved",
            ),
        ),
        Example(
            title="A max of floats keeps its order: it may lose a NaN in another one",
            before="""g (float[2,3,4,5] x) => (float[2,3,4,1] y) <int64[1] last = {3}> {
                t = Transpose<perm=[0,2,1,3]>(x)
                m = ReduceMax(t, last)
                y = Transpose<perm=[0,2,1,3]>(m)
            }""",
            after="""g (float[2,3,4,5] x) => (float[2,3,4,1] y) <int64[1] last = {3}> {
                t = Transpose<perm=[0,2,1,3]>(x)
                m = ReduceMax(t, last)
                y = Transpose<perm=[0,2,1,3]>(m)
            }""",
            sentences=(),
        ),
    )

    def prepare(self, graph: Graph) -> bool:
        return infer_sizes(graph) if graph.nodes_of(("Transpose",)) else False

    def rewrites(self, graph: Graph, context: PassContext) -> Iterator[Rewrite]:
        fixed = computed_from_constants(graph)
        if not any(node.inputs[0] not in fixed for node in graph.nodes_of(("Transpose",))):
            return
        for weigh in (COUNT, BYTES):  # fewer Transposes may move more bytes: then what moves the fewest is tried
            perms = _chosen(graph, context.get(Profile), weigh)
            if perms is None:
                return
            if _is_less(graph, perms, context.get(Profile), weigh):
                yield from _conversions(graph, perms, context.get(Profile), weigh)
                return


def _chosen(graph: Graph, target: Profile, weigh: str) -> dict[str, Permutation] | None:
    """How the operands of each operator are permuted that then runs in another order; None if nothing is saved."""
    problem = transpose_problem(graph, lambda node: _is_movable(graph, node), target, weigh)
    solution = solve_integer_program(problem.problem)
    if solution.cost[:2] < problem.problem.cost((0,) * len(problem.nodes))[:2]:
        return problem.chosen(solution.forms)
    counts = count_transposes(graph)
    present = counts.transposes if weigh == COUNT else counts.bytes_moved
    return {} if solution.cost[0] + problem.always < present else None  # a value is given twice in one order


def _is_movable(graph: Graph, node: Node) -> bool:
    if layout_strategy_of(graph, node):
        return False
    if node.op not in _SUMS:
        return node.op in _MOVABLE
    type_ = graph.tensor_type(node.inputs[0])
    return type_ is not None and type_.dtype.is_floating_point()


def _is_less(graph: Graph, perms: dict[str, Permutation], target: Profile, weigh: str) -> bool:
    """Whether the rewrites leave fewer Transposes or bytes, and not more of either, nor more nodes."""
    trial = graph.copy()
    for rewrite in _conversions(trial, perms, target, weigh):
        trial.apply(rewrite.edit)
    infer_sizes(trial)
    before, after = count_transposes(graph), count_transposes(trial)
    less = (after.transposes, after.bytes_moved), (before.transposes, before.bytes_moved)
    pairs = list(zip(*less, strict=True))
    return (
        len(trial) <= len(graph)
        and after.unknown <= before.unknown
        and all(now <= then for now, then in pairs)
        and any(now < then for now, then in pairs)
    )


def _conversions(graph: Graph, perms: dict[str, Permutation], target: Profile, weigh: str) -> Iterator[Rewrite]:
    layouts = infer_layouts(graph, through_reshapes=True)
    return relayout(graph, perms, layouts, target, weigh, _reason)


def _reason(node: Node, where: str) -> str:
    return f"runs {where}, with which fewer transposes are left"
