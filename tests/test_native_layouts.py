"""Channels-last convolutions as a file has them: back to channels first, weights re-stored, pairs of layouts."""

import numpy as np
import onnx
import pytest

import workbench as wb
from passes import compared_strategies
from passes.layout.layout_convert_layout import LayoutConvertLayout
from tests.running import outputs, random_inputs, typed
from workbench.formats.io.samples import FOLDER
from workbench.ir import Graph
from workbench.planning.layout.problem.operator_benchmark import GivenTimes
from workbench.planning.layout.profile import Profile, ProfileError, load_profile
from workbench.rewrite import PassContext, run_pass, with_options

SAMPLE = FOLDER / "tvm_two_convs_nhwc.onnx"
TIMES = GivenTimes(
    {"Transpose": 1, "Relu": 1, "Conv": 10, "MaxPool": 10, "workbench.MaxPool_NHWC": 10}
    | dict.fromkeys((f"workbench.Conv_NHWC{order}" for order in ("", "_HWIO", "_HWOI", "_OHWI")), 100)
)
NATIVE = """g (float[1,4,4,2] x) => (float[1,4,4,2] y) <float[1,1,2,2] w = {1, 2, 3, 4}> {
    a = workbench.Conv_NHWC_HWIO(x, w)
    b = Relu(a)
    p = workbench.MaxPool_NHWC<kernel_shape=[1,1]>(b)
    c = workbench.Conv_NHWC_HWIO(p, w)
    y = Relu(c)
}"""


def laid_out(text: str, strategy, target: Profile, **options) -> Graph:
    graph = typed(text)
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)["y"]
    run_pass(with_options(strategy, options), graph, PassContext(target, TIMES), check_each=True)
    np.testing.assert_allclose(outputs(graph, inputs)["y"], expected, rtol=1e-5)
    return graph


@pytest.mark.parametrize("strategy", compared_strategies())
def test_native_channels_last_operators_come_back_to_nchw(strategy):
    graph = laid_out(NATIVE, compared_strategies()[strategy], load_profile("nchw"))
    ops = [node.op for node in graph.nodes]
    assert sorted(ops) == ["Conv", "Conv", "MaxPool", "Relu", "Relu", "Transpose", "Transpose"]
    assert ops[0] == "Transpose"
    assert [graph.constant(node.inputs[1]).shape for node in graph.nodes if node.op == "Conv"] == [(2, 2, 1, 1)] * 2


@pytest.mark.parametrize("strategy", [name for name in compared_strategies() if name != "measured"])
def test_a_target_that_wants_them_channels_last_only_stores_the_weights_anew(strategy):
    graph = laid_out(NATIVE, compared_strategies()[strategy], load_profile("npu"))
    assert [node.op_type for node in graph.nodes if "Conv" in node.op] == ["Conv_NHWC_HWOI"] * 2
    assert not any(node.op == "Transpose" for node in graph.nodes)


def test_our_own_export_comes_back(tmp_path):
    first = wb.load(FOLDER / "conv_relu_conv_relu.onnx")
    last = wb.optimize(first, layout="greedy", target="cuda").graph
    wb.export(last, tmp_path / "last.onnx")
    back = wb.optimize(wb.load(tmp_path / "last.onnx"), layout="convert-layout", target="nchw").graph
    assert [node.op for node in back.nodes] == ["Conv", "Relu", "Conv", "Relu"]
    assert wb.verify(first, back).ok


def test_the_sample_stores_hwio_and_its_functions_go_when_nothing_calls_them(tmp_path):
    graph = wb.load(SAMPLE)
    assert [graph.constant(f"weight{n}").shape for n in (1, 2)] == [(3, 3, 64, 32), (3, 3, 32, 32)]
    assert [function.name for function in onnx.load(SAMPLE).functions] == ["Conv_NHWC_HWIO"]
    history = wb.optimize(graph, ["layout_convert_layout"], target="nchw")
    assert [node.op for node in history.graph.nodes] == ["Transpose", "Conv", "Relu", "Conv", "Relu", "Transpose"]
    wb.export(history.graph, tmp_path / "first.onnx")
    assert not onnx.load(tmp_path / "first.onnx").functions


# ---- desired layouts as a pair [data, kernel] ------------------------------------------------

FIRST = """g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}> {
    a = Conv(x, w)  b = Relu(a)  y = MaxPool<kernel_shape=[1,1]>(b)
}"""


@pytest.mark.parametrize(
    ("operators", "convolution"),
    [
        ("Conv=NHWC,HWIO", "Conv_NHWC_HWIO"),
        ("Conv=NHWC,default", "Conv_NHWC_HWIO"),
        ("Conv=NHWC,OIHW", "Conv_NHWC"),
        ("Conv=NHWC", "Conv_NHWC_HWOI"),
        ("Conv=NCHW,default", "Conv"),
        ("Conv=NCHW,OIHW MaxPool=NHWC,default", "Conv"),
    ],
)
def test_a_desired_layout_is_a_pair_of_data_and_kernel(operators, convolution):
    graph = laid_out(FIRST, LayoutConvertLayout, load_profile("npu"), operators=operators)
    assert next(node.op_type for node in graph.nodes if "Conv" in node.op) == convolution
    pool = "MaxPool_NHWC" if "NHWC" in operators else "MaxPool"
    assert next(node.op_type for node in graph.nodes if "Pool" in node.op) == pool


@pytest.mark.parametrize(
    ("operators", "words"),
    [
        ("Conv=default", "the data of Conv cannot be default, only its kernel can; name a layout"),
        ("Conv=NCHW,HWIO", "a kernel for NCHW is OIHW, as in ONNX, not HWIO; write default"),
        ("Conv=NHWC,OIWH", "the kernel of Conv must be one of OIHW, OHWI, HWIO, HWOI, default, not 'OIWH'"),
        ("MaxPool=NHWC,HWIO", "only Conv has kernels in another order, not MaxPool; write default for it"),
        ("Conv=NHWC,HWIO,x", 'the layout of Conv is one name, or a pair such as ["NHWC", "HWIO"]; change it'),
    ],
)
def test_a_pair_that_cannot_be_is_one_sentence(operators, words):
    with pytest.raises(ProfileError) as caught:
        with_options(LayoutConvertLayout, {"operators": operators}).aim(load_profile("npu"))
    assert str(caught.value).startswith("option layout_convert_layout.operators") and words in str(caught.value)


def test_a_profile_says_pairs_and_comes_back_as_it_was(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'title = "mine"\nlayout = "NHWC"\nweights = "OIHW"\n'
        '[demands]\nConv = ["NHWC", "default"]\nMaxPool = ["NCHW", "default"]\nConcat = "NHWC"\n'
    )
    profile = load_profile(str(file))
    assert profile.required_layouts == {"Conv": "NHWC", "MaxPool": "NCHW", "Concat": "NHWC"}
    assert profile.kernels == {"Conv": "HWIO"} and profile.weights_for("Conv") == "HWIO"
    file.write_text(profile.toml())
    again = load_profile(str(file))
    assert (again.required_layouts, again.kernels) == (profile.required_layouts, profile.kernels)
    graph = laid_out(FIRST, compared_strategies()["greedy"], profile)
    assert graph.nodes[1].op_type == "Conv_NHWC_HWIO"
