"""A reduction keeps or drops its axes itself."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.guards import require_producer, require_single_use
from workbench.rewrite.reductions import keeps_axes, reduced_axes
from workbench.rewrite.reshapes import axes_of

_OVER_ONE = ("ArgMax", "ArgMin")
_REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", *_OVER_ONE),
)


def match_axes_again(graph: Graph, node: Node, options: Pass) -> Rewrite:
    reduction = require_producer(graph, node.inputs[0], _REDUCTIONS, node)
    require_single_use(graph, node, reduction)
    drops = node.op == "Squeeze"
    if keeps_axes(reduction) != drops:
        raise NoMatch(f"{reduction} has {'not kept' if drops else 'kept'} its axes")
    reduced, named = _reduced(graph, reduction), axes_of(graph, node)
    if tuple(sorted(reduced)) != named:
        raise NoMatch(f"{reduction} reduces axes {sorted(reduced)}, and {node} is about {list(named)}")
    changed = reduction.replace(outputs=node.outputs, attributes={**reduction.attributes, "keepdims": int(not drops)})
    edit = Edit(remove=(reduction.name, node.name), insert=(changed,))
    sentence = f"{reduction} {'drops' if drops else 'keeps'} axes {list(named)} itself; {node} goes"
    return Rewrite(edit, sentence, (reduction.name, node.name))


def _reduced(graph: Graph, reduction: Node) -> frozenset[int]:
    if reduction.op not in _OVER_ONE:
        return reduced_axes(graph, reduction)
    rank = graph.rank_of(reduction.inputs[0])
    if not rank:
        raise NoMatch(f"how many axes '{reduction.inputs[0]}' has, which {reduction} reduces, is not known")
    return frozenset({reduction.attr("axis", 0) % rank})


@dataclass(frozen=True)
class KeepAxes(Pass):
    """A reduction, ArgMax or ArgMin that drops its axes, which an Unsqueeze brings back, keeps them; one that keeps
    them, which a Squeeze drops, drops them.

    Must not act where the axes differ, nor where anything else reads the reduction.

    Source: the attribute keepdims in ONNX's definitions of reductions.
    """

    title = "Let reductions keep or drop their axes"

    rules = (
        Rule(
            "axes again",
            ("Unsqueeze", "Squeeze"),
            match_axes_again,
            Example(
                before="""g (float[2,3,4] x) => (float[2,1,4] y, int64[2,3] z)
                    <int64[1] a = {1}, int64[1] b = {-2}, int64[1] c = {-1}> {
                    m = ReduceMean<keepdims=0>(x, b)
                    y = Unsqueeze(m, a)
                    i = ArgMax<axis=2>(x)
                    z = Squeeze(i, c)
                }""",
                after="""g (float[2,3,4] x) => (float[2,1,4] y, int64[2,3] z) <int64[1] b = {-2}> {
                    y = ReduceMean<keepdims=1>(x, b)
                    z = ArgMax<axis=2, keepdims=0>(x)
                }""",
                sentences=(
                    "ReduceMean 'ReduceMean_m' keeps axes [1] itself; Unsqueeze 'Unsqueeze_y' goes",
                    "ArgMax 'ArgMax_i' drops axes [2] itself; Squeeze 'Squeeze_z' goes",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3,4] x) => (float[1,2,4] y) <int64[1] a = {0}, int64[1] b = {1}>
                        { m = ReduceMax<keepdims=0>(x, b)  y = Unsqueeze(m, a) }""",
                    "ReduceMax 'ReduceMax_m' reduces axes [1], and Unsqueeze 'Unsqueeze_y' is about [0]",
                ),
                Refusal(
                    """g (float[2,3,4] x) => (float[1,2,1,4] y) <int64[1] a = {0}, int64[1] b = {1}>
                        { m = ReduceMax(x, b)  y = Unsqueeze(m, a) }""",
                    "ReduceMax 'ReduceMax_m' has kept its axes",
                ),
                Refusal(
                    """g (float[2,3,4] x) => (float[2,1,4] y, float[2,4] m) <int64[1] b = {1}>
                        { m = ReduceMax<keepdims=0>(x, b)  y = Unsqueeze(m, b) }""",
                    "'m' of ReduceMax 'ReduceMax_m' is an output of the graph",
                ),
            ),
            exactness=Exactness.BITS,
        ),
    )
