"""What is computed twice is computed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx_ir

from workbench.ir import Edit, Graph, Node
from workbench.ops.evaluate import RANDOM
from workbench.rewrite import Exactness, Example, Found, NoMatch, Pass, Refusal, Rule


def match_same(graph: Graph, node: Node, options: Pass) -> Found:
    if node.op_type in RANDOM:
        raise NoMatch(f"{node} gives other numbers each time")
    if node.bodies or not node.inputs or (node.domain, node.op_type, node.overload) in graph.functions:
        raise NoMatch(f"{node} is not told by operator, operands and attributes alone")
    first = next((n for n in graph.users(node.inputs[0]) if _computes_the_same(n, node)), node)
    if first.name == node.name:
        raise NoMatch(f"no other node before {node} computes the same")
    public = [value for value in node.outputs if value and graph.is_output(value)]
    if public:
        raise NoMatch(f"{first} computes the same, and the output '{public[0]}' needs a value of its own")
    replace = {old: new for old, new in zip(node.outputs, first.outputs, strict=True) if old}
    sentence = f"{node} computes the same as {first}; computed once"
    return Found(Edit(remove=(node.name,), replace=replace), sentence, (first.name, node.name))


def _computes_the_same(a: Node, b: Node) -> bool:
    """Is it one operator on the same operands, and does it make all that `b` makes?"""
    if a.op != b.op or a.overload != b.overload or a.inputs != b.inputs or len(a.outputs) != len(b.outputs):
        return False
    made = all(mine or not its for mine, its in zip(a.outputs, b.outputs, strict=True))
    return made and a.attributes.keys() == b.attributes.keys() and all(map(_is_same, _pairs(a), _pairs(b)))


def _pairs(node: Node) -> list[Any]:
    return [node.attributes[key] for key in sorted(node.attributes)]


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, onnx_ir.TensorProtocol) and isinstance(b, onnx_ir.TensorProtocol):
        return a.dtype == b.dtype and tuple(a.shape) == tuple(b.shape) and a.tobytes() == b.tobytes()
    return type(a) is type(b) and repr(a) == repr(b)  # as text: -0.0 and 0.0 differ, NaN and NaN do not


@dataclass(frozen=True)
class CommonSubexpressions(Pass):
    """A node of the same operator, operands and attributes as one before it goes; its readers get that one's results.

    Nodes behind it may then be the same too, so a repeated chain goes whole.

    Must not act on random operators, on nodes with bodies, nor where the result is an output of the graph.

    Source: common-subexpression elimination; ONNX Runtime's basic level has it.
    """

    title = "Compute once what is computed twice"

    rules = (
        Rule(
            "same node",
            ("*",),
            match_same,
            Example(
                before="""g (float[N] x) => (float[N] y) {
                    a = Exp(x)
                    b = Neg(a)
                    c = Exp(x)
                    d = Neg(c)
                    y = Add(b, d)
                }""",
                after="g (float[N] x) => (float[N] y) { a = Exp(x)  b = Neg(a)  y = Add(b, b) }",
                sentences=(
                    "Exp 'Exp_c' computes the same as Exp 'Exp_a'; computed once",
                    "Neg 'Neg_d' computes the same as Neg 'Neg_b'; computed once",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) { a = Exp(x)  b = Neg(x)  y = Add(a, b) }",
                    "no other node before Exp 'Exp_a' computes the same",
                ),
                Refusal(
                    "g (float[N] x) => (float[N] y, float[N] z) { y = Exp(x)  z = Exp(x) }",
                    "Exp 'Exp_y' computes the same, and the output 'z' needs a value of its own",
                ),
                Refusal(
                    "g (float[2] x) => (float[2] y) { a = RandomNormalLike(x)  y = Add(a, a) }",
                    "RandomNormalLike 'RandomNormalLike_a' gives other numbers each time",
                ),
                Refusal(
                    """<ir_version: 10, opset_import: ["": 23, "own": 1]>
                    g (float[2] x) => (float[2] y) { y = own.noisy(x) }
                    <domain: "own", opset_import: ["": 23]>
                    noisy (z) => (r) { r = RandomNormalLike(z) }""",
                    "own.noisy 'noisy_y' is not told by operator, operands and attributes alone",
                ),
                Refusal(
                    """g (float[N] x, bool c) => (float[N] y) {
                        y = If(c) <
                            then_branch = t () => (float[N] r) { r = Exp(x) },
                            else_branch = e () => (float[N] q) { q = Abs(x) }
                        >
                    }""",
                    "If 'If_y' is not told by operator, operands and attributes alone",
                ),
            ),
            exactness=Exactness.BITS,
        ),
    )
