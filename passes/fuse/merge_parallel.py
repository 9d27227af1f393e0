"""Merge convolutions or matrix products that read one value into one with a Split after it."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Graph, Node, constant_shape, constant_type
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.parallel import (
    bias_of,
    constant_weights,
    merge_edit,
    merge_sentence,
    mergeable_readers,
    output_axis,
)

_OPERATORS = ("Conv", "MatMul", "Gemm")
_WINDOW = {"strides": "strides", "pads": "padding", "dilations": "dilations", "auto_pad": "padding"}


def _merge_key(graph: Graph, node: Node) -> tuple[object, ...]:
    """Equal for nodes that differ only in the numbers of their weights and in the number of output channels."""
    weight = constant_type(constant_weights(graph, node))
    shape = list(weight.shape or ())
    del shape[output_axis(node)]
    attributes = sorted((key, value) for key, value in node.attributes.items() if key != "kernel_shape")
    return node.op, weight.dtype, tuple(shape), repr(attributes), len(list(filter(None, node.inputs)))


def _refuse_unlike(graph: Graph, node: Node, other: Node) -> None:
    if _merge_key(graph, node) == _merge_key(graph, other):
        return
    for key, word in _WINDOW.items():
        if node.attr(key) != other.attr(key):
            raise NoMatch(f"{node} and {other} have different {word}: {node.attr(key)} and {other.attr(key)}")
    if bool(bias_of(node)) != bool(bias_of(other)):
        raise NoMatch(f"only one of {node} and {other} has a bias")
    shapes = [list(constant_shape(constant_weights(graph, each))) for each in (node, other)]
    raise NoMatch(f"{node} and {other} differ in more than their numbers: weights {shapes[0]} and {shapes[1]}")


def match_parallel(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    merged = [node, *mergeable_readers(graph, node, _refuse_unlike)]
    merged.sort(key=lambda each: graph.position(each.name))
    if merged[0].name != node.name:
        raise NoMatch(f"{merged[0]}, which reads '{node.inputs[0]}' too, comes first")
    weights = [constant_weights(graph, each) for each in merged]
    counts = [constant_shape(weight)[output_axis(node)] for weight in weights]
    edit = merge_edit(graph, merged, node, weights)
    return Rewrite(edit, merge_sentence(graph, merged, counts, f"from {node} to {merged[-1]}"), edit.remove)


_PAIR = """g (float[1,2,4,4] x) => (float[1,3,4,4] y, float[1,1,4,4] z) <{weights}> {{
    y = Conv<{first}>(x, v)
    z = Conv<{second}>(x, w)
}}"""


def _pair(first: str, second: str, weights: str = "float[3,2,1,1] v = {1,2,3,4,5,6}, float[1,2,1,1] w = {7,8}") -> str:
    return _PAIR.format(first=first, second=second, weights=weights)


@dataclass(frozen=True)
class MergeParallel(Pass):
    """Convolutions, MatMuls or Gemms of one value with constant weights become one operator with the weights side by
    side, and a Split of its output channels: the queries, keys and values of attention, the branches of inception.

    The value is read once, and one large kernel may use a machine better than several small ones. The Split copies
    what it returns, unless the runtime returns views.

    Does not apply:

    - if padding, strides, dilations or the shape of the window differ;
    - with groups or non-constant weights;
    - if only some of them have a bias.

    Source: Jia et al., "TASO: Optimizing Deep Learning Computation with Automatic Generation of Graph Substitutions",
    SOSP 2019 (merging convolutions); NVIDIA TensorRT's horizontal layer fusion.
    """

    title = "Merge parallel products of one value"

    rules = (
        Rule(
            "one operand",
            _OPERATORS,
            match_parallel,
            Example(
                before="""g (float[2,2] x) => (float[2,1] q, float[2,2] k)
                    <float[2,1] a = {1, 2}, float[2,2] b = {3, 4, 5, 6}> {
                    q = MatMul(x, a)
                    k = MatMul(x, b)
                }""",
                after="""g (float[2,2] x) => (float[2,1] q, float[2,2] k)
                    <float[2,3] a_merged = {1, 3, 4, 2, 5, 6}, int64[2] MatMul_q_sizes = {1, 2}> {
                    q_merged = MatMul(x, a_merged)
                    q, k = Split<axis=-1>(q_merged, MatMul_q_sizes)
                }""",
                sentences=(
                    "2 kernels, from MatMul 'MatMul_q' to MatMul 'MatMul_k', become one kernel with 3 (1 + 2) output "
                    "channels, followed by a Split; 2 reads of 'x' become 1, 16 bytes less",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2,2] x, float[2,3] w) => (float[2,3] y) { y = MatMul(x, w) }",
                    "no other MatMul reads 'x'",
                ),
                Refusal(
                    """g (float[2,2] x, float[2,3] w) => (float[2,3] y, float[2,3] z) {
                        y = MatMul(x, w)
                        z = MatMul(x, w)
                    }""",
                    "'w', an operand of MatMul 'MatMul_y', is not a constant",
                ),
                Refusal(
                    _pair("strides=[1,1]", "strides=[2,2]"),
                    "Conv 'Conv_y' and Conv 'Conv_z' have different strides: (1, 1) and (2, 2)",
                ),
                Refusal(
                    _pair("pads=[0,0,0,0]", "pads=[1,1,1,1]"),
                    "Conv 'Conv_y' and Conv 'Conv_z' have different padding: (0, 0, 0, 0) and (1, 1, 1, 1)",
                ),
                Refusal(
                    _pair("dilations=[1,1]", "dilations=[2,2]"),
                    "Conv 'Conv_y' and Conv 'Conv_z' have different dilations: (1, 1) and (2, 2)",
                ),
                Refusal(
                    _pair("group=2", "group=2", "float[4,1,1,1] v = {1,2,3,4}, float[2,1,1,1] w = {7,8}"),
                    "Conv 'Conv_y' has 2 groups, each of which reads different channels",
                ),
                Refusal(
                    """g (float[2,2] x) => (float[2,1] y, float[2,1] z)
                        <float[2,1] v = {1, 2}, float[2,1] w = {3, 4}, float[1] c = {5}> {
                        y = Gemm(x, v)
                        z = Gemm(x, w, c)
                    }""",
                    "only one of Gemm 'Gemm_y' and Gemm 'Gemm_z' has a bias",
                ),
                Refusal(
                    _pair("group=1", "group=1", "float[3,2,1,1] v = {1,2,3,4,5,6}, float[1,2,1,2] w = {7,8,9,1}"),
                    "Conv 'Conv_y' and Conv 'Conv_z' differ in more than their numbers: weights [3, 2, 1, 1] and "
                    "[1, 2, 1, 2]",
                ),
            ),
            exactness=Exactness.ROUNDING,
        ),
    )

    extra_examples = (
        Example(
            title="Two branches of an inception module",
            before="""g (float[1,2,2,2] x) => (float[1,2,2,2] y, float[1,1,2,2] z)
                <float[2,2,1,1] v = {1, 2, 3, 4}, float[1,2,1,1] w = {7, 8}, float[2] b = {1, 2}, float[1] c = {3}> {
                y = Conv(x, v, b)
                z = Conv(x, w, c)
            }""",
            after="""g (float[1,2,2,2] x) => (float[1,2,2,2] y, float[1,1,2,2] z)
                <float[3,2,1,1] v_merged = {1, 2, 3, 4, 7, 8}, float[3] b_merged = {1, 2, 3},
                int64[2] Conv_y_sizes = {2, 1}> {
                y_merged = Conv(x, v_merged, b_merged)
                y, z = Split<axis=1>(y_merged, Conv_y_sizes)
            }""",
            sentences=(
                "2 kernels, from Conv 'Conv_y' to Conv 'Conv_z', become one kernel with 3 (2 + 1) output channels, "
                "followed by a Split; 2 reads of 'x' become 1, 32 bytes less",
            ),
        ),
    )
