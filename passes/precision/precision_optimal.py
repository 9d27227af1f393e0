"""Fewest bytes converted: the type of each operator from a minimum cut, with the proof."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.ir import DataType
from workbench.ir.types import numpy_name
from workbench.planning.layout.problem.cost_model import BYTES, COUNT, TIME, in_unit
from workbench.planning.layout.problem.times import AUTO, DEVICES
from workbench.planning.precision.cast_cost import computed_before_run
from workbench.planning.precision.element_types import is_float
from workbench.planning.precision.problem import precision_problem
from workbench.planning.precision.strategies.precision_strategy import ChosenTypes, PrecisionStrategy, TypeChoices
from workbench.planning.precision.type_times import TypeTimes
from workbench.planning.solvers.minimum_cut import FIRST_SIDE, solve_cut
from workbench.rewrite import Example, option


@dataclass(frozen=True)
class PrecisionOptimal(PrecisionStrategy):
    """Chooses float32 or the narrower type for each operator so that Casts read and write the fewest bytes in total.

    - The type of an operator that the target or torch's autocast lists is fixed, and so is that of one that must stay
      in float32; every other runs where it costs least.
    - A value is cast once, however many operators read it in the other type. Constants are cast before the run, and so
      are the scales of QuantizeLinear and DequantizeLinear, whose floats then have their type without a Cast.
    - If the cost is measured time, operators that are listed for the narrower type may run in either too.
    - Casts between the two types that the graph has already may stay or be removed, as new ones.
    - With `io=as-computed` a float32 input is in the type in which it is read, and such an output in that in which it
      is computed, where that needs no Cast.
    - Of choices with the same bytes, the one with the fewest Casts is taken, then the one that changes the fewest
      operators.

    The bound of the result is the maximum flow: no choice of types for the operators that may run in either converts
    fewer bytes. The result is certified if it converts exactly that, but not if the size of a cast value is not known.

    Does not apply to operators that `keep` names, whose numbers leave the range of the narrower type in a recorded run,
    or whose schema does not have the type.

    Source: minimum s-t cut, as for layouts (`layout_optimal`).
    """

    strategy = "optimal"
    title = "Precision: proven minimum of Casts"

    weigh: str = option(
        BYTES,
        "What is minimized: bytes converted, the number of Casts, or the measured time.",
        choices=(BYTES, COUNT, TIME),
    )
    device: str = option(AUTO, "Where operators are timed; auto: a CUDA device if there is one.", choices=DEVICES)

    extra_examples = (
        Example(
            title="The Cast back to float32 stands after the pool, where the value is smallest",
            before="""g (float[1,2,4,4] x) => (float[1,2,1,1] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                a = Conv(x, w)
                b = Relu(a)
                c = GlobalMaxPool(b)
                y = Exp(c)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,1,1] y)
                <float16[2,2,1,1] w_float16 = {15360, 16384, 16896, 17408}> {
                x_float16 = Cast<to=10>(x)
                a_float16 = Conv(x_float16, w_float16)
                b_float16 = Relu(a_float16)
                c_float16 = GlobalMaxPool(b_float16)
                c = Cast<to=1>(c_float16)
                y = Exp(c)
            }""",
            sentences=(
                "Conv 'Conv_a' runs in float16: torch's autocast runs Conv in float16; 'x' is cast, 32 elements; "
                "1 constant is cast now",
                "Relu 'Relu_b' runs in float16: all Casts together cost least with it in float16; 'a' exists in "
                "float16 already",
                "GlobalMaxPool 'GlobalMaxPool_c' runs in float16: all Casts together cost least with it in float16; "
                "'b' exists in float16 already",
            ),
        ),
        Example(
            title="Two products save more time than their Casts take",
            before="""g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}> {
                a = MatMul(x, w)
                b = Relu(a)
                y = MatMul(b, w)
            }""",
            after="""g (float[2,2] x) => (float[2,2] y) <float16[2,2] w_float16 = {15360, 16384, 16896, 17408}> {
                x_float16 = Cast<to=10>(x)
                a_float16 = MatMul(x_float16, w_float16)
                b_float16 = Relu(a_float16)
                y_float16 = MatMul(b_float16, w_float16)
                y = Cast<to=1>(y_float16)
            }""",
            sentences=(
                "MatMul 'MatMul_a' runs in float16: operators and Casts together take the least time with it in "
                "float16; alone it takes 300.0 us there and 900.0 us in float32; 'x' is cast, 4 elements; 1 constant "
                "is cast now",
                "Relu 'Relu_b' runs in float16: operators and Casts together take the least time with it in float16; "
                "alone it takes 50.0 us there and 50.0 us in float32; 'a' exists in float16 already",
                "MatMul 'MatMul_y' runs in float16: operators and Casts together take the least time with it in "
                "float16; alone it takes 300.0 us there and 900.0 us in float32; 'b' exists in float16 already",
            ),
            options={"weigh": TIME},
            times_us={"MatMul": 900, "MatMul float16": 300, "Relu": 50, "Cast": 400},
        ),
    )

    def considered(self, choices: TypeChoices) -> TypeChoices:
        """If the cost is time, a preference for the narrower type is ignored."""
        if self.weigh != TIME:
            return choices
        fixed = {name: side for name, side in choices.fixed.items() if side == FIRST_SIDE}
        preferred = choices.fixed.keys() - fixed.keys()
        reasons = {name: reason for name, reason in choices.reasons.items() if name not in preferred}
        return replace(choices, fixed=fixed, reasons=reasons)

    def why_chosen(self, dtype: DataType) -> str:
        if self.weigh == TIME:
            return f"operators and Casts together take the least time with it in {numpy_name(dtype)}"
        return f"all Casts together cost least with it in {numpy_name(dtype)}"

    def choose(self, choices: TypeChoices) -> ChosenTypes:
        graph, narrow, times = choices.graph, choices.narrow, None
        if self.weigh == TIME:
            known = computed_before_run(graph)
            values = [value for value in graph.values() if value not in known and is_float(graph, value, narrow)]
            times = TypeTimes(graph, narrow, choices.calls, values)
            times.measure(choices.timer, choices.target, self.device)
        stated = precision_problem(graph, choices.calls, choices.fixed, narrow, self.weigh, times, choices.free_border)
        solution = solve_cut(stated.problem)
        sides = {name: side for name, side in zip(stated.nodes, solution.sides, strict=True) if name is not None}
        return ChosenTypes(
            sides,
            inexact="" if stated.complete else "not every operator could be timed",
            weigh=self.weigh,
            bound=in_unit(solution.lower_bound),
            reached=in_unit(solution.cost) if times is not None else None,
            times=times,
        )
