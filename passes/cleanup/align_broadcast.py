"""Write constants that are broadcast to CNN values in full rank, so that layouts permute both in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.ir import Constant, Edit, Graph, Node, constant_shape, lazy_constant
from workbench.ops import layout_of
from workbench.ops.permutation.kinds import AGNOSTIC
from workbench.planning.layout.infer import TENSOR, infer_layouts, is_cnn
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite


@dataclass(frozen=True)
class AlignBroadcast(Pass):
    """A constant of lower rank that is broadcast to a CNN value is written with the axes of size 1 that
    broadcasting prepends: its axes are then those of the value.

    Scalars are kept, since they have no axes to permute. So are constants that are broadcast to Tensors, and operands
    that are not broadcast: the bounds of a Clip, the ratio of a Dropout, the operand that gives a CastLike its type.

    Source: ONNX's multidirectional broadcasting (which is NumPy's).
    """

    title = "Write broadcast constants in full rank"
    exactness = Exactness.BIT_EXACT

    extra_examples = (
        Example(
            title="One number for each channel",
            before="""g (float[1,2,4,4] x) => (float[1,2,3,3] y)
                <float[2,2,2,2] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}, float[2,1,1] b = {5, 6}> {
                a = Conv(x, w)
                y = Add(a, b)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,3,3] y)
                <float[2,2,2,2] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}, float[1,2,1,1] b_aligned = {5, 6}> {
                a = Conv(x, w)
                y = Add(a, b_aligned)
            }""",
            sentences=("constant 'b' of Add 'Add_y' has rank 3, its result 4; written as [1, 2, 1, 1]",),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Iterator[Rewrite]:
        layouts = infer_layouts(graph)
        for name in [node.name for node in graph.nodes if layout_of(node) is AGNOSTIC]:  # all operands broadcast
            node = graph.node(name)
            if not is_cnn(layouts.get(node.outputs[0], TENSOR)):
                continue
            for index in _constants_of_lower_rank(graph, node):
                node = graph.node(name)
                yield _aligned(graph, node, index)


def _constants_of_lower_rank(graph: Graph, node: Node) -> tuple[int, ...]:
    """The indices of operands that are constants of lower rank than the result, but not scalars."""
    rank = graph.rank_of(node.outputs[0]) or 0
    tensors = {index: graph.constant(value) for index, value in enumerate(node.inputs)}
    return tuple(i for i, tensor in tensors.items() if tensor is not None and 0 < len(constant_shape(tensor)) < rank)


def _aligned(graph: Graph, node: Node, index: int) -> Rewrite:
    value, rank = node.inputs[index], graph.rank_of(node.outputs[0]) or 0
    tensor = graph.constants[value]
    shape = constant_shape(tensor)
    full = (1,) * (rank - len(shape)) + shape
    name = graph.fresh(f"{value}_aligned")
    inputs = (*node.inputs[:index], name, *node.inputs[index + 1 :])
    edit = Edit(remove=(node.name,), insert=(node.replace(inputs=inputs),), constants={name: _reshaped(tensor, full)})
    sentence = f"constant '{value}' of {node} has rank {len(shape)}, its result {rank}; written as {list(full)}"
    return Rewrite(edit, sentence, (node.name,))


def _reshaped(tensor: Constant, shape: tuple[int, ...]) -> Constant:
    return lazy_constant(lambda: tensor.numpy().reshape(shape), tensor.dtype, shape)
