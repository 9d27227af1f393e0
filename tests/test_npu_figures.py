"""The figures of LayoutPresetToNPU, box by box: types, colours and cases; and its operators in files."""

import numpy as np
import onnx
import pytest
from onnx import parser

from passes.layout.layout_greedy import LayoutGreedy
from passes.layout.layout_record_then_insert import LayoutRecordThenInsert
from passes.layout.layout_wrong_on_purpose import LayoutWrongOnPurpose
from tests.running import outputs, random_inputs, typed
from tests.viewing import history_of, sample_history
from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.errors import UserError
from workbench.interfaces.api import load, verify
from workbench.ir import Graph
from workbench.planning.layout.declared import declared_layouts, parse_layouts
from workbench.planning.layout.infer import case_of, declare, infer_layouts
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.node_style import OWN, PLAIN, TARGET
from workbench.presentation.view.timeline import timeline_of
from workbench.rewrite import PassContext, run_pass

NPU = load_profile("npu")
COLOURS = {OWN: "palegoldenrod", TARGET: "peachpuff", PLAIN: "lightgrey"}
# input2 comes as HWOI, which ONNX's Conv reads through a Transpose; it goes with the first rewrite
FIGURE = """g (float[1,2,4,4] input1, float[3,3,3,2] input2, float[1,3,4,4] input3) => (float[48] output)
    <int64[1] flat = {-1}> {
    oihw = Transpose<perm=[2,3,0,1]>(input2)
    conv2d = Conv<pads=[1,1,1,1]>(input1, oihw)
    reshape1 = Reshape(conv2d, flat)
    reshape2 = Reshape(input3, flat)
    output = Add(reshape1, reshape2)
}"""
BEFORE = {
    **dict.fromkeys(("input1", "input2", "input3", "conv2d"), "palegoldenrod"),
    **dict.fromkeys(("reshape1", "reshape2", "add", "output"), "lightgrey"),
}
LABELS = {"input1": "NCHW", "input2": "HWOI", "input3": "NCHW"}


def declared() -> Graph:
    graph = typed(FIGURE)
    declare(graph, {"input2": "HWOI", "input3": "NCHW"})
    return graph


def boxes(history) -> dict[str, tuple[str, str]]:
    """Colour and words of every box at the end, by the figure's name of it."""
    timeline = timeline_of(history, NPU)
    found = {key.partition(":")[2]: spans[-1][2] for key, spans in timeline.styles_of_values.items()}
    for versions in timeline.versions.values():
        if versions[-1].dies > timeline.last:
            node = versions[-1].node
            found[_box_of(node)] = versions[-1].style
    return {name: (COLOURS[look.layout], look.detail) for name, look in found.items()}


def _box_of(node) -> str:
    if node.op == "Transpose":
        return {"input1": "trans", "input2": "oihw"}.get(node.inputs[0], "trans1")
    return {"Add": "add"}.get(node.op, "conv2d" if "Conv" in node.op else node.outputs[0])


@pytest.mark.parametrize(
    ("passes", "more"),
    [
        ([], {"oihw": "palegoldenrod"}),
        (["layout_wrong_on_purpose"], {"conv2d": "peachpuff", "trans": "peachpuff"}),
        (["layout_greedy"], {"conv2d": "peachpuff", "trans": "peachpuff", "trans1": "palegoldenrod"}),
    ],
    ids=["as given", "wrong", "right"],
)
def test_the_reshape_figures_box_by_box(passes, more):
    found = boxes(history_of(declared(), passes, "npu"))
    assert {name: colour for name, (colour, _) in found.items()} == BEFORE | more
    assert {name: words.rpartition(" ")[2] for name, (_, words) in found.items() if name in LABELS} == LABELS


def test_the_figures_cases_and_edges():
    graph = declared()
    layouts = infer_layouts(graph)
    assert {v: layouts[v] for v in ("input1", "input2", "input3", "conv2d", "reshape1")} == {
        **LABELS,
        "conv2d": "NCHW",
        "reshape1": "Tensor",
    }
    cases = {_box_of(node): case_of(node, layouts)[:6] for node in graph.nodes if node.op != "Transpose"}
    assert cases == {"conv2d": "case 1", "reshape1": "case 2", "reshape2": "case 2", "add": "case 4"}
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)["output"]
    run_pass(LayoutGreedy(), graph, PassContext(NPU), check_each=True)
    assert [node.op for node in graph.nodes if "Conv" in node.op] == ["workbench.Conv_NHWC_HWOI"]
    assert next(node for node in graph.nodes if "Conv" in node.op).inputs[1] == "input2"
    assert count_transposes(graph).transposes == 2
    np.testing.assert_allclose(outputs(graph, inputs)["output"], expected, rtol=1e-4, atol=1e-4)
    wrong = declared()
    run_pass(LayoutWrongOnPurpose(), wrong, PassContext(NPU))
    assert count_transposes(wrong).transposes == 1
    assert not np.allclose(outputs(wrong, inputs)["output"], expected)


def test_the_first_figure_of_types():
    """Its arrows: CNN in the hardware's layout to Tensor, Tensor to CNN in the model's own."""
    timeline = timeline_of(sample_history("npu_types", "layout_greedy", target="npu"), NPU)
    ends = {name: v[-1].style.layout for name, v in timeline.versions.items() if v[-1].dies > timeline.last}
    assert {name: COLOURS[ends[name]] for name in ("cnn", "tensor", "cnn_again")} == {
        "cnn": "peachpuff",
        "tensor": "lightgrey",
        "cnn_again": "palegoldenrod",
    }


def test_the_path_figure():
    """Its second transpose is drawn peachpuff there, and palegoldenrod in the figure of the Reshape: what it gives."""
    timeline = timeline_of(sample_history("npu_path", "layout_record_then_insert", target="npu"), NPU)
    colours = [COLOURS[v[-1].style.layout] for v in timeline.versions.values() if v[-1].dies > timeline.last]
    ends = [COLOURS[spans[-1][2].layout] for spans in timeline.styles_of_values.values()]
    assert sorted(colours) == ["palegoldenrod", "peachpuff", "peachpuff"] and set(ends) == {"palegoldenrod"}


def test_the_third_fault_is_told_where_it_happens():
    graph = declared()
    step = run_pass(LayoutRecordThenInsert(), graph, PassContext(NPU))
    told = [rewrite.sentence for rewrite in step.rewrites if "third fault" in rewrite.sentence]
    assert [words.partition("'")[2].partition("'")[0] for words in told] == ["Reshape_reshape1", "Reshape_reshape2"]
    assert all(words.endswith("(its third fault); transposed back, 48 elements") for words in told)


# ---- declared layouts ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layouts", "words"),
    [
        ({"z": "NHWC"}, "the model has no input 'z'; it has input1, input2, input3"),
        ({"input3": "NWC"}, "cannot be NWC; it can be NCHW, NHWC, OIHW, OHWI, HWIO, HWOI"),
        ({"input1": "NHWC"}, "input 'input1' is NCHW, as the operators that read it say; it cannot be NHWC"),
    ],
)
def test_a_layout_that_cannot_be_declared_is_one_sentence(layouts, words):
    graph = typed(FIGURE)
    with pytest.raises(UserError) as caught:
        declare(graph, {"input3": "NHWC", **layouts})
    assert words in str(caught.value) and not declared_layouts(graph)


def test_a_declared_layout_stands_in_the_file_and_can_be_taken_back(tmp_path):
    import workbench as wb

    graph = declared()
    wb.export(graph, tmp_path / "declared.onnx")
    again = load(tmp_path / "declared.onnx")
    assert declared_layouts(again) == {"input2": "HWOI", "input3": "NCHW"}
    declare(again, {"input3": "Tensor"})
    assert infer_layouts(again)["input3"] == "Tensor"


def test_words_of_the_command_line():
    assert parse_layouts(["x=NHWC", "a=b=HWOI"]) == {"x": "NHWC", "a=b": "HWOI"}
    for words, sentence in ((["x"], "such as x=NHWC, not 'x'"), (["x=NHWC", "x=NCHW"], "is given twice")):
        with pytest.raises(UserError, match=sentence):
            parse_layouts(words)


# ---- its operators in files --------------------------------------------------------------------


@pytest.mark.parametrize("declares", [True, False])
def test_the_npus_conversions_open_and_count_as_transposes(tmp_path, declares):
    body = """
        <domain: "workbench", opset_import: ["": 17]> nchw2nhwc (x) => (y) { y = Transpose<perm = [0, 2, 3, 1]>(x) }
        <domain: "workbench", opset_import: ["": 17]> nhwc2nchw (x) => (y) { y = Transpose<perm = [0, 3, 1, 2]>(x) }
    """
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17, "workbench": 1]>
        g (float[1,2,3,4] x) => (float[1,2,3,4] y) {{
            a = workbench.nchw2nhwc(x)  b = Relu(a)  y = workbench.nhwc2nchw(b)
        }} {body if declares else ""}""")
    onnx.save(model, tmp_path / "npu.onnx")
    graph = load(tmp_path / "npu.onnx")
    assert [node.op for node in graph.nodes] == ["Transpose", "Relu", "Transpose"] and not graph.warnings
    assert (count_transposes(graph).transposes, count_transposes(graph).elements_moved) == (2, 48)
    assert graph.shape("a") == (1, 3, 4, 2)
    if declares:
        assert verify(graph, graph).ok


OWN_GRADIENTS = {
    "BPA": (
        "g (float[1,3,4,4] dy, float[3,2,3,3] w) => (float[1,2,4,4] y) { y = workbench.BPA"
        "<group=1, dilations=[1,1], output_padding=[0,0], pads=[1,1,1,1], strides=[1,1]>(dy, w) }",
        ["Transpose", "Transpose", "BPA_NHWC_HWOI", "Transpose"],
    ),
    "BPW": (
        "g (float[1,2,4,4] x, float[1,3,4,4] dy) => (float[3,2,3,3] y) { y = workbench.BPW"
        "<dilations=[1,1], kernel_shape=[3,3], pads=[1,1,1,1], strides=[1,1]>(x, dy) }",
        ["Transpose", "Transpose", "BPW_NHWC_HWOI", "Transpose"],
    ),
}


@pytest.mark.parametrize("op", OWN_GRADIENTS)
def test_the_gradients_of_a_convolution_read_and_give_hwoi(op):
    text, expected = OWN_GRADIENTS[op]
    graph = typed(text)
    inputs = random_inputs(graph)
    before = outputs(graph, inputs)["y"]
    run_pass(LayoutGreedy(), graph, PassContext(NPU), check_each=True)
    assert [node.op_type for node in graph.nodes] == expected
    gradient = graph.nodes[2]
    layouts = infer_layouts(graph)
    assert layouts[gradient.inputs[1] if op == "BPA" else gradient.outputs[0]] == "HWOI"
    np.testing.assert_allclose(outputs(graph, inputs)["y"], before, rtol=1e-4, atol=1e-4)
    back = load_profile("nchw")
    run_pass(LayoutGreedy(), graph, PassContext(back), check_each=True)


@pytest.mark.parametrize("op", ["ConvTranspose", "Resize", "MaxUnpool", "ConvInteger", "QLinearConv"])
def test_the_list_meets_onnxs_own_operators(op):
    assert NPU.required_layouts[op] == "NHWC"
