"""Fewest bytes converted and moved: type and layout of each operator chosen together, with the proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.ir import DataType, Graph
from workbench.ir.types import numpy_name
from workbench.planning.layout.conversion.convert import store_weights
from workbench.planning.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.problem.cost_model import BYTES
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.order_conversions import fewest_reshapes, order_conversions
from workbench.planning.precision.joint.conversion_classes import conversion_classes
from workbench.planning.precision.joint.orders_and_types import order_and_type_problem
from workbench.planning.precision.joint.rearranging import rearranged_conversions
from workbench.planning.precision.precision_facts import TRAFFIC
from workbench.planning.precision.strategies.precision_strategy import ChosenTypes, PrecisionStrategy, TypeChoices
from workbench.planning.solvers.solving import solve_integer_program
from workbench.rewrite import Example, PassContext, Rewrite, option, rewrite_each


@dataclass(frozen=True)
class PrecisionOptimalWithLayout(PrecisionStrategy):
    """Chooses the type and the order of axes of each operator so that Casts and Transposes together read and write the
    fewest bytes.

    - Types are fixed as for `precision_optimal`, orders as for `layout_optimal`; every other operator runs
      in the order and the type that cost least.
    - A Transpose of a float16 value reads and writes half the bytes. So a value that is read in another order and in
      float16 is cast first and transposed then, and back the other way around.
    - With `io=as-computed` inputs and outputs get the narrower type as for `precision_optimal`.
    - A value is given once in each order and type in which it is read, however many operators read it there.

    The bound of the result is the solver's, as for `layout_optimal`. Layouts and types that are chosen one
    after the other cost more where the cheapest layout is another in the other type.

    Does not apply to operators that `keep` names, whose numbers leave the range of the narrower type in a recorded run,
    or whose schema does not have the type.

    Source: integer program of choices with labels of order and type; HiGHS (Huangfu and Hall 2018).
    """

    strategy = "optimal-with-layout"
    title = "Precision and layout: proven minimum of Casts and Transposes"

    seconds: int = option(60, "Time limit of the search, in seconds; then the best found, with its gap.", least=1)

    extra_examples = (
        Example(
            title="The input is cast first, so that the Transpose moves half the bytes",
            target="cuda",
            before="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                a = Conv(x, w)
                y = Exp(a)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,4,4] y)
                <float16[2,2,1,1] w_float16 = {15360, 16384, 16896, 17408}> {
                x_float16 = Cast<to=10>(x)
                x_nhwc_float16 = Transpose<perm=[0,2,3,1]>(x_float16)
                a_nhwc_float16 = workbench.Conv_NHWC(x_nhwc_float16, w_float16)
                a_nhwc_float16_0312 = Transpose<perm=[0,3,1,2]>(a_nhwc_float16)
                a = Cast<to=1>(a_nhwc_float16_0312)
                y = Exp(a)
            }""",
            sentences=(
                "case 1, CNN to CNN: Conv 'Conv_a' must run in NHWC on this target; 'x' is transposed, 32 elements",
                "workbench.Conv_NHWC 'Conv_a' runs in float16: torch's autocast runs Conv in float16; 'x_nhwc' is "
                "cast, 32 elements; 1 constant is cast now",
                "'x' is cast and transposed by 2 nodes that read and write 320 bytes, in place of 2 with 448",
                "'a_nhwc_float16' is cast and transposed by 2 nodes that read and write 320 bytes, in place of 2 "
                "with 448",
            ),
        ),
    )

    def why_chosen(self, dtype: DataType) -> str:
        return f"all Casts and Transposes together cost least with it in {numpy_name(dtype)}"

    def tidied(self, graph: Graph, narrow: DataType, context: PassContext) -> Iterator[Rewrite]:
        yield from rewrite_each(tidy_transposes(graph, reshape=False), "tidied")
        yield from rewrite_each(store_weights(graph, context.get(Profile)), "weights")
        yield from super().tidied(graph, narrow, context)

    def choose(self, choices: TypeChoices) -> ChosenTypes:
        graph = choices.graph
        stated = order_and_type_problem(choices, infer_layouts(graph, through_reshapes=True), choices.target)
        solution = solve_integer_program(stated.problem, self.seconds, stated.start)
        chosen = zip(stated.nodes, stated.forms, solution.forms, strict=True)
        forms = {name: of_node[index] for name, of_node, index in chosen if name is not None}
        sides = {name: form.side for name, form in forms.items() if form.side is not None}
        perms = {name: form.perm for name, form in forms.items() if form.perm is not None}
        inexact = "" if stated.complete else "some value may have more orders of axes than are searched"
        bound = None if inexact else solution.lower_bound + stated.always
        return ChosenTypes(sides, inexact, TRAFFIC, bound, perms)

    def conversions(self, graph: Graph, choices: TypeChoices, chosen: ChosenTypes) -> Iterator[Rewrite]:
        layouts = infer_layouts(graph, through_reshapes=True)
        yield from order_conversions(graph, chosen.perms, layouts, choices.target)
        known = conversion_classes(graph, choices.narrow)
        casts = {node.name for node in graph.nodes_of(("Cast",)) if known[node.outputs[0]].root != node.outputs[0]}
        for rewrite in super().conversions(graph, choices, chosen):
            casts.update(node.name for node in rewrite.edit.insert if node.op == "Cast")
            yield rewrite
        yield from rewrite_each(tidy_transposes(graph, reshape=False), "tidied")
        yield from rewrite_each(rearranged_conversions(graph, choices.narrow, casts), "tidied")
        yield from fewest_reshapes(graph, choices.target, BYTES)
        yield from rewrite_each(tidy_transposes(graph), "tidied")
