"""Insert Transposes around convolutions, pools and the operators after them, then remove inverse pairs."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

from workbench.analysis.metrics.transpose_cost import elements
from workbench.ir import Graph, Node
from workbench.ops import NotPermutable, layout_of
from workbench.ops.channels_last import WEIGHT_AXES, plain_op
from workbench.planning.layout.conversion.convert import convert, restoring_transpose_of, store_weights
from workbench.planning.layout.conversion.transpose_cleanup import tidy_transposes
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.layout.strategies.npu_strategy import preferred_operand_layout, reshapes
from workbench.rewrite import Example, PassContext, Rewrite, rewrite_each

_WEIGHTS_CHANNELS_LAST = "OHWI"


@dataclass(frozen=True)
class LayoutInsertAndCancel(LayoutStrategy):
    """Two walks:

    - every operator that has a data format (a convolution, a pool), or that the target demands, gets
      the target's layout, between a Transpose before each image operand and one after each result;
      any other operator that can be converted gets it if such a Transpose is before it;
    - then pairs that undo each other are removed, also those with several readers; equal ones become one.

    Weights are transposed like the data, OIHW to OHWI, once, at compile time; a target that names another
    order gets that. Transposes remain between operators that could be converted and those that could not,
    whether a demand follows or not: it may move more than before.

    Source: OneFlow's AutoNhwc pass on MLIR, its greedily_transpose_flag.
    """

    strategy = "insert-and-cancel"
    title = "Layout: insert, then cancel"

    extra_examples = (
        Example(
            title="Two convolutions: six transposes are inserted, four removed",
            target="cuda",
            before="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
                a = Conv(x, w)
                b = Relu(a)
                y = Conv(b, w)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,1,1,2] w_ohwi = {1, 2, 3, 4}> {
                x_nhwc = Transpose<perm=[0,2,3,1]>(x)
                a_nhwc = workbench.Conv_NHWC_OHWI(x_nhwc, w_ohwi)
                b_nhwc = Relu(a_nhwc)
                y_nhwc = workbench.Conv_NHWC_OHWI(b_nhwc, w_ohwi)
                y = Transpose<perm=[0,3,1,2]>(y_nhwc)
            }""",
            sentences=(
                "inserted: Conv 'Conv_a' in NHWC, 'x' transposed before it, 32 elements, and its result after it"
                "; weight converted from OIHW to OHWI",
                "inserted: Relu 'Relu_b' in NHWC, 'a' transposed before it, 32 elements, and its result after it",
                "inserted: Conv 'Conv_y' in NHWC, 'b' transposed before it, 32 elements, and its result after it"
                "; weight converted from OIHW to OHWI, shared",
                "cancelled: perm [0, 3, 1, 2] then [0, 2, 3, 1] is the identity; 64 elements no longer moved",
                "cancelled: perm [0, 3, 1, 2] then [0, 2, 3, 1] is the identity; 64 elements no longer moved",
            ),
        ),
        Example(
            title="There is no Transpose before the first Relu, and none is inserted: two, not three",
            target="cuda",
            before="""g (float[1,2,4,4] x) => (float[1,2,4,4] y, float[32] z)
                <float[2,2,1,1] w = {1, 2, 3, 4}, int64[1] s = {-1}> {
                a = Relu(x)
                y = Conv(a, w)
                z = Reshape(a, s)
            }""",
            after="""g (float[1,2,4,4] x) => (float[1,2,4,4] y, float[32] z)
                <float[2,1,1,2] w_ohwi = {1, 2, 3, 4}, int64[1] s = {-1}> {
                a = Relu(x)
                a_nhwc = Transpose<perm=[0,2,3,1]>(a)
                y_nhwc = workbench.Conv_NHWC_OHWI(a_nhwc, w_ohwi)
                y = Transpose<perm=[0,3,1,2]>(y_nhwc)
                z = Reshape(a, s)
            }""",
            sentences=(
                "inserted: Conv 'Conv_y' in NHWC, 'a' transposed before it, 32 elements, and its result after it"
                "; weight converted from OIHW to OHWI",
            ),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Generator[Rewrite, None, LayoutFacts]:
        target = context.get(Profile)
        layouts = infer_layouts(graph)
        profile = replace(target, weights=_WEIGHTS_CHANNELS_LAST) if target.weights == WEIGHT_AXES else target
        yield from rewrite_each(store_weights(graph, profile), "weights")
        for name in [node.name for node in graph.nodes if node.op != "Transpose"]:
            yield from _insert(graph, graph.node(name), layouts, profile)
        for edit, sentence, nodes in tidy_transposes(graph):
            yield Rewrite(edit, f"cancelled: {sentence}", nodes, "cancelled")
        return LayoutFacts(inexact="it surrounds operators with transposes and cancels those that meet")


def _insert(graph: Graph, node: Node, layouts: dict[str, str], target: Profile) -> Iterator[Rewrite]:
    preferred = preferred_operand_layout(node, layouts, target)
    if preferred is None or reshapes(node):
        return
    layout, perm = preferred
    has_format = layout_of(node).kind == "sensitive" or plain_op(node) in target.required_layouts
    if not has_format and not any(
        value and restoring_transpose_of(graph, value, perm) is not None for value in node.inputs
    ):
        return
    try:
        conversion = convert(graph, node, perm, layout, target, reuse=False)
    except NotPermutable:
        return
    moved = " and ".join(
        f"'{value}' transposed before it, {elements(number)}" for value, number in conversion.moved.items()
    )
    sentence = f"inserted: {node} in {layout}, {moved}, and its result after it{conversion.other_operands_text()}"
    yield Rewrite(conversion.edit, sentence, (node.name,), "inserted")
