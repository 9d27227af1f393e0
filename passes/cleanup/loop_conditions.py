"""Write the condition of a Loop that never changes as a constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.bodies import closed_body, opened_body, with_body

_CONDITION = 1  # its index among the operands of a Loop, and among the inputs of its body


def match_condition(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    condition = node.inputs[_CONDITION] if len(node.inputs) > _CONDITION else ""
    constant_condition = graph.constant(condition) if condition else None
    if condition and (constant_condition is None or not constant_condition.numpy().all()):
        raise NoMatch(f"the condition '{condition}' of {node} is not known to be true")
    body = node.bodies["body"]
    next_condition = body.outputs[0]
    producer = body.producer(next_condition)
    if producer is None or producer.op != "Identity":
        raise NoMatch(f"{node} computes in each iteration whether it continues, or its condition is a constant")
    source = body.constant(producer.inputs[0])
    if producer.inputs[0] != body.inputs[_CONDITION] and (source is None or not source.numpy().all()):
        raise NoMatch(f"the condition of {node} would become '{producer.inputs[0]}', which may be false")
    inside = opened_body(graph, body)
    inside.apply(Edit(remove=(producer.name,), constants={next_condition: constant(np.array(True), next_condition)}))
    changed = with_body(node, "body", closed_body(inside, body, graph))
    sentence = f"the condition of {node} stays true; {producer} of its body is removed"
    return Rewrite(Edit(remove=(node.name,), insert=(changed,)), sentence, (node.name,))


@dataclass(frozen=True)
class LoopConditions(Pass):
    """One case: a Loop starts with a true condition, or without one, and its body returns that condition, or another
    true constant, by an Identity. The body then returns a constant, and the Identity is removed.

    Does not apply if the condition is computed, before the Loop or in its body.

    Source: ONNX's definition of Loop; an output of a graph may be a constant.
    """

    title = "Constant conditions of loops"

    rules = (
        Rule(
            "stays true",
            ("Loop",),
            match_condition,
            Example(
                before="""g (int64 n, float[2] x) => (float[2] y) <bool t = {1}> {
                    y = Loop(n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) {
                        d = Identity(c)
                        r = Add(s, s)
                    }>
                }""",
                after="""g (int64 n, float[2] x) => (float[2] y) <bool t = {1}> {
                    y = Loop(n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) <bool d = {1}> {
                        r = Add(s, s)
                    }>
                }""",
                sentences=("the condition of Loop 'Loop_y' stays true; Identity 'Identity_d' of its body is removed",),
            ),
            refusals=(
                Refusal(
                    """g (int64 n, bool t, float[2] x) => (float[2] y) {
                        y = Loop(n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) {
                            d = Identity(c)
                            r = Add(s, s)
                        }>
                    }""",
                    "the condition 't' of Loop 'Loop_y' is not known to be true",
                ),
                Refusal(
                    """g (int64 n, float[2] x) => (float[2] y) <bool t = {1}> {
                        y = Loop(n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) {
                            d = Not(c)
                            r = Add(s, s)
                        }>
                    }""",
                    "Loop 'Loop_y' computes in each iteration whether it continues, or its condition is a constant",
                ),
                Refusal(
                    """g (int64 n, float[2] x, bool p) => (float[2] y) <bool t = {1}> {
                        y = Loop(n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) {
                            d = Identity(p)
                            r = Add(s, s)
                        }>
                    }""",
                    "the condition of Loop 'Loop_y' would become 'p', which may be false",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
