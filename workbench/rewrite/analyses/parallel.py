"""Merging parallel operators: convolutions and products that read one value, with constant weights, become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from workbench.analysis.inference.bound_shapes import bytes_of_value
from workbench.ir import Constant, DataType, Edit, Graph, Node, constant, constant_shape, constant_type, lazy_constant
from workbench.rewrite.core.rule import NoMatch

_FLOATING = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE)


def output_axis(node: Node) -> int:
    """The axis of the weights along which output channels lie."""
    if node.op == "Conv":
        return 0
    return 0 if node.attr("transB") else 1


def constant_weights(graph: Graph, node: Node) -> Constant:
    """The weights. Raises NoMatch unless they are constant."""
    weight = graph.constant(node.inputs[1])
    if weight is None:
        raise NoMatch(f"'{node.inputs[1]}', an operand of {node}, is not a constant")
    return weight


def bias_of(node: Node) -> str:
    """The name of the bias; "" if there is none."""
    return node.inputs[2] if len(node.inputs) > 2 else ""


def require_mergeable(graph: Graph, node: Node) -> None:
    """Raises NoMatch unless each output channel of the node depends on one slice of its constant weights."""
    weight, x = constant_type(constant_weights(graph, node)), graph.tensor_type(node.inputs[0])
    if weight.dtype not in _FLOATING:
        raise NoMatch(f"{node} is not of floating-point numbers")
    if x is None or x.shape is None:
        raise NoMatch(f"the shape of '{node.inputs[0]}' is not known")
    rank = len(weight.shape or ())
    if node.op == "Conv" and node.attr("group") != 1:
        raise NoMatch(f"{node} has {node.attr('group')} groups, each of which reads different channels")
    if node.op != "Conv" and (rank != 2 or node.attr("transA")):
        raise NoMatch(f"{node} is not a product of rows with a matrix")
    bias = bias_of(node)
    if not bias:
        return
    constant_bias, count = graph.constant(bias), (weight.shape or ())[output_axis(node)]
    if constant_bias is None or constant_shape(constant_bias) != (count,):
        raise NoMatch(f"the bias '{bias}' of {node} is not a constant with one number for each of its channels")


def mergeable_readers(
    graph: Graph, node: Node, refuse_unlike: Callable[[Graph, Node, Node], None], described_as: str = "other"
) -> list[Node]:
    """Other nodes with the node's operator and first operand that may be merged with it.

    refuse_unlike: raises NoMatch if the third argument cannot be merged with the second.
    described_as:  an adjective for these nodes, for the sentence if there are none.
    Raises NoMatch, with the reason of the first refusal, if there are none.
    """
    others = [user for user in graph.users(node.inputs[0]) if user.op == node.op and user.name != node.name]
    others = [other for other in others if other.inputs[0] == node.inputs[0]]
    if not others:
        raise NoMatch(f"no {described_as} {node.op} reads '{node.inputs[0]}'")
    require_mergeable(graph, node)
    mergeable, reason = [], ""
    for other in others:
        try:
            require_mergeable(graph, other)
            refuse_unlike(graph, node, other)
        except NoMatch as refusal:
            reason = reason or str(refusal)
            continue
        mergeable.append(other)
    if not mergeable:
        raise NoMatch(reason)
    return mergeable


def merge_edit(graph: Graph, merged: Sequence[Node], like: Node, weights: Sequence[Constant]) -> Edit:
    """One operator in place of these, with the attributes of `like`, and a Split of its output channels.

    weights: the weights of each node; they differ only in the number of output channels. Either all nodes have a bias
    or none has.
    """
    first, axis = merged[0], output_axis(like)
    counts = [constant_shape(weight)[axis] for weight in weights]
    weight = graph.fresh(f"{first.inputs[1]}_merged")
    constants: dict[str, Constant | None] = {weight: concatenated(weights, axis)}
    inputs = [first.inputs[0], weight]
    if bias_of(first):
        inputs.append(graph.fresh(f"{bias_of(first)}_merged", constants))
        constants[inputs[-1]] = concatenated([graph.constants[bias_of(each)] for each in merged], 0)
    sizes = graph.fresh(f"{first.name}_sizes", constants)
    constants[sizes] = constant(np.array(counts, np.int64))
    whole = graph.fresh(f"{first.outputs[0]}_merged", constants)
    new = first.replace(inputs=tuple(inputs), outputs=(whole,), attributes=like.attributes)
    split = Node(
        "Split",
        (whole, sizes),
        tuple(each.outputs[0] for each in merged),
        {"axis": 1 if first.op == "Conv" else -1},
        name=graph.fresh(f"{first.name}_split"),
    )
    return Edit(remove=tuple(each.name for each in merged), insert=(new, split), constants=constants)


def concatenated(weights: Sequence[Constant], axis: int) -> Constant:
    """The constants, concatenated along the axis when they are first read."""
    shape = list(constant_shape(weights[0]))
    shape[axis] = sum(constant_shape(weight)[axis] for weight in weights)
    return lazy_constant(
        lambda: np.concatenate([weight.numpy() for weight in weights], axis), weights[0].dtype, tuple(shape)
    )


def merge_sentence(graph: Graph, merged: Sequence[Node], counts: Sequence[int], kernels: str) -> str:
    """What merging saves. kernels: names the nodes. counts: output channels of each."""
    value = merged[0].inputs[0]
    size = bytes_of_value(graph, value)
    read = "" if size is None else f", {(len(merged) - 1) * size:,} bytes less"
    return (
        f"{len(merged)} kernels, {kernels}, become one kernel with {sum(counts)} ({' + '.join(map(str, counts))}) "
        f"output channels, followed by a Split; {len(merged)} reads of '{value}' become 1{read}"
    )
