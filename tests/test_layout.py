"""Layouts: what every value's is, and that operators compute the same on permuted operands."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.running import outputs, random_inputs, typed
from workbench.ir import Edit, Node, check
from workbench.ir.permutation import channels_last, compose, inverse, is_identity, moves_data, permuted
from workbench.ops import NotPermutable, layout_of
from workbench.ops.channels_last import FUSED_CONVOLUTIONS, OWN_SIGNATURES
from workbench.planning.layout.infer import case_of, infer_layouts
from workbench.planning.layout.profile import ProfileError, load_profile, profile_names

PERMS = st.permutations(range(4)).map(tuple)


@given(PERMS, PERMS)
def test_permutations(first, second):
    array = np.arange(120).reshape(2, 3, 4, 5)
    np.testing.assert_array_equal(array.transpose(first).transpose(second), array.transpose(compose(first, second)))
    assert is_identity(compose(first, inverse(first)))
    assert permuted(array.shape, first) == array.transpose(first).shape


@given(PERMS, st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_a_transpose_that_moves_no_data_keeps_the_order_in_memory(perm, shape):
    array = np.arange(np.prod(shape)).reshape(shape)
    same = bool((array.transpose(perm).reshape(-1) == array.reshape(-1)).all())
    assert moves_data(perm, shape) == (not same)


# ---- inference ----------------------------------------------------------------------


def test_layouts_of_the_npu_figure():
    graph = typed(
        """g (float[1,2,4,4] input1, float[1,3,4,4] input3) => (float[48] output)
        <float[3,2,1,1] w = {1, 2, 3, 4, 5, 6}, int64[1] s = {-1}> {
            c = Conv(input1, w)
            r1 = Reshape(c, s)
            r2 = Reshape(input3, s)
            output = Add(r1, r2)
        }"""
    )
    layouts = infer_layouts(graph)
    expected = {"input1": "NCHW", "w": "OIHW", "c": "NCHW", "r1": "Tensor", "input3": "Tensor", "output": "Tensor"}
    assert {value: layouts[value] for value in expected} == expected
    cases = [case_of(node, layouts)[:6] for node in graph.nodes]
    assert cases == ["case 1", "case 2", "case 4", "case 4"]


def test_a_transpose_carries_the_layout_backward():
    graph = typed(
        """g (float[1,4,4,2] x) => (float[1,4,4,2] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
            a = Relu(x)
            t = Transpose<perm=[0,3,1,2]>(a)
            c = Conv(t, w)
            y = Transpose<perm=[0,2,3,1]>(c)
        }"""
    )
    layouts = infer_layouts(graph)
    assert [layouts[v] for v in ("x", "a", "t", "c", "y")] == ["NHWC", "NHWC", "NCHW", "NCHW", "NHWC"]


def test_profiles():
    assert {"npu", "cuda"} <= set(profile_names())
    npu = load_profile("npu")
    assert (npu.layout, npu.weights) == ("NHWC", "HWOI")
    own = {"BPA", "BPW", "img2col", "unpool", "maskunpool", "mirror", "rotate", "tensornorm", "bilinear"}
    assert {"Conv", "Concat", "Pad", *(f"workbench.{name}" for name in own)} <= npu.required_layouts.keys()
    assert own == set(OWN_SIGNATURES) - set(FUSED_CONVOLUTIONS)
    assert [npu.layout_for(rank) for rank in (3, 4, 5, 2)] == ["NWC", "NHWC", "NDHWC", None]
    with pytest.raises(ProfileError, match=r"there is no target profile 'tpu'; did you mean 'npu'"):
        load_profile("tpu")


# ---- operators on permuted operands ----------------------------------------------------

X = "float[2,3,4,5] x"
NODES = {
    "Relu": f"g ({X}) => (float[2,3,4,5] y) {{ y = Relu(x) }}",
    "Clip": f"g ({X}) => (float[2,3,4,5] y) <float lo = {{-0.5}}, float hi = {{0.5}}> {{ y = Clip(x, lo, hi) }}",
    "Add": f"g ({X}, float[1,3,1,5] z) => (float[2,3,4,5] y) {{ y = Add(x, z) }}",
    "Mul by a channel": f"g ({X}) => (float[2,3,4,5] y) <float[3,1,1] c = {{1, 2, 3}}> {{ y = Mul(x, c) }}",
    "Sub a row": f"g ({X}) => (float[2,3,4,5] y) <float[5] c = {{1, 2, 3, 4, 5}}> {{ y = Sub(c, x) }}",
    "Div by a number": f"g ({X}) => (float[2,3,4,5] y) <float c = {{3}}> {{ y = Div(x, c) }}",
    "Concat": f"g ({X}, float[2,3,1,5] z) => (float[2,3,5,5] y) {{ y = Concat<axis=-2>(x, z) }}",
    "Softmax": f"g ({X}) => (float[2,3,4,5] y) {{ y = Softmax<axis=1>(x) }}",
    "ReduceMean": f"g ({X}) => (float[2,3,1,1] y) <int64[2] a = {{2, -1}}> {{ y = ReduceMean(x, a) }}",
    "ReduceMax flat": f"g ({X}) => (float[2,4] y) <int64[2] a = {{1, 3}}> {{ y = ReduceMax<keepdims=0>(x, a) }}",
    "ReduceSum of all": f"g ({X}) => (float[1,1,1,1] y) {{ y = ReduceSum(x) }}",
    "ArgMax": f"g ({X}) => (int64[2,1,4,5] y) {{ y = ArgMax<axis=1>(x) }}",
    "Squeeze": "g (float[2,1,4,5] x) => (float[2,4,5] y) <int64[1] a = {1}> { y = Squeeze(x, a) }",
    "Pad": f"g ({X}) => (float[2,4,6,5] y) <int64[8] p = {{0, 1, 0, 0, 0, 0, 2, 0}}> {{ y = Pad(x, p) }}",
    "Pad axes": f"g ({X}) => (float[2,3,7,5] y) <int64[2] p = {{1, 2}}, int64[1] a = {{-2}}> {{ y = Pad(x, p, , a) }}",
    "Slice": f"""g ({X}) => (float[2,2,4,2] y) <int64[2] b = {{1, 0}}, int64[2] e = {{3, 4}},
        int64[2] a = {{1, 3}}, int64[2] s = {{1, 2}}> {{ y = Slice(x, b, e, a, s) }}""",
    "Transpose": f"g ({X}) => (float[5,3,2,4] y) {{ y = Transpose<perm=[3,1,0,2]>(x) }}",
    "Resize": f'g ({X}) => (float[2,3,8,5] y) <float[4] s = {{1, 1, 2, 1}}> {{ y = Resize<mode="nearest">(x, , s) }}',
    "Expand": "g (float[2,1,4,1] x) => (float[2,3,4,5] y) <int64[4] s = {1, 3, 1, 5}> { y = Expand(x, s) }",
    "Tile": f"g ({X}) => (float[2,6,4,15] y) <int64[4] r = {{1, 2, 1, 3}}> {{ y = Tile(x, r) }}",
    "Where": "g (bool[2,3,4,5] x, float[2,3,4,5] z) => (float[2,3,4,5] y) <float o = {7}> { y = Where(x, z, o) }",
    "DequantizeLinear": """g (uint8[2,3,4,5] x) => (float[2,3,4,5] y) <float[3] s = {1, 2, 3}, uint8[3] z = {1, 2, 3}>
        { y = DequantizeLinear<axis=1>(x, s, z) }""",
}


@pytest.mark.parametrize("text", NODES.values(), ids=NODES)
@pytest.mark.parametrize("perm", [channels_last(4), inverse(channels_last(4)), (3, 1, 0, 2), (1, 0, 3, 2)], ids=str)
def test_an_operator_carries_a_permutation(text, perm):
    """Permuted operands in, permuted results out: the same numbers."""
    graph = typed(text)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    node = graph.nodes[0]
    carried = layout_of(node).propagate_permutation(graph, node, perm)

    operands, added, constants = list(node.inputs), [], {}
    for index in carried.inputs:
        operands[index] = f"{node.inputs[index]}_moved"
        added.append(Node("Transpose", (node.inputs[index],), (operands[index],), {"perm": perm}, name=operands[index]))
    for index, tensor in carried.constants.items():
        operands[index] = f"constant_{index}"
        constants[operands[index]] = tensor
    results, restoring = [], []
    for value, out in zip(node.outputs, carried.outputs, strict=True):
        results.append(value if out is None else f"{value}_moved")
        if out is not None:
            back = {"perm": inverse(out)}
            restoring.append(Node("Transpose", (results[-1],), (value,), back, name=f"restore_{value}"))
    attributes = node.attributes if carried.attributes is None else carried.attributes
    moved = node.replace(inputs=tuple(operands), outputs=tuple(results), attributes=attributes)
    graph.apply(Edit(remove=(node.name,), insert=(*added, moved, *restoring), constants=constants))
    check(graph)
    for name, array in outputs(graph, inputs).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)


REFUSED = {
    "is not a constant": (
        f"g ({X}, int64[1] a) => (float[2,1,4,5] y) {{ y = ReduceMean(x, a) }}",
        "operand 'a' of ReduceMean 'ReduceMean_y' is computed at runtime",
    ),
    "barrier": (
        f"g ({X}) => (int64[4,n] y) {{ y = NonZero(x) }}",
        "NonZero 'NonZero_y' depends on the order of its axes",
    ),
    "the axis that is summed over": (
        "g (float[2,3,4,5] x, float[5,6] w) => (float[2,3,4,6] y) { y = MatMul(x, w) }",
        "MatMul 'MatMul_y' sums over the last axis, which would not be the last",
    ),
}


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED)
def test_an_operator_that_keeps_its_order_says_why(text, words):
    graph = typed(text)
    node = graph.nodes[-1]
    with pytest.raises(NotPermutable) as refusal:
        layout_of(node).propagate_permutation(graph, node, channels_last(4))
    assert str(refusal.value) == words
