"""Reports that users filed on float16 and mixed precision, each rebuilt as a graph of a few nodes.

The numbers are those of issues on GitHub. The graphs are ours: of the shape that the report describes, with operands
that show it. Where a report names no cause, the graph holds the usual one, and `rebuilt` says which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tests.running import normal


@dataclass(frozen=True)
class Report:
    """A report and what the workbench says of its graph.

    issues:    as "owner/repository#number". saw: what the user saw. rebuilt: what the graph is.
    explained: the first line of `precision` on the simplified graph; "" where no operator has a type to choose.
    casts:     the number of Casts in the graph, and after `simplify` and the strategy `optimal`.
    kept:      operators that stay in float32, each with the sentence that says why; with `max_error` those of `optimal`.
    max_error: the largest error of an output that is asked for; 0 for none.
    """

    issues: tuple[str, ...]
    saw: str
    rebuilt: str
    text: str
    inputs: Mapping[str, np.ndarray]
    explained: str
    casts: tuple[int, int]
    kept: Mapping[str, str] = field(default_factory=dict)
    max_error: float = 0.0


def _rows_of_extremes() -> np.ndarray:
    """A row of large numbers, a row of zeros, and two of usual ones."""
    x = normal(1, 4, 16)
    x[0, 0] *= 300
    x[0, 1] = 0
    return x


# Operators that move elements stay in float, each between Casts of its own.
MIXED = """g (float[1,8,16] x, float16[16,16] w, float16[10,16] table, int64[1,8] i, bool[1,1,8,8] mask) => (float[1,8,16] y)
    <int64[4] s = {{1, 8, 4, 4}}, int64[3] r = {{1, 8, 16}}, float low = {{{low}}}> {{
    x16 = Cast<to=10>(x)  h1 = MatMul(x16, w)
    t32 = Cast<to=1>(table)  e32 = Gather(t32, i)  e = Cast<to=10>(e32)
    h = Add(h1, e)
    q0 = Cast<to=1>(h)  q1 = Reshape(q0, s)  q2 = Cast<to=10>(q1)
    q3 = Cast<to=1>(q2)  q4 = Transpose<perm=[0,2,1,3]>(q3)  q = Cast<to=10>(q4)
    k3 = Cast<to=1>(q2)  k4 = Transpose<perm=[0,2,3,1]>(k3)  k = Cast<to=10>(k4)
    a = MatMul(q, k)
    a0 = Cast<to=1>(a)  a1 = Where(mask, a0, low)  a2 = Cast<to=10>(a1)
    p = Softmax(a2)  o = MatMul(p, q)
    o0 = Cast<to=1>(o)  o1 = Transpose<perm=[0,2,1,3]>(o0)  o2 = Cast<to=10>(o1)
    o3 = Cast<to=1>(o2)  o4 = Reshape(o3, r)  o5 = Cast<to=10>(o4)
    y16 = MatMul(o5, w)  y = Cast<to=1>(y16)
}}"""

REPORTS = (
    Report(
        issues=("microsoft/onnxruntime#21345", "NVIDIA/TensorRT#1954"),
        saw="NaN, or infinities, where vectors are divided by their length",
        rebuilt="`F.normalize` of large numbers and of zeros",
        text="""g (float[1,4,16] x) => (float[1,4,16] y)
            <float two = {2}, float half = {0.5}, float least = {1e-12}, int64[1] axis = {-1}, int64[3] shape = {1, 4, 16}> {
            squares = Pow(x, two)  sum = ReduceSum(squares, axis)  norm = Pow(sum, half)
            clipped = Clip(norm, least)  divisor = Expand(clipped, shape)  y = Div(x, divisor)
        }""",
        inputs={"x": _rows_of_extremes()},
        explained="Mul 'Pow_squares' by itself: overflows; the output NaN in float16",
        casts=(0, 0),
        kept={
            "Pow_squares": "'squares' reaches 486,519; float16 ends at 65,504",
            "Clip_clipped": "no element of 'least' is above 1e-12; float16 begins at 5.96e-08, so all become 0",
            "Div_y": "an element of 'clipped' is 1e-12, which float16 rounds to 0",
        },
    ),
    Report(
        issues=("microsoft/onnxruntime#11384",),
        saw="NaN from a ConvNeXt-XL in float16, right results in float32",
        rebuilt="ConvNeXt's layer norm, whose squares leave the range",
        text="""g (float[1,8,4,4] x) => (float[1,8,4,4] y) <float two = {2}, float small = {1e-6}, int64[1] axis = {1}> {
            mean = ReduceMean(x, axis)  centered = Sub(x, mean)  squares = Pow(centered, two)
            variance = ReduceMean(squares, axis)  above = Add(variance, small)  deviation = Sqrt(above)
            y = Div(centered, deviation)
        }""",
        inputs={"x": 200 * normal(1, 8, 4, 4)},
        explained="Mul 'Pow_squares' by itself: overflows; the output's error is 1.0e+00 in float16",
        casts=(0, 0),
        kept={
            "Pow_squares": "'squares' reaches 250,643; float16 ends at 65,504",
            "ReduceMean_variance": "'squares' reaches 250,643; float16 ends at 65,504",
        },
    ),
    Report(
        issues=("microsoft/onnxconverter-common#249",),
        saw="NaN from a model like BERT; the report names no cause",
        rebuilt="a mask of ones: 0 times the lowest float32, which is infinite in float16",
        text="""g (float[1,2,4,4] scores, int64[1,4] mask, float[1,2,4,8] values) => (float[1,2,4,8] y)
            <float one = {1}, float low = {-3.4028235e38}, int64[2] axes = {1, 2}> {
            wide = Unsqueeze(mask, axes)  kept = Cast<to=1>(wide)  left_out = Sub(one, kept)  bias = Mul(left_out, low)
            masked = Add(scores, bias)  weights = Softmax(masked)  y = MatMul(weights, values)
        }""",
        inputs={"scores": normal(1, 2, 4, 4), "mask": np.ones((1, 4), np.int64), "values": normal(1, 2, 4, 8)},
        explained="Mul 'Mul_bias' by itself: NaN; the output NaN in float16",
        casts=(1, 4),
        kept={
            "Mul_bias": "'low' reaches 3.4e+38; float16 ends at 65,504",
            "Softmax_weights": "torch's autocast runs Softmax in float32",
        },
    ),
    Report(
        issues=("NVIDIA/TensorRT#2466",),
        saw="wrong results from a RoBERTa whose layer norms have a Min with infinity, its attention a Mul with -1e12",
        rebuilt="both, in one layer",
        text="""g (float[1,4,16] x, float[1,4,4] scores, float[1,4] mask) => (float[1,4,16] y)
            <float one = {1}, float low = {-999999995904}, float highest = {inf}, float least = {1e-12},
             int64[1] axis = {-1}, int64[1] middle = {1}> {
            squares = Mul(x, x)  variance = ReduceMean(squares, axis)  below = Min(variance, highest)
            above = Max(below, least)  deviation = Sqrt(above)  normed = Div(x, deviation)
            left_out = Sub(one, mask)  bias = Mul(left_out, low)  row = Unsqueeze(bias, middle)
            masked = Add(scores, row)  weights = Softmax(masked)  y = MatMul(weights, normed)
        }""",
        inputs={
            "x": normal(1, 4, 16),
            "scores": normal(1, 4, 4),
            "mask": np.array([[1, 1, 1, 0]], np.float32),
        },
        explained="Mul 'Mul_bias' by itself: NaN; the output NaN in float16",
        casts=(0, 3),
        kept={
            "Mul_bias": "'low' reaches 1e+12; float16 ends at 65,504",
            "Max_above": "no element of 'least' is above 1e-12; float16 begins at 5.96e-08, so all become 0",
        },
    ),
    Report(
        issues=("microsoft/onnxconverter-common#323",),
        saw="zeros or NaN from a ReduceMean in float16, for an image of 512 x 512",
        rebuilt="the mean of the image",
        text="g (float[1,3,512,512] x) => (float[1,3,1,1] y) <int64[2] axes = {2, 3}> { y = ReduceMean(x, axes) }",
        inputs={"x": np.abs(normal(1, 3, 512, 512))},
        explained="ReduceMean 'ReduceMean_y' loses most by itself: 2.0e-04; the output's error is 2.0e-04 in float16",
        casts=(0, 0),
        kept={
            "ReduceMean_y": "ReduceMean 'ReduceMean_y' adds 262,144 numbers; a sum in float16 loses ones from 2,048 on"
        },
    ),
    Report(
        issues=("microsoft/onnxconverter-common#252", "microsoft/onnxruntime#15490"),
        saw="a mixed model with a pair of Casts around every operator that moves elements",
        rebuilt="attention as that converter leaves it",
        text=MIXED.format(low="-3.4e38"),
        inputs={
            "x": normal(1, 8, 16),
            "w": (normal(16, 16) / 4).astype(np.float16),
            "table": normal(10, 16).astype(np.float16),
            "i": np.arange(8).reshape(1, 8),
            "mask": np.tril(np.ones((8, 8), bool))[None, None],
        },
        explained="Where 'Where_a1' by itself: overflows; no output comes of an operator in float32",
        casts=(16, 4),
        kept={"Where_a1": "'low' reaches 3.4e+38; float16 ends at 65,504"},
    ),
    Report(
        issues=("NVIDIA/TensorRT#4443", "NVIDIA/TensorRT#4616", "NVIDIA/TensorRT#2189", "NVIDIA/TensorRT#1698"),
        saw="which layer it is: marking all outputs fails or runs out of memory, a bisection says the first 1,301",
        rebuilt="a difference of nearly equal values between other operators, one of which gives booleans",
        text="""g (float[4,4] x) => (float[4,4] y)
            <float[4,4] w = {1, -0.5, 0.25, 2, 0.5, 1, -2, 0.75, -1, 0.5, 1, 0.25, 2, -0.25, 0.5, 1},
             float small = {0.001}, float limit = {1}, float one = {1}> {
            product = MatMul(x, w)  positive = Relu(product)  above = Add(positive, small)
            difference = Sub(above, positive)  ratio = Div(difference, small)
            flag = Greater(product, limit)  chosen = Where(flag, ratio, one)  y = MatMul(chosen, w)
        }""",
        inputs={"x": 5 * normal(4, 4)},
        explained="Sub 'Sub_difference' loses most by itself: 6.8e+00; the output's error is 7.3e-01 in float16",
        casts=(0, 4),
        kept={"Sub_difference": "Sub 'Sub_difference' alone is off by 6.8e+00 in float16; outputs may be off by 0.01"},
        max_error=1e-2,
    ),
    Report(
        issues=(
            "microsoft/onnxruntime#20346",
            "microsoft/onnxconverter-common#271",
            "microsoft/onnxruntime#8787",
        ),
        saw="other results where a Cast to float16 and back is left out, or is inserted",
        rebuilt="the pair: 1e-12 becomes 0, and 123,456.7 infinity",
        text="g (float[3] x) => (float[3] y) { half = Cast<to=10>(x)  y = Cast<to=1>(half) }",
        inputs={"x": np.array([1e-12, 123456.7, 0.1], np.float32)},
        explained="",
        casts=(2, 2),
    ),
)
