"""Write a mean times the number of its elements as a sum, and a sum divided by it as a mean."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.reductions import reduced_axes
from workbench.rewrite.core.guards import require_float_or_double, require_producer, require_single_use

_SWAPPED = {"Mul": ("ReduceMean", "ReduceSum"), "Div": ("ReduceSum", "ReduceMean")}


def match_count(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    before, after = _SWAPPED[node.op]
    reduced, number = node.inputs
    if node.op == "Mul" and reduced in graph.constants:
        reduced, number = number, reduced
    reduction = require_producer(graph, reduced, (before,), node)
    require_float_or_double(graph, reduced, node)
    constant = graph.constant(number)
    factor = None if constant is None else constant.numpy()
    if factor is None or factor.size != 1 or factor.ndim > (graph.rank_of(reduced) or 0):
        raise NoMatch(f"'{number}' of {node} is not one constant number for all")
    shape = graph.shape(reduction.inputs[0]) or ()
    sizes = [shape[axis] for axis in sorted(reduced_axes(graph, reduction))]
    count = math.prod(size for size in sizes if isinstance(size, int))
    if not all(isinstance(size, int) for size in sizes) or count != factor.reshape(-1)[0] or not count:
        raise NoMatch(f"'{number}' of {node} is not known to be the number of elements that {reduction} reduces to one")
    require_single_use(graph, node, reduction)
    merged = reduction.replace(op_type=after, outputs=node.outputs)
    edit = Edit(remove=(reduction.name, node.name), insert=(merged,))
    verb = "times" if node.op == "Mul" else "divided by"
    sentence = f"{reduction} of {count:,} elements {verb} {count:,} becomes {after}; 1 node fewer"
    return Rewrite(edit, sentence, (reduction.name, node.name))


@dataclass(frozen=True)
class AlgebraMeans(Pass):
    """Two cases: ReduceMean of n elements, times n, becomes ReduceSum; ReduceSum of n elements, divided by n, becomes
    ReduceMean.

    Does not apply if a reduced axis has no fixed size, if anything else reads the mean or the sum, to 16-bit numbers,
    nor to integers, whose means truncate.

    Source: the definition of the mean.
    """

    title = "Means that are sums, sums that are means"

    rules = (
        Rule(
            "number of elements",
            ("Mul", "Div"),
            match_count,
            Example(
                before="""g (float[N,2,4] x) => (float[N,1,1] y, float[N,2] z)
                    <int64[2] a = {1, 2}, int64[1] b = {2}, float n = {8}, float[1] m = {4}> {
                    p = ReduceMean(x, a)
                    y = Mul(n, p)
                    s = ReduceSum<keepdims=0>(x, b)
                    z = Div(s, m)
                }""",
                after="""g (float[N,2,4] x) => (float[N,1,1] y, float[N,2] z)
                    <int64[2] a = {1, 2}, int64[1] b = {2}> {
                    y = ReduceSum(x, a)
                    z = ReduceMean<keepdims=0>(x, b)
                }""",
                sentences=(
                    "ReduceMean 'ReduceMean_p' of 8 elements times 8 becomes ReduceSum; 1 node fewer",
                    "ReduceSum 'ReduceSum_s' of 4 elements divided by 4 becomes ReduceMean; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,4] x) => (float[N,1] y) <int64[1] a = {1}, float n = {3}>"
                    " { p = ReduceMean(x, a)  y = Mul(p, n) }",
                    "'n' of Mul 'Mul_y' is not known to be the number of elements that ReduceMean 'ReduceMean_p' "
                    "reduces to one",
                ),
                Refusal(
                    "g (float[N,4] x) => (float[1,4] y) <int64[1] a = {0}, float n = {4}>"
                    " { p = ReduceMean(x, a)  y = Mul(p, n) }",
                    "'n' of Mul 'Mul_y' is not known to be the number of elements that ReduceMean 'ReduceMean_p' "
                    "reduces to one",
                ),
                Refusal(
                    "g (float[N,4] x, float n) => (float[N,1] y) <int64[1] a = {1}>"
                    " { p = ReduceMean(x, a)  y = Mul(p, n) }",
                    "'n' of Mul 'Mul_y' is not one constant number for all",
                ),
                Refusal(
                    "g (float[N,4] x) => (float[1,N] y) <int64[1] a = {1}, float[1,1] n = {4}>"
                    " { p = ReduceMean<keepdims=0>(x, a)  y = Mul(p, n) }",
                    "'n' of Mul 'Mul_y' is not one constant number for all",
                ),
                Refusal(
                    "g (int64[N,4] x) => (int64[N,1] y) <int64[1] a = {1}, int64 n = {4}>"
                    " { p = ReduceMean(x, a)  y = Mul(p, n) }",
                    "'p', an operand of Mul 'Mul_y', is not known to be float or double",
                ),
                Refusal(
                    "g (float[N,4] x) => (float[N,1] y, float[N,1] p) <int64[1] a = {1}, float n = {4}>"
                    " { p = ReduceMean(x, a)  y = Mul(p, n) }",
                    "'p' of ReduceMean 'ReduceMean_p' is an output of the graph",
                ),
                Refusal(
                    "g (float[N,4] x) => (float[N,4] y) <float n = {4}> { p = Relu(x)  y = Mul(p, n) }",
                    "Mul 'Mul_y' does not follow a ReduceMean",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="((x + y) / 2) * 2 == x + y",
        ),
    )
