"""A demonstration: what goes wrong if the layout is not restored before a Reshape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from workbench.analysis.metrics.transpose_cost import elements, moved_by_node
from workbench.ir import Edit, Graph, Node
from workbench.ir.permutation import inverse, perm_of, permuted
from workbench.planning.layout.conversion.convert import is_only_reader
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.rewrite import Example, PassContext, Rewrite

from .layout_greedy import LayoutGreedy


@dataclass(frozen=True)
class LayoutWrongOnPurpose(LayoutStrategy):
    """A demonstration: the result does NOT compute what the model computes.

    It does all that `layout_greedy` does, except for case 2, CNN to Tensor: a Reshape or Flatten
    reads its operand as it arrives, and no Transpose restores the order of axes for which it was
    written. Shapes and types still fit, so that no checker complains: the numbers are right, but
    in the wrong places. An operator that combines such a value with one that was never moved
    combines elements that do not match.

    What it teaches: a well-formed graph need not be correct. Comparing outputs finds the fault,
    and the search through the rewrites names the one that introduced it.

    Source: LayoutPresetToNPU (docs/references.md), the second figure, which shows the fault.
    """

    strategy = "wrong-on-purpose"
    title = "Layout: wrong on purpose (demonstration)"
    demonstration: ClassVar[bool] = True

    extra_examples = (
        Example(
            title="The second figure of LayoutPresetToNPU: the reshape reads NHWC, and the sum adds wrong pairs",
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
                reshape1 = Reshape(c_nhwc, s)
                reshape2 = Reshape(input3, s)
                output = Add(reshape1, reshape2)
            }""",
            sentences=(
                "case 1, CNN to CNN: Conv 'Conv_c' demands NHWC, 'input1' arrives as NCHW; transposed, "
                "32 elements; weight converted from OIHW to HWOI",
                "wrong on purpose: Reshape 'Reshape_reshape1' was written for NCHW and reads NHWC; "
                "48 elements in the wrong places",
            ),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Iterator[Rewrite]:
        layouts = infer_layouts(graph)
        for rewrite in LayoutGreedy().rewrites(graph, context):
            yield _not_restored(graph, rewrite, layouts) or rewrite


def _not_restored(graph: Graph, rewrite: Rewrite, layouts: dict[str, str]) -> Rewrite | None:
    """The Reshape without the Transpose that would restore the order for it; None if `rewrite` restores none."""
    node = graph.node(rewrite.nodes[0])
    if len(rewrite.nodes) != 2 or not _any_order_fits(graph, node):
        return None
    restoring = graph.node(rewrite.nodes[1])
    value, arrived = restoring.outputs[0], restoring.inputs[0]
    count, perm = moved_by_node(graph, restoring), perm_of(graph, restoring)
    if value not in node.operands or count == 0 or perm is None:
        return None
    dead = (restoring.name,) if is_only_reader(graph, node, value) else ()
    written_for = layouts[value]
    reads = "".join(permuted(written_for, inverse(perm)))
    fault = f"{node} was written for {written_for} and reads {reads}; {elements(count)} in the wrong places"
    edit = Edit(remove=(node.name, *dead), insert=(node.with_values_renamed({value: arrived}),))
    return Rewrite(edit, f"wrong on purpose: {fault}", (node.name,), "wrong on purpose")


def _any_order_fits(graph: Graph, node: Node) -> bool:
    """Whether the operator returns the same shape for any order of its operand's axes after the first."""
    if node.op == "Flatten":
        return node.attr("axis") in (0, 1)
    shape = graph.constant(node.inputs[1]) if node.op == "Reshape" else None
    return shape is not None and bool((shape.numpy()[1:] != 0).all())
