"""Fill tensors with one number only in the size that is read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.slices import axis_slices, taken_indices
from workbench.rewrite.core.guards import require_producer


def match_filled(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    concat = require_producer(graph, node.inputs[0], ("Concat",), node)
    slices = _only_slices(graph, node)
    remaining = _remaining_sizes(graph, slices[0])
    if any(_remaining_sizes(graph, other) != remaining for other in slices[1:]):
        raise NoMatch(f"the Slices of {node} have different sizes")
    outputs = [cut for cut in slices if graph.is_output(cut.outputs[0])]
    if len(outputs) > 1:
        raise NoMatch(f"the results of {outputs[0]} and {outputs[1]} are both outputs of the graph")
    result = (outputs or slices)[0].outputs[0]
    shape = graph.fresh(f"{concat.outputs[0]}_left")
    operands = list(concat.inputs)
    numbers = {}
    for axis, size in remaining.items():
        index = _operand_index(graph, concat, axis)
        operands[index] = graph.fresh(f"{shape}_{axis}")
        numbers[operands[index]] = constant(np.array([size], dtype=np.int64))
    is_only_reader_of_shape = len(graph.users(concat.outputs[0])) == 1 and not graph.is_output(concat.outputs[0])
    edit = Edit(
        remove=(*((concat.name,) if is_only_reader_of_shape else ()), node.name, *(cut.name for cut in slices)),
        insert=(
            concat.replace(inputs=tuple(operands), outputs=(shape,), name=graph.fresh(f"{concat.name}_left")),
            node.replace(inputs=(shape,), outputs=(result,)),
        ),
        replace={cut.outputs[0]: result for cut in slices if cut.outputs[0] != result},
        constants=numbers,
        types={shape: graph.types[concat.outputs[0]]} if concat.outputs[0] in graph.types else {},
    )
    message = ", ".join(f"{size:,} of axis {axis}" for axis, size in remaining.items())
    sentence = f"of {node} only {message} is read; filled in that size, without {', '.join(map(str, slices))}"
    return Rewrite(edit, sentence, (concat.name, node.name, *(cut.name for cut in slices)))


def _only_slices(graph: Graph, node: Node) -> tuple[Node, ...]:
    """The readers of the node's result, all of them Slices of it. Raises NoMatch for others."""
    value = node.outputs[0]
    if graph.is_output(value):
        raise NoMatch(f"{node} produces an output of the graph")
    for user in graph.users(value):
        if user.op != "Slice" or value in user.inputs[1:]:
            raise NoMatch(f"{user} reads the whole result of {node}")
    if not graph.users(value):
        raise NoMatch(f"{node} is unused")
    return graph.users(value)


def _remaining_sizes(graph: Graph, cut: Node) -> dict[int, int]:
    """For each axis that the Slice cuts, the size that it leaves."""
    shape = graph.shape(cut.inputs[0])
    if shape is None:
        raise NoMatch(f"the rank of '{cut.inputs[0]}', which {cut} reads, is not known")
    sizes = {}
    for part in axis_slices(graph, cut):
        axis = part.axis % len(shape)
        dim = shape[axis]
        if not isinstance(dim, int):
            raise NoMatch(f"the size that {cut} leaves of axis {axis} depends on that of the input")
        sizes[axis] = len(taken_indices(part, dim))
    return sizes


def _operand_index(graph: Graph, concat: Node, axis: int) -> int:
    """The index of the Concat's operand that holds the size of this axis alone."""
    axes_before = 0
    for index, value in enumerate(concat.inputs):
        shape = graph.shape(value)
        count = shape[0] if shape else None
        if not isinstance(count, int):
            raise NoMatch(f"the number of sizes in '{value}', which {concat} reads, is not known")
        if axes_before == axis and count == 1:
            return index
        axes_before += count
        if axes_before > axis:
            raise NoMatch(f"'{value}', which {concat} reads, holds the sizes of other axes too")
    raise NoMatch(f"{concat} has no size for axis {axis}")


@dataclass(frozen=True)
class FillLess(Pass):
    """One case: if every reader of a ConstantOfShape is a Slice, and all take parts of the same size, only one such
    part is filled. torch's exporter writes this for the initial states of a recurrent network: zeros for all layers,
    from which each layer takes its part.

    Does not apply:

    - if something else reads the whole tensor;
    - if the size of a part depends on the input;
    - if the shape is not a Concat of one size for each axis.

    Source: a slice of a tensor of equal elements is a smaller tensor of that element.
    """

    title = "Fill only what is read"

    rules = (
        Rule(
            "slices of a constant fill",
            ("ConstantOfShape",),
            match_filled,
            Example(
                before="""g (float[N,4] x) => (float[1,N,4] y, float[1,N,4] z)
                    <int64[1] layers = {2}, int64[1] width = {4},
                     int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> {
                    n = Shape<end=1>(x)
                    s = Concat<axis=0>(layers, n, width)
                    h = ConstantOfShape(s)
                    a = Slice(h, zero, one, zero)
                    b = Slice(h, one, two, zero)
                    y = Add(x, a)
                    z = Mul(x, b)
                }""",
                after="""g (float[N,4] x) => (float[1,N,4] y, float[1,N,4] z)
                    <int64[1] s_left_0 = {1}, int64[1] width = {4}> {
                    n = Shape<end=1>(x)
                    s_left = Concat<axis=0>(s_left_0, n, width)
                    a = ConstantOfShape(s_left)
                    y = Add(x, a)
                    z = Mul(x, a)
                }""",
                sentences=(
                    "of ConstantOfShape 'ConstantOfShape_h' only 1 of axis 0 is read; filled in that size, "
                    "without Slice 'Slice_a', Slice 'Slice_b'",
                ),
            ),
            refusals=(
                Refusal(
                    """g (int64[1] n) => (float[M,2] y, float[K,4] z)
                        <int64[1] four = {4}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> {
                        s = Concat<axis=0>(n, four)
                        h = ConstantOfShape(s)
                        y = Slice(h, zero, two, one)
                        z = Neg(h)
                    }""",
                    "Neg 'Neg_z' reads the whole result of ConstantOfShape 'ConstantOfShape_h'",
                ),
                Refusal(
                    """g (int64[1] n) => (float[M,2] y, float[K,1] z)
                        <int64[1] four = {4}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> {
                        s = Concat<axis=0>(n, four)
                        h = ConstantOfShape(s)
                        y = Slice(h, zero, two, one)
                        z = Slice(h, zero, one, one)
                    }""",
                    "the Slices of ConstantOfShape 'ConstantOfShape_h' have different sizes",
                ),
                Refusal(
                    """g (int64[1] n) => (float[M,2] y, float[K,2] z)
                        <int64[1] four = {4}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> {
                        s = Concat<axis=0>(n, four)
                        h = ConstantOfShape(s)
                        y = Slice(h, zero, two, one)
                        z = Slice(h, two, four, one)
                    }""",
                    "the results of Slice 'Slice_y' and Slice 'Slice_z' are both outputs of the graph",
                ),
                Refusal(
                    """g (int64[1] n) => (float[M,4] y)
                        <int64[1] four = {4}, int64[1] zero = {0}, int64[1] two = {2}> {
                        s = Concat<axis=0>(n, four)
                        h = ConstantOfShape(s)
                        y = Slice(h, zero, two, zero)
                    }""",
                    "the size that Slice 'Slice_y' leaves of axis 0 depends on that of the input",
                ),
                Refusal(
                    """g (float[N,4] x) => (float[N,2] y)
                        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> {
                        s = Shape(x)
                        h = ConstantOfShape(s)
                        y = Slice(h, zero, two, one)
                    }""",
                    "ConstantOfShape 'ConstantOfShape_h' does not follow a Concat",
                ),
                Refusal(
                    """g (float[N,4] x) => (float[1,N,2] y)
                        <int64[1] i = {1}, int64[1] zero = {0}, int64[1] two = {2}> {
                        n = Shape(x)
                        s = Concat<axis=0>(i, n)
                        h = ConstantOfShape(s)
                        y = Slice(h, zero, two, two)
                    }""",
                    "'n', which Concat 'Concat_s' reads, holds the sizes of other axes too",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
