"""Greedy in order: convert to the hardware's layout only at operators that demand it, then propagate it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from workbench.analysis.metrics.transpose_cost import elements, elements_saved, known_sum, moved_by
from workbench.ir import Edit, Graph, Node
from workbench.ir.permutation import Permutation, compose, is_identity, perm_of
from workbench.ops import NotPermutable, layout_of
from workbench.ops.channels_last import plain_op
from workbench.planning.layout.conversion.convert import (
    RESTORES,
    Conversion,
    convert,
    is_only_reader,
    restoring_transpose_of,
    store_weights,
)
from workbench.planning.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.planning.layout.infer import CNN_TO_CNN, case_of, infer_layouts, is_cnn
from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.layout.strategies.npu_strategy import (
    conversion_sentence,
    preferred_operand_layout,
    reshapes,
    restored_operands,
    restored_outputs,
    why_kept,
)
from workbench.rewrite import Example, PassContext, Rewrite, rewrite_each


@dataclass(frozen=True)
class LayoutGreedy(LayoutStrategy):
    """Visits the operators in topological order and considers only the operands of each.

    - Case 1, CNN to CNN: an operator that demands the target's layout gets it, by a Transpose
      if its operand does not have it yet. One without a demand takes the layout of its operand.
    - Case 2, CNN to Tensor: the operator was written for one order of its axes; a Transpose
      before it restores this order, so that no Tensor ever changes.
    - Case 3, Tensor to CNN, and case 4, Tensor to Tensor: nothing to do.
    - Several inputs in different layouts are brought to one, the one that moves fewer elements.
      A constant operand is permuted at compile time and costs nothing.
    - Existing Transposes are used: if one makes or undoes a layout in which the value exists
      already, that value is read, and the Transpose is removed if nothing else reads it.
    - Outputs of the graph keep their layout.

    Inserts nothing on a path without a demanding operator.

    Source: LayoutPresetToNPU, second solution, "greedy" (docs/references.md).
    """

    strategy = "greedy"
    title = "Layout: greedy in order"

    extra_examples = (
        Example(
            title="The figure of LayoutPresetToNPU: the reshape still reads NCHW",
            target="npu",
            before="""g (float[1,2,4,4] input1, float[1,3,4,4] input3) => (float[48] output)
                <float[3,2,1,1] w = {1, 2, 3, 4, 5, 6}, int64[1] s = {-1}> {
                c = Conv(input1, w)
                reshape1 = Reshape(c, s)
                reshape2 = Reshape(input3, s)
                output = Add(reshape1, reshape2)
            }""",
            after="""g (float[1,2,4,4] input1, float[1,3,4,4] input3) => (float[48] output)
                <float[1,1,3,2] w_hwoi = {1, 2, 3, 4, 5, 6}, int64[1] s = {-1}> {
                input1_nhwc = Transpose<perm=[0,2,3,1]>(input1)
                c_nhwc = workbench.Conv_NHWC_HWOI(input1_nhwc, w_hwoi)
                c = Transpose<perm=[0,3,1,2]>(c_nhwc)
                reshape1 = Reshape(c, s)
                reshape2 = Reshape(input3, s)
                output = Add(reshape1, reshape2)
            }""",
            sentences=(
                "case 1, CNN to CNN: Conv 'Conv_c' demands NHWC, 'input1' arrives as NCHW; transposed, "
                "32 elements; weight converted from OIHW to HWOI",
                "case 2, CNN to Tensor: Reshape 'Reshape_reshape1' was written for NCHW; transposed back, 48 elements",
            ),
        ),
        Example(
            title="Operators between two convolutions follow their layout",
            target="cuda",
            before="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                a = Conv(x, w)
                b = Relu(a)
                y = Conv(b, w)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                x_nhwc = Transpose<perm=[0,2,3,1]>(x)
                a_nhwc = workbench.Conv_NHWC(x_nhwc, w)
                b_nhwc = Relu(a_nhwc)
                y_nhwc = workbench.Conv_NHWC(b_nhwc, w)
                y = Transpose<perm=[0,3,1,2]>(y_nhwc)
            }""",
            sentences=(
                "case 1, CNN to CNN: Conv 'Conv_a' demands NHWC, 'x' arrives as NCHW; transposed, 32 elements",
                "case 1, CNN to CNN: Relu 'Relu_b' takes NHWC from its operands; nothing moved",
                "case 1, CNN to CNN: Conv 'Conv_y' demands NHWC, in which 'b' exists already; nothing moved",
                "output 'y' is NCHW by its declaration; transposed back, 32 elements",
            ),
        ),
        Example(
            title="Several inputs are brought to one layout, a constant is permuted",
            target="cuda",
            before="""g (float[1,2,4,4] x, float[1,2,4,4] z) => (float[1,2,4,4] y)
                <float[2,2,1,1] w = {1, 2, 3, 4}, float[2,1,1] scale = {2, 3}> {
                a = Conv(x, w)
                b = Mul(a, scale)
                y = Add(b, z)
            }""",
            after="""g (float[1,2,4,4] x, float[1,2,4,4] z) => (float[1,2,4,4] y)
                <float[2,2,1,1] w = {1, 2, 3, 4}, float[1,1,1,2] scale_nhwc = {2, 3}> {
                x_nhwc = Transpose<perm=[0,2,3,1]>(x)
                a_nhwc = workbench.Conv_NHWC(x_nhwc, w)
                b_nhwc = Mul(a_nhwc, scale_nhwc)
                z_nhwc = Transpose<perm=[0,2,3,1]>(z)
                y_nhwc = Add(b_nhwc, z_nhwc)
                y = Transpose<perm=[0,3,1,2]>(y_nhwc)
            }""",
            sentences=(
                "case 1, CNN to CNN: Conv 'Conv_a' demands NHWC, 'x' arrives as NCHW; transposed, 32 elements",
                "case 1, CNN to CNN: Mul 'Mul_b' takes NHWC from its operands; nothing moved",
                "case 1, CNN to CNN: Add 'Add_y' has inputs in two layouts, brought to NHWC: "
                "'z' arrives as NCHW; transposed, 32 elements",
                "output 'y' is NCHW by its declaration; transposed back, 32 elements",
            ),
        ),
        Example(
            title="Existing Transposes are used",
            target="cuda",
            before="""g (float[1,4,4,2] x) => (float[1,4,4,2] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                t = Transpose<perm=[0,3,1,2]>(x)
                c = Conv(t, w)
                y = Transpose<perm=[0,2,3,1]>(c)
            }""",
            after="""g (float[1,4,4,2] x) => (float[1,4,4,2] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                y = workbench.Conv_NHWC(x, w)
            }""",
            sentences=(
                "case 1, CNN to CNN: Conv 'Conv_c' demands NHWC, in which 't' exists already; nothing moved",
                "existing Transpose 'Transpose_y' makes NHWC, which exists already; 32 elements no longer moved",
            ),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, LayoutFacts]:
        target = context.get(Profile)
        yield from rewrite_each(store_weights(graph, target), "weights")
        layouts = infer_layouts(graph)
        reached = _reached_by_demand(graph, layouts, target)
        for name in [node.name for node in graph.nodes if node.name in reached]:
            node = graph.find(name)
            if node is None:
                continue
            if node.op == "Transpose":
                yield from _existing_transpose(graph, node, layouts)
                continue
            yield from _visit(graph, node, layouts, target)
        yield from rewrite_each(restored_outputs(graph, layouts), "output")
        yield from rewrite_each(tidy_transposes(graph), "tidied")
        return LayoutFacts(inexact="it decides operator by operator, in the order of the graph")


def _reached_by_demand(graph: Graph, layouts: dict[str, str], target: Profile) -> set[str]:
    """The nodes that CNN values connect with one that has a demand; no others are visited."""
    worklist = [
        node
        for node in graph.nodes
        if plain_op(node) in target.required_layouts and preferred_operand_layout(node, layouts, target) is not None
    ]
    reached = {node.name for node in worklist}
    while worklist:
        node = worklist.pop()
        for value in (*node.inputs, *node.outputs):
            if not is_cnn(layouts.get(value, "")):
                continue
            for neighbour in (*graph.users(value), *filter(None, [graph.producer(value)])):
                if neighbour.name not in reached:
                    reached.add(neighbour.name)
                    worklist.append(neighbour)
    return reached


def _visit(graph: Graph, node: Node, layouts: dict[str, str], target: Profile) -> Iterator[Rewrite]:
    case = case_of(node, layouts)
    preferred = preferred_operand_layout(node, layouts, target)
    if preferred is None:
        yield from rewrite_each(restored_operands(graph, node, layouts, why_kept(node, case, target)), case)
        return
    layout, perm = preferred
    demanded = plain_op(node) in target.required_layouts
    reason_kept = f"{case}: {node} was written for {{layout}}"
    if demanded or (case == CNN_TO_CNN and not reshapes(node) and _arrived(graph, node, perm, target)):
        try:
            conversion = convert(graph, node, perm, layout, target)
        except NotPermutable as error:
            reason_kept = f"{case}: {error}"
        else:
            if demanded or not _costs_more(graph, conversion, perm):
                sentence = f"{case}: {conversion_sentence(node, conversion, layout, layouts, demanded)}"
                yield Rewrite(conversion.edit, sentence, (node.name,), case)
                return
            reason_kept = (
                f"{case}: {node} would have to transpose {elements(known_sum(conversion.moved.values()))} to {layout}"
            )
    yield from rewrite_each(restored_operands(graph, node, layouts, reason_kept), case)


def _existing_transpose(graph: Graph, node: Node, layouts: dict[str, str]) -> Iterator[Rewrite]:
    """Removes both of two consecutive Transposes if they cancel, else merges them if nothing else reads the first."""
    producer = graph.producer(node.inputs[0])
    perm = perm_of(graph, node)
    producer_perm = perm_of(graph, producer) if producer is not None and producer.op == "Transpose" else None
    if producer is None or perm is None or producer_perm is None:
        return
    merged_perm = compose(producer_perm, perm)
    dead = (producer.name,) if is_only_reader(graph, node, producer.outputs[0]) else ()
    result, source = node.outputs[0], producer.inputs[0]
    if is_identity(merged_perm):
        layout = layouts.get(result, "its layout")
        layouts.setdefault(source, layout)
        sentence = f"existing {node} makes {layout}, which exists already; {elements_saved(graph, node)}"
        edit = Edit(remove=(node.name, *dead), replace={result: source})
        yield Rewrite(edit, sentence, (producer.name, node.name), "existing transpose")
    elif dead:
        merged_node = node.replace(inputs=(source,), attributes={**node.attributes, "perm": merged_perm})
        sentence = (
            f"existing {node} is merged with {producer}, perm {list(merged_perm)}; {elements_saved(graph, producer)}"
        )
        yield Rewrite(
            Edit(remove=(node.name, *dead), insert=(merged_node,)),
            sentence,
            (producer.name, node.name),
            "existing transpose",
        )


def _arrived(graph: Graph, node: Node, perm: Permutation, target: Profile) -> bool:
    """Whether any operand exists permuted: before a restoring Transpose, or an existing one that can be removed."""
    for value in filter(None, node.inputs):
        producer = restoring_transpose_of(graph, value, perm)
        if producer is not None and (RESTORES in producer.metadata or _can_be_removed(graph, value, perm, target)):
            return True
    return False


def _can_be_removed(graph: Graph, value: str, perm: Permutation, target: Profile) -> bool:
    """Whether all readers of an existing Transpose's result can read its operand instead."""
    readers = graph.users(value)
    if graph.is_output(value) or not (
        len(readers) == 1 or any(plain_op(reader) in target.required_layouts for reader in readers)
    ):
        return False
    try:
        for reader in readers:
            layout_of(reader).propagate_permutation(graph, reader, perm)
    except NotPermutable:
        return False
    return True


def _costs_more(graph: Graph, conversion: Conversion, perm: Permutation) -> bool:
    """Whether transposing the other operands moves more than restoring the permuted ones."""
    to_move = known_sum(conversion.moved.values())
    to_restore = [moved_by(graph, value, perm) for value in conversion.reused]
    return to_move is not None and None not in to_restore and to_move > sum(b for b in to_restore if b is not None)
