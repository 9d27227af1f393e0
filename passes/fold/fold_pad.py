"""Fold a Pad into the padding of the convolution or pool after it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, TensorType, constant
from workbench.ir.types import Dim
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import require_constant, require_floating, require_producer, require_single_use

_LOWEST = float(np.finfo(np.float32).min)
_NOT_NEGATIVE = ("Relu", "Abs", "Exp", "Sigmoid", "Softmax", "HardSigmoid", "Softplus")
_COPIED, _INFERRED = 0, -1  # special sizes in the shape of a Reshape
_AUTOMATIC = ("SAME_UPPER", "SAME_LOWER")


def _pads(graph: Graph, pad: Node, rank: int) -> np.ndarray:
    """[2, rank]: numbers of elements before and after each axis. Raises NoMatch unless it adds a constant number."""
    if pad.attr("mode") != "constant":
        raise NoMatch(f"{pad} pads with elements of its input (mode {pad.attr('mode')}), not with a constant")
    counts = require_constant(graph, pad.inputs[1], pad)
    pads = np.zeros((2, rank), dtype=np.int64)
    axes = require_constant(graph, pad.inputs[3], pad) if len(pad.inputs) > 3 and pad.inputs[3] else np.arange(rank)
    pads[:, axes % rank] = counts.reshape(2, -1)
    if pads.min(initial=0) < 0:
        raise NoMatch(f"{pad} removes elements")
    return pads


def _fill_value(graph: Graph, pad: Node) -> float:
    return float(require_constant(graph, pad.inputs[2], pad).item()) if len(pad.inputs) > 2 and pad.inputs[2] else 0.0


def _combined_pads(graph: Graph, node: Node, added: np.ndarray) -> tuple[int, ...]:
    """The pads of the operator plus those of the Pad."""
    if added[:, :2].any():
        raise NoMatch("batch or channels are padded too")
    if node.attr("auto_pad") in _AUTOMATIC:
        raise NoMatch(f"{node} computes its padding from the size of the image")
    spatial = added.shape[1] - 2
    own_pads = np.array(node.attr("pads", (0,) * 2 * spatial)).reshape(2, spatial)
    return tuple(int(n) for n in (own_pads + added[:, 2:]).reshape(-1))


def match_direct(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    pad = require_producer(graph, node.inputs[0], ("Pad",), node)
    require_single_use(graph, node, pad)
    rank = graph.rank_of(pad.inputs[0])
    if rank is None:
        raise NoMatch(f"the rank of '{pad.inputs[0]}' is not known")
    added = _pads(graph, pad, rank)
    value = _fill_value(graph, pad)
    if value != 0:
        raise NoMatch(f"{pad} pads with {value:g}, and {node} would pad with 0")
    if node.op == "AveragePool" and not node.attr("count_include_pad"):
        raise NoMatch(f"{node} does not count its own padding, and would count that of {pad}")
    if node.op != "Conv" and node.attr("ceil_mode"):
        raise NoMatch(f"{node} rounds its output size up, which padding may change")
    attributes = {key: value for key, value in node.attributes.items() if key != "auto_pad"}
    pads = _combined_pads(graph, node, added)
    if node.op != "Conv" and any(p >= k for p, k in zip(pads, (*node.attr("kernel_shape"),) * 2, strict=True)):
        raise NoMatch(f"{node} would have padding as wide as its window")
    padded = node.replace(inputs=(pad.inputs[0], *node.inputs[1:]), attributes={**attributes, "pads": pads})
    sentence = f"the padding of {pad} is folded into {node}, whose pads are now {list(pads)}"
    return Rewrite(Edit(remove=(pad.name, node.name), insert=(padded,)), sentence, (pad.name, node.name))


def match_pad_before_max_pool(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """If a window holds NaN, ONNX Runtime's result depends on the order of its elements.

    The elements of a Pad take part in that order, the pads of a MaxPool do not.
    """
    pad = require_producer(graph, node.inputs[0], ("Pad",), node)
    require_single_use(graph, node, pad)
    require_floating(graph, pad.inputs[0], node)
    source, value = graph.producer(pad.inputs[0]), _fill_value(graph, pad)
    if value > _LOWEST and not (value <= 0 and source is not None and source.op in _NOT_NEGATIVE):
        raise NoMatch(f"{pad} pads with {value:g}, which may be the maximum of a window")
    rank = graph.rank_of(pad.inputs[0])
    if rank is None:
        raise NoMatch(f"the rank of '{pad.inputs[0]}' is not known")
    if len(node.outputs) > 1 or node.attr("ceil_mode") or any(d != 1 for d in node.attr("dilations", ())):
        raise NoMatch(f"{node} returns indices, has dilations or rounds its output size up")
    pads = _combined_pads(graph, node, _pads(graph, pad, rank))
    if any(p >= k for p, k in zip(pads, (*node.attr("kernel_shape"),) * 2, strict=True)):
        raise NoMatch(f"{node} would have padding as wide as its window")
    attributes = {key: value for key, value in node.attributes.items() if key != "auto_pad"}
    padded = node.replace(inputs=pad.inputs[:1], attributes={**attributes, "pads": pads})
    sentence = f"{pad} is folded into {node}, since its value is never the maximum; the pads are now {list(pads)}"
    return Rewrite(Edit(remove=(pad.name, node.name), insert=(padded,)), sentence, (pad.name, node.name))


def match_after_reshape(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    reshape = require_producer(graph, node.inputs[0], ("Reshape",), node)
    pad = require_producer(graph, reshape.inputs[0], ("Pad",), reshape)
    require_single_use(graph, node, reshape)
    require_single_use(graph, reshape, pad)
    source = graph.tensor_type(pad.inputs[0])
    shape, target = (None if source is None else source.shape), graph.shape(reshape.outputs[0])
    padded = graph.shape(pad.outputs[0])
    if source is None or shape is None or padded is None or target is None:
        raise NoMatch(f"a shape before or after {reshape} is not known")
    target_axes = _target_axes(padded, target)
    if target_axes is None:
        raise NoMatch(f"{reshape} does more than insert axes of size 1")
    added = _pads(graph, pad, len(shape))
    if _fill_value(graph, pad) != 0 or added[:, :1].any():
        raise NoMatch(f"{pad} pads with other numbers than 0, or along the first axis")
    moved_pads = np.zeros((2, len(target)), dtype=np.int64)
    moved_pads[:, target_axes] = added
    sizes = [1] * len(target)
    for axis, target_axis in enumerate(target_axes):
        size = shape[axis]
        sizes[target_axis] = size if isinstance(size, int) else (_COPIED if target_axis == axis else _INFERRED)
    if sizes.count(_INFERRED) > 1 or (_COPIED in sizes and _INFERRED in sizes):
        raise NoMatch(f"more than one size of '{pad.inputs[0]}' is not known")
    return _reshape_before_pad(graph, pad, reshape, sizes, moved_pads, source, target_axes)


def _reshape_before_pad(
    graph: Graph,
    pad: Node,
    reshape: Node,
    sizes: list[int],
    moved_pads: np.ndarray,
    source: TensorType,
    target_axes: list[int],
) -> Rewrite:
    """The rewrite that puts the Reshape before the Pad, which then pads the new axes."""
    target: list[Dim] = [1] * len(sizes)
    for axis, target_axis in enumerate(target_axes):
        target[target_axis] = (source.shape or ())[axis]
    names: list[str] = []
    for base in (f"{reshape.inputs[1]}_unpadded", f"{pad.inputs[1]}_moved", f"{pad.inputs[0]}_reshaped"):
        names.append(graph.fresh(base, names))
    shape_name, pads_name, reshaped = names
    attributes = {key: value for key, value in reshape.attributes.items() if key != "allowzero"}
    first = reshape.replace(inputs=(pad.inputs[0], shape_name), outputs=(reshaped,), attributes=attributes)
    pad_after = pad.replace(inputs=(reshaped, pads_name, *pad.inputs[2:3]), outputs=reshape.outputs)
    constants: dict[str, Constant | None] = {
        shape_name: constant(np.array(sizes, dtype=np.int64)),
        pads_name: constant(moved_pads.reshape(-1)),
    }
    edit = Edit(
        remove=(pad.name, reshape.name),
        insert=(first, pad_after),
        constants=constants,
        types={reshaped: source.with_shape(tuple(target))},
    )
    sentence = f"{reshape} only inserts axes of size 1; moved before {pad}, which is then next to its convolution"
    return Rewrite(edit, sentence, (pad.name, reshape.name))


def _target_axes(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> list[int] | None:
    """For each axis of the source, its index in the target; None unless the target is the source with
    axes of size 1 inserted.

    If each shape has exactly one unknown axis, and the products of the known sizes are equal, both unknown sizes are
    equal.
    """
    fixed = [[size for size in shape if isinstance(size, int)] for shape in (source, target)]
    is_one_unknown = len(source) - len(fixed[0]) == len(target) - len(fixed[1]) == 1
    is_one_unknown = is_one_unknown and math.prod(fixed[0]) == math.prod(fixed[1]) > 0
    target_axes: list[int] = []
    for target_axis, size in enumerate(target):
        source_size = source[len(target_axes)] if len(target_axes) < len(source) else 1
        both_symbolic = not isinstance(size, int) and not isinstance(source_size, int)
        if len(target_axes) < len(source) and (size == source_size is not None or (both_symbolic and is_one_unknown)):
            target_axes.append(target_axis)
        elif size != 1:
            return None
    return target_axes if len(target_axes) == len(source) else None


@dataclass(frozen=True)
class FoldPad(Pass):
    """Three cases:

    - a Pad with the lowest number before a MaxPool, or with zeros after Relu and the like, becomes padding of the pool:
      in mode "fast" only, since ONNX Runtime's result for windows with NaN depends on the order of their elements;
    - a Pad with zeros before a Conv, or before an AveragePool that counts its padding, becomes padding of these;
    - a Pad before a Reshape that only inserts axes of size 1 for a Conv moves after the Reshape, so that the second
      case applies.

    Does not apply:

    - to a MaxPool whose input may be less than the padding value;
    - to other modes and padding values, or if batch or channels are padded;
    - if the padding is as wide as a pooling window;
    - if ceil_mode rounds the output size up, or auto_pad sets the padding;
    - if anything else reads the padded image.

    Source: ONNX's definitions; onnxsim and ONNX Runtime's PadFusion also fold a Pad into a convolution or pool.
    """

    title = "Fold padding into convolutions and pools"

    rules = (
        Rule(
            "before the operator",
            ("Conv", "AveragePool"),
            match_direct,
            Example(
                before="""g (float[N,1,2,2] x) => (float[N,1,3,4] y)
                    <float[1,1,2,2] w = {1, 2, 3, 4}, int64[8] p = {0, 0, 1, 1, 0, 0, 1, 2}> {
                    a = Pad(x, p)
                    y = Conv(a, w)
                }""",
                after="""g (float[N,1,2,2] x) => (float[N,1,3,4] y) <float[1,1,2,2] w = {1, 2, 3, 4}> {
                    y = Conv<pads=[1,1,1,2]>(x, w)
                }""",
                sentences=("the padding of Pad 'Pad_a' is folded into Conv 'Conv_y', whose pads are now [1, 1, 1, 2]",),
            ),
            refusals=(
                Refusal(
                    """g (float[N,1,2,2] x) => (float[N,1,3,3] y)
                        <float[1,1,2,2] w = {1, 2, 3, 4}, int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> {
                        a = Pad<mode="reflect">(x, p)
                        y = Conv(a, w)
                    }""",
                    "Pad 'Pad_a' pads with elements of its input (mode reflect), not with a constant",
                ),
                Refusal(
                    """g (float[N,1,4,4] x) => (float[N,1,1,1] y)
                        <float[1,1,2,2] w = {1, 2, 3, 4}, int64[8] p = {0, 0, -1, -1, 0, 0, -1, -1}> {
                        a = Pad(x, p)
                        y = Conv(a, w)
                    }""",
                    "Pad 'Pad_a' removes elements",
                ),
                Refusal(
                    """g (float[N,1,2,2] x) => (float[N,1,3,3] y)
                        <float[1,1,2,2] w = {1, 2, 3, 4}, int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}, float v = {2}> {
                        a = Pad(x, p, v)
                        y = Conv(a, w)
                    }""",
                    "Pad 'Pad_a' pads with 2, and Conv 'Conv_y' would pad with 0",
                ),
                Refusal(
                    """g (float[N,1,2,2] x) => (float[N,1,3,3] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> {
                        a = Pad(x, p)
                        y = AveragePool<kernel_shape=[2,2]>(a)
                    }""",
                    "AveragePool 'AveragePool_y' does not count its own padding, and would count that of Pad 'Pad_a'",
                ),
                Refusal(
                    """g (float[N,1,2,2] x) => (float[N,1,4,4] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> {
                        a = Pad(x, p)
                        y = AveragePool<kernel_shape=[1,1], count_include_pad=1>(a)
                    }""",
                    "AveragePool 'AveragePool_y' would have padding as wide as its window",
                ),
                Refusal(
                    """g (float[N,1,2,2] x) => (float[N,1,3,3] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> {
                        a = Pad(x, p)
                        y = AveragePool<kernel_shape=[2,2], count_include_pad=1, ceil_mode=1>(a)
                    }""",
                    "AveragePool 'AveragePool_y' rounds its output size up, which padding may change",
                ),
                Refusal(
                    """g (float[N,1,2,2] x) => (float[N,1,2,2] y)
                        <float[1,2,1,1] w = {1, 2}, int64[8] p = {0, 1, 0, 0, 0, 0, 0, 0}> {
                        a = Pad(x, p)
                        y = Conv(a, w)
                    }""",
                    "batch or channels are padded too",
                ),
                Refusal(
                    """g (float[N,1,2,2] x) => (float[N,1,4,4] y)
                        <float[1,1,2,2] w = {1, 2, 3, 4}, int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> {
                        a = Pad(x, p)
                        y = Conv<auto_pad="SAME_UPPER">(a, w)
                    }""",
                    "Conv 'Conv_y' computes its padding from the size of the image",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="x * w + 0 * u == x * w",
        ),
        Rule(
            "before MaxPool",
            ("MaxPool",),
            match_pad_before_max_pool,
            Example(
                before="""g (float[N,1,4,4] x) => (float[N,1,2,2] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 0, 0}> {
                    r = Relu(x)
                    a = Pad(r, p)
                    y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a)
                }""",
                after="""g (float[N,1,4,4] x) => (float[N,1,2,2] y) {
                    r = Relu(x)
                    y = MaxPool<kernel_shape=[2,2], strides=[2,2], pads=[1,1,0,0]>(r)
                }""",
                sentences=(
                    "Pad 'Pad_a' is folded into MaxPool 'MaxPool_y', since its value is never the maximum;"
                    " the pads are now [1, 1, 0, 0]",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    """g (float[1,1,4,4] x) => (float[1,1,2,2] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 0, 0}>
                        { a = Pad(x, p)  y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a) }""",
                    "Pad 'Pad_a' pads with 0, which may be the maximum of a window",
                ),
                Refusal(
                    """g (float[1,1,4,4] x) => (float[1,1,3,3] y) <int64[8] p = {0, 0, 2, 2, 0, 0, 0, 0}>
                        { r = Relu(x)  a = Pad(r, p)  y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a) }""",
                    "MaxPool 'MaxPool_y' would have padding as wide as its window",
                ),
                Refusal(
                    """g (float[1,1,4,4] x) => (float[1,1,3,3] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 0, 0}> {
                        r = Relu(x)  a = Pad(r, p)
                        y = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(a)
                    }""",
                    "MaxPool 'MaxPool_y' returns indices, has dilations or rounds its output size up",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": [0, 0, np.nan]},
                0,
                float(np.finfo(np.float32).min),
                "in a window with NaN ONNX Runtime takes the maximum of what follows it",
                """g (float[1,1,1,3] x) => (float[1,1,1,2] y) <int64[8] p = {0, 0, 0, 0, 0, 0, 0, 1}> {
                    r = Relu(x)
                    a = Pad(r, p)
                    y = MaxPool<kernel_shape=[1,2], strides=[1,2]>(a)
                }""",
            ),
        ),
        Rule(
            "before a Reshape and Conv",
            ("Conv",),
            match_after_reshape,
            Example(
                before="""g (float[2,1,4] x) => (float[2,1,1,5] y)
                    <float[1,1,1,2] w = {1, 2}, int64[6] p = {0, 0, 1, 0, 0, 1}, int64[4] s = {-1, 1, 1, 6}> {
                    a = Pad(x, p)
                    r = Reshape(a, s)
                    y = Conv(r, w)
                }""",
                after="""g (float[2,1,4] x) => (float[2,1,1,5] y)
                    <float[1,1,1,2] w = {1, 2}, int64[4] s_unpadded = {2, 1, 1, 4}> {
                    x_reshaped = Reshape(x, s_unpadded)
                    y = Conv<pads=[0,1,0,1]>(x_reshaped, w)
                }""",
                sentences=(
                    "Reshape 'Reshape_r' only inserts axes of size 1; moved before Pad 'Pad_a', "
                    "which is then next to its convolution",
                    "the padding of Pad 'Pad_a' is folded into Conv 'Conv_y', whose pads are now [0, 1, 0, 1]",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[N,2,4] x) => (float[N,1,2,5] y)
                        <float[1,1,1,2] w = {1, 2}, int64[6] p = {0, 0, 1, 0, 0, 1}, int64[4] s = {-1, 1, 3, 4}> {
                        a = Pad(x, p)
                        r = Reshape(a, s)
                        y = Conv(r, w)
                    }""",
                    "Reshape 'Reshape_r' does more than insert axes of size 1",
                ),
                Refusal(
                    """g (float[N,1,4] x) => (float[N,1,1,5] y)
                        <float[1,1,1,2] w = {1, 2}, int64[6] p = {0, 0, 1, 0, 0, 1}, int64[4] s = {-1, 1, 1, 6},
                         float v = {3}> {
                        a = Pad(x, p, v)
                        r = Reshape(a, s)
                        y = Conv(r, w)
                    }""",
                    "Pad 'Pad_a' pads with other numbers than 0, or along the first axis",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
