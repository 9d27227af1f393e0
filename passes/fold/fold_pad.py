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
_AUTOMATIC = ("SAME_UPPER", "SAME_LOWER")


def _pads(graph: Graph, pad: Node, rank: int) -> np.ndarray:
    """[2, rank]: numbers of elements before and after each axis. Raises NoMatch unless it adds a constant number."""
    if pad.attr("mode") != "constant":
        raise NoMatch(f"{pad} repeats elements of the image ({pad.attr('mode')})")
    given = require_constant(graph, pad.inputs[1], pad)
    full = np.zeros((2, rank), dtype=np.int64)
    axes = require_constant(graph, pad.inputs[3], pad) if len(pad.inputs) > 3 and pad.inputs[3] else np.arange(rank)
    full[:, axes % rank] = given.reshape(2, -1)
    if full.min(initial=0) < 0:
        raise NoMatch(f"{pad} removes elements")
    return full


def _value(graph: Graph, pad: Node) -> float:
    return float(require_constant(graph, pad.inputs[2], pad).item()) if len(pad.inputs) > 2 and pad.inputs[2] else 0.0


def _padded(graph: Graph, node: Node, full: np.ndarray) -> tuple[int, ...]:
    """The sum of the operator's own pads and those of the Pad."""
    if full[:, :2].any():
        raise NoMatch("batch or channels are padded too")
    if node.attr("auto_pad") in _AUTOMATIC:
        raise NoMatch(f"{node} computes its padding from the size of the image")
    spatial = full.shape[1] - 2
    own = np.array(node.attr("pads", (0,) * 2 * spatial)).reshape(2, spatial)
    return tuple(int(n) for n in (own + full[:, 2:]).reshape(-1))


def match_direct(graph: Graph, node: Node, options: Pass) -> Rewrite:
    pad = require_producer(graph, node.inputs[0], ("Pad",), node)
    require_single_use(graph, node, pad)
    rank = graph.rank_of(pad.inputs[0])
    if rank is None:
        raise NoMatch(f"the rank of '{pad.inputs[0]}' is not known")
    full = _pads(graph, pad, rank)
    value = _value(graph, pad)
    if value != 0:
        raise NoMatch(f"{pad} pads with {value:g}, and {node} would pad with 0")
    if node.op == "AveragePool" and not node.attr("count_include_pad"):
        raise NoMatch(f"{node} does not count its own padding, and would count that of {pad}")
    if node.op != "Conv" and node.attr("ceil_mode"):
        raise NoMatch(f"{node} rounds its output size up, which padding may change")
    attributes = {key: value for key, value in node.attributes.items() if key != "auto_pad"}
    pads = _padded(graph, node, full)
    if node.op != "Conv" and any(p >= k for p, k in zip(pads, (*node.attr("kernel_shape"),) * 2, strict=True)):
        raise NoMatch(f"{node} would have padding as wide as its window")
    wider = node.replace(inputs=(pad.inputs[0], *node.inputs[1:]), attributes={**attributes, "pads": pads})
    sentence = f"{node} adds the padding of {pad} itself; pads are {list(pads)}"
    return Rewrite(Edit(remove=(pad.name, node.name), insert=(wider,)), sentence, (pad.name, node.name))


def match_pad_before_max_pool(graph: Graph, node: Node, options: Pass) -> Rewrite:
    """For a window with NaN, ONNX Runtime's result depends on the order of its elements, which excludes its pads."""
    pad = require_producer(graph, node.inputs[0], ("Pad",), node)
    require_single_use(graph, node, pad)
    require_floating(graph, pad.inputs[0], node)
    source, value = graph.producer(pad.inputs[0]), _value(graph, pad)
    if value > _LOWEST and not (value <= 0 and source is not None and source.op in _NOT_NEGATIVE):
        raise NoMatch(f"{pad} pads with {value:g}, which may be the maximum of a window")
    rank = graph.rank_of(pad.inputs[0])
    if (
        rank is None
        or len(node.outputs) > 1
        or node.attr("ceil_mode")
        or any(d != 1 for d in node.attr("dilations", ()))
    ):
        raise NoMatch(f"{node} returns indices, has dilations or rounds its output size up")
    pads = _padded(graph, node, _pads(graph, pad, rank))
    if any(p >= k for p, k in zip(pads, (*node.attr("kernel_shape"),) * 2, strict=True)):
        raise NoMatch(f"{node} would have padding as wide as its window")
    attributes = {key: value for key, value in node.attributes.items() if key != "auto_pad"}
    wider = node.replace(inputs=pad.inputs[:1], attributes={**attributes, "pads": pads})
    sentence = f"{node} adds the padding of {pad}, which is never the maximum, itself; pads are {list(pads)}"
    return Rewrite(Edit(remove=(pad.name, node.name), insert=(wider,)), sentence, (pad.name, node.name))


def match_after_reshape(graph: Graph, node: Node, options: Pass) -> Rewrite:
    reshape = require_producer(graph, node.inputs[0], ("Reshape",), node)
    pad = require_producer(graph, reshape.inputs[0], ("Pad",), reshape)
    require_single_use(graph, node, reshape)
    require_single_use(graph, reshape, pad)
    source = graph.tensor_type(pad.inputs[0])
    shape, target = (None if source is None else source.shape), graph.shape(reshape.outputs[0])
    padded = graph.shape(pad.outputs[0])
    if source is None or shape is None or padded is None or target is None:
        raise NoMatch(f"a shape before or after {reshape} is not known")
    places = _places(padded, target)
    if places is None:
        raise NoMatch(f"{reshape} does more than insert axes of size 1")
    full = _pads(graph, pad, len(shape))
    if _value(graph, pad) != 0 or full[:, :1].any():
        raise NoMatch(f"{pad} pads with other numbers than 0, or along the first axis")
    moved = np.zeros((2, len(target)), dtype=np.int64)
    moved[:, places] = full
    sizes = [1] * len(target)
    for axis, place in enumerate(places):
        size = shape[axis]
        sizes[place] = size if isinstance(size, int) else (0 if place == axis else -1)
    if sizes.count(-1) > 1 or (0 in sizes and -1 in sizes):
        raise NoMatch(f"more than one size of '{pad.inputs[0]}' is not known")
    return _swapped(graph, pad, reshape, sizes, moved, source, places)


def _swapped(
    graph: Graph, pad: Node, reshape: Node, sizes: list[int], moved: np.ndarray, source: TensorType, places: list[int]
) -> Rewrite:
    """The rewrite to the Reshape first and then the Pad, on the new axes."""
    target: list[Dim] = [1] * len(sizes)
    for axis, place in enumerate(places):
        target[place] = (source.shape or ())[axis]
    names: list[str] = []
    for base in (f"{reshape.inputs[1]}_unpadded", f"{pad.inputs[1]}_moved", f"{pad.inputs[0]}_reshaped"):
        names.append(graph.fresh(base, names))
    shape_name, pads_name, between = names
    attributes = {key: value for key, value in reshape.attributes.items() if key != "allowzero"}
    first = reshape.replace(inputs=(pad.inputs[0], shape_name), outputs=(between,), attributes=attributes)
    then = pad.replace(inputs=(between, pads_name, *pad.inputs[2:3]), outputs=reshape.outputs)
    constants: dict[str, Constant | None] = {
        shape_name: constant(np.array(sizes, dtype=np.int64)),
        pads_name: constant(moved.reshape(-1)),
    }
    edit = Edit(
        remove=(pad.name, reshape.name),
        insert=(first, then),
        constants=constants,
        types={between: source.with_shape(tuple(target))},
    )
    sentence = f"{reshape} only inserts axes of size 1; moved before {pad}, which is then next to its convolution"
    return Rewrite(edit, sentence, (pad.name, reshape.name))


def _places(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> list[int] | None:
    """The index of each axis in the target, if that has the same axes and others of size 1; else None.

    Axes of unknown size are the same if they are the only ones on both sides: the numbers of elements are equal.
    """
    fixed = [[size for size in shape if isinstance(size, int)] for shape in (source, target)]
    alone = len(source) - len(fixed[0]) == len(target) - len(fixed[1]) == 1
    alone = alone and math.prod(fixed[0]) == math.prod(fixed[1]) > 0
    places: list[int] = []
    for place, size in enumerate(target):
        own = source[len(places)] if len(places) < len(source) else 1
        is_open = not isinstance(size, int) and not isinstance(own, int)
        if len(places) < len(source) and (size == own is not None or (is_open and alone)):
            places.append(place)
        elif size != 1:
            return None
    return places if len(places) == len(source) else None


@dataclass(frozen=True)
class FoldPad(Pass):
    """Three cases:

    - a Pad with the lowest number before a MaxPool, or with zeros after Relu and the like, becomes padding of the pool:
      in mode "fast" only, since ONNX Runtime's result for windows with NaN depends on the order of their elements;
    - a Pad with zeros before a Conv, or before an AveragePool that counts its padding, becomes padding of these;
    - a Pad before a Reshape that only inserts axes of size 1 for a Conv moves after the Reshape, so that the second
      case applies.

    Must not act on a MaxPool of numbers that may be less than the padded one, on other modes and values, on batch and
    channels, on padding that is as wide as a pooling window, if ceil_mode or auto_pad determine a size, nor if
    anything else reads the padded image.

    Source: ONNX's definitions; onnxsim and ONNX Runtime's PadFusion do the first.
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
                sentences=("Conv 'Conv_y' adds the padding of Pad 'Pad_a' itself; pads are [1, 1, 1, 2]",),
            ),
            refusals=(
                Refusal(
                    """g (float[N,1,2,2] x) => (float[N,1,3,3] y)
                        <float[1,1,2,2] w = {1, 2, 3, 4}, int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> {
                        a = Pad<mode="reflect">(x, p)
                        y = Conv(a, w)
                    }""",
                    "Pad 'Pad_a' repeats elements of the image (reflect)",
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
            "before a largest",
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
                    "MaxPool 'MaxPool_y' adds the padding of Pad 'Pad_a', which is never the maximum, itself;"
                    " pads are [1, 1, 0, 0]",
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
            exactness=Exactness.SIGNS,
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
            "behind a Reshape",
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
                    "Conv 'Conv_y' adds the padding of Pad 'Pad_a' itself; pads are [0, 1, 0, 1]",
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
            exactness=Exactness.BITS,
        ),
    )
