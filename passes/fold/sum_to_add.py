"""Write Sum of two operands as Add, so that rules need to know only one form."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, Pass, Refusal
from workbench.rewrite.patterns.graph_rules import graph_rule


@dataclass(frozen=True)
class SumToAdd(Pass):
    """Sum of two operands becomes Add, which computes the same.

    Does not apply to three operands or more: two Adds would write an intermediate result that one Sum does not.

    Source: ONNX's definitions of Sum and Add.
    """

    title = "Write Sum of two operands as Add"

    rules = (
        graph_rule(
            "two operands",
            "y = Sum(x, z)",
            "y = Add(x, z)",
            "{root} adds two operands; written as Add",
            Example(
                before="g (float[2] x, float[2] z) => (float[2] y) { a = Sum(x, z)  y = Relu(a) }",
                after="g (float[2] x, float[2] z) => (float[2] y) { a = Add(x, z)  y = Relu(a) }",
                sentences=("Sum 'Sum_a' adds two operands; written as Add",),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x, float[2] z) => (float[2] y) { y = Sum(x, z, x) }",
                    "Sum 'Sum_y' has 3 operands, not 2",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
