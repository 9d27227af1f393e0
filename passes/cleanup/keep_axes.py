"""Let reductions keep or drop their axes by keepdims."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.reductions import keeps_axes, reduced_axes
from workbench.rewrite.analyses.reshapes import axes_of
from workbench.rewrite.core.guards import require_producer, require_single_use

_SINGLE_AXIS_OPS = ("ArgMax", "ArgMin")
_REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", *_SINGLE_AXIS_OPS),
)


def match_axes_again(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    reduction = require_producer(graph, node.inputs[0], _REDUCTIONS, node)
    require_single_use(graph, node, reduction)
    drops = node.op == "Squeeze"
    if keeps_axes(reduction) != drops:
        raise NoMatch(f"{reduction} {'does not keep' if drops else 'keeps'} its axes")
    reduced, axes = _reduced(graph, reduction), axes_of(graph, node)
    if tuple(sorted(reduced)) != axes:
        raise NoMatch(f"{reduction} reduces axes {sorted(reduced)}, but {node} has axes {list(axes)}")
    changed = reduction.replace(outputs=node.outputs, attributes={**reduction.attributes, "keepdims": int(not drops)})
    edit = Edit(remove=(reduction.name, node.name), insert=(changed,))
    sentence = f"{reduction} {'drops' if drops else 'keeps'} axes {list(axes)} itself; {node} removed"
    return Rewrite(edit, sentence, (reduction.name, node.name))


def _reduced(graph: Graph, reduction: Node) -> frozenset[int]:
    if reduction.op not in _SINGLE_AXIS_OPS:
        return reduced_axes(graph, reduction)
    rank = graph.rank_of(reduction.inputs[0])
    if not rank:
        raise NoMatch(f"the rank of '{reduction.inputs[0]}', which {reduction} reduces, is not known")
    return frozenset({reduction.attr("axis") % rank})


@dataclass(frozen=True)
class KeepAxes(Pass):
    """A reduction, ArgMax or ArgMin that drops axes which an Unsqueeze inserts again keeps them instead; one that keeps
    axes which a Squeeze removes drops them itself.

    Does not apply if the axes differ, nor if anything else reads the result of the reduction.

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
                    "ReduceMean 'ReduceMean_m' keeps axes [1] itself; Unsqueeze 'Unsqueeze_y' removed",
                    "ArgMax 'ArgMax_i' drops axes [2] itself; Squeeze 'Squeeze_z' removed",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3,4] x) => (float[1,2,4] y) <int64[1] a = {0}, int64[1] b = {1}>
                        { m = ReduceMax<keepdims=0>(x, b)  y = Unsqueeze(m, a) }""",
                    "ReduceMax 'ReduceMax_m' reduces axes [1], but Unsqueeze 'Unsqueeze_y' has axes [0]",
                ),
                Refusal(
                    """g (float[2,3,4] x) => (float[1,2,1,4] y) <int64[1] a = {0}, int64[1] b = {1}>
                        { m = ReduceMax(x, b)  y = Unsqueeze(m, a) }""",
                    "ReduceMax 'ReduceMax_m' keeps its axes",
                ),
                Refusal(
                    """g (float[2,3,4] x) => (float[2,1,4] y, float[2,4] m) <int64[1] b = {1}>
                        { m = ReduceMax<keepdims=0>(x, b)  y = Unsqueeze(m, b) }""",
                    "'m' of ReduceMax 'ReduceMax_m' is an output of the graph",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
