"""Merge convolutions or matrix products that read one value into one with a Split behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.ir import Constant, DataType, Edit, Graph, Node, constant, constant_shape, constant_type, lazy_constant
from workbench.layout.cost import bound_shape
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule

_OPERATORS = ("Conv", "MatMul", "Gemm")
_SPLIT_BY_OPERAND = 13  # opset


def _output_axis(node: Node) -> int:
    """The axis of the weights along which output channels lie."""
    if node.op == "Conv":
        return 0
    return 0 if node.attr("transB", 0) else 1


def _weight(graph: Graph, node: Node) -> Constant:
    weight = graph.constant(node.inputs[1])
    if weight is None:
        raise NoMatch(f"'{node.inputs[1]}', an operand of {node}, is not a constant")
    return weight


def _require_mergeable(graph: Graph, node: Node) -> None:
    """Raises NoMatch unless the output channels of the node depend on one slice of its weights each."""
    weight, x = constant_type(_weight(graph, node)), graph.tensor_type(node.inputs[0])
    if weight.dtype not in (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE):
        raise NoMatch(f"{node} is not of floating-point numbers")
    if x is None or x.shape is None:
        raise NoMatch(f"the shape of '{node.inputs[0]}' is not known")
    rank = len(weight.shape or ())
    if node.op == "Conv" and node.attr("group", 1) != 1:
        raise NoMatch(f"{node} has {node.attr('group', 1)} groups, each of which reads other channels")
    if node.op != "Conv" and (rank != 2 or node.attr("transA", 0)):
        raise NoMatch(f"{node} is not a product of rows with a matrix")
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    if not bias:
        return
    held, count = graph.constant(bias), (weight.shape or ())[_output_axis(node)]
    if held is None or constant_shape(held) != (count,):
        raise NoMatch(f"the bias '{bias}' of {node} is not a constant with one number for each of its channels")


def _likeness(graph: Graph, node: Node) -> tuple[object, ...]:
    """Equal for nodes that differ in their numbers and the number of output channels alone."""
    weight = constant_type(_weight(graph, node))
    shape = list(weight.shape or ())
    del shape[_output_axis(node)]
    attributes = sorted((key, value) for key, value in node.attributes.items() if key != "kernel_shape")
    return node.op, weight.dtype, tuple(shape), repr(attributes), len(list(filter(None, node.inputs)))


def _siblings(graph: Graph, node: Node) -> list[Node]:
    """The nodes to merge with this one, itself first; they read its first operand in the same way."""
    others = [user for user in graph.users(node.inputs[0]) if user.op == node.op and user.name != node.name]
    others = [other for other in others if other.inputs[0] == node.inputs[0]]
    if not others:
        raise NoMatch(f"no other {node.op} reads '{node.inputs[0]}'")
    _require_mergeable(graph, node)
    alike, reason = [node], ""
    for other in others:
        try:
            _require_mergeable(graph, other)
        except NoMatch as refusal:
            reason = reason or str(refusal)
            continue
        if _likeness(graph, other) == _likeness(graph, node):
            alike.append(other)
        else:
            reason = reason or _difference(graph, node, other)
    if len(alike) == 1:
        raise NoMatch(reason)
    return sorted(alike, key=lambda each: graph.position(each.name))


def _difference(graph: Graph, node: Node, other: Node) -> str:
    defaults = {"strides": "strides", "pads": "padding", "dilations": "dilations", "auto_pad": "padding"}
    for key, words in defaults.items():
        if node.attr(key) != other.attr(key):
            return f"{node} and {other} have other {words}: {node.attr(key)} and {other.attr(key)}"
    if len(list(filter(None, node.inputs))) != len(list(filter(None, other.inputs))):
        return f"only one of {node} and {other} has a bias"
    shapes = [constant_shape(_weight(graph, each)) for each in (node, other)]
    return f"{node} and {other} differ in more than their numbers: weights {list(shapes[0])} and {list(shapes[1])}"


def match_parallel(graph: Graph, node: Node, options: Pass) -> Rewrite:
    if graph.opset_imports.get("", 0) < _SPLIT_BY_OPERAND:
        raise NoMatch(f"Split takes its sizes as an operand from opset {_SPLIT_BY_OPERAND} on")
    merged = _siblings(graph, node)
    if merged[0].name != node.name:
        raise NoMatch(f"{merged[0]}, which reads '{node.inputs[0]}' too, comes first")
    axis = _output_axis(node)
    counts = [constant_shape(_weight(graph, each))[axis] for each in merged]
    weight = graph.fresh(f"{node.inputs[1]}_merged")
    constants: dict[str, Constant | None] = {weight: _side_by_side([_weight(graph, each) for each in merged], axis)}
    inputs = [node.inputs[0], weight]
    if len(node.inputs) > 2 and node.inputs[2]:
        inputs.append(graph.fresh(f"{node.inputs[2]}_merged", constants))
        constants[inputs[-1]] = _side_by_side([graph.constants[each.inputs[2]] for each in merged], 0)
    sizes = graph.fresh(f"{node.name}_sizes", constants)
    constants[sizes] = constant(np.array(counts, np.int64))
    whole = graph.fresh(f"{node.outputs[0]}_merged", constants)
    new = node.replace(inputs=tuple(inputs), outputs=(whole,))
    split = Node(
        "Split",
        (whole, sizes),
        tuple(each.outputs[0] for each in merged),
        {"axis": 1 if node.op == "Conv" else -1},
        name=graph.fresh(f"{node.name}_split"),
    )
    edit = Edit(remove=tuple(each.name for each in merged), insert=(new, split), constants=constants)
    return Rewrite(edit, _sentence(graph, merged, counts), edit.remove)


def _side_by_side(weights: Sequence[Constant], axis: int) -> Constant:
    shape = list(constant_shape(weights[0]))
    shape[axis] = sum(constant_shape(weight)[axis] for weight in weights)
    return lazy_constant(
        lambda: np.concatenate([weight.numpy() for weight in weights], axis), weights[0].dtype, tuple(shape)
    )


def _sentence(graph: Graph, merged: Sequence[Node], counts: Sequence[int]) -> str:
    node, value = merged[0], merged[0].inputs[0]
    type_, shape = graph.tensor_type(value), bound_shape(graph, value)
    size = None if type_ is None or shape is None else type_.with_shape(shape).bytes
    read = "" if size is None else f", {(len(merged) - 1) * size:,} bytes less"
    return (
        f"{len(merged)} kernels, {node} to {merged[-1]}, become 1 of {' + '.join(map(str, counts))} = {sum(counts)} "
        f"output channels with a Split behind it; {len(merged)} reads of '{value}' become 1{read}"
    )


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

    Must not act unless padding, strides, dilations and the shape of the window are the same, nor with groups, with
    weights that are computed, or with biases in one of them only.

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
                    "2 kernels, MatMul 'MatMul_q' to MatMul 'MatMul_k', become 1 of 1 + 2 = 3 output channels with a "
                    "Split behind it; 2 reads of 'x' become 1, 16 bytes less",
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
                    "Conv 'Conv_y' and Conv 'Conv_z' have other strides: (1, 1) and (2, 2)",
                ),
                Refusal(
                    _pair("pads=[0,0,0,0]", "pads=[1,1,1,1]"),
                    "Conv 'Conv_y' and Conv 'Conv_z' have other padding: (0, 0, 0, 0) and (1, 1, 1, 1)",
                ),
                Refusal(
                    _pair("dilations=[1,1]", "dilations=[2,2]"),
                    "Conv 'Conv_y' and Conv 'Conv_z' have other dilations: (1, 1) and (2, 2)",
                ),
                Refusal(
                    _pair("group=2", "group=2", "float[4,1,1,1] v = {1,2,3,4}, float[2,1,1,1] w = {7,8}"),
                    "Conv 'Conv_y' has 2 groups, each of which reads other channels",
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

    own_examples = (
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
                "2 kernels, Conv 'Conv_y' to Conv 'Conv_z', become 1 of 2 + 1 = 3 output channels with a Split behind "
                "it; 2 reads of 'x' become 1, 32 bytes less",
            ),
        ),
    )
