"""Blocked channels: graphs of one idea each, what profiles say of blocks, models."""

import math
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import parser

import passes
from passes.layout.layout_blocked import LayoutBlocked
from sample_models.light import random_light
from sample_models.variants import mixed_layouts
from tests.blocking import BLOCKED, assert_same, least, operators
from tests.conftest import ROOT
from tests.running import outputs, random_inputs, typed
from workbench.formats.io import load_model
from workbench.interfaces.api import optimize
from workbench.ir import Graph
from workbench.ops import NotPermutable
from workbench.ops.blocked import BLOCKS
from workbench.ops.permuted_blocks import blocked_form
from workbench.planning.layout.classes import class_of
from workbench.planning.layout.infer import infer_layouts, is_cnn
from workbench.planning.layout.profile import ProfileError, check_profile, load_profile
from workbench.presentation.view.node_style import OWN, TARGET, box_kind_of
from workbench.rewrite import PassContext, run_pass

# ---- graphs of one idea each --------------------------------------------------------------

CHAIN = """g (float[{n},8,8,8] x, float[16,8,3,3] w, float[16,16,1,1] v) => (float[{n},16,4,4] y) {{
    a = Conv<pads=[1,1,1,1]>(x, w)
    b = Relu(a)
    c = Conv(b, v)
    d = Add(c, b)
    y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(d)
}}"""


@pytest.mark.parametrize("weigh", ["bytes", "count"])
@pytest.mark.parametrize(("batch", "block"), [(2, "8"), ("N", "8"), (2, "16"), ("N", "auto")])
def test_a_chain_has_one_conversion_at_each_end(batch, block, weigh):
    graph = typed(CHAIN.format(n=batch))
    graph.dims = {"N": 2}
    step = least(graph, block=block, weigh=weigh)
    c = 16 if block == "16" else 8
    convolution = "Conv_NCHW_NCHW16c" if c == 16 else "Conv_NCHW8c"
    body = [convolution, "Relu", f"Conv_NCHW{c}c", "Add", f"MaxPool_NCHW{c}c"]
    start = [] if c == 16 else ["Reshape", "Transpose"]
    assert operators(graph) == [*start, *body, "Transpose", "Reshape"]
    moved = (0 if c == 16 else 2 * 8 * 64 * 4) + 2 * 16 * 16 * 4
    assert step.facts.certified and step.facts.gap == 0
    assert step.facts.lower_bound == (moved if weigh == "bytes" else step.after["transposes"])
    assert step.after["bytes_moved"] == moved
    again = run_pass(LayoutBlocked(block=block, weigh=weigh), graph, PassContext(BLOCKED))
    assert not again.rewrites and again.facts.certified


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_of_every_size_compute_the_same_through_a_file(block, done, tmp_path):
    """A first convolution of 3 channels reads NCHW; ONNX Runtime runs the written file, and `check` its certificate."""
    path, out, evidence = (tmp_path / name for name in ("in.onnx", "out.onnx", "c.json"))
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[2,3,8,8] x, float[32,3,3,3] w, float[32,32,1,1] v)
        => (float[2,32,4,4] y) { a = Conv<pads=[1,1,1,1]>(x, w)  b = Relu(a)  c = Conv(b, v)  d = Add(c, b)
        y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(d) }"""
    onnx.save(parser.parse_model(text), path)
    words = ("--layout", "blocked", "--target", "blocked", "--option", f"layout_blocked.block={block}")
    said = done("optimize", path, "-o", out, "--preset", "none", *words, "--certificate", evidence)
    assert f"no choice among NCHW, NHWC and NCHW{block}c" in said and "the end: Equal" in said
    graph = load_model(out)
    assert {node.op_type for node in graph.nodes} >= {f"Conv_NCHW_NCHW{block}c", f"MaxPool_NCHW{block}c"}
    assert infer_layouts(graph)[graph.nodes[0].outputs[0]] == f"NCHW{block}c"
    done("check", path, out, evidence, "--require", "log,bounds")


def test_height_and_width_may_be_symbolic():
    """The shapes behind the channels are read from the image itself."""
    graph = typed("""g (float[N,8,H,W] x, float[16,8,1,1] w) => (float[N,16,H,W] y, float[N,16,H,W] z) {
        a = Relu(x)
        b = Conv(a, w)
        y = Sigmoid(b)
        z = Tanh(b)
    }""")
    step = least(graph, weigh="count")
    assert step.facts.certified and step.after["transposes"] == 2
    assert operators(graph).count("Reshape") == operators(graph).count("Shape") == 2
    for shape in ((3, 8, 5, 4), (1, 8, 1, 7)):
        inputs = {"x": np.ones(shape, np.float32), "w": np.ones((16, 8, 1, 1), np.float32)}
        assert outputs(graph, inputs)["y"].shape == (shape[0], 16, *shape[2:])


def test_an_unknown_size_leaves_no_bound():
    graph = typed("g (float[N,8,H,W] x, float[8,8,1,1] w) => (float[N,8,H,W] y) { y = Conv(x, w) }")
    assert least(graph).facts.lower_bound is None


def test_channels_that_the_block_does_not_divide():
    graph = typed("""g (float[1,3,6,6] x, float[8,3,1,1] w, float[12,8,1,1] v, float[12,1,1,1] u) => (float[1,12,3,3] y) {
        a = Conv(x, w)
        b = Conv(a, v)
        c = Conv<group=12>(b, u)
        y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(c)
    }""")
    step = least(graph)
    said = [rewrite.sentence for rewrite in step.rewrites]
    assert said[0] == (
        "case 1, CNN to CNN: Conv 'Conv_a' must run in NCHW8c on this target; "
        "'x' has 3 channels, which 8 does not divide, and is read in NCHW; nothing moved"
    )
    assert said[1:] == [
        "Conv 'Conv_b' must run in NCHW8c on this target but does not: 'b' has 12 channels, which 8 does not divide",
        "Conv 'Conv_c' must run in NCHW8c on this target but does not: 'b' has 12 channels, which 8 does not divide",
        "MaxPool 'MaxPool_y' must run in NCHW8c on this target but does not: 'c' has 12 channels, which 8 does not divide",
    ]
    assert operators(graph) == ["Conv_NCHW_NCHW8c", "Transpose", "Reshape", "Conv", "Conv", "MaxPool"]
    assert not run_pass(LayoutBlocked(), graph, PassContext(BLOCKED)).rewrites  # the sentences stand once


REFUSED = {
    "y = Conv<group=2>(x, w)": (
        "float[16,12,1,1] w",
        24,
        "has groups that do not consist of whole blocks of 8 channels",
    ),
    "y, i = MaxPool<kernel_shape=[1,1]>(x)": (
        "int64[1] w",
        8,
        "the blocked form of MaxPool 'MaxPool_y' has one result, not 2",
    ),
    "y = LRN<size=3>(x)": ("int64[1] w", 8, "has no form in NCHW8c"),
    "y = Add(x, w)": (
        "float[8,4,4] w",
        8,
        "operand 'w' of rank 3 is broadcast, and would have to be split into blocks",
    ),
    "y = Mul(x, w)": ("float[1,2,4,4] w", 2, "'x' has 2 channels, which 8 does not divide"),
    "y = Concat<axis=1>(x, w)": ("float[1,12,4,4] w", 8, "'w' has 12 channels, which 8 does not divide"),
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_has_no_blocked_form(line):
    second, channels, sentence = REFUSED[line]
    graph = typed(f"g (float[1,{channels},4,4] x, {second}) => (y) {{ {line} }}")
    with pytest.raises(NotPermutable, match=sentence):
        blocked_form(graph, graph.nodes[0], "NCHW", 8)
    assert least(graph).after["transposes"] == 0


def test_an_older_opset_is_left_alone():
    graph = typed("g (float[1,8,4,4] x, float[8,8,1,1] w) => (float[1,8,4,4] y) { y = Conv(x, w) }")
    graph.opset_imports[""] = 14
    step = run_pass(LayoutBlocked(), graph, PassContext(BLOCKED))
    assert operators(graph) == ["Conv"] and "an opset before 15" in step.rewrites[0].sentence


def test_constants_are_lined_up():
    """By channel, by place, of both, of none; a slope; a whole image in Concat along each axis."""
    numbers = np.random.default_rng(0)
    shapes = {
        "c": (16, 1, 1),
        "p": (2, 3),
        "cp": (1, 16, 2, 3),
        "one": (1, 1, 1, 1),
        "n": (2, 1, 1, 1),
        "part": (2, 8, 2, 3),
    }
    text = "g (float[2,16,2,3] x) => (float[2,24,2,3] y) <{}> {{ {} }}"
    initial = ", ".join(
        f"float{list(shape)} {name} = {{{', '.join(f'{v:.3f}' for v in numbers.random(math.prod(shape)))}}}"
        for name, shape in shapes.items()
    )
    lines = [
        "v0 = AveragePool<kernel_shape=[1,1]>(x)",
        *(f"v{i} = Mul(v{i - 1}, {n})" for i, n in enumerate(shapes, 1) if n != "part"),
    ]
    lines += [
        "q = PRelu(v5, c)",
        "k = Clip(q, one0)",
        "j = Concat<axis=1>(k, part)",
        "y = MaxPool<kernel_shape=[1,1]>(j)",
    ]
    graph = typed(text.format(initial + ", float one0 = {-1}", "\n".join(lines)))
    step = least(graph)
    assert step.facts.certified and step.after["transposes"] == 2
    assert operators(graph)[2:-2] == ["AveragePool_NCHW8c", *["Mul"] * 5, "PRelu", "Clip", "Concat", "MaxPool_NCHW8c"]


def test_a_gate_of_one_element_a_channel_costs_nothing():
    """Squeeze and excitation: the image of one element is a Reshape away from NCHW."""
    graph = typed("""g (float[N,8,6,6] x, float[8,8,3,3] w) => (float[N,8,6,6] y) <int64[4] s = {0, 8, 1, 1}, int64[2] f = {0, 8}> {
        a = Conv<pads=[1,1,1,1]>(x, w)
        b = GlobalAveragePool(a)
        c = Reshape(b, f)
        d = Softmax(c)
        e = Reshape(d, s)
        y = Mul(a, e)
    }""")
    graph.dims = {"N": 2}
    step = least(graph)
    assert step.facts.certified and step.after["transposes"] == 2
    assert step.after["bytes_moved"] == step.facts.lower_bound == 2 * 2 * 8 * 36 * 4


def test_each_layout_is_reached_from_what_the_operator_gives():
    """A blocked value that is read channels last: one Transpose, not one to NCHW and one further."""
    graph = typed("""g (float[1,8,4,6] x, float[16,8,1,1] w) => (float[1,4,6,16] y, float[1,4,6,16] z) {
        a = Conv(x, w)
        y = Transpose<perm=[0,2,3,1]>(a)
        b = Relu(a)
        z = Transpose<perm=[0,2,3,1]>(b)
    }""")
    step = least(graph)
    assert step.facts.certified and step.after["transposes"] == 2
    assert operators(graph).count("Reshape") == 2


def test_what_a_body_reads_stays_as_it_is():
    graph = typed("""g (float[1,8,2,2] x, float[8,8,1,1] w, bool go) => (float[1,8,2,2] y) {
        a = Conv(x, w)
        y = If (go) <
            then_branch = yes () => (float[1,8,2,2] u) { u = Relu(a) },
            else_branch = no () => (float[1,8,2,2] v) { v = Neg(a) }>
    }""")
    assert least(graph).facts.certified


# ---- profiles, types, pictures ---------------------------------------------------------------


def test_the_profile_and_its_faults():
    assert BLOCKED.block == 8 and load_profile("cuda").block is None
    assert BLOCKED.layout_for(4, "Conv") == "NCHW" and BLOCKED.layout_for(5) == "NCDHW"
    check_profile(replace(BLOCKED, required_layouts={"Conv": "NCHW8c", "Relu": "NCHW8c", "MaxPool": "NHWC"}), "profile")
    with pytest.raises(ProfileError, match="demands NCHW8c of 'LRN', which has no blocked form; demand NCHW or NHWC"):
        check_profile(replace(BLOCKED, required_layouts={"LRN": "NCHW8c"}), "profile 'x'")
    with pytest.raises(ProfileError, match="names NCHW16c and NCHW8c; a profile has blocks of one size"):
        check_profile(replace(BLOCKED, required_layouts={"Conv": "NCHW16c"}), "profile 'x'")


@pytest.mark.parametrize("strategy", sorted(set(passes.compared_strategies()) - {"measured"}))
def test_other_strategies_take_blocks_for_nchw(strategy):
    graph = typed(CHAIN.format(n=2))
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    result = optimize(graph, [], layout=strategy, target="blocked").graph
    assert_same(result, inputs, expected)
    assert ("Conv_NCHW8c" in operators(result)) == (strategy == "blocked")


@pytest.mark.parametrize("strategy", sorted(set(passes.compared_strategies()) - {"measured"}))
@pytest.mark.parametrize("target", ["cuda", "blocked"])
def test_any_strategy_after_blocks(strategy, target):
    graph = typed(CHAIN.format(n=2))
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    least(graph)
    result = optimize(graph, [], layout=strategy, target=target).graph
    assert_same(result, inputs, expected)


def test_types_classes_and_colours():
    graph = typed(CHAIN.format(n=2))
    least(graph)
    layouts = infer_layouts(graph)
    cut = {value for value, layout in layouts.items() if layout == "NCHW8c"}
    assert cut == {"x_nchw8c", "a_nchw8c", "b_nchw8c", "c_nchw8c", "d_nchw8c", "y_nchw8c"}
    assert layouts["x"] == layouts["y"] == "NCHW" and layouts["w"] == layouts["v"] == "OIHW"
    assert is_cnn("NCHW8c") and box_kind_of("NCHW8c", BLOCKED) == TARGET and box_kind_of("NCHW", BLOCKED) == OWN
    assert box_kind_of("NCHW8c", load_profile("cuda")) == box_kind_of("NCHW8c", load_profile("cpu")) == OWN
    classes = [class_of(node, BLOCKED).split()[0] for node in graph.nodes if "NCHW8c" in node.op]
    assert classes == ["heavily"] * 3


# ---- models --------------------------------------------------------------------------------


def test_resnet50():
    graph = optimize(
        load_model(ROOT / "sample_models" / "resnet50_narrow.onnx"), ["fold_constants", "fold_batchnorm"]
    ).graph
    step = least(graph)
    assert step.facts.certified
    found = operators(graph)
    assert found.count("Conv_NCHW8c") + found.count("Conv_NCHW_NCHW8c") + found.count("Conv") == 53
    assert (
        step.after["bytes_moved"] == 0
    )  # it begins with 3 channels, which are read as they are, and ends with one element
    assert "Conv" not in found and "Sum" in found


@pytest.mark.parametrize("written", [Graph.copy, mixed_layouts], ids=["as exported", "mixed"])
def test_squeezenet(tmp_path, written):
    path = tmp_path / "squeezenet.onnx"
    path.write_bytes(random_light("squeezenet", narrow=2).SerializeToString())
    graph = written(optimize(load_model(path), ["fold_constants"]).graph)
    step = least(graph)
    assert step.facts.certified
    first = step.after["bytes_moved"]
    assert first == (173_056 if written is Graph.copy else 2_617_872)  # before Dropout; round MatMuls of 1 x 1 kernels
