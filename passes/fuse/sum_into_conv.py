"""Put the sum with a part of a Split into the convolution of its other part."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workbench.analysis.inference.bound_shapes import bound_shape, bytes_of_value
from workbench.ir import Constant, Edit, Graph, Node, constant_shape, lazy_constant
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.enlarging import (
    ZERO_TIMES_INFINITY,
    Enlarging,
    more_flops,
    require_gain,
    taps,
    window_of,
)
from workbench.rewrite.analyses.parallel import concatenated, constant_weights, require_mergeable
from workbench.rewrite.core.guards import (
    is_same_axis,
    is_same_shape,
    require_no_other_users,
    require_producer,
    require_single_use,
)


def match_added_part(graph: Graph, node: Node, pass_: Enlarging) -> Rewrite:
    conv, part = _conv_and_part(graph, node)
    split = require_producer(graph, part, ("Split",), node)
    rank = graph.rank_of(part)
    if (
        len(split.outputs) != 2
        or not is_same_axis(split.attr("axis"), 1, rank)
        or sorted(split.outputs) != sorted((conv.inputs[0], part))
    ):
        raise NoMatch(f"{conv} and {node} do not read the two parts into which {split} divides the channels")
    require_no_other_users(graph, split, (conv, node))
    require_single_use(graph, node, conv)
    require_mergeable(graph, conv)
    tap = _tap_of_own_element(graph, conv, part)
    shape, result = constant_shape(constant_weights(graph, conv)), bound_shape(graph, conv.outputs[0])
    flops = None if result is None else 2 * math.prod(result) * shape[0] * taps(graph, conv)
    size = bytes_of_value(graph, conv.outputs[0])
    saved = None if size is None else 2 * size
    require_gain(flops, saved, f"adding '{part}' by the weights of {conv}", pass_)
    copying = _copies(constant_weights(graph, conv), tap)
    weights = [constant_weights(graph, conv), copying]
    weight = graph.fresh(f"{conv.inputs[1]}_and_copies")
    inputs = (split.inputs[0], weight, *conv.inputs[2:])
    new = conv.replace(inputs=inputs, outputs=node.outputs)
    edit = Edit(
        remove=(split.name, conv.name, node.name),
        insert=(new,),
        constants={weight: concatenated(weights if split.outputs[1] == part else weights[::-1], 1)},
    )
    saving = "" if saved is None else f", {saved:,} bytes less"
    return Rewrite(
        edit,
        f"{split}, {conv} and {node} become one Conv of '{split.inputs[0]}', which is read once, with weights that "
        f"copy the {shape[0]} channels of '{part}'; 3 nodes become 1{saving}, for {more_flops([flops])}",
        edit.remove,
    )


def _conv_and_part(graph: Graph, node: Node) -> tuple[Node, str]:
    """The Conv that makes one operand of an Add, and the other operand, which a Split makes."""
    for convolved, part in (node.inputs, node.inputs[::-1]):
        conv, split = graph.producer(convolved), graph.producer(part)
        if conv is not None and conv.op == "Conv" and split is not None and split.op == "Split":
            return conv, part
    raise NoMatch(f"{node} does not add a part of a Split to the result of a Conv")


def _tap_of_own_element(graph: Graph, conv: Node, part: str) -> tuple[int, ...]:
    """The index in the window that reads the element at the position of the result."""
    window = window_of(graph, conv)
    if any(stride != 1 for stride in window.strides):
        raise NoMatch(f"{conv} has strides {list(window.strides)}")
    if not is_same_shape(graph.shape(conv.outputs[0]), graph.shape(part)):
        raise NoMatch(f"'{part}' is not known to have the shape of '{conv.outputs[0]}', to which it is added")
    axes = tuple(zip(window.begins, window.dilations, window.kernel, strict=True))
    if any(begin % dilation or begin // dilation >= size for begin, dilation, size in axes):
        raise NoMatch(f"no tap of {conv} reads the element at the position of the result")
    return tuple(begin // dilation for begin, dilation, _ in axes)


def _copies(weight: Constant, tap: tuple[int, ...]) -> Constant:
    """Weights of the same window and number of output channels that copy as many input channels."""
    count, _, *window = constant_shape(weight)

    def compute() -> np.ndarray:
        copies = np.zeros((count, count, *window), weight.dtype.numpy())
        for channel in range(count):
            copies[channel, channel][tap] = 1
        return copies

    return lazy_constant(compute, weight.dtype, (count, count, *window))


def _sum(
    conv: str,
    weights: str = "float[2,2,1,1] w = {1,2,3,4}",
    end: str = "y = Add(c, b)",
    result: str = "float[1,2,3,3] y",
    split: str = "a, b = Split<axis=1>(x, parts)",
) -> str:
    """A sum after the parts of x."""
    return f"""g (float[1,4,3,3] x) => ({result}) <{weights}, int64[2] parts = {{2,2}}> {{
        {split}
        c = {conv}
        {end}
    }}"""


@dataclass(frozen=True)
class SumIntoConv(Enlarging):
    """One case: Add(Conv(a, w), b), where a Split divides the channels of x into a and b, becomes one convolution of x.
    Its weights copy the channels of b at the tap that reads the element at the position of the result: x is read once,
    and the result of the convolution is not stored before the sum.

    It acts where the products with the copying weights cost at most `flops_per_byte` FLOPs for each byte no longer
    moved, or everywhere with `force`. `enlarge_kernels` makes such Splits; `fuse_conv` adds by
    the convolution's kernel without more FLOPs, where the runtime has one.

    Does not apply:

    - to convolutions with strides, groups or non-constant weights;
    - if no tap reads that element;
    - if anything else reads a part of the Split or the result of the convolution.

    Source: Jia et al., "Optimizing DNN Computation with Relaxed Graph Substitutions", SysML 2019, which rewrites a
    ResNet module in this way.
    """

    title = "Put sums into convolutions"

    rules = (
        Rule(
            "added part",
            ("Add",),
            match_added_part,
            Example(
                before="""g (float[1,4,3,3] x) => (float[1,2,3,3] y)
                    <float[2,2,1,1] w = {5,6,7,8}, int64[2] parts = {2,2}> {
                    a, b = Split<axis=1>(x, parts)
                    c = Conv(a, w)
                    y = Add(c, b)
                }""",
                after="""g (float[1,4,3,3] x) => (float[1,2,3,3] y)
                    <float[2,4,1,1] w_and_copies = {5,6,1,0,7,8,0,1}> {
                    y = Conv(x, w_and_copies)
                }""",
                sentences=(
                    "Split 'Split_a', Conv 'Conv_c' and Add 'Add_y' become one Conv of 'x', which is read once, with "
                    "weights that copy the 2 channels of 'b'; 3 nodes become 1, 144 bytes less, for 72 FLOPs more",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[2] x, float[2] z) => (float[2] y) { y = Add(x, z) }",
                    "Add 'Add_y' does not add a part of a Split to the result of a Conv",
                ),
                Refusal(
                    _sum("Conv(a, w)", split="b, d, a = Split<axis=1>(x, parts)").replace("{2,2}", "{1,1,2}"),
                    "Conv 'Conv_c' and Add 'Add_y' do not read the two parts into which Split 'Split_b' divides the "
                    "channels",
                ),
                Refusal(
                    _sum("Conv(a, w)", end="y = Add(c, b)  z = Neg(b)", result="float[1,2,3,3] y, float[1,2,3,3] z"),
                    "Neg 'Neg_z' reads 'b' of Split 'Split_a' too",
                ),
                Refusal(
                    _sum("Conv(a, w)", end="y = Add(c, b)  z = Neg(c)", result="float[1,2,3,3] y, float[1,2,3,3] z"),
                    "Neg 'Neg_z' reads 'c' of Conv 'Conv_c' too",
                ),
                Refusal(
                    _sum("Conv<group=2>(a, w)", "float[2,1,1,1] w = {1,2}"),
                    "Conv 'Conv_c' has 2 groups, each of which reads different channels",
                ),
                Refusal(
                    """g (float[1,4,1,1] x) => (float[1,2,1,1] y)
                        <float[2,2,1,1] w = {5,6,7,8}, int64[2] parts = {2,2}> {
                        a, b = Split<axis=1>(x, parts)
                        c = Conv<strides=[2,2]>(a, w)
                        y = Add(c, b)
                    }""",
                    "Conv 'Conv_c' has strides [2, 2]",
                ),
                Refusal(
                    _sum("Conv(a, w)", "float[2,2,3,3] w = {" + ",".join(["1"] * 36) + "}"),
                    "'b' is not known to have the shape of 'c', to which it is added",
                ),
                Refusal(
                    _sum("Conv<dilations=[2,1],pads=[1,0,1,0]>(a, w)", "float[2,2,2,1] w = {1,2,3,4,5,6,7,8}"),
                    "no tap of Conv 'Conv_c' reads the element at the position of the result",
                ),
                Refusal(
                    _sum("Conv(a, w)"),
                    "adding 'b' by the weights of Conv 'Conv_c' takes 72 FLOPs more and moves 144 bytes less, which "
                    "is worth at most 0 FLOPs; in mode fast the option force does it nevertheless",
                    {"flops_per_byte": 0},
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": np.inf}, np.inf, np.nan, ZERO_TIMES_INFINITY),
        ),
    )
