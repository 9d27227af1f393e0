"""Declare the model's outputs in the layout in which they are computed: the caller transposes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.analysis.metrics.transpose_cost import elements_saved
from workbench.ir import Edit, Graph, Node
from workbench.ir.permutation import compose, inverse, perm_of
from workbench.ir.permuted_io import OUTPUT_ORDER, output_order, permutation_text
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite


@dataclass(frozen=True)
class RelayoutOutputs(Pass):
    """An output that is the result of a Transpose is declared in the order before it, and the Transpose is removed.

    The model then returns other outputs than before: `y` of [N, 8, H, W] becomes `y` of [N, H, W, 8]. Names and
    inputs stay. The note "workbench.given.y" in the file's metadata holds the permutation; comparing and
    measuring apply it. The pass is in no preset, since the caller must permute the model's outputs.

    Does not apply:

    - if anything else reads the transposed value;
    - if the operand of the Transpose is an input or an output of the graph;
    - if a dim has neither number nor name.

    Source: the counterpart of `relayout_inputs`.
    """

    title = "Give outputs in the layout in which they are computed"
    cleans_up = True
    exactness = Exactness.BIT_EXACT

    extra_examples = (
        Example(
            title="An image",
            before="""g (float[1,2,4,4] x) => (float[1,4,4,2] y) {
                a = Relu(x)
                y = Transpose<perm=[0,2,3,1]>(a)
            }""",
            after="g (float[1,2,4,4] x) => (float[1,2,4,4] y) { y = Relu(x) }",
            sentences=("output 'y' is given as [1, 2, 4, 4], permuted by [0, 3, 1, 2]; 32 elements no longer moved",),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Iterator[Rewrite]:
        for value in graph.outputs:
            node = graph.producer(value)
            if node is None or not _is_removable(graph, node):
                continue
            type_, perm = graph.tensor_type(node.inputs[0]), perm_of(graph, node)
            if perm is None or type_ is None or type_.shape is None or None in type_.shape:
                continue
            given_perm = inverse(perm)
            before = output_order(graph, value) or tuple(range(len(perm)))
            edit = Edit(
                remove=(node.name,),
                replace={value: node.inputs[0]},
                types={value: type_},
                metadata={OUTPUT_ORDER + value: permutation_text(compose(before, given_perm))},
            )
            shape = "[" + ", ".join(map(str, type_.shape)) + "]"
            saved = elements_saved(graph, node)
            yield Rewrite(
                edit, f"output '{value}' is given as {shape}, permuted by {list(given_perm)}; {saved}", (node.name,)
            )


def _is_removable(graph: Graph, node: Node) -> bool:
    """Whether `node` is a Transpose of another node's result and only the caller reads what it returns."""
    if node.op != "Transpose" or graph.users(node.outputs[0]) or graph.outputs.count(node.outputs[0]) > 1:
        return False
    return graph.producer(node.inputs[0]) is not None and not graph.is_output(node.inputs[0])
