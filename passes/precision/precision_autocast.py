"""Autocast: torch's lists, node by node; each operator casts its own operands."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import DataType
from workbench.ir.types import numpy_name
from workbench.planning.precision.problem import type_side, written_side
from workbench.planning.precision.strategies.precision_strategy import ChosenTypes, PrecisionStrategy, TypeChoices
from workbench.rewrite import Example


@dataclass(frozen=True)
class PrecisionAutocast(PrecisionStrategy):
    """Each operator that torch's autocast lists for the narrower type runs in it, with a Cast of each of its own
    operands; one that it lists for float32 runs there. Any other runs in float32 if one of its computed operands is in
    float32, else in the narrower type.

    Casts are not shared: an operand that three operators read in the narrower type is cast three times, as autocast
    does with activations. `precision_greedy` and `precision_optimal` share them.

    Does not apply to operators that `keep` names, whose numbers leave the range of the narrower type in a recorded run,
    or whose schema does not have the type.

    Source: https://docs.pytorch.org/docs/stable/amp.html, autocast op reference.
    """

    strategy = "autocast"
    shares_casts = False
    title = "Precision: torch's autocast, node by node"

    extra_examples = (
        Example(
            title="A Relu follows its operand; each convolution casts the input for itself",
            before="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                a = Conv(x, w)
                b = Conv(x, w)
                c = Relu(a)
                y = Add(b, c)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,4,4] y)
                <float16[2,2,1,1] w_float16 = {15360, 16384, 16896, 17408}> {
                x_float16 = Cast<to=10>(x)
                a_float16 = Conv(x_float16, w_float16)
                x_float16_1 = Cast<to=10>(x)
                b_float16 = Conv(x_float16_1, w_float16)
                c_float16 = Relu(a_float16)
                y_float16 = Add(b_float16, c_float16)
                y = Cast<to=1>(y_float16)
            }""",
            sentences=(
                "Conv 'Conv_a' runs in float16: torch's autocast runs Conv in float16; 'x' is cast, 32 elements; "
                "1 constant is cast now",
                "Conv 'Conv_b' runs in float16: torch's autocast runs Conv in float16; 'x' is cast, 32 elements",
                "Relu 'Relu_c' runs in float16: its operands are in float16; 'a' exists in float16 already",
                "Add 'Add_y' runs in float16: its operands are in float16; 'b' and 'c' exist in float16 already",
            ),
        ),
    )

    def why_chosen(self, dtype: DataType) -> str:
        return f"{'its operands are' if dtype != DataType.FLOAT else 'one of its operands is'} in {numpy_name(dtype)}"

    def choose(self, choices: TypeChoices) -> ChosenTypes:
        return ChosenTypes(_sides(choices), inexact="it decides operator by operator")


def _sides(choices: TypeChoices) -> dict[str, int]:
    graph, sides = choices.graph, {}
    side_of_value: dict[str, int] = {}
    for node in graph.nodes:
        call = choices.calls.get(node.name)
        if call is None:
            continue
        computed = [node.inputs[index] for index in call.inputs if node.inputs[index] not in graph.constants]
        operands = [side_of_value.get(value, written_side(graph, value)) for value in computed]
        side = choices.fixed.get(node.name, min(operands, default=type_side(call.dtype)))
        sides[node.name] = side
        side_of_value.update({node.outputs[index]: side for index in call.outputs})
    return sides
