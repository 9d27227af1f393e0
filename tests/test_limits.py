"""What rules must not do: make the file grow beyond a factor, remove what is to be kept."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import workbench as wb
from tests.loading import run as run_file
from tests.loading import saved
from tests.pages import compared, fine, history, opened_file, page
from workbench.formats.io import load_model
from workbench.formats.io.samples import samples
from workbench.pipeline.registry.pass_choice import choose
from workbench.pipeline.registry.pass_registry import library
from workbench.planning.layout.profile import load_profile
from workbench.presentation.explanations.refusals import considered
from workbench.rewrite import MODES, PassContext, refused_by

DOUBLINGS = 12
X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


@pytest.fixture
def doubling(tmp_path):
    """A file of about a kilobyte whose folded constant would take 786 kB."""
    calls = "".join(f"c{i + 1} = Concat <axis = 0> (c{i}, c{i})\n" for i in range(DOUBLINGS + 4))
    text = f"""g (float[2,3] x) => (float[N,3] y) <float[1,3] c0 = {{1, 2, 3}}> {{
        {calls} y = Concat <axis = 0> (c{DOUBLINGS + 4}, x) }}"""
    return saved(tmp_path, text)


def test_folding_does_not_make_a_file_grow(doubling, tmp_path, run):
    out = tmp_path / "out.onnx"
    assert run("optimize", doubling, "-o", out, "--preset", "simplify")[0] == 0
    assert out.stat().st_size <= 1.1 * doubling.stat().st_size + 4096
    assert run("optimize", doubling, "-o", out, "--preset", "simplify", "--grow", "1000")[0] == 0
    assert out.stat().st_size > 700_000
    np.testing.assert_array_equal(run_file(out, {"x": X})[0], run_file(doubling, {"x": X})[0])


def test_why_not_says_it(doubling):
    graph = load_model(doubling)
    history = wb.optimize(graph, ["fold_constants"])
    context = PassContext(load_profile("cuda"), limits=history.limits)
    found = considered(history[1], library.find_pass("fold_constants")(), history.graph, context)
    assert any("--grow sets that" in group.sentence for group in found.groups)


def test_what_takes_the_place_of_larger_ones_is_folded(tmp_path):
    """Weights that are only cast, turned or summed up do not make the file grow."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2,64] x) => (float[2,64] y) <float[64,64] w, float[64,64] v> {'
        " t = Transpose <perm = [1, 0]> (w) s = Add(t, v) y = MatMul(x, s) }"
    )
    del model.graph.input[1:]
    for name in "wv":
        array = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "m.onnx")
    assert [node.op for node in wb.optimize(load_model(tmp_path / "m.onnx"), ["fold_constants"]).graph.nodes] == [
        "MatMul"
    ]


ONES = ",".join(["1"] * 72)
WINDOWS = f"""g (float[1,8,4,4] x) => (float[1,16,4,4] y, float[1,1,4,4] z)
    <float[16,8,1,1] v = {{{",".join(["2"] * 128)}}}, float[1,8,3,3] w = {{{ONES}}}> {{
    y = Conv(x, v)  z = Conv<pads=[1,1,1,1]>(x, w) }}"""


def test_force_forces_whatever_size_the_file_gets(tmp_path, run):
    """The enlarged weights take five times the bytes of the model."""
    path, out = saved(tmp_path, WINDOWS), tmp_path / "out.onnx"
    for option, left in (("force=true", ["Conv", "Split"]), ("flops_per_byte=100000", ["Conv", "Conv"])):
        words = ("--passes", f"enlarge_kernels{{{option}}}", "--mode", "fast")
        assert run("optimize", path, "-o", out, *words)[0] == 0
        assert [node.op_type for node in onnx.load(out).graph.node] == left
    assert run("optimize", path, "-o", out, *words, "--grow", "10")[0] == 0
    assert [node.op_type for node in onnx.load(out).graph.node] == ["Conv", "Split"]


def test_explain_asks_the_limits_that_the_pass_asks(tmp_path, run):
    words = ("explain", "enlarge_kernels", saved(tmp_path, WINDOWS), "--mode", "fast")
    cheap = ("--option", "enlarge_kernels.flops_per_byte=100000")
    assert "would act here, but constants would take" in run(*words, *cheap)[1]
    for more in ((*cheap, "--grow", "10"), ("--option", "enlarge_kernels.force=true")):
        assert "acted on 1" in run(*words, *more)[1]
    assert "would act here, but 'v' is to be kept" in run(*words, *cheap, "--keep", "v")[1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stem", ["ppocr_cls_v2", "resnet50_narrow", "basic_pitch_nmp"])
def test_what_a_pass_left_is_never_said_to_be_acted_on(stem, mode):
    """Whatever stops a pass is asked by who explains it."""
    sample = next(one for one in samples() if one.file.stem == stem)
    graph = load_model(sample.file, sample.dims)
    for name in choose().names:
        cls = library.all_passes().get(name)
        if cls is None or not cls.rules:
            continue
        history = wb.optimize(graph, [name], mode=mode)
        context = PassContext(load_profile("cpu"), mode=mode, limits=history.limits)
        said = [refused.sentence for refused in refused_by(cls(), history.graph, context)]
        assert not [sentence for sentence in said if sentence.startswith("would act here:")], name


def test_the_app_sets_the_limits(tmp_path):
    at = page("optimize", opened_file(saved(tmp_path, WINDOWS)))
    at.session_state["preset"], at.session_state["mode"] = "none", "fast"
    at.session_state["option_enlarge_kernels.flops_per_byte"] = 100_000
    at = fine(at.run()).checkbox(key="on_enlarge_kernels").set_value(True)
    operators = lambda: [node.op for node in history(at).graph.nodes]  # noqa: E731
    at = compared(fine(at.run()))
    assert operators() == ["Conv", "Conv"]
    at = compared(fine(at.number_input(key="grow").set_value(10.0).run()))
    assert operators() == ["Conv", "Split"]
    assert "--grow 10" in at.code[0].value and "10" in at.query_params["grow"]
    at = compared(fine(at.text_area(key="keep").set_value("v\n").run()))
    assert operators() == ["Conv", "Conv"]
    assert "--keep v" in at.code[0].value
    linked = page("optimize")
    for key in ("model", "passes", "target", "mode", "grow", "keep"):
        if key in at.query_params:
            linked.query_params[key] = at.query_params[key]
    linked.query_params["model"] = str(tmp_path / "model.onnx")
    spec = fine(linked.run()).session_state["opened"].spec
    assert (spec.grow, spec.keep) == (10.0, ("v",))
    at.text_area(key="keep").set_value("nobody").run()
    assert "there is no node or weight 'nobody' to keep" in at.error[0].value.replace("\\", "")


KEPT = """g (float[2,3] x) => (float[2,3] y) <float[3] w = {1, 2, 3}, float[3] v = {4, 5, 6}> {
    [sum] s = Add(w, v) [same] i = Identity(x) [product] p = Mul(i, s) [last] y = Relu(p) }"""


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        ((), ["Mul", "Relu"]),
        (("sum",), ["Add", "Mul", "Relu"]),
        (("w",), ["Add", "Mul", "Relu"]),
        (("same",), ["Identity", "Mul", "Relu"]),
        (("same", "v"), ["Add", "Identity", "Mul", "Relu"]),
    ],
)
def test_nodes_and_weights_can_be_kept(tmp_path, run, keep, left):
    path, out = saved(tmp_path, KEPT), tmp_path / "out.onnx"
    words = [word for name in keep for word in ("--keep", name)]
    assert run("optimize", path, "-o", out, "--preset", "simplify", *words)[0] == 0
    assert sorted(node.op_type for node in onnx.load(out).graph.node) == left


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--keep", "nothing"), "there is no node or weight 'nothing' to keep"),
        (("--grow", "0.5"), "a file cannot be limited to 0.5 times its size; use a factor of at least 1"),
    ],
)
def test_limits_that_fit_nothing_are_a_sentence(tmp_path, run, words, sentence):
    code, _, said = run("optimize", saved(tmp_path, KEPT), "-o", tmp_path / "out.onnx", *words)
    assert code == 2 and sentence in said


def weight_in_branches() -> onnx.ModelProto:
    """A model whose branches compute with a weight `w` of 16 kB in a Transpose each."""
    branch = "g () => (float[2,64] r) { t = Transpose<perm=[1,0]>(w)  r = MatMul(x, t) }"
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2,64] x, bool c) => (float[2,64] y) {'
        f" y = If (c) <then_branch = {branch}, else_branch = {branch}> }}"
    )


def test_constants_of_bodies_are_counted_too(tmp_path):
    """Weights that stand in a body are the file's, and what takes their place there does not make it grow."""
    model = weight_in_branches()
    for attribute in model.graph.node[0].attribute:
        array = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
        attribute.g.initializer.append(onnx.numpy_helper.from_array(array, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    graph = wb.optimize(load_model(tmp_path / "m.onnx"), ["fold_constants"], grow=1).graph
    for body in graph.nodes[0].bodies.values():
        assert [node.op for node in body.nodes] == ["MatMul"]


def test_what_is_folded_in_bodies_does_not_make_a_file_grow_either(tmp_path):
    """A weight of the main graph that each branch turns would be there three times."""
    model = weight_in_branches()
    array = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(array, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    for grow, left in ((1, ["Transpose", "MatMul"]), (4, ["MatMul"])):
        graph = wb.optimize(load_model(tmp_path / "m.onnx"), ["fold_constants"], grow=grow).graph
        assert [[node.op for node in body.nodes] for body in graph.nodes[0].bodies.values()] == [left, left]


def test_a_weight_that_one_branch_alone_reads_is_that_branchs(tmp_path):
    """It goes when what is computed from it takes its place, so that nothing grows."""
    model = weight_in_branches()
    array = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name in ("w", "v"))
    branch = model.graph.node[0].attribute[1].g
    branch.node[0].input[0] = "v"
    onnx.save(model, tmp_path / "m.onnx")
    graph = wb.optimize(load_model(tmp_path / "m.onnx"), ["fold_constants"], grow=1).graph
    assert [[node.op for node in body.nodes] for body in graph.nodes[0].bodies.values()] == [["MatMul"], ["MatMul"]]


def test_a_body_may_grow_by_a_share_of_all_weights_those_in_bodies_too(tmp_path):
    branch = "g () => (float[8,64] r) { t = Tile(c, n)  p = MatMul(x, w)  r = Add(p, t) }"
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[8,64] x, bool b) => (float[8,64] y)'
        " <int64[2] n = {8, 1}> {"
        f" y = If (b) <then_branch = {branch}, else_branch = {branch}> }}"
    )
    random = np.random.default_rng(0)
    for attribute in model.graph.node[0].attribute:
        for name, shape in (("w", (64, 64)), ("c", (1, 64))):
            array = random.standard_normal(shape).astype(np.float32)
            attribute.g.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "m.onnx")
    for grow, left in ((1.01, ["Tile", "MatMul", "Add"]), (1.5, ["MatMul", "Add"])):
        graph = wb.optimize(load_model(tmp_path / "m.onnx"), ["fold_constants"], grow=grow).graph
        assert [[node.op for node in body.nodes] for body in graph.nodes[0].bodies.values()] == [left, left]


def with_weights(model: onnx.ModelProto, **shapes: tuple[int, ...]) -> onnx.ModelProto:
    """The model with random weights of these shapes in its main graph."""
    random = np.random.default_rng(0)
    for name, shape in shapes.items():
        array = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def in_two_bodies(branch: str, main: str, types: str) -> onnx.ModelProto:
    """A model whose main graph computes `y` by the branch in a body of a body, and `z` by `main`."""
    other = "g () => (float[8,64] o) { o = Neg(x) }"
    inner = f"g () => (float[8,64] s) {{ s = If (b) <then_branch = {branch}, else_branch = {other}> }}"
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[8,64] x, bool b) => (float[8,64] y, float[8,64] z)'
        f" {types} {{ z = {main}  y = If (b) <then_branch = {inner}, else_branch = {other}> }}"
    )


def operators_of_inner_body(graph) -> list[str]:
    inner = graph.producer("y").bodies["then_branch"].nodes[0].bodies["then_branch"]
    return [node.op for node in inner.nodes]


def test_what_a_body_in_a_body_captures_stays_if_the_main_graph_reads_it(tmp_path):
    branch = "g () => (float[8,64] r) { t = Transpose<perm=[1,0]>(w)  r = MatMul(x, t) }"
    model = with_weights(in_two_bodies(branch, "MatMul(x, w)", ""), w=(64, 64))
    onnx.save(model, tmp_path / "m.onnx")
    for grow, left in ((1, ["Transpose", "MatMul"]), (6, ["MatMul"])):
        graph = wb.optimize(load_model(tmp_path / "m.onnx"), ["fold_constants"], grow=grow).graph
        assert operators_of_inner_body(graph) == left


def test_a_body_in_a_body_may_grow_by_a_share_of_the_weights_of_the_main_graph(tmp_path):
    branch = "g () => (float[8,64] r) { t = Tile(c, n)  r = Add(x, t) }"
    model = with_weights(in_two_bodies(branch, "MatMul(x, w)", "<int64[2] n = {8, 1}>"), w=(64, 64), c=(1, 64))
    onnx.save(model, tmp_path / "m.onnx")
    for grow, left in ((1.01, ["Tile", "Add"]), (2, ["Add"])):
        graph = wb.optimize(load_model(tmp_path / "m.onnx"), ["fold_constants"], grow=grow).graph
        assert operators_of_inner_body(graph) == left


def test_by_default_a_file_grows_by_a_tenth(tmp_path):
    """A constant that would make the file half as large again is not computed; one that takes a twentieth is."""
    for rows, left in ((32, ["Tile", "Add", "Gemm"]), (2, ["Add", "Gemm"])):
        model = onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["": 17]> g (float[{rows},64] x) => (float[{rows},64] y)'
            f" <int64[2] n = {{{rows}, 1}}> {{ t = Tile(c, n)  s = Add(x, t)  y = Gemm(s, w) }}"
        )
        random = np.random.default_rng(0)
        for name, shape in (("w", (64, 64)), ("c", (1, 64))):
            array = random.standard_normal(shape).astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        onnx.save(model, tmp_path / "m.onnx")
        graph = wb.optimize(load_model(tmp_path / "m.onnx"), ["fold_constants"]).graph
        assert [node.op for node in graph.nodes] == left, rows
