"""Remove the flattening before a Softmax if only one of the flattened axes is longer than 1."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import is_same_shape, require_producer, require_single_use


def match_flattened(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    softmax = require_producer(graph, node.inputs[0], ("Softmax", "LogSoftmax"), node)
    flatten = require_producer(graph, softmax.inputs[0], ("Flatten",), softmax)
    require_single_use(graph, node, softmax)
    source = flatten.inputs[0]
    shape = graph.shape(source)
    if shape is None or not is_same_shape(shape, graph.shape(node.outputs[0])):
        raise NoMatch(f"{node} is not known to restore the shape of '{source}'")
    first = flatten.attr("axis") % (len(shape) + 1)
    longer_axes = [axis for axis in range(first, len(shape)) if shape[axis] != 1]
    if softmax.attr("axis") not in (-1, 1) or len(longer_axes) > 1:
        raise NoMatch(f"{softmax} is over more than one axis of '{source}'")
    axis = longer_axes[0] if longer_axes else len(shape) - 1
    unflattened = softmax.replace(inputs=(source,), outputs=node.outputs, attributes={"axis": axis})
    sentence = f"{flatten} merges {len(shape) - first} axes, of which only axis {axis} is longer than 1; not needed"
    edit = Edit(remove=(softmax.name, node.name), insert=(unflattened,))
    return Rewrite(edit, sentence, (flatten.name, softmax.name, node.name))


@dataclass(frozen=True)
class SoftmaxInPlace(Pass):
    """One case: Flatten, Softmax or LogSoftmax, and a Reshape back to the original shape become the Softmax alone,
    over the one flattened axis that is longer than 1. A Flatten that nothing else reads is then dead.

    Does not apply if two of the flattened axes are longer than 1, nor if a shape is not known.

    Source: before opset 13, ONNX's Softmax flattened its operand itself; converters of versions insert these nodes.
    """

    title = "Softmax without flattening"

    rules = (
        Rule(
            "flattened",
            ("Reshape",),
            match_flattened,
            Example(
                before="""g (float[N,3,1,1] x) => (float[N,3,1,1] y) <int64[4] s = {0, 3, 1, 1}> {
                    f = Flatten<axis=1>(x)
                    p = Softmax<axis=-1>(f)
                    r = Reshape(p, s)
                    y = Neg(r)
                }""",
                after="""g (float[N,3,1,1] x) => (float[N,3,1,1] y) {
                    f = Flatten<axis=1>(x)
                    r = Softmax<axis=1>(x)
                    y = Neg(r)
                }""",
                sentences=("Flatten 'Flatten_f' merges 3 axes, of which only axis 1 is longer than 1; not needed",),
            ),
            refusals=(
                Refusal(
                    """g (float[N,3,2,1] x) => (float[N,3,2,1] y) <int64[4] s = {0, 3, 2, 1}> {
                        f = Flatten<axis=1>(x)
                        p = Softmax<axis=-1>(f)
                        r = Reshape(p, s)
                        y = Neg(r)
                    }""",
                    "Softmax 'Softmax_p' is over more than one axis of 'x'",
                ),
                Refusal(
                    """g (float[N,3,1,1] x) => (float[N,1,3] y) <int64[3] s = {0, 1, 3}> {
                        f = Flatten<axis=1>(x)
                        p = Softmax<axis=-1>(f)
                        y = Reshape(p, s)
                    }""",
                    "Reshape 'Reshape_y' is not known to restore the shape of 'x'",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[3,2] y) <int64[2] s = {3, 2}> { y = Reshape(x, s) }",
                    "Reshape 'Reshape_y' does not follow a Softmax or LogSoftmax",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
