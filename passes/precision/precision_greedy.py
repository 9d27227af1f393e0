"""Greedy in order: each operator takes the type in which it casts the fewest bytes of its operands."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import DataType
from workbench.ir.types import numpy_name
from workbench.planning.precision.cast_cost import bytes_converted
from workbench.planning.precision.problem import type_side, written_side
from workbench.planning.precision.strategies.precision_strategy import ChosenTypes, PrecisionStrategy, TypeChoices
from workbench.planning.solvers.minimum_cut import FIRST_SIDE, LAST_SIDE
from workbench.rewrite import Example


@dataclass(frozen=True)
class PrecisionGreedy(PrecisionStrategy):
    """One walk in the order of the graph. An operator whose type is wanted, or that must stay in float32, has it. Any
    other takes the type in which the fewest bytes of its operands must be cast, a Cast that exists already being free;
    if they are the same, float32. One that reads no computed floats, as the DequantizeLinear of integers, gives the
    type in which its result is read first.

    It looks at operands only, so that a value may be cast back right after: `precision_optimal` looks at all readers.

    Does not apply to operators that `keep` names, whose numbers leave the range of the narrower type in a recorded run,
    or whose schema does not have the type.

    Source: the walk of TensorRT's and TVM's mixed-precision passes, which follow the operands.
    """

    strategy = "greedy"
    title = "Precision: greedy in order"

    extra_examples = (
        Example(
            title="One Cast of the input for both convolutions; Exp is listed for float32, and Neg follows it",
            before="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                a = Conv(x, w)
                b = Conv(x, w)
                c = Sub(a, b)
                d = Exp(c)
                y = Neg(d)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,4,4] y)
                <float16[2,2,1,1] w_float16 = {15360, 16384, 16896, 17408}> {
                x_float16 = Cast<to=10>(x)
                a_float16 = Conv(x_float16, w_float16)
                b_float16 = Conv(x_float16, w_float16)
                c_float16 = Sub(a_float16, b_float16)
                c = Cast<to=1>(c_float16)
                d = Exp(c)
                y = Neg(d)
            }""",
            sentences=(
                "Conv 'Conv_a' runs in float16: torch's autocast runs Conv in float16; 'x' is cast, 32 elements; "
                "1 constant is cast now",
                "Conv 'Conv_b' runs in float16: torch's autocast runs Conv in float16; 'x' exists in float16 already",
                "Sub 'Sub_c' runs in float16: fewer bytes of its operands are cast with it in float16; 'a' and 'b' "
                "exist in float16 already",
            ),
        ),
    )

    def why_chosen(self, dtype: DataType) -> str:
        fewer = "no more" if dtype == DataType.FLOAT else "fewer"
        return f"{fewer} bytes of its operands are cast with it in {numpy_name(dtype)}"

    def choose(self, choices: TypeChoices) -> ChosenTypes:
        return ChosenTypes(_sides(choices), inexact="it decides operator by operator")


def _sides(choices: TypeChoices) -> dict[str, int]:
    graph, narrow = choices.graph, choices.narrow
    sides: dict[str, int] = {}
    exists: dict[str, set[int]] = {}  # by value: the sides in which it exists after the walk so far
    undecided: dict[str, str] = {}  # by value that nothing has read: its operator, which takes the first reader's side
    for node in graph.nodes:
        call = choices.calls.get(node.name)
        if call is None:
            continue
        operands = [node.inputs[index] for index in call.inputs if node.inputs[index] not in graph.constants]
        if not operands and node.name not in choices.fixed:
            undecided.update({node.outputs[index]: node.name for index in call.outputs})
            sides[node.name] = type_side(call.dtype)
            continue
        for value in operands:
            if value not in undecided:
                exists.setdefault(value, {written_side(graph, value)})
        costs = [
            sum(
                bytes_converted(graph, value, narrow) or 0
                for value in set(operands)
                if side not in exists.get(value, (FIRST_SIDE, LAST_SIDE))
            )
            for side in (FIRST_SIDE, LAST_SIDE)
        ]
        side = choices.fixed.get(node.name, LAST_SIDE if costs[LAST_SIDE] < costs[FIRST_SIDE] else FIRST_SIDE)
        sides[node.name] = side
        for value in operands:
            if value in undecided:
                source = graph.node(undecided[value])
                sides[source.name] = side
                for result in source.outputs:
                    undecided.pop(result, None)
                    exists[result] = {side}
            exists[value].add(side)
        exists.update({node.outputs[index]: {side} for index in call.outputs})
    return sides
