"""Record first, insert afterwards: all values of CNN type are converted to the hardware's layout."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from workbench.analysis.metrics.transpose_cost import elements, moved_by
from workbench.ir import Graph, Node
from workbench.ops import NotPermutable
from workbench.ops.channels_last import plain_op
from workbench.planning.layout.conversion.convert import (
    convert,
    existing_permuted,
    insert_pair,
    restoring_transpose_of,
    store_weights,
)
from workbench.planning.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.planning.layout.infer import CNN_TO_CNN, CNN_TO_TENSOR, TENSOR_TO_CNN, case_of, infer_layouts
from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.layout.strategies.npu_strategy import (
    conversion_sentence,
    preferred_layout,
    preferred_operand_layout,
    reshapes,
    restored_operands,
    restored_outputs,
    why_kept,
)
from workbench.rewrite import Example, PassContext, Rewrite, rewrite_each

_THIRD_FAULT = "which LayoutPresetToNPU's first solution does not restore (its third fault)"


@dataclass(frozen=True)
class LayoutRecordThenInsert(LayoutStrategy):
    """Two walks. The first records where a Transpose is needed: after each input of CNN type, each
    result of a Tensor-to-CNN operator, and each existing Transpose. The second inserts them all,
    and every CNN-to-CNN operator after them runs in the target's layout, whether it demands it or
    not. The original layout is restored before each CNN-to-Tensor operator, before each existing
    Transpose, and at the outputs.

    It inserts more than needed: a path without a demanding operator is converted too, and an
    existing Transpose ends up between two new ones. `layout_greedy` avoids both;
    `cancel_transposes` afterwards removes the latter.

    Source: LayoutPresetToNPU (docs/references.md), first solution. Its third fault, that the layout is not restored
    at CNN to Tensor, is corrected here, since it changes what the model computes; the sentence of each such
    place says so, and `layout_wrong_on_purpose` shows what the fault does.
    """

    strategy = "record-then-insert"
    title = "Layout: record, then insert"

    extra_examples = (
        Example(
            title="The figure of LayoutPresetToNPU: a path without a demand is converted too",
            target="npu",
            before="""g (float[1,2,4,4] input) => (float[1,2,4,4] output) {
                a = MaxPool<kernel_shape=[1,1]>(input)
                output = Relu(a)
            }""",
            after="""g (float[1,2,4,4] input) => (float[1,2,4,4] output) {
                input_nhwc = Transpose<perm=[0,2,3,1]>(input)
                a_nhwc = workbench.MaxPool_NHWC<kernel_shape=[1,1]>(input_nhwc)
                output_nhwc = Relu(a_nhwc)
                output = Transpose<perm=[0,3,1,2]>(output_nhwc)
            }""",
            sentences=(
                "recorded: input 'input' is NCHW; transposed to NHWC, 32 elements",
                "case 1, CNN to CNN: MaxPool 'MaxPool_a' takes NHWC from its operands; nothing moved",
                "case 1, CNN to CNN: Relu 'Relu_output' takes NHWC from its operands; nothing moved",
                "output 'output' is NCHW by its declaration; transposed back, 32 elements",
            ),
        ),
        Example(
            title="The result of a Reshape, read by a convolution, is an insertion point too",
            target="npu",
            before="""g (float[32] x) => (float[32] y) <float[2,2,1,1] w = {1, 2, 3, 4},
                int64[4] s = {1, 2, 4, 4}, int64[1] f = {-1}> {
                a = Reshape(x, s)
                c = Conv(a, w)
                y = Reshape(c, f)
            }""",
            after="""g (float[32] x) => (float[32] y) <float[1,1,2,2] w_hwoi = {1, 2, 3, 4},
                int64[4] s = {1, 2, 4, 4}, int64[1] f = {-1}> {
                a = Reshape(x, s)
                a_nhwc = Transpose<perm=[0,2,3,1]>(a)
                c_nhwc = workbench.Conv_NHWC_HWOI(a_nhwc, w_hwoi)
                c = Transpose<perm=[0,3,1,2]>(c_nhwc)
                y = Reshape(c, f)
            }""",
            sentences=(
                "recorded: case 3, Tensor to CNN: Reshape 'Reshape_a' gives 'a' as NCHW; "
                "transposed to NHWC, 32 elements",
                "case 1, CNN to CNN: Conv 'Conv_c' demands NHWC, in which 'a_back' exists already; nothing moved; "
                "weight converted from OIHW to HWOI",
                "case 2, CNN to Tensor: Reshape 'Reshape_y' was written for NCHW, which LayoutPresetToNPU's first "
                "solution does not restore (its third fault); transposed back, 32 elements",
            ),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, LayoutFacts]:
        target = context.get(Profile)
        yield from rewrite_each(store_weights(graph, target), "weights")
        layouts = infer_layouts(graph)
        names = [node.name for node in graph.nodes]
        for value, reason in _recorded(graph, layouts, target):
            yield _inserted(graph, value, reason, layouts, target)
        for name in names:
            yield from _visit(graph, graph.node(name), layouts, target)
        yield from rewrite_each(restored_outputs(graph, layouts), "output")
        yield from rewrite_each(tidy_transposes(graph), "tidied")
        return LayoutFacts(inexact="it records demands first and then decides operator by operator")


def _recorded(graph: Graph, layouts: dict[str, str], target: Profile) -> list[tuple[str, str]]:
    """The first walk: the values after which a Transpose is to be inserted, each with the reason."""
    points = [(value, f"input '{value}' is {layouts[value]}") for value in graph.inputs]
    for node in graph.nodes:
        case = case_of(node, layouts)
        for value in node.outputs:
            if node.op == "Transpose":
                points.append((value, f"existing {node} gives '{value}' as {layouts.get(value)}"))
            elif case == TENSOR_TO_CNN:
                points.append((value, f"{case}: {node} gives '{value}' as {layouts.get(value)}"))
    return [(value, reason) for value, reason in points if _is_to_insert(graph, value, layouts, target)]


def _is_to_insert(graph: Graph, value: str, layouts: dict[str, str], target: Profile) -> bool:
    """Whether the value is read, and in no layout but its own: it is neither transposed to the target's nor from it."""
    preferred = preferred_layout(layouts.get(value, ""), target)
    return (
        preferred is not None
        and bool(graph.users(value))
        and existing_permuted(graph, value, preferred[1], None) is None
    )


def _inserted(graph: Graph, value: str, reason: str, layouts: dict[str, str], target: Profile) -> Rewrite:
    preferred = preferred_layout(layouts[value], target)
    assert preferred is not None
    layout, perm = preferred
    edit = insert_pair(graph, value, perm, layout)
    layouts[edit.insert[1].outputs[0]] = layouts[value]
    producer = graph.producer(value)
    moved = elements(moved_by(graph, value, perm))
    sentence = f"recorded: {reason}; transposed to {layout}, {moved}"
    return Rewrite(edit, sentence, () if producer is None else (producer.name,), "recorded")


def _visit(graph: Graph, node: Node, layouts: dict[str, str], target: Profile) -> Iterator[Rewrite]:
    case = case_of(node, layouts)
    preferred = preferred_operand_layout(node, layouts, target)
    if preferred is None:
        yield from rewrite_each(restored_operands(graph, node, layouts, why_kept(node, case, target)), case)
        return
    layout, perm = preferred
    demanded = plain_op(node) in target.required_layouts
    reason_kept = f"{case}: {node} was written for {{layout}}"
    if case == CNN_TO_TENSOR:
        reason_kept += f", {_THIRD_FAULT}"
    if node.op == "Transpose":
        reason_kept = f"existing {node} is kept and reads {{layout}}"
    elif demanded or (
        case == CNN_TO_CNN
        and not reshapes(node)
        and any(v and restoring_transpose_of(graph, v, perm) is not None for v in node.inputs)
    ):
        try:
            conversion = convert(graph, node, perm, layout, target)
        except NotPermutable as error:
            reason_kept = f"{case}: {error}"
        else:
            sentence = f"{case}: {conversion_sentence(node, conversion, layout, layouts, demanded)}"
            yield Rewrite(conversion.edit, sentence, (node.name,), case)
            return
    yield from rewrite_each(restored_operands(graph, node, layouts, reason_kept), case)
    if node.op == "Transpose" or case != CNN_TO_CNN:
        return
    for value in node.outputs:  # an operator that keeps its order: its results are recorded now
        if _is_to_insert(graph, value, layouts, target):
            yield _inserted(graph, value, f"{node} gives '{value}' as {layouts[value]}", layouts, target)
