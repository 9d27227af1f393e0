"""Merge consecutive Pad and Expand nodes, and cancel inverse pairs of DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import require_constant, require_producer, require_single_use
from workbench.rewrite.patterns.graph_rules import graph_rule

_AXES_OF_PAD = 3  # index of the operand
_COMPOSABLE = ("constant", "edge")  # modes in which a pad of a pad is a pad


def _elements_added(graph: Graph, pad: Node, rank: int) -> np.ndarray:
    """[2, rank]: numbers of elements before and after each axis. Raises NoMatch unless they are constants >= 0."""
    full = np.zeros((2, rank), np.int64)
    axes_operand = pad.inputs[_AXES_OF_PAD] if len(pad.inputs) > _AXES_OF_PAD else ""
    axes = require_constant(graph, axes_operand, pad) if axes_operand else np.arange(rank)
    full[:, axes % rank] = require_constant(graph, pad.inputs[1], pad).reshape(2, -1)
    if (full < 0).any():
        raise NoMatch(f"{pad} removes elements")
    return full


def _fill_value_bytes(graph: Graph, pad: Node) -> bytes:
    """The fill value as bytes without trailing zero bytes, so that 0 equals an omitted value in every type."""
    value = pad.inputs[2] if len(pad.inputs) > 2 else ""
    return require_constant(graph, value, pad).tobytes().rstrip(b"\0") if value else b""


def match_pad_of_pad(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], ("Pad",), node)
    require_single_use(graph, node, first)
    modes = [pad.attr("mode") for pad in (first, node)]
    if modes[0] != modes[1] or modes[0] not in _COMPOSABLE:
        raise NoMatch(
            f"two pads merge only if both have mode constant or both have mode edge; {first} has {modes[0]}, "
            f"{node} has {modes[1]}"
        )
    if modes[0] == "constant" and _fill_value_bytes(graph, first) != _fill_value_bytes(graph, node):
        raise NoMatch(f"{first} and {node} fill with different numbers")
    rank = graph.rank_of(first.inputs[0])
    if not rank:
        raise NoMatch(f"the rank of '{first.inputs[0]}' is not known")
    added = _elements_added(graph, first, rank) + _elements_added(graph, node, rank)
    pads = graph.fresh(f"{node.outputs[0]}_pads")
    merged = node.replace(inputs=(first.inputs[0], pads, *first.inputs[2:3]))
    edit = Edit(remove=(first.name, node.name), insert=(merged,), constants={pads: constant(added.reshape(-1), pads)})
    counts = f"{added[0].tolist()} elements before and {added[1].tolist()} after each axis"
    return Rewrite(edit, f"{first} and {node} add {counts}; 1 node fewer", (first.name, node.name))


def sizes_of_both(nodes: Sequence[Node], first: np.ndarray, second: np.ndarray) -> list[int]:
    try:
        return list(np.broadcast_shapes(tuple(first.ravel()), tuple(second.ravel())))
    except ValueError:
        sizes = f"{nodes[0]} to {first.ravel().tolist()} and {nodes[1]} to {second.ravel().tolist()}"
        raise NoMatch(f"{sizes} do not broadcast") from None


@dataclass(frozen=True)
class MergeMoves(Pass):
    """Two consecutive operators that move or repeat elements become one or none:

    - Pad of Pad with constant pads that are not negative, if both have the same fill value or both have mode "edge";
    - Expand of Expand with constant shapes, which broadcast together;
    - DepthToSpace of mode DCR and SpaceToDepth of the same block size, in either order.

    Does not apply to a Pad that removes or reflects elements, nor to DepthToSpace of mode CRD. Pads and expands are
    kept if the first has another user, since nothing would be saved.

    Source: ONNX's definitions of these operators; onnx-optimizer's fuse_consecutive_* for other operators.
    """

    title = "Merge pads and expands, cancel DepthToSpace and SpaceToDepth"

    rules = (
        Rule(
            "pad of pad",
            ("Pad",),
            match_pad_of_pad,
            Example(
                before="""g (float[2,3] x) => (float[2,6] y)
                    <int64[4] p = {0, 1, 0, 0}, float v = {5}, int64[2] q = {2, 0}, int64[1] axis = {-1}> {
                    a = Pad(x, p, v)
                    y = Pad(a, q, v, axis)
                }""",
                after="""g (float[2,3] x) => (float[2,6] y) <float v = {5}, int64[4] y_pads = {0, 3, 0, 0}> {
                    y = Pad(x, y_pads, v)
                }""",
                sentences=(
                    "Pad 'Pad_a' and Pad 'Pad_y' add [0, 3] elements before and [0, 0] after each axis; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[M] y) <int64[2] p = {1, 1}, int64[2] q = {-1, 0}>"
                    " { a = Pad(x, p)  y = Pad(a, q) }",
                    "Pad 'Pad_y' removes elements",
                ),
                Refusal(
                    "g (float[N] x) => (float[M] y) <int64[2] p = {1, 1}, float v = {-0.0}>"
                    " { a = Pad(x, p)  y = Pad(a, p, v) }",
                    "Pad 'Pad_a' and Pad 'Pad_y' fill with different numbers",
                ),
                Refusal(
                    "g (float[4] x) => (float[M] y) <int64[2] p = {1, 1}>"
                    ' { a = Pad<mode="reflect">(x, p)  y = Pad<mode="reflect">(a, p) }',
                    "two pads merge only if both have mode constant or both have mode edge; Pad 'Pad_a' has reflect, "
                    "Pad 'Pad_y' has reflect",
                ),
                Refusal(
                    "g (float[4] x) => (float[M] y) <int64[2] p = {1, 1}>"
                    ' { a = Pad(x, p)  y = Pad<mode="edge">(a, p) }',
                    "two pads merge only if both have mode constant or both have mode edge; Pad 'Pad_a' has constant, "
                    "Pad 'Pad_y' has edge",
                ),
                Refusal(
                    "g (float[4] x, int64[2] p) => (float[M] y) { a = Pad(x, p)  y = Pad(a, p) }",
                    "'p', an operand of Pad 'Pad_a', is not a constant",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        graph_rule(
            "expand of expand",
            "y = Expand(Expand(x, first), second)",
            "y = Expand(x, shape)",
            "{nodes[0]} and {root} together broadcast to {sizes}; 1 node fewer",
            Example(
                before="""g (float[N,1,1] x) => (float[2,N,3,4] y) <int64[2] s = {3, 1}, int64[4] t = {2, 1, 1, 4}> {
                    a = Expand(x, s)
                    y = Expand(a, t)
                }""",
                after="""g (float[N,1,1] x) => (float[2,N,3,4] y) <int64[4] y_shape = {2, 1, 3, 4}> {
                    y = Expand(x, y_shape)
                }""",
                sentences=("Expand 'Expand_a' and Expand 'Expand_y' together broadcast to [2, 1, 3, 4]; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,1] x, int64[2] s) => (float[A,B] y) { a = Expand(x, s)  y = Expand(a, s) }",
                    "'s', an operand of Expand 'Expand_a', is not a constant",
                ),
                Refusal(
                    "g (float[1] x) => (float[3] y, float[3] a) <int64[1] s = {3}>"
                    " { a = Expand(x, s)  y = Expand(a, s) }",
                    "'a' of Expand 'Expand_a' is an output of the graph",
                ),
            ),
            constants=("first", "second"),
            computed={"shape": lambda sizes: np.array(sizes, np.int64), "sizes": sizes_of_both},
            exactness=Exactness.BIT_EXACT,
        ),
        graph_rule(
            "blocks and back",
            "y = SpaceToDepth(DepthToSpace(x, blocksize=first, mode=mode), blocksize=second)",
            "y = x",
            "{root} moves the blocks of {nodes[0]} back; replaced by '{x}'",
            Example(
                before="""g (float[N,4,2,2] x) => (float[N,4,2,2] y) {
                    a = DepthToSpace<blocksize=2>(x)
                    b = SpaceToDepth<blocksize=2>(a)
                    y = Neg(b)
                }""",
                after="""g (float[N,4,2,2] x) => (float[N,4,2,2] y) {
                    a = DepthToSpace<blocksize=2>(x)
                    y = Neg(x)
                }""",
                sentences=(
                    "SpaceToDepth 'SpaceToDepth_b' moves the blocks of DepthToSpace 'DepthToSpace_a' back; "
                    "replaced by 'x'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,16,4,4] x) => (float[N,4,8,8] y)"
                    " { a = SpaceToDepth<blocksize=2>(x)  b = DepthToSpace<blocksize=4>(a)  y = Neg(b) }",
                    "SpaceToDepth 'SpaceToDepth_a' has blocks of 2, and DepthToSpace 'DepthToSpace_b' of 4",
                ),
                Refusal(
                    "g (float[N,4,4,4] x) => (float[N,4,4,4] y)"
                    ' { a = DepthToSpace<blocksize=2, mode="CRD">(x)  b = SpaceToDepth<blocksize=2>(a)  y = Neg(b) }',
                    "DepthToSpace 'DepthToSpace_a' has mode CRD, but SpaceToDepth is the inverse of mode DCR only",
                ),
                Refusal(
                    "g (float[N,4,4,4] x) => (float[N,64,1,1] y)"
                    " { a = SpaceToDepth<blocksize=2>(x)  b = SpaceToDepth<blocksize=2>(a)  y = Neg(b) }",
                    "SpaceToDepth 'SpaceToDepth_b' does not follow a DepthToSpace",
                ),
            ),
            further=(("y = DepthToSpace(SpaceToDepth(x, blocksize=first), blocksize=second, mode=mode)", "y = x"),),
            where=(
                (lambda first, second: first == second, "{nodes[0]} has blocks of {first}, and {root} of {second}"),
                (
                    lambda mode: mode == "DCR",
                    "{moved} has mode {mode}, but SpaceToDepth is the inverse of mode DCR only",
                ),
            ),
            computed={"moved": lambda nodes: next(node for node in nodes if node.op == "DepthToSpace")},
            exactness=Exactness.BIT_EXACT,
        ),
    )

    extra_examples = (
        Example(
            title="The elements at the edge",
            before="""g (float[3] x) => (float[7] y) <int64[2] p = {1, 0}, int64[2] q = {1, 2}> {
                a = Pad<mode="edge">(x, p)
                y = Pad<mode="edge">(a, q)
            }""",
            after="""g (float[3] x) => (float[7] y) <int64[2] y_pads = {2, 2}> {
                y = Pad<mode="edge">(x, y_pads)
            }""",
            sentences=("Pad 'Pad_a' and Pad 'Pad_y' add [2] elements before and [2] after each axis; 1 node fewer",),
        ),
    )
