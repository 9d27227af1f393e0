"""Replace a SplitToSequence whose parts are only read one by one by a Split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node, TensorType, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import require_constant


def _sizes(graph: Graph, node: Node) -> list[int]:
    """The sizes of the parts along the axis."""
    type_ = graph.tensor_type(node.inputs[0])
    axis = node.attr("axis")
    size = None if type_ is None or type_.shape is None else type_.shape[axis]
    if not isinstance(size, int):
        raise NoMatch(f"the size of the axis that {node} splits is not known")
    if len(node.inputs) < 2 or not node.inputs[1]:
        raise NoMatch(f"{node} splits into parts of size 1, from which it may remove the axis")
    split = require_constant(graph, node.inputs[1], node)
    if split.ndim:
        return [int(part) for part in split]
    part = int(split.item())
    if part < 1:
        raise NoMatch(f"{node} splits into parts of size {part}")
    return [min(part, size - start) for start in range(0, size, part)]


def _positions(graph: Graph, node: Node, count: int) -> dict[str, int]:
    """The index of the part that each reader takes, by the reader's name."""
    positions = {}
    for reader in graph.users(node.outputs[0]):
        if reader.op != "SequenceAt":
            raise NoMatch(f"{reader} reads the whole sequence that {node} makes")
        position = int(require_constant(graph, reader.inputs[1], reader).item())
        if not -count <= position < count:
            raise NoMatch(f"{reader} takes part {position} of {count}, counted from 0, which does not exist")
        positions[reader.name] = position % count
    return positions


def match_tensors_of_split(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    sizes = _sizes(graph, node)
    if graph.is_output(node.outputs[0]):
        raise NoMatch(f"{node} produces an output of the graph")
    positions = _positions(graph, node, len(sizes))
    if not positions:
        raise NoMatch(f"{node} is unused")
    source = graph.tensor_type(node.inputs[0])
    assert source is not None and source.shape is not None
    readers = [graph.node(name) for name in positions]
    outputs: list[str] = []
    for part in range(len(sizes)):
        read = next((r.outputs[0] for r in readers if positions[r.name] == part), None)
        outputs.append(read or graph.fresh(f"{node.outputs[0]}_{part}", outputs))
    name = graph.fresh(f"{node.outputs[0]}_sizes", outputs)
    axis = node.attr("axis")
    split = node.replace(
        op_type="Split", inputs=(node.inputs[0], name), outputs=tuple(outputs), attributes={"axis": axis}
    )
    replaced = {r.outputs[0]: outputs[positions[r.name]] for r in readers if r.outputs[0] != outputs[positions[r.name]]}
    edit = Edit(
        remove=(node.name, *positions),
        insert=(split,),
        replace=replaced,
        constants={name: constant(np.array(sizes, dtype=np.int64))},
        types={v: _part(source, axis, n) for v, n in zip(outputs, sizes, strict=True) if not graph.is_output(v)},
    )
    parts = f"{len(sizes)} parts, of which {len(readers)} are taken"
    return Rewrite(edit, f"{node} makes a sequence of {parts}; written as Split", (node.name, *positions))


def _part(source: TensorType, axis: int, size: int) -> TensorType:
    shape = list(source.shape or ())
    shape[axis] = size
    return source.with_shape(tuple(shape))


@dataclass(frozen=True)
class SplitTensors(Pass):
    """One case: a SplitToSequence whose sequence is only read by SequenceAt at constant positions becomes a Split,
    whose results replace those of the SequenceAts.

    Does not apply:

    - if the sequence is read as a whole;
    - if sizes or positions are computed;
    - to parts of size 1 from which the axis may be removed.

    Source: ONNX's definitions; torch's exporter writes torch.split in this way, and onnxscript rewrites it likewise.
    """

    title = "Split tensors instead of sequences"

    rules = (
        Rule(
            "sequence of parts of a tensor",
            ("SplitToSequence",),
            match_tensors_of_split,
            Example(
                before="""g (float[N,6] x) => (float[N,4] y) <int64 size = {4}, int64 i = {0}> {
                    s = SplitToSequence<axis=-1>(x, size)
                    a = SequenceAt(s, i)
                    y = Relu(a)
                }""",
                after="""g (float[N,6] x) => (float[N,4] y) <int64[2] s_sizes = {4, 2}> {
                    a, s_1 = Split<axis=-1>(x, s_sizes)
                    y = Relu(a)
                }""",
                sentences=(
                    "SplitToSequence 'SplitToSequence_s' makes a sequence of 2 parts, of which 1 are taken; "
                    "written as Split",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[6,N] x) => (float[6,M] y) <int64 size = {4}, int64 i = {0}>"
                    " { s = SplitToSequence<axis=-1>(x, size)  y = SequenceAt(s, i) }",
                    "the size of the axis that SplitToSequence 'SplitToSequence_s' splits is not known",
                ),
                Refusal(
                    "g (float[6] x) => (float[1] y) <int64 i = {0}> { s = SplitToSequence(x)  y = SequenceAt(s, i) }",
                    "SplitToSequence 'SplitToSequence_s' splits into parts of size 1, "
                    "from which it may remove the axis",
                ),
                Refusal(
                    "g (float[6] x) => (float[1] y) <int64 size = {0}, int64 i = {0}>"
                    " { s = SplitToSequence(x, size)  y = SequenceAt(s, i) }",
                    "SplitToSequence 'SplitToSequence_s' splits into parts of size 0",
                ),
                Refusal(
                    "g (float[6] x) => (int64 y) <int64 size = {3}>"
                    " { s = SplitToSequence(x, size)  y = SequenceLength(s) }",
                    "SequenceLength 'SequenceLength_y' reads the whole sequence that "
                    "SplitToSequence 'SplitToSequence_s' makes",
                ),
                Refusal(
                    "g (float[6] x) => (float[3] y) <int64 size = {3}, int64 i = {2}>"
                    " { s = SplitToSequence(x, size)  y = SequenceAt(s, i) }",
                    "SequenceAt 'SequenceAt_y' takes part 2 of 2, counted from 0, which does not exist",
                ),
                Refusal(
                    "g (float[6] x, int64 i) => (float[3] y) <int64 size = {3}>"
                    " { s = SplitToSequence(x, size)  y = SequenceAt(s, i) }",
                    "'i', an operand of SequenceAt 'SequenceAt_y', is not a constant",
                ),
                Refusal(
                    "g (float[6] x) => (float[6] y) <int64 size = {3}> { s = SplitToSequence(x, size)  y = Relu(x) }",
                    "SplitToSequence 'SplitToSequence_s' is unused",
                ),
                Refusal(
                    "g (float[6] x) => (seq(float[3]) s) <int64 size = {3}> { s = SplitToSequence(x, size) }",
                    "SplitToSequence 'SplitToSequence_s' produces an output of the graph",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
