"""What made other simplifiers wrong does not make this one wrong: all its passes on graphs after public reports."""

import numpy as np
import pytest

from tests.known_wrong import CASES, Case
from tests.running import outputs, random_inputs, typed
from workbench.analysis.inference.shapes import is_generated_symbol
from workbench.ir import DataType, Graph
from workbench.pipeline.registry.pass_choice import choose
from workbench.pipeline.running import run_pipeline
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext

DIMS = (0, 1, 2, 3)  # of symbolic dims
FLOATS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -3.25, 7.0, np.nan, np.inf, -np.inf])


GROUPED = "float[4] s = {1, 2, 0.5, 3}, float[4] b = {1, 1, 2, 3}, float[4] m = {1, 1, 1, 2}, float[4] v = {1, 4, 2, 3}"
LAYER = "m = ReduceMean(x, a)  d = Sub(x, m)  p = Pow(d, two)  v = ReduceMean(p, a)  w = Add(v, e)  r = Sqrt(w)"
LAYER_NUMBERS = "int64[1] a = {-1}, float e = {0.00001}, float two = {2}"

FUSED = (
    # Zeros round an image are not what a MaxPool puts there: below a window of negative numbers it gave those.
    Case(
        "onnxsim/onnxsim#290 zeros before MaxPool",
        """g (float[N,1,2,2] x) => (float[N,1,2,2] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> {
            a = Pad(x, p)  y = MaxPool<kernel_shape=[3,3], strides=[1,1]>(a)
        }""",
        inputs={"x": [[[[-1.0, -2.0], [-3.0, -4.0]]]]},
    ),
    # Nor what an AveragePool counts, unless it is told to.
    Case(
        "microsoft/onnxruntime#22177 zeros before AveragePool",
        """g (float[N,1,2,2] x) => (float[N,1,3,3] y, float[N,1,3,3] z) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> {
            a = Pad(x, p)  y = AveragePool<kernel_shape=[2,2]>(a)
            b = Pad(x, p)  z = AveragePool<kernel_shape=[2,2], count_include_pad=1>(b)
        }""",
    ),
    # A Pad that cuts off went into a convolution as negative padding, which is none.
    Case(
        "microsoft/onnxscript#2838 negative padding",
        """g (float[N,1,5,5] x) => (float[N,1,4,4] y)
            <int64[8] p = {0, 0, -1, 1, 0, 0, 1, -1}, float[1,1,2,2] w = {1, 2, 3, 4}> {
            a = Pad(x, p)  y = Conv(a, w)
        }""",
    ),
    # The convolution kept auto_pad VALID beside the padding it was given, which the runtime then left out.
    Case(
        "onnx/onnx#3259 padding beside auto_pad",
        """g (float[N,1,4,4] x) => (float[N,1,3,3] y)
            <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}, float[1,1,2,2] w = {1, 2, 3, 4}> {
            a = Pad(x, p)  y = Conv<auto_pad="VALID", strides=[2,2]>(a, w)
        }""",
        nodes=1,
    ),
    # Weights of a ConvTranspose lie the other way round, and those of groups are counted by group.
    Case(
        "onnx/optimizer#106 groups of a ConvTranspose",
        f"""g (float[N,2,3] x) => (float[N,4,3] y) <float[2,2,1] w = {{1, 2, 3, 4}}, {GROUPED}> {{
            a = ConvTranspose<group=2>(x, w)  y = BatchNormalization(a, s, b, m, v)
        }}""",
        nodes=1,
    ),
    # The pass of 133 and 178 again. Here: groups.
    Case(
        "onnx/optimizer#255 groups of a Conv",
        f"""g (float[N,2,3] x) => (float[N,4,3] y) <float[4,1,1] w = {{1, 2, 3, 4}}, {GROUPED}> {{
            a = Conv<group=2>(x, w)  y = BatchNormalization(a, s, b, m, v)
        }}""",
        nodes=1,
    ),
    # A sum of a whole image was taken as one number a channel.
    Case(
        "microsoft/onnxruntime#12498 image added to a Conv of groups",
        """g (float[N,4,1,2] x) => (float[N,4,1,2] y)
            <float[4,2,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[1,4,1,2] b = {1, 2, 3, 4, 5, 6, 7, 8}> {
            a = Conv<group=2>(x, w)  y = Add(a, b)
        }""",
    ),
    # A single number as the bias of all channels lacked its axis.
    Case(
        "onnx/optimizer#3 scalar bias",
        """g (float[N,1,2] x) => (float[N,3,2] y) <float[3,1,1] w = {1, 2, 3}, float b = {0.5}> {
            a = Conv(x, w)  y = Add(a, b)
        }""",
        nodes=1,
    ),
    # A row that makes a column into a matrix is no bias of a Gemm.
    Case(
        "microsoft/onnxruntime#3764 sum larger than the product",
        """g (float[3,3] x, float[3,1] z, float[1,4] q) => (float[3,4] y) <float k = {2}> {
            a = MatMul(x, z)  b = Mul(k, q)  y = Add(a, b)
        }""",
    ),
    # A bias of five axes and one behind a Reshape went into a Gemm, which takes two at most.
    Case(
        "inisis/OnnxSlim#323 bias of five axes",
        """g (float[N,2] x) => (float[1,1,1,N,2] y) <float[2,2] w = {1, 2, 3, -1}, float[1,1,1,1,2] b = {1, -1}> {
            a = MatMul(x, w)  y = Add(a, b)
        }""",
    ),
    Case(
        "inisis/OnnxSlim#210 bias behind a Reshape",
        """g (float[N,2] x) => (float[1,N,2] y)
            <float[2,2] w = {1, 2, 3, -1}, float[2] b = {1, -1}, int64[3] s = {1, -1, 2}, float[1,1,2] d = {1, 2}> {
            a = Gemm(x, w, b)  r = Reshape(a, s)  y = Add(r, d)
        }""",
    ),
    # The sum behind a product had a second reader, which lost its operand.
    Case(
        "inisis/OnnxSlim#160 two readers of a sum",
        """g (float[N,2] x) => (float[N,2] y, float[N,2] z) <float[2,2] w = {1, 2, 3, -1}, float[2] b = {1, -1}> {
            a = MatMul(x, w)  c = Add(b, a)  y = Exp(c)  z = Neg(c)
        }""",
    ),
    # A MatMul of three axes became Reshape, Gemm and Reshape: two nodes more.
    Case(
        "inisis/OnnxSlim#223 product of three axes",
        """g (float[N,3,2] x) => (float[N,3,2] y) <float[2,2] w = {1, 2, 3, -1}, float[2] b = {1, -1}> {
            a = MatMul(x, w)  y = Add(a, b)
        }""",
    ),
    # A Transpose by [0, 1] does nothing, and yet turned transA on: wrong numbers for square matrices.
    Case(
        "microsoft/onnxruntime#32228 identity before Gemm",
        """g (float[3,3] x, float[3,3] w, float[3] b) => (float[3,3] y) {
            t = Transpose<perm=[0,1]>(x)  u = Transpose<perm=[0,1]>(w)  y = Gemm(t, u, b)
        }""",
        nodes=1,
    ),
    # A scale that is larger than what is normalized, a single one, one by rows, and means that drop their axis.
    Case(
        "microsoft/onnxruntime#31980 scale enlarges",
        f"""g (float[N,1] x) => (float[N,2] y) <{LAYER_NUMBERS}, float[2] s = {{3, 4}}> {{
            {LAYER}  n = Div(d, r)  y = Mul(s, n)
        }}""",
    ),
    Case(
        "microsoft/onnxruntime#25855 scale by rows",
        f"""g (float[4,4] x, float[4,1] s) => (float[4,4] y) <{LAYER_NUMBERS}, float[4] b = {{1, 2, 3, 4}}> {{
            {LAYER}  n = Div(d, r)  t = Mul(n, s)  y = Add(t, b)
        }}""",
    ),
    Case(
        "microsoft/onnxruntime#31147 one axis",
        f"""g (float[4] x) => (float[4] y) <{LAYER_NUMBERS}, float[4] s = {{3, 4, 5, 6}}> {{
            {LAYER}  n = Div(d, r)  y = Mul(s, n)
        }}""",
    ),
    Case(
        "microsoft/onnxruntime#31144 dropped axis",
        f"""g (float[3,3] x) => (float[3,3] y) <{LAYER_NUMBERS}> {{
            {LAYER.replace("ReduceMean(", "ReduceMean<keepdims=0>(")}  y = Div(d, r)
        }}""",
    ),
    Case(
        "microsoft/onnxruntime#15844 other axis",
        f"""g (float[N,3,2] x) => (float[N,3,2] y)
            <{LAYER_NUMBERS.replace("-1", "1")}, float[2] s = {{3, 4}}, float[2] b = {{1, 2}}> {{
            {LAYER}  n = Div(d, r)  t = Mul(n, s)  y = Add(t, b)
        }}""",
    ),
    # What lies between was an output, and the fusion took it away.
    Case(
        "microsoft/onnxruntime#4110 output in between",
        f"g (float[N,4] x) => (float[N,4] y, float[N,4] d, float[N,1] w) <{LAYER_NUMBERS}> {{ {LAYER}  y = Div(d, r) }}",
    ),
    # Gelu of a scalar became an operator that wants an axis.
    Case(
        "microsoft/onnxruntime#23138 scalar",
        """g (float x) => (float y) <float h = {0.5}, float o = {1}, float q = {1.4142135}> {
            a = Div(x, q)  b = Erf(a)  c = Add(b, o)  d = Mul(x, c)  y = Mul(d, h)
        }""",
    ),
)


FOUND = (  # in this simplifier, by attacking it; with the numbers that show it
    # +0.0 times a negative number is -0.0, and a sum of zeros that have become -0.0 is +0.0 again.
    Case(
        "signs: zero times a negative factor, product",
        """g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}, float[2] k = {-1, 2}> {
            a = MatMul(x, w)  y = Mul(a, k)
        }""",
        inputs={"x": [[0.0, 0.0]]},
    ),
    Case(
        "signs: zero times a negative factor, convolution",
        """g (float[N,1,2] x) => (float[N,2,2] y) <float[2,1,1] w = {1, 2}, float[2,1] k = {-1, 2}> {
            a = Conv(x, w)  y = Div(a, k)
        }""",
        inputs={"x": [[[0.0, 1.0]]]},
    ),
    Case(
        "signs: zero times a negative factor, batch norm",
        """g (float[N,2] x) => (float[N,2] y)
            <float[2] s = {1, 2}, float[2] b = {0, 0}, float[2] v = {1, 1}, float[2] k = {-1, 2}> {
            a = BatchNormalization(x, s, b, b, v)  y = Mul(a, k)
        }""",
        inputs={"x": [[0.0, 1.0]]},
    ),
    Case(
        "signs: zero times a batch norm of zero",
        """g (float[N,1,2] x) => (float[N,1,2] y) <float[1,1,1] w = {1}, float[1] c = {1}, float[1] s = {0},
            float[1] b = {-0.0}, float[1] v = {1}> {
            a = Conv(x, w, c)  y = BatchNormalization(a, s, b, c, v)
        }""",
        inputs={"x": [[[-1.0, 1.0]]]},
    ),
    # The lower bound of this Clip is -0.0, which makes +0.0 of a negative x, where HardSwish makes -0.0.
    Case(
        "signs: bound of -0.0",
        """g (float[N] x) => (float[N] y) <float three = {3}, float zero = {-0.0}, float six = {6}> {
            a = Add(x, three)  b = Clip(a, zero, six)  c = Mul(x, b)  y = Div(c, six)
        }""",
        inputs={"x": [-3.25, 1.0]},
    ),
    # The padded image is the weights too, and both operands go.
    Case(
        "found here, padded image twice",
        """g (float[N,1,2,2] x) => (float[N,N,1,1] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> {
            a = Pad(x, p)  y = Conv(a, a)
        }""",
    ),
    # Exporters write lists of one number where ONNX asks for a scalar, and runtimes take them.
    Case(
        "found here, list of one number as the value of a Pad",
        """g (float[N,1,2,2] x) => (float[N,1,3,3] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}, float[1] low = {-inf}> {
            a = Pad(x, p, low)  y = MaxPool<kernel_shape=[2,2]>(a)
        }""",
    ),
    Case(
        "found here, list of one number as a place",
        """g (float[N,6] x) => (float[N,4] y) <int64 size = {4}, int64[1] i = {0}> {
            s = SplitToSequence<axis=1>(x, size)  a = SequenceAt(s, i)  y = Relu(a)
        }""",
    ),
    Case(
        "found here, matrix of one number as a shape",
        "g (float[1] x) => (float[4] y) <int64[1,1] s = {4}> { c = ConstantOfShape(s)  y = Add(x, c) }",
    ),
    # ONNX Runtime's Min of 0.0 and -0.0 is one or the other by where in the tensor they stand.
    Case(
        "found here, fewer elements for Min",
        """g (float[N,16] x) => (float[N,1] y) <float[1,1] k = {0}, int64[1] s = {0}, int64[1] e = {1}, int64[1] i = {1}> {
            a = Min(x, k)  y = Slice(a, s, e, i)
        }""",
        inputs={"x": [[-0.0] * 16] * 3},
    ),
    # Random operators gave the same numbers twice; in a function they cannot be told by their names.
    Case(
        "onnxsim/onnxsim#440 random twice",
        """<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (bool y) <float z = {0}> {
            a = RandomNormalLike(x)  b = RandomNormalLike(x)  c = Sub(a, b)  d = ReduceMax<keepdims=0>(c)  e = Abs(d)
            y = Greater(e, z)
        }""",
    ),
    Case(
        "onnxsim/onnxsim#440 random in a function",
        """<ir_version: 10, opset_import: ["": 21, "own": 1]> g (float[4] x) => (bool y) <float z = {0}> {
            a = own.noise(x)  b = own.noise(x)  c = Sub(a, b)  d = ReduceMax<keepdims=0>(c)  e = Abs(d)
            y = Greater(e, z)
        }
        <domain: "own", opset_import: ["": 21]> noise (x) => (r) { r = RandomNormalLike(x) }""",
    ),
)

ALL = (*CASES, *FUSED, *FOUND)


def says_as_much(found, before) -> bool:
    """Whether the type is the same but for symbols of inference, of which more may be known."""
    pairs = zip(found.shape, before.shape, strict=True)
    return found.dtype == before.dtype and all(a == b or is_generated_symbol(b) for a, b in pairs)


@pytest.mark.parametrize("case", ALL, ids=[case.source for case in ALL])
def test_known_wrong(case):
    original = typed(case.text)
    simplified = run_pipeline(
        original, choose(preset="simplify"), PassContext(load_profile("cuda")), check_each=True
    ).graph
    assert simplified.inputs == original.inputs
    assert simplified.outputs == original.outputs
    for value in original.outputs:
        assert says_as_much(simplified.type(value), original.type(value))
    assert all(simplified.users(value) or simplified.is_output(value) for value in simplified.constants)
    assert nodes(simplified) <= (nodes(original) if case.nodes is None else case.nodes)
    ran = 0
    for inputs in all_inputs(original, case):
        try:
            expected = outputs(original, inputs)
        except Exception:  # the model itself does not take these sizes
            continue
        ran += 1
        for name, found in outputs(simplified, inputs).items():
            assert_same(found, expected[name], case.moves)
    assert ran


def nodes(graph: Graph) -> int:
    """Nodes, those of bodies too."""
    return sum(1 + sum(map(nodes, node.bodies.values())) for node in graph.nodes)


def all_inputs(graph: Graph, case):
    """The case's own numbers, random ones, and hostile ones with symbolic dims of several sizes."""
    if case.inputs:
        yield {name: np.array(case.inputs[name], graph.tensor_type(name).dtype.numpy()) for name in graph.inputs}
    yield random_inputs(graph)
    symbolic = any(not isinstance(dim, int) for name in graph.inputs for dim in graph.tensor_type(name).shape)
    for seed, dim in enumerate(DIMS if symbolic else DIMS[:2]):
        yield hostile_inputs(graph, np.random.default_rng(seed), dim)


def hostile_inputs(graph: Graph, random: np.random.Generator, dim: int):
    made = {}
    for name in graph.inputs:
        type_ = graph.tensor_type(name)
        shape = [d if isinstance(d, int) else dim for d in type_.shape]
        dtype = type_.dtype.numpy()
        if type_.dtype == DataType.BOOL:
            pool = np.array([False, True])
        elif type_.dtype.is_floating_point():
            pool = FLOATS.astype(dtype)
        else:
            info = np.iinfo(dtype)
            pool = np.array([0, 1, 2, info.max, info.min, info.min + 1], dtype=dtype)
        made[name] = random.choice(pool, shape)
    return made


def assert_same(found, expected, to_the_bit):
    assert found.shape == expected.shape and found.dtype == expected.dtype
    if not np.issubdtype(expected.dtype, np.floating):
        np.testing.assert_array_equal(found, expected)
        return
    tolerance = 0 if to_the_bit else 1e-6
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)  # NaN and infinities in their places
    zero = (found == 0) & (expected == 0)
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))
