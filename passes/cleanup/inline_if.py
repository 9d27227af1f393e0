"""Replace an If whose condition is known by the branch that it takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.analysis.inference.ranks import needed_rank, possible_ranks
from workbench.ir import Edit, Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.inlining import inlined
from workbench.rewrite.core.guards import require_constant


def match_known_condition(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    branch = "then_branch" if require_constant(graph, node.inputs[0], node).all() else "else_branch"
    body = node.attributes[branch]
    known = "true" if branch == "then_branch" else "false"
    size = f"{len(body):,} node{'' if len(body) == 1 else 's'}"
    sentence = f"the condition of {node} is always {known}; replaced by its {branch} of {size}"
    return Rewrite(inlined(graph, node, body, {}), sentence, (node.name,))


def match_only_branch(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    condition = node.inputs[0]
    if graph.constant(condition) is not None:
        raise NoMatch(f"the condition of {node} is a constant")
    for index, value in enumerate(node.outputs):
        needed = needed_rank(graph, value) if value else None
        if needed is None:
            continue
        for key, failing, required in (("then_branch", "true", False), ("else_branch", "false", True)):
            body = node.bodies[key]
            ranks = possible_ranks((graph, body), body.outputs[index])
            if ranks is None or needed in ranks:
                continue
            name = graph.fresh(f"{condition}_settled")
            constants = {name: constant(np.array(required))}
            rank = " or ".join(map(str, sorted(ranks)))
            sentence = (
                f"if '{condition}' is {failing}, '{value}' of {node} has rank {rank}, but its reader needs {needed}: "
                f"the model only runs if it is {str(required).lower()}"
            )
            return Rewrite(Edit(replace={condition: name}, constants=constants), sentence, (node.name,))
    raise NoMatch(f"both branches of {node} may run")


@dataclass(frozen=True)
class InlineIf(Pass):
    """Two cases:

    - the condition is a constant: the branch that it selects replaces the If; its values and nodes keep their names if
      these are free outside;
    - a branch returns a result of a rank that its reader cannot take, so that the model fails whenever that branch is
      taken: the condition is then known for every run that succeeds.

    Does not apply if both branches may run.

    Source: ONNX's definition of If; onnxscript's optimizer does the same.
    """

    title = "Inline the known branch of an If"

    rules = (
        Rule(
            "known condition",
            ("If",),
            match_known_condition,
            Example(
                before="""g (float[N] x) => (float[N] y) <bool c = {1}> {
                    a = Relu(x)
                    b = If(c) <
                        then_branch = t () => (float[N] r) { n = Neg(a)  r = Exp(n) },
                        else_branch = e () => (float[N] q) { q = Abs(a) }
                    >
                    y = Tanh(b)
                }""",
                after="""g (float[N] x) => (float[N] y) {
                    a = Relu(x)
                    n = Neg(a)
                    r = Exp(n)
                    y = Tanh(r)
                }""",
                sentences=("the condition of If 'If_b' is always true; replaced by its then_branch of 2 nodes",),
            ),
            refusals=(
                Refusal(
                    """g (float[N] x, bool c) => (float[N] y) {
                        y = If(c) <
                            then_branch = t () => (float[N] r) { r = Exp(x) },
                            else_branch = e () => (float[N] q) { q = Abs(x) }
                        >
                    }""",
                    "'c', an operand of If 'If_y', is not a constant",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "only branch that runs",
            ("If",),
            match_only_branch,
            Example(
                before="""g (float[N,1,L] x, bool c) => (float[N,1,L] y) <float[1,1,1] w = {2}, int64[1] a = {0}> {
                    r = If(c) <
                        then_branch = t () => (float[1,N,1,L] p) { p = Unsqueeze(x, a) },
                        else_branch = e () => (float[N,1,L] q) { q = Neg(x) }
                    >
                    y = Conv(r, w)
                }""",
                after="""g (float[N,1,L] x, bool c) => (float[N,1,L] y) <float[1,1,1] w = {2}> {
                    q = Neg(x)
                    y = Conv(q, w)
                }""",
                sentences=(
                    "if 'c' is true, 'r' of If 'If_r' has rank 4, but its reader needs 3: "
                    "the model only runs if it is false",
                    "the condition of If 'If_r' is always false; replaced by its else_branch of 1 node",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[N,1,L] x, bool c) => (float[N,1,L] y) <float[1,1,1] w = {2}> {
                        r = If(c) <
                            then_branch = t () => (float[N,1,L] p) { p = Abs(x) },
                            else_branch = e () => (float[N,1,L] q) { q = Neg(x) }
                        >
                        y = Conv(r, w)
                    }""",
                    "both branches of If 'If_r' may run",
                ),
                Refusal(
                    """g (float[N] x) => (float[N] y) <bool c = {1}> {
                        y = If(c) <
                            then_branch = t () => (float[N] p) { p = Abs(x) },
                            else_branch = e () => (float[N] q) { q = Neg(x) }
                        >
                    }""",
                    "the condition of If 'If_y' is a constant",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
