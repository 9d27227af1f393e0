"""Declare the model's inputs in the layout in which they are used: the caller transposes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.analysis.metrics.transpose_cost import elements_saved
from workbench.ir import Edit, Graph, Node
from workbench.ir.permutation import Permutation, compose, perm_of
from workbench.ir.permuted_io import INPUT_ORDER, input_order, permutation_text
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite


@dataclass(frozen=True)
class RelayoutInputs(Pass):
    """An input that every reader transposes in the same way is declared in that order, and the Transposes are removed.

    The model then takes other inputs than before: `x` of [N, 3, H, W] becomes `x` of [N, H, W, 3]. Names and
    outputs stay. The note "workbench.fed.x" in the file's metadata holds the permutation; comparing and
    measuring apply it. The pass is in no preset, since the caller must permute the model's inputs.

    Does not apply:

    - if the graph returns the input as an output;
    - if a body reads it;
    - if it has a default value;
    - if a dim has neither number nor name.

    Source: deployments that store images channels last do the same.
    """

    title = "Feed inputs in the layout that is used"
    cleans_up = True
    exactness = Exactness.BIT_EXACT

    extra_examples = (
        Example(
            title="An image",
            before="""g (float[1,2,4,4] x) => (float[1,4,4,2] y) {
                a = Transpose<perm=[0,2,3,1]>(x)
                y = Relu(a)
            }""",
            after="g (float[1,4,4,2] x) => (float[1,4,4,2] y) { y = Relu(x) }",
            sentences=("input 'x' is fed as [1, 4, 4, 2], permuted by [0, 2, 3, 1]; 32 elements no longer moved",),
        ),
    )

    def rewrites(self, graph: Graph, context: PassContext) -> Iterator[Rewrite]:
        for value in graph.inputs:
            readers = graph.users(value)
            perm = _common_perm(graph, value, readers)
            type_ = graph.tensor_type(value)
            if value in graph.kept.defaults:
                continue
            if perm is None or type_ is None or type_.shape is None or None in type_.shape or graph.is_output(value):
                continue
            fed = type_.permuted(perm)
            before = input_order(graph, value) or tuple(range(len(perm)))
            edit = Edit(
                remove=tuple(node.name for node in readers),
                replace={node.outputs[0]: value for node in readers},
                types={value: fed},
                metadata={INPUT_ORDER + value: permutation_text(compose(before, perm))},
            )
            shape = "[" + ", ".join(map(str, fed.shape or ())) + "]"
            sentence = f"input '{value}' is fed as {shape}, permuted by {list(perm)}; {elements_saved(graph, *readers)}"
            yield Rewrite(edit, sentence, tuple(node.name for node in readers))


def _common_perm(graph: Graph, value: str, readers: tuple[Node, ...]) -> Permutation | None:
    """The permutation by which every reader transposes the input; None if one does not."""
    perms = {perm_of(graph, node) if node.op == "Transpose" else None for node in readers}
    return perms.pop() if len(perms) == 1 else None
