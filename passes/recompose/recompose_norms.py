"""InstanceNormalization and GroupNormalization from what exporters write for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.guards import is_same_shape
from workbench.rewrite.patterns import has_negative_zero, only_reader, producer_of, recomposed, standardized

INSTANCE_OPSET, GROUP_OPSET = 6, 21


def match_instance(graph: Graph, node: Node, options: Pass) -> Rewrite:
    norm = standardized(graph, node)
    shape = graph.shape(norm.x) if norm else None
    if norm is None or shape is None or not norm.centered:
        raise NoMatch(f"{node} is not (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon)")
    if len(shape) < 3 or norm.axes != tuple(range(2, len(shape))):
        raise NoMatch(
            f"{node} normalizes over the axes {list(norm.axes)} of {len(shape)}, not over all behind channels"
        )
    attributes = {"epsilon": norm.epsilon}
    return _by_channel(graph, node, norm.x, "InstanceNormalization", INSTANCE_OPSET, attributes)


def match_group(graph: Graph, node: Node, options: Pass) -> Rewrite:
    norm = producer_of(graph, node.inputs[0], "InstanceNormalization")
    split = producer_of(graph, norm.inputs[0], "Reshape") if norm else None
    if norm is None or split is None:
        raise NoMatch(f"{node} does not follow a Reshape and an InstanceNormalization")
    scale, bias = (graph.constant(value) for value in norm.inputs[1:])
    if scale is None or bias is None or not (scale.numpy() == 1).all() or bias.numpy().any():
        raise NoMatch(f"{norm} has a scale or bias for each group")
    x = split.inputs[0]
    groups = _groups(graph, split)
    if not _has_shape_of(graph, node, x):
        raise NoMatch(f"{node} does not bring back the shape of '{x}'")
    attributes = {"epsilon": norm.attr("epsilon", 1e-5), "num_groups": groups}
    return _by_channel(graph, node, x, "GroupNormalization", GROUP_OPSET, attributes, biased_alone=False)


def _groups(graph: Graph, split: Node) -> int:
    """How many groups the Reshape makes of the channels. Raises NoMatch where it does anything else."""
    given, type_ = graph.constant(split.inputs[1]), graph.tensor_type(split.inputs[0])
    wanted = [] if given is None else given.numpy().tolist()
    shape = type_.shape if type_ is not None and type_.shape is not None else (None, None)
    keeps = len(wanted) == 3 and ((wanted[0] == 0 and not split.attr("allowzero", 0)) or wanted[0] == shape[0])
    channels = shape[1] if len(shape) > 2 else None
    if not keeps or not isinstance(channels, int) or wanted[1] <= 0 or channels % wanted[1]:
        raise NoMatch(f"{split} does not make groups of channels")
    return wanted[1]


def _has_shape_of(graph: Graph, back: Node, x: str) -> bool:
    asked = producer_of(graph, back.inputs[1], "Shape")
    if asked is not None and asked.inputs[0] == x and not asked.attributes.keys() - {"start"}:
        return asked.attr("start", 0) == 0 and not back.attr("allowzero", 0)
    return is_same_shape(graph.shape(x), graph.shape(back.outputs[0]))


def _by_channel(
    graph: Graph, node: Node, x: str, operator: str, opset: int, attributes: dict, biased_alone: bool = True
) -> Rewrite:
    """The operator with the scale and bias by channel that are constants behind the node.

    biased_alone: a bias must be there.
    """
    channels = (graph.shape(x) or (None, None))[1]
    rank = graph.rank_of(x) or 0
    last, scale = only_reader(graph, node.outputs[0], "Mul")
    factors = _channel_numbers(graph, scale, channels, rank)
    if last is None or factors is None:
        last, factors = node, np.ones(channels, np.float32) if isinstance(channels, int) else None
    biased, bias = only_reader(graph, last.outputs[0], "Add")
    shifts = _channel_numbers(graph, bias, channels, rank)
    if (biased is None or shifts is None) and not biased_alone and isinstance(channels, int):
        biased, shifts = last, np.zeros(channels, np.float32)
    if biased is None or shifts is None or factors is None:
        raise NoMatch(f"no constant by channel is added behind {last}")
    if has_negative_zero(shifts):
        raise NoMatch(f"'{bias}' holds -0.0, which may change the sign of zeros")
    names = [graph.fresh(f"{node.outputs[0]}_scale")]
    names.append(graph.fresh(f"{node.outputs[0]}_bias", names))
    constants = {name: constant(array, name) for name, array in zip(names, (factors, shifts), strict=True)}
    return recomposed(graph, biased, (x, *names), operator, opset, attributes, constants)


def _channel_numbers(graph: Graph, value: str, channels: int | str | None, rank: int) -> np.ndarray | None:
    """A constant of one number a channel, as ONNX's broadcasting takes it, without its other axes."""
    tensor = graph.constant(value)
    shape = () if tensor is None else tensor.numpy().shape
    full = (1,) * (rank - len(shape)) + tuple(shape)
    if tensor is None or full != (1, channels, *(1,) * (rank - 2)):
        return None
    return tensor.numpy().reshape(-1)


@dataclass(frozen=True)
class RecomposeNorms(Pass):
    """Two cases, x of float32 with channels in axis 1 and at least one axis behind:

    - (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * scale + bias with means over all axes behind the
      channels is InstanceNormalization;
    - a Reshape to groups, an InstanceNormalization without scale and bias, and the Reshape back, with scale and bias
      by channel behind, are GroupNormalization. ONNX defines it by mean(x ** 2) - mean(x) ** 2, so where a group's
      mean is ten times its deviation or more, digits are lost that the three nodes keep: only in mode fast.

    Without a Mul by channel the scale is ones, and of groups without an Add the bias zeros.

    Must not make an InstanceNormalization without a bias by channel, which is what makes zeros of one sign; nor act
    where anything else reads a value in between, nor before opset 21 for groups.

    Source: ONNX's definitions of InstanceNormalization and GroupNormalization; Wu and He, "Group Normalization".
    """

    title = "Recompose InstanceNormalization and GroupNormalization"

    own_examples = (
        Example(
            title="Groups without scale and bias",
            before="""g (float[2,4,3] x) => (float[2,4,3] y)
                <int64[3] split = {0, 2, -1}, int64[3] back = {2, 4, 3}, float[2] ones = {1, 1},
                 float[2] zeros = {0, 0}> {
                g = Reshape(x, split)
                n = InstanceNormalization<epsilon=0.5>(g, ones, zeros)
                y = Reshape(n, back)
            }""",
            after="""g (float[2,4,3] x) => (float[2,4,3] y)
                <float[4] y_scale = {1, 1, 1, 1}, float[4] y_bias = {0, 0, 0, 0}> {
                y = GroupNormalization<epsilon=0.5, num_groups=2>(x, y_scale, y_bias)
            }""",
            sentences=(
                "Reshape 'Reshape_g' to Reshape 'Reshape_y', 3 nodes, compute GroupNormalization of 'x'; 2 less",
            ),
            mode="fast",
        ),
    )

    rules = (
        Rule(
            "instance normalization",
            ("Div", "Mul"),
            match_instance,
            Example(
                before="""g (float[N,2,3] x) => (float[N,2,3] y)
                    <int64[1] axes = {2}, float two = {2}, float e = {0.5}, float[2,1] s = {1, 2},
                     float[1,2,1] b = {0, 1}> {
                    m = ReduceMean(x, axes)
                    d = Sub(x, m)
                    p = Pow(d, two)
                    v = ReduceMean(p, axes)
                    w = Add(v, e)
                    r = Sqrt(w)
                    n = Div(d, r)
                    t = Mul(n, s)
                    y = Add(t, b)
                }""",
                after="""g (float[N,2,3] x) => (float[N,2,3] y)
                    <float[2] n_scale = {1, 2}, float[2] n_bias = {0, 1}> {
                    y = InstanceNormalization<epsilon=0.5>(x, n_scale, n_bias)
                }""",
                sentences=(
                    "ReduceMean 'ReduceMean_m' to Add 'Add_y', 9 nodes, compute InstanceNormalization of 'x'; 8 less",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[1,2,3] x) => (float[1,2,3] y)
                        <int64[1] a = {1}, float e = {0.5}, float[2,1] b = {0, 1}> {
                        m = ReduceMean(x, a)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, a)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  y = Add(n, b)
                    }""",
                    "Div 'Div_n' normalizes over the axes [1] of 3, not over all behind channels",
                ),
                Refusal(
                    """g (float[1,2,3] x) => (float[1,2,3] y)
                        <int64[1] a = {2}, float e = {0.5}, float[3] b = {0, 1, 2}> {
                        m = ReduceMean(x, a)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, a)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  y = Add(n, b)
                    }""",
                    "no constant by channel is added behind Div 'Div_n'",
                ),
                Refusal(
                    """g (float[1,2,3] x) => (float[1,2,3] y)
                        <int64[1] a = {2}, float e = {0.5}, float[2,1] b = {0, -0.0}> {
                        m = ReduceMean(x, a)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, a)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  y = Add(n, b)
                    }""",
                    "'b' holds -0.0, which may change the sign of zeros",
                ),
                Refusal(
                    "g (float[1,2,3] x) => (float[1,2,3] y) { y = Mul(x, x) }",
                    "Mul 'Mul_y' is not (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon)",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="instance_norm(x) == (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * scale + bias",
        ),
        Rule(
            "group normalization",
            ("Reshape",),
            match_group,
            Example(
                before="""g (float[N,4,3] x) => (float[N,4,3] y)
                    <int64[3] split = {0, 2, -1}, float[2] ones = {1, 1}, float[2] zeros = {0, 0},
                     float[4,1] s = {1, 2, 1, -1}, float[4,1] b = {0, 1, 0, 2}> {
                    g = Reshape(x, split)
                    n = InstanceNormalization<epsilon=0.5>(g, ones, zeros)
                    h = Shape(x)
                    r = Reshape(n, h)
                    t = Mul(r, s)
                    y = Add(t, b)
                }""",
                after="""g (float[N,4,3] x) => (float[N,4,3] y)
                    <float[4] r_scale = {1, 2, 1, -1}, float[4] r_bias = {0, 1, 0, 2}> {
                    y = GroupNormalization<epsilon=0.5, num_groups=2>(x, r_scale, r_bias)
                }""",
                sentences=("Reshape 'Reshape_g' to Add 'Add_y', 6 nodes, compute GroupNormalization of 'x'; 5 less",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    """g (float[1,4,3] x) => (float[1,4,3] y)
                        <int64[3] split = {0, 2, -1}, int64[3] back = {1, 4, 3}, float[2] s = {1, 2},
                         float[2] zeros = {0, 0}, float[4,1] b = {0, 1, 0, 2}> {
                        g = Reshape(x, split)  n = InstanceNormalization(g, s, zeros)  r = Reshape(n, back)
                        y = Add(r, b)
                    }""",
                    "InstanceNormalization 'InstanceNormalization_n' has a scale or bias for each group",
                ),
                Refusal(
                    """g (float[2,4,3] x) => (float[2,4,3] y)
                        <int64[3] split = {1, 2, -1}, int64[3] back = {2, 4, 3}, float[2] ones = {1, 1},
                         float[2] zeros = {0, 0}, float[4,1] b = {0, 1, 0, 2}> {
                        g = Reshape(x, split)  n = InstanceNormalization(g, ones, zeros)  r = Reshape(n, back)
                        y = Add(r, b)
                    }""",
                    "Reshape 'Reshape_g' does not make groups of channels",
                ),
                Refusal(
                    """g (float[1,4,3] x) => (float[1,4,3,1] y)
                        <int64[3] split = {0, 2, -1}, int64[4] back = {1, 4, 3, 1}, float[2] ones = {1, 1},
                         float[2] zeros = {0, 0}, float[4,1,1] b = {0, 1, 0, 2}> {
                        g = Reshape(x, split)  n = InstanceNormalization(g, ones, zeros)  r = Reshape(n, back)
                        y = Add(r, b)
                    }""",
                    "Reshape 'Reshape_r' does not bring back the shape of 'x'",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[6] y) <int64[1] s = {6}> { y = Reshape(x, s) }",
                    "Reshape 'Reshape_y' does not follow a Reshape and an InstanceNormalization",
                ),
            ),
            exactness=Exactness.SIGNS,
            law="group_norm(x) == (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * scale + bias",
        ),
    )
