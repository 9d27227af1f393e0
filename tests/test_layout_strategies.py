"""The layout strategies: random networks, and what attacks on them found."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import passes as library
from passes.layout.layout_greedy import LayoutGreedy
from passes.layout.layout_optimal import LayoutOptimal
from passes.layout.layout_record_then_insert import LayoutRecordThenInsert
from tests.running import outputs, random_inputs, typed
from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.ir.permutation import identity, permuted
from workbench.planning.layout.problem.operator_benchmark import GivenTimes
from workbench.planning.layout.profile import load_profile, profile_names
from workbench.rewrite import PassContext, run_pass, with_options

STRATEGIES = tuple(library.compared_strategies().values())
TARGETS = profile_names()


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


def context_of(name):
    """The profile, with times at which converting pays."""
    times = {"Transpose": 1, "Conv": 100, "workbench.Conv_NHWC": 10, "workbench.Conv_NHWC_HWOI": 10}
    return PassContext(load_profile(name), GivenTimes(times))


@settings(max_examples=60, deadline=None)
@given(networks(), st.sampled_from(TARGETS), st.sampled_from(STRATEGIES))
def test_strategies_keep_what_a_network_computes(text, target, strategy):
    graph = typed(text)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    run_pass(with_options(strategy, {}), graph, context_of(target), check_each=True)
    np.testing.assert_allclose(outputs(graph, inputs)["y"], expected["y"], rtol=1e-4, atol=1e-3)


@settings(max_examples=100, deadline=None)
@given(networks(), st.sampled_from(TARGETS))
def test_the_minimum_is_certified_and_greedy_is_never_below_it(text, target):
    graph = typed(text)
    other = graph.copy()
    step = run_pass(with_options(LayoutOptimal, {}), graph, PassContext(load_profile(target)), check_each=True)
    run_pass(with_options(LayoutGreedy, {}), other, PassContext(load_profile(target)))
    least = step.facts.lower_bound
    assert step.facts.certified is (least is not None)
    if least is not None:
        assert count_transposes(graph).bytes_moved == least <= count_transposes(other).bytes_moved


@settings(max_examples=60, deadline=None)
@given(networks())
def test_the_minimum_is_never_more_than_there_was_without_a_demand(text):
    graph = typed(
        text.replace("Conv<pads=[1,1,1,1]>", "MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>").replace(", w)", ")")
    )
    before = count_transposes(graph)
    run_pass(with_options(LayoutOptimal, {}), graph, PassContext(load_profile("cuda")), check_each=True)
    assert count_transposes(graph).bytes_moved <= before.bytes_moved


@settings(max_examples=60, deadline=None)
@given(networks())
def test_greedy_inserts_nothing_without_a_demand(text):
    graph = typed(
        text.replace("Conv<pads=[1,1,1,1]>", "MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>").replace(", w)", ")")
    )
    before = count_transposes(graph)
    step = run_pass(with_options(LayoutGreedy, {}), graph, PassContext(load_profile("cuda")), check_each=True)
    assert all(rewrite.case == "tidied" or "is unused" in rewrite.sentence for rewrite in step.rewrites)
    after = count_transposes(graph)
    assert after.transposes <= before.transposes and after.bytes_moved <= before.bytes_moved


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
    run_pass(with_options(LayoutGreedy, {}), graph, PassContext(load_profile("npu")), check_each=True)
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
    step = run_pass(with_options(LayoutGreedy, {}), graph, PassContext(load_profile("npu")), check_each=True)
    assert any("_NHWC" in n.op_type and n.domain == "workbench" for n in graph.nodes), step.rewrites
    np.testing.assert_allclose(outputs(graph, inputs)["y"], expected["y"], rtol=1e-4, atol=1e-5)


def test_every_pair_of_layout_names_has_a_way():
    from workbench.planning.layout.infer import perm_between

    for first, second in itertools.permutations(["NCHW", "NHWC", "NWHC"], 2):
        assert permuted(first, perm_between(first, second)) == tuple(second)
    assert perm_between("NCHW", "NCHW") == identity(4)


# ---- what attacks found ------------------------------------------------------------------


def kept_by_strategy(text: str, target: str = "npu", strategy: type = LayoutGreedy):
    """The graph after the strategy, its outputs compared with those before."""
    graph = typed(text)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    run_pass(with_options(strategy, {}), graph, context_of(target), check_each=True)
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
    run_pass(with_options(LayoutGreedy, {}), graph, PassContext(load_profile("cuda")), check_each=True)
    last = [n.op for n in graph.nodes][-2:]
    assert last == (["Resize", "Transpose"] if carried else ["Transpose", "Resize"])
    np.testing.assert_allclose(outputs(graph, inputs)["y"], expected["y"], rtol=1e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
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


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_operand_that_only_gives_its_type_has_no_layout(strategy):
    graph = kept_by_strategy(
        """g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}, float one = {1}> {
            a = Conv(x, w)
            b = CastLike(one, a)
            y = Add(a, b)
        }""",
        "cuda",
        strategy,
    )
    assert "CastLike" in [n.op for n in graph.nodes]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda cls: cls.name)
@pytest.mark.parametrize("shape", ["2,1,0,0", "1,1,1,0", "2,1,2,0"])
def test_an_empty_value_is_transposed_and_not_reshaped(strategy, shape):
    """A Reshape takes a dim of 0 for "as it was", and axes of size 1 that change their place make it another."""
    graph = typed(f"g (float[{shape}] x) => (float[a,b,c,d] y) {{ u = Relu(x)  y = Transpose<perm=[0,2,3,1]>(u) }}")
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    timed = PassContext(load_profile("cuda"), GivenTimes({"Transpose": 1}))
    run_pass(strategy(), graph, timed, check_each=True)
    assert outputs(graph, inputs)["y"].shape == expected["y"].shape


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_operator_of_which_onnx_infers_nothing(strategy):
    graph = kept_by_strategy(
        """g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2] c = {1, 2}, float[2,2,1,1] w = {1, 2, 3, 4}> {
            a = GroupNormalization<num_groups=2>(x, c, c)
            b = Relu(a)
            y = Conv(b, w)
        }""",
        "cuda",
        strategy,
    )
    assert graph.shape("a") in ((1, 2, 4, 4), None)
