"""Write a sum of two as Add, so that rules need to know one form only."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule


def match_sum(graph: Graph, node: Node, options: Pass) -> Rewrite:
    if len(node.inputs) != 2:
        raise NoMatch(f"{node} adds {len(node.inputs)} operands, and one pass over them is the least that can be read")
    add = node.replace(op_type="Add")
    return Rewrite(Edit(remove=(node.name,), insert=(add,)), f"{node} adds two operands; written as Add", (node.name,))


@dataclass(frozen=True)
class SumToAdd(Pass):
    """Sum of two operands becomes Add, which computes the same.

    Must not act on three operands or more: two Adds would write what one Sum keeps to itself.

    Source: ONNX's definitions of Sum and Add.
    """

    title = "Sum of two to Add"

    rules = (
        Rule(
            "two operands",
            ("Sum",),
            match_sum,
            Example(
                before="g (float[2] x, float[2] z) => (float[2] y) { a = Sum(x, z)  y = Relu(a) }",
                after="g (float[2] x, float[2] z) => (float[2] y) { a = Add(x, z)  y = Relu(a) }",
                sentences=("Sum 'Sum_a' adds two operands; written as Add",),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x, float[2] z) => (float[2] y) { y = Sum(x, z, x) }",
                    "Sum 'Sum_y' adds 3 operands, and one pass over them is the least that can be read",
                ),
            ),
            exactness=Exactness.BITS,
        ),
    )
