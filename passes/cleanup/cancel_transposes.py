"""Remove transposes that undo each other, and merge consecutive ones."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.analysis.metrics.transpose_cost import elements_saved
from workbench.ir import Edit, Graph, Node
from workbench.ir.permutation import compose, is_identity
from workbench.planning.layout.conversion.convert import is_only_reader
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import permutation


def _removable(graph: Graph, first: Node, second: Node) -> tuple[Node, ...]:
    """The transposes to remove: the first one too if only the second reads it."""
    return (first, second) if is_only_reader(graph, second, first.outputs[0]) else (second,)


def _pair(graph: Graph, node: Node) -> tuple[Node, tuple[int, ...], tuple[int, ...]]:
    first = graph.producer(node.inputs[0])
    if first is None or first.op != "Transpose":
        raise NoMatch(f"{node} does not follow a Transpose")
    return first, permutation(graph, first), permutation(graph, node)


def match_identity_transpose(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    perm = permutation(graph, node)
    if not is_identity(perm):
        raise NoMatch(f"{node} changes the order of axes")
    edit = Edit(remove=(node.name,), replace={node.outputs[0]: node.inputs[0]})
    return Rewrite(edit, f"perm {list(perm)} of {node} is the identity; removed", (node.name,))


def match_inverse_pair(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first, before, after = _pair(graph, node)
    if not is_identity(compose(before, after)):
        raise NoMatch(f"perm {list(before)} then {list(after)} is not the identity")
    removed = _removable(graph, first, node)
    sentence = f"perm {list(before)} then {list(after)} is the identity; {elements_saved(graph, *removed)}"
    edit = Edit(remove=tuple(n.name for n in removed), replace={node.outputs[0]: first.inputs[0]})
    return Rewrite(edit, sentence, (first.name, node.name))


def match_merge(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first, before, after = _pair(graph, node)
    if len(_removable(graph, first, node)) == 1:
        raise NoMatch(f"{first} has another reader; merging would leave as many transposes")
    merged_perm = compose(before, after)
    merged = node.replace(inputs=first.inputs, attributes={**node.attributes, "perm": merged_perm})
    sentence = f"perm {list(before)} then {list(after)} is {list(merged_perm)}; {elements_saved(graph, first)}"
    return Rewrite(Edit(remove=(first.name, node.name), insert=(merged,)), sentence, (first.name, node.name))


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
        Rule(
            "identity",
            ("Transpose",),
            match_identity_transpose,
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
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "inverse pair",
            ("Transpose",),
            match_inverse_pair,
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
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "merge",
            ("Transpose",),
            match_merge,
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
            exactness=Exactness.BIT_EXACT,
        ),
    )
