"""The least that can be moved where axes may stand in any order: every operator's order from an integer program."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, permuted
from workbench.layout.conversion.convert import convert, store_weights, why_there
from workbench.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.layout.cost import count
from workbench.layout.facts import LayoutFacts
from workbench.layout.infer import TENSOR, case_of, infer_layouts, is_cnn
from workbench.layout.problem.cost_model import BYTES, COUNT
from workbench.layout.problem.orders import order_problem, proof
from workbench.layout.problem.transpose_classes import one_transpose_an_order
from workbench.layout.solver.integer_program import solve_integer_program
from workbench.rewrite import Example, Pass, PassContext, Rewrite, option, rewrite_each


@dataclass(frozen=True)
class LayoutOptimalAnyOrder(Pass):
    """Of all orders of axes that the graph's own Transposes and the target name, each operator's best one.

    - Also Tensors: the Transposes that split and join attention heads are chosen like any other.
    - An operator takes any order that reaches it through operators that carry it; one that the
      target demands has no choice; one that cannot be carried keeps its order.
    - A value is transposed once for each order in which it is read, however many read it so.
    - A Transpose that moves only axes of size 1 is a Reshape and costs nothing.
    - Of what costs the same, the fewest operators change.

    The bound that comes with the result is the solver's; the gap is what is left to prove, as a
    part of the cost. Certified is a result without a gap that moves exactly the bound. Where a value
    would have more than six orders beside its own, the rest is left out, and there is no bound.

    Source: integer program of choices and shared values, multiway cut (Dahlhaus et al. 1994); HiGHS
    (Huangfu and Hall 2018).
    """

    title = "Layout: proven minimum, any order of axes"

    weigh: str = option(
        BYTES, "What is to be the least: bytes moved, or the count of transposes.", choices=(BYTES, COUNT)
    )
    seconds: int = option(60, "Time for the search, in seconds; then the best found, with its gap.", least=1)

    own_examples = (
        Example(
            title="Of an attention's keys some are taken: one Transpose, not two, where there is less to move",
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
            title="The same order by two ways: one way is enough",
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
        target = context.target
        yield from rewrite_each(tidy_transposes(graph, reshape=False), "tidied")
        yield from rewrite_each(store_weights(graph, target), "weights")
        layouts = infer_layouts(graph, through_reshapes=True)
        problem = order_problem(graph, layouts, target, self.weigh)
        solution = solve_integer_program(problem.problem, self.seconds)
        for name, perms, form in zip(problem.nodes, problem.perms, solution.forms, strict=True):
            perm = perms[form]
            if name is None or perm is None:
                continue
            node = graph.node(name)
            case = case_of(node, layouts)
            layout = _named(node, perm, layouts)
            conversion = convert(graph, node, perm, layout or "".join(map(str, perm)), target)
            where = f"on axes {list(perm)}" if layout is None else f"in {layout}"
            why = why_there(node, where, target)
            yield Rewrite(conversion.edit, f"{case}: {node} {why}; {conversion.said()}", (name,), case)
        yield from rewrite_each(tidy_transposes(graph, reshape=False), "tidied")
        yield from rewrite_each(one_transpose_an_order(graph, self.weigh), "tidied")
        yield from rewrite_each(tidy_transposes(graph), "tidied")
        return proof(
            count(graph),
            self.weigh,
            solution,
            problem.always,
            over="no choice among the orders of axes that the graph's Transposes and the target name",
            complete=problem.complete,
        )


def _named(node: Node, perm: Permutation, layouts: dict[str, str]) -> str | None:
    """The layout of the permuted operands, "NHWC"; None where they are Tensors."""
    own = (layouts.get(value, TENSOR) for value in (*node.inputs, *node.outputs))
    image = next((layout for layout in own if is_cnn(layout) and len(layout) == len(perm)), None)
    return None if image is None else "".join(permuted(image, perm))
