"""Record first, insert afterwards: every operator that may run in the narrower type does."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import DataType
from workbench.planning.precision.strategies.precision_strategy import ChosenTypes, PrecisionStrategy, TypeChoices
from workbench.planning.solvers.minimum_cut import LAST_SIDE
from workbench.rewrite import Example


@dataclass(frozen=True)
class PrecisionRecordThenInsert(PrecisionStrategy):
    """Two walks. The first records the type of every operator: float32 where it is listed for float32 or must stay
    there, else the narrower type. The second inserts a Cast wherever a value is read in the other type, one for all its
    readers.

    As many operators as possible run in the narrower type, also where none wants it: an operator between two in float32
    gets a Cast before and one after it.

    Does not apply to operators that `keep` names, whose numbers leave the range of the narrower type in a recorded run,
    or whose schema does not have the type.

    Source: convert_float_to_float16 of onnxconverter-common, with a block list of operators.
    """

    strategy = "record-then-insert"
    title = "Precision: record, then insert"

    extra_examples = (
        Example(
            title="A Relu between two Exp is converted too",
            before="""g (float[8] x) => (float[8] y) {
                a = Exp(x)
                b = Relu(a)
                y = Exp(b)
            }""",
            after="""g (float[8] x) => (float[8] y) {
                a = Exp(x)
                a_float16 = Cast<to=10>(a)
                b_float16 = Relu(a_float16)
                b = Cast<to=1>(b_float16)
                y = Exp(b)
            }""",
            sentences=("Relu 'Relu_b' runs in float16: nothing keeps it in float32; 'a' is cast, 8 elements",),
        ),
    )

    def why_chosen(self, dtype: DataType) -> str:
        return "nothing keeps it in float32"

    def choose(self, choices: TypeChoices) -> ChosenTypes:
        sides = {name: choices.fixed.get(name, LAST_SIDE) for name in choices.calls}
        return ChosenTypes(sides, inexact="it records types first and does not weigh Casts")
