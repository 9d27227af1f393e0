"""Insert everywhere, then cancel: transposes round every operator that can take them, then inverse pairs go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.layout.convert import convert
from workbench.layout.cost import elements
from workbench.layout.infer import infer_layouts
from workbench.layout.npu_strategy import reshapes, wanted
from workbench.layout.profile import Profile
from workbench.layout.tidy import tidy_transposes
from workbench.ops import CannotCarry
from workbench.rewrite import Example, Found, Pass


@dataclass(frozen=True)
class LayoutInsertAndCancel(Pass):
    """Two walks:

    - every operator whose contract has a form for the target's layout gets it, between a
      Transpose in front of each CNN operand and one behind each result;
    - then pairs that undo each other go, those with several readers too; equal ones become one.

    Transposes of weights are carried out once, here. What stays is between an operator that
    could be converted and one that could not, whether a demand stands behind it or not: it
    may move more than there was.

    Source: OneFlow's AutoNhwc pass on MLIR.
    """

    title = "Layout: insert everywhere, then cancel"

    own_examples = (
        Example(
            title="Two convolutions: six transposes come, four go",
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
                "inserted: Conv 'Conv_a' in NHWC, 'x' transposed in front of it, 32 elements, and its result behind it",
                "inserted: Relu 'Relu_b' in NHWC, 'a' transposed in front of it, 32 elements, and its result behind it",
                "inserted: Conv 'Conv_y' in NHWC, 'b' transposed in front of it, 32 elements, and its result behind it",
                "cancelled: perm [0, 3, 1, 2] then [0, 2, 3, 1] is the identity; 64 elements no longer moved",
                "cancelled: perm [0, 3, 1, 2] then [0, 2, 3, 1] is the identity; 64 elements no longer moved",
            ),
        ),
    )

    def rewrites(self, graph: Graph, target: Profile) -> Iterator[Found]:
        layouts = infer_layouts(graph)
        for name in [node.name for node in graph.nodes if node.op != "Transpose"]:
            yield from _insert(graph, graph.node(name), layouts, target)
        for edit, sentence, nodes in tidy_transposes(graph):
            yield Found(edit, f"cancelled: {sentence}", nodes, "cancelled")


def _insert(graph: Graph, node: Node, layouts: dict[str, str], target: Profile) -> Iterator[Found]:
    way = wanted(node, layouts, target)
    if way is None or reshapes(node):
        return
    layout, perm = way
    try:
        conversion = convert(graph, node, perm, layout, target, reuse=False)
    except CannotCarry:
        return
    moved = " and ".join(
        f"'{value}' transposed in front of it, {elements(number)}" for value, number in conversion.moved.items()
    )
    sentence = f"inserted: {node} in {layout}, {moved}, and its result behind it{conversion.others_said()}"
    yield Found(conversion.edit, sentence, (node.name,), "inserted")
