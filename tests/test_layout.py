"""Layouts: what every value's is, and that operators compute the same on permuted operands."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passes.layout_greedy import LayoutGreedy
from passes.layout_record_then_insert import LayoutRecordThenInsert
from tests.running import outputs, random_inputs, typed
from workbench.ir import Edit, Node, check
from workbench.ir.permutation import channels_last, identity, inverse, is_identity, moves_data, permuted, then
from workbench.layout.cost import count
from workbench.layout.infer import case_of, infer_layouts
from workbench.layout.profile import ProfileError, load_profile, profile_names
from workbench.ops import CannotCarry, layout_of
from workbench.ops.channels_last import OWN_BODIES
from workbench.rewrite import run_pass, with_options

PERMS = st.permutations(range(4)).map(tuple)


@given(PERMS, PERMS)
def test_permutations(first, second):
    array = np.arange(120).reshape(2, 3, 4, 5)
    np.testing.assert_array_equal(array.transpose(first).transpose(second), array.transpose(then(first, second)))
    assert is_identity(then(first, inverse(first)))
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
    assert {"Conv", "Concat", "Pad", *(f"workbench.{name}" for name in own)} <= npu.demands
    assert own == set(OWN_BODIES)
    assert [npu.layout_for(rank) for rank in (3, 4, 5, 2)] == ["NWC", "NHWC", "NDHWC", None]
    with pytest.raises(ProfileError, match=r"there is no target profile 'tpu'; there are: .*npu"):
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
    carried = layout_of(node).carry(graph, node, perm)

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
        "operand 'a' of ReduceMean 'ReduceMean_y' is computed while the model runs",
    ),
    "rank": (
        f"g ({X}, float[4,5] z) => (float[2,3,4,5] y) {{ y = Add(x, z) }}",
        "operand 'z' of Add 'Add_y' has rank 2, and broadcasts by position",
    ),
    "barrier": (
        "g (float[2,3,4,5] x, float[5,6] w) => (float[2,3,4,6] y) { y = MatMul(x, w) }",
        "MatMul 'MatMul_y' was written for one order of its axes",
    ),
}


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED)
def test_an_operator_that_keeps_its_order_says_why(text, words):
    graph = typed(text)
    node = graph.nodes[-1]
    with pytest.raises(CannotCarry) as refusal:
        layout_of(node).carry(graph, node, channels_last(4))
    assert str(refusal.value) == words


# ---- strategies on random networks ---------------------------------------------------------


@st.composite
def networks(draw):
    """Small CNNs with branches, reshapes and existing transposes, in ONNX's textual syntax."""
    lines, values, kinds = [], ["x"], {"x": "nchw"}
    for index in range(draw(st.integers(1, 9))):
        name = f"v{index}"
        kind = draw(st.sampled_from(["conv", "relu", "add", "pool", "there", "back", "concat", "mean", "scale"]))
        source = draw(st.sampled_from(values))
        own = kinds[source]
        same = [v for v in values if kinds[v] == own]
        other = draw(st.sampled_from(same))
        if kind == "conv" and own == "nchw":
            line = f"Conv<pads=[1,1,1,1]>({source}, w)"
        elif kind == "pool" and own == "nchw":
            line = f"MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>({source})"
        elif kind == "scale" and own == "nchw":
            line = f"Mul({source}, c)"
        elif kind == "add":
            line = f"Add({source}, {other})"
        elif kind == "there" and own == "nchw":
            line, own = f"Transpose<perm=[0,2,3,1]>({source})", "nhwc"
        elif kind == "back" and own == "nhwc":
            line, own = f"Transpose<perm=[0,3,1,2]>({source})", "nchw"
        elif kind == "concat":
            lines.append(f"j{index} = Concat<axis=2>({source}, {other})")
            line = f"Slice(j{index}, b, e, a)"
        elif kind == "mean":
            lines.append(f"m{index} = ReduceMean({source}, a)")
            line = f"Sub({source}, m{index})"
        else:
            line = f"Relu({source})"
        lines.append(f"{name} = {line}")
        values.append(name)
        kinds[name] = own
    lines.append(f"y = Reshape({values[-1]}, flat)")
    weights = ", ".join(str(i % 7 - 3) for i in range(36))
    body = "\n".join(lines)
    return f"""g (float[1,2,4,4] x) => (float[32] y) <float[2,2,3,3] w = {{{weights}}}, float[2,1,1] c = {{2, 3}},
        int64[1] b = {{0}}, int64[1] e = {{4}}, int64[1] a = {{2}}, int64[1] flat = {{-1}}> {{ {body} }}"""


@settings(max_examples=60, deadline=None)
@given(networks(), st.sampled_from(["npu", "cuda"]), st.sampled_from([LayoutGreedy, LayoutRecordThenInsert]))
def test_strategies_keep_what_a_network_computes(text, target, strategy):
    graph = typed(text)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    run_pass(with_options(strategy, {}), graph, load_profile(target), check_each=True)
    np.testing.assert_allclose(outputs(graph, inputs)["y"], expected["y"], rtol=1e-4, atol=1e-3)


@settings(max_examples=60, deadline=None)
@given(networks())
def test_greedy_inserts_nothing_without_a_demand(text):
    graph = typed(
        text.replace("Conv<pads=[1,1,1,1]>", "MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>").replace(", w)", ")")
    )
    before = count(graph)
    step = run_pass(with_options(LayoutGreedy, {}), graph, load_profile("cuda"), check_each=True)
    assert not step.rewrites
    assert count(graph) == before


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_greedy_on_convolutions_of_each_rank(rank):
    spatial = ",".join(["5"] * (rank - 2))
    ones = ",".join(["1"] * (rank - 2))
    graph = typed(
        f"""g (float[1,2,{spatial}] x) => (float[1,3,{spatial}] y) <float[3,2,{ones}] w = {{1, 2, 3, 4, 5, 6}}> {{
            a = Conv(x, w)
            y = Relu(a)
        }}"""
    )
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    run_pass(with_options(LayoutGreedy, {}), graph, load_profile("npu"), check_each=True)
    assert [n.op for n in graph.nodes] == ["Transpose", graph.nodes[1].op, "Relu", "Transpose"]
    assert graph.nodes[1].op.startswith("workbench.Conv_N")
    np.testing.assert_allclose(outputs(graph, inputs)["y"], expected["y"], rtol=1e-5)


OWN = {
    "BPA": "y = workbench.BPA<pads=[1,1,1,1], strides=[1,1]>(a, w)",
    "mirror": "y = workbench.mirror(a)",
    "rotate": "y = workbench.rotate(a)",
    "tensornorm": "y = workbench.tensornorm<epsilon=0.001>(a)",
    "unpool": "y = workbench.unpool<factor=2>(a)",
    "bilinear": "y = workbench.bilinear<size=[8,8]>(a)",
    "img2col": "y = workbench.img2col<kernel_shape=[2,2], strides=[1,1], pads=[0,0,0,0], dilations=[1,1]>(a)",
}


@pytest.mark.parametrize("line", OWN.values(), ids=OWN)
def test_the_npu_gets_nhwc_for_its_own_operators(line):
    weights = ", ".join(str(i % 5 - 2) for i in range(36))
    graph = typed(f"g (float[1,2,4,4] x) => (float y) <float[2,2,3,3] w = {{{weights}}}> {{ a = Relu(x)  {line} }}")
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    step = run_pass(with_options(LayoutGreedy, {}), graph, load_profile("npu"), check_each=True)
    assert any(n.op_type.endswith("_NHWC") and n.domain == "workbench" for n in graph.nodes), step.rewrites
    np.testing.assert_allclose(outputs(graph, inputs)["y"], expected["y"], rtol=1e-4, atol=1e-5)


def test_every_pair_of_layout_names_has_a_way():
    from workbench.layout.infer import between

    for first, second in itertools.permutations(["NCHW", "NHWC", "NWHC"], 2):
        assert permuted(first, between(first, second)) == tuple(second)
    assert between("NCHW", "NCHW") == identity(4)


# ---- what attacks found ------------------------------------------------------------------


def kept_by_strategy(text: str, target: str = "npu", strategy: type = LayoutGreedy):
    """The graph after the strategy, its outputs compared with those before."""
    graph = typed(text)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    run_pass(with_options(strategy, {}), graph, load_profile(target), check_each=True)
    for name, array in outputs(graph, inputs).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-4)
    return graph


def test_a_value_that_is_image_and_weight_of_one_convolution():
    kept_by_strategy(
        """g (float[2,2,3,3] x) => (float[2,2,1,1] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
            a = Conv(x, w)
            y = Conv(a, a)
        }"""
    )


def test_another_constant_of_the_rewritten_weights_name_is_not_taken_for_it():
    kept_by_strategy(
        """g (float[1,2,3,3] x) => (float[1,2,3,3] y)
        <float[2,2,1,1] w = {1, 2, 3, 4}, float[1,1,2,2] w_hwoi = {9, 9, 9, 9}> {
            a = Conv(x, w)
            b = ReduceSum<keepdims=0>(w_hwoi)
            y = Add(a, b)
        }"""
    )


def test_two_convolutions_share_a_rewritten_weight():
    graph = kept_by_strategy(
        """g (float[1,2,3,3] x) => (float[1,2,3,3] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
            a = Conv(x, w)
            y = Conv(a, w)
        }"""
    )
    assert list(graph.constants) == ["w_hwoi"]


def test_a_constant_that_is_joined_is_lined_up_without_a_transpose():
    graph = kept_by_strategy(
        """g (float[1,2,1,2] x) => (float[1,3,1,2] y)
        <float[2,2,1,1] w = {1, 2, 3, 4}, float[1,1,1,2] c = {5, 6}> {
            a = Conv(x, w)
            y = Concat<axis=1>(a, c)
        }"""
    )
    assert [n.op for n in graph.nodes] == ["Transpose", "workbench.Conv_NHWC_HWOI", "Concat", "Transpose"]


def test_a_reduction_of_no_axes_keeps_its_axes():
    kept_by_strategy(
        """g (float[1,2,3,4] x) => (float[1,2,3,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}, int64[0] none = {}> {
            a = Conv(x, w)
            y = ReduceSum<keepdims=0, noop_with_empty_axes=1>(a, none)
        }"""
    )


def test_a_slice_of_int32_numbers_keeps_their_type():
    graph = kept_by_strategy(
        """g (float[1,2,3,4] x) => (float[1,2,3,2] y) <float[2,2,1,1] w = {1, 2, 3, 4},
        int32[1] b = {1}, int32[1] e = {3}, int32[1] a = {3}> {
            c = Conv(x, w)
            y = Slice(c, b, e, a)
        }"""
    )
    assert graph.nodes[2].op == "Slice"
    assert graph.nodes[3].op == "Transpose"


def test_interpolation_over_three_axes_stays_channels_first():
    graph = kept_by_strategy(
        """g (float[1,2,2,2,2] x) => (float[1,2,4,4,4] y)
        <float[2,2,1,1,1] w = {1, 2, 3, 4}, float[5] s = {1, 1, 2, 2, 2}> {
            a = Conv(x, w)
            y = Resize<mode="linear">(a, , s)
        }"""
    )
    assert [n.op for n in graph.nodes][-2:] == ["Transpose", "Resize"]


@pytest.mark.parametrize(
    ("mode", "scales", "carried"),
    [
        ("nearest", (2, 2, 2, 2), True),
        ("linear", (1, 1, 2, 1.5), True),
        ("linear", (1, 2, 1, 1), True),
        ("linear", (1, 2, 2, 1), False),
        ("cubic", (1, 1, 1, 1.5), True),
        ("cubic", (1, 1, 2, 2), False),
    ],
)
def test_interpolation_goes_channels_last_where_onnx_runtime_does_it(mode, scales, carried):
    shape = ",".join(str(int(n * s)) for n, s in zip((1, 2, 4, 4), scales, strict=True))
    graph = typed(
        f"""g (float[1,2,4,4] x) => (float[{shape}] y)
        <float[2,2,1,1] w = {{1, 2, 3, 4}}, float[4] s = {{{", ".join(map(str, scales))}}}> {{
            a = Conv(x, w)
            y = Resize<mode="{mode}">(a, , s)
        }}"""
    )
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    run_pass(with_options(LayoutGreedy, {}), graph, load_profile("cuda"), check_each=True)
    last = [n.op for n in graph.nodes][-2:]
    assert last == (["Resize", "Transpose"] if carried else ["Transpose", "Resize"])
    np.testing.assert_allclose(outputs(graph, inputs)["y"], expected["y"], rtol=1e-5)


@pytest.mark.parametrize("strategy", [LayoutGreedy, LayoutRecordThenInsert])
def test_operands_that_are_each_others_transpose(strategy):
    """Each is at hand as the other: the Transpose between them has a reader still."""
    kept_by_strategy(
        """g (float[1,2,2] x) => (float[1,2,2] y) <float[2,2,1] w = {1, 2, 3, 4}> {
            a = Relu(x)
            t = Transpose<perm=[0,2,1]>(a)
            d = Sub(t, a)
            y = Conv(d, w)
        }""",
        strategy=strategy,
    )


def test_an_operator_that_reads_channels_first_and_gives_channels_last():
    """What it gives has the target's layout already, and needs no pair of transposes."""
    kept_by_strategy(
        """g (float[1,2,4,4] x) => (float[1,1,2,4,4] y) <int64[1] last = {4}> {
            p = MaxPool<kernel_shape=[1,1]>(x)
            u = Unsqueeze(p, last)
            t = Transpose<perm=[0,4,1,2,3]>(u)
            y = MaxPool<kernel_shape=[1,1,1]>(t)
        }""",
        strategy=LayoutRecordThenInsert,
    )
