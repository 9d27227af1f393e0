"""Remove transposes that undo each other, and merge consecutive ones."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.analysis.metrics.transpose_cost import elements_saved
from workbench.ir.permutation import compose, is_identity
from workbench.planning.layout.conversion.convert import is_only_reader
from workbench.rewrite import Exactness, Example, Pass, Refusal
from workbench.rewrite.patterns.graph_rules import graph_rule


@dataclass(frozen=True)
class CancelTransposes(Pass):
    """Three cases, for any number of axes:

    - a Transpose whose permutation is the identity is removed;
    - a Transpose that undoes the one before it is removed, and the first with it if nothing else reads it;
    - two consecutive ones whose permutations do not cancel become one.

    Must not merge past a transpose that has another reader: as many would be left.

    Source: OneFlow's AutoNhwcEliminateRedundantTranspose, which knows two permutations of four axes.
    """

    title = "Cancel and merge transposes"

    rules = (
        graph_rule(
            "identity",
            "y = Transpose(x, perm=p)",
            "y = x",
            "perm {p} of {root} is the identity; removed",
            Example(
                before="g (float[2,3] x) => (float[2,3] y) { t = Transpose<perm=[0,1]>(x)  y = Relu(t) }",
                after="g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }",
                sentences=("perm [0, 1] of Transpose 'Transpose_t' is the identity; removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[3,3] x) => (float[3,3] y) { t = Transpose<perm=[1,0]>(x)  y = Relu(t) }",
                    "Transpose 'Transpose_t' changes the order of axes",
                ),
            ),
            where=((lambda p: is_identity(p), "{root} changes the order of axes"),),
            at_outputs=True,
            exactness=Exactness.BIT_EXACT,
        ),
        graph_rule(
            "inverse pair",
            "y = Transpose(Transpose(x, perm=p), perm=q)",
            "y = x",
            "perm {p} then {q} is the identity; {saved}",
            Example(
                before="""g (float[1,8,4,4] x) => (float[1,8,4,4] y) {
                    t = Transpose<perm=[0,2,3,1]>(x)
                    u = Transpose<perm=[0,3,1,2]>(t)
                    y = Relu(u)
                }""",
                after="g (float[1,8,4,4] x) => (float[1,8,4,4] y) { y = Relu(x) }",
                sentences=("perm [0, 2, 3, 1] then [0, 3, 1, 2] is the identity; 256 elements no longer moved",),
            ),
            refusals=(
                Refusal(
                    "g (float[1,4,4,4] x) => (float[1,4,4,4] y)"
                    " { t = Transpose<perm=[0,2,3,1]>(x)  u = Transpose<perm=[0,2,3,1]>(t)  y = Relu(u) }",
                    "perm [0, 2, 3, 1] then [0, 2, 3, 1] is not the identity",
                ),
            ),
            where=((lambda p, q: is_identity(compose(p, q)), "perm {p} then {q} is not the identity"),),
            computed={"saved": lambda match: elements_saved(match.graph, *match.removed)},
            shared=True,
            at_outputs=True,
            exactness=Exactness.BIT_EXACT,
        ),
        graph_rule(
            "merge",
            "y = Transpose(Transpose(x, perm=p), perm=q)",
            "y = Transpose(x, perm=merged)",
            "perm {p} then {q} is {merged}; {saved}",
            Example(
                before="""g (float[2,3,4] x) => (float[4,2,3] y) {
                    t = Transpose<perm=[1,0,2]>(x)
                    y = Transpose<perm=[2,1,0]>(t)
                }""",
                after="g (float[2,3,4] x) => (float[4,2,3] y) { y = Transpose<perm=[2,0,1]>(x) }",
                sentences=("perm [1, 0, 2] then [2, 1, 0] is [2, 0, 1]; 24 elements no longer moved",),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3,4] x) => (float[4,2,3] y, float[3,2,4] z) {
                        t = Transpose<perm=[1,0,2]>(x)
                        y = Transpose<perm=[2,1,0]>(t)
                        z = Relu(t)
                    }""",
                    "Transpose 'Transpose_t' has another reader; merging would leave as many transposes",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[3,2] y) { t = Relu(x)  y = Transpose<perm=[1,0]>(t) }",
                    "Transpose 'Transpose_y' does not follow a Transpose",
                ),
            ),
            where=(
                (
                    lambda graph, root, nodes: is_only_reader(graph, root, nodes[0].outputs[0]),
                    "{nodes[0]} has another reader; merging would leave as many transposes",
                ),
            ),
            computed={
                "merged": lambda p, q: compose(p, q),
                "saved": lambda graph, nodes: elements_saved(graph, nodes[0]),
            },
            exactness=Exactness.BIT_EXACT,
        ),
    )
