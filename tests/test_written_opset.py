"""What is written runs where the input ran: the file's opset, raised only as far as an operator needs, the lowest IR."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import workbench as wb
from tests.loading import run as run_file
from tests.loading import saved
from tests.test_load_opsets import CONVERTED
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx, to_bytes
from workbench.formats.opsets.downgrades import DOWNGRADES
from workbench.formats.opsets.forms import since_version
from workbench.formats.opsets.lowering import NotWritable, lowered_to, newer_than
from workbench.formats.opsets.versions import oldest_onnxruntime
from workbench.formats.opsets.written import OpsetError
from workbench.ir import from_text
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.variants import combined

X = "float[2,3,4,4] x"
S4 = "float[4] s = {1, 1, 2, 3}"
# What is valid at opset 23, the opset that it is written at, and operators there ("" if they stay the same).
WRITTEN = [
    (
        "g (float[2,3,4,4] x) => (float[2,3,4,4] y) <float[3] s = {1, 2, 3}>"
        " { y, m, v = BatchNormalization <training_mode = 1> (x, s, s, s, s) }",
        13,
        "",
    ),
    *((f"g ({X}) => (y) <int64[2] a = {{1, -1}}> {{ y = Reduce{op} (x, a) }}", 7, "") for op in
      ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")),
    (f"g ({X}) => (y) <int64[2] a = {{1, -1}}> {{ y = ReduceMax <keepdims = 0> (x, a) }}", 7, ""),
    (f"g ({X}) => (y) <int64[2] a = {{1, -1}}> {{ y = ReduceSum (x, a) }}", 7, ""),
    (f"g ({X}) => (y) {{ y = ReduceSum (x) }}", 12, ""),
    ("g (float[2,1,3] x) => (y) <int64[1] a = {-2}> { y = Squeeze (x, a) }", 7, ""),
    ("g (float[2,3] x) => (y) <int64[2] a = {-1, 0}> { y = Unsqueeze (x, a) }", 7, ""),
    *((f"g ({X}) => (y) {{ y = {op} <axis = -1> (x) }}", 7, "") for op in ("Softmax", "LogSoftmax", "Hardmax")),
    ("g (float[2,3,1,1] x) => (y) { y = Softmax <axis = 1> (x) }", 12, ""),
    *((f"g ({X}) => (y) {{ y = {op} <axis = -1, keepdims = 0> (x) }}", 7, "") for op in ("ArgMax", "ArgMin")),
    (f"g ({X}) => (y) {{ y = Concat <axis = -2> (x, x) }}", 7, ""),
    (f"g ({X}) => (y) {{ y = Flatten <axis = -2> (x) }}", 7, ""),
    (f"g ({X}) => (y) <int64[2] i = {{1, 0}}> {{ y = Gather <axis = -3> (x, i) }}", 7, ""),
    (f"g ({X}) => (y) <bool[4] c = {{1, 0, 1, 1}}> {{ y = Compress <axis = -1> (x, c) }}", 9, ""),
    (f"g ({X}) => (y, z) {{ y, z = Split <axis = -1, num_outputs = 2> (x) }}", 7, ""),
    (f"g ({X}) => (y, z) {{ y, z = Split <axis = 1, num_outputs = 2> (x) }}", 13, ""),
    (f"g ({X}) => (y, z) <int64[2] p = {{1, 3}}> {{ y, z = Split <axis = 2> (x, p) }}", 7, ""),
    (f"g ({X}) => (y) <float a = {{-0.5}}, float b = {{0.25}}> {{ y = Clip (x, a, b) }}", 7, ""),
    (f"g ({X}) => (y) <float b = {{0.25}}> {{ y = Clip (x, , b) }}", 10, ""),
    (f"g ({X}) => (y) <int64[4] p = {{1, 0, 2, 1}}, float v = {{3}}, int64[2] a = {{1, -1}}> {{ y = Pad (x, p, v, a) }}", 7, ""),
    (f"g ({X}) => (y) <int64[4] p = {{1, 0, 2, 1}}, int64[2] a = {{1, -1}}> {{ y = Pad (x, p, , a) }}", 13, ""),
    (f"g ({X}) => (y) <int64[8] p = {{0, 0, 1, 0, 0, 0, 2, 1}}> {{ y = Pad <mode = 'reflect'> (x, p) }}", 7, ""),
    (f"g ({X}) => (y) <int64[2] b = {{1, 0}}, int64[2] e = {{3, -1}}, int64[2] a = {{-1, 1}}> {{ y = Slice (x, b, e, a) }}", 7, ""),
    (f"g ({X}) => (y, i) <int64[1] k = {{2}}> {{ y, i = TopK (x, k) }}", 7, ""),
    (f"g ({X}) => (y) <float r = {{0.3}}> {{ y = Dropout (x, r) }}", 7, ""),
    ("g (float[1,8,1] x) => (y) <int64 a = {1}> { y = DFT <onesided = 1> (x, , a) }", 17, ""),
    (f"g ({X}) => (y) {{ y = Shape <start = 1, end = -1> (x) }}", 7, "Shape Slice"),
    (f"g ({X}) => (y) {{ y = Shape <start = -2> (x) }}", 13, "Shape Slice"),
    (f"g ({X}) => (y) {{ y = Shape <start = 0> (x) }}", 13, ""),
    (f"g ({X}) => (y) <int64[2] s = {{6, -1}}> {{ y = Reshape <allowzero = 1> (x, s) }}", 7, ""),
    (f"g ({X}, int32[1] t) => (y) {{ y = CastLike (x, t) }}", 9, "Cast"),
    (f"g ({X}) => (y) <float s = {{0.5}}, uint8 z = {{3}}> {{ q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }}", 10, ""),
    ("g (float[1,1,4,4] x, float[1,4] r) => (y) <int64[1] i = {0}> { y = RoiAlign <coordinate_transformation_mode = 'output_half_pixel'> (x, r, i) }", 10, ""),
    ("g (float[1,1,4,4] x, float[1,2,2,2] t) => (y) { y = GridSample <mode = 'linear'> (x, t) }", 16, ""),
    ("g (float[1,1,4,4] x, float[1,2,2,2] t) => (y) { y = GridSample <mode = 'cubic'> (x, t) }", 18, ""),
    *((f"g (float[2,2] x, float[2,2] t) => (y) {{ y = {op} (x, t) }}", 7, "") for op in ("Max", "Min", "Sum", "Mean")),
    ("g (float[4] x, float[1] t) => (y) <int64[1] i = {2}> { y = ScatterElements <reduction = 'add'> (x, i, t) }", 16, ""),
    ("g (float[4] x, float[1] t) => (y) <int64[1] i = {2}> { y = ScatterElements <axis = -1> (x, i, t) }", 9, "Scatter"),
    ("g (float[4] x, float[1] t) => (y) <int64[1,1] i = {2}> { y = ScatterND (x, i, t) }", 11, ""),
    (f"g ({X}) => (y) <int64[4] z = {{2, 3, 8, 8}}> {{ y = Resize <mode = 'linear'> (x, , , z) }}", 11, ""),
    (f"g ({X}) => (y) <{S4}> {{ y = Resize <coordinate_transformation_mode = 'asymmetric', nearest_mode = 'floor'> (x, , s) }}", 10, ""),
    (f"g ({X}) => (y) <{S4}> {{ y = Resize <coordinate_transformation_mode = 'asymmetric', nearest_mode = 'floor'> (x, , s) }}", 7, "Upsample"),
    (f"g ({X}) => (y) <{S4}> {{ y = Resize <coordinate_transformation_mode = 'asymmetric', mode = 'linear'> (x, , s) }}", 9, "Upsample"),
    (f"g ({X}) => (y) {{ y = MaxPool <kernel_shape = [2, 2], dilations = [1, 1]> (x) }}", 7, ""),
    (f"g ({X}) => (y) {{ y = Cast <to = 6, saturate = 1> (x) }}", 9, ""),
    ("g (float[2] x) => (y) <int64 n = {3}> { y = Loop <body = b (int64 i, bool k, float[2] u) => (bool l, float[2] v) { v = Mul (u, u) l = Identity (k) }> (n, , x) }", 17, ""),
]  # fmt: skip
REFUSED = [
    (f"g ({X}, int64[1] a) => (y) {{ y = ReduceMax (x, a) }}", 17, "ReduceMax", 18),
    (f"g ({X}) => (y) <int64[0] a = {{}}> {{ y = ReduceMax <noop_with_empty_axes = 1> (x, a) }}", 17, "ReduceMax", 18),
    ("g (float x, float z) => (y) <int64[1] a = {-1}> { v = Unsqueeze (x, a) w = Add(v, z) y = Gelu (w) }", 13, "Gelu", 20),
    (f"g ({X}) => (y) {{ y = Softmax <axis = 1> (x) }}", 12, "Softmax", 13),
    ("g (float[2,N] x) => (y, z) { y, z = Split <axis = 1, num_outputs = 2> (x) }", 17, "Split", 18),
    (f"g ({X}, float a) => (y) {{ y = Clip (x, a) }}", 10, "Clip", 11),
    ("g (double[2] x) => (y) <double a = {0.1}> { y = Clip (x, a) }", 10, "Clip", 11),
    (f"g ({X}) => (y) <int64[8] p = {{0, 0, 1, 0, 0, 0, 2, 1}}> {{ y = Pad <mode = 'wrap'> (x, p) }}", 18, "Pad", 19),
    (f"g ({X}) => (y) <int64[1] b = {{3}}, int64[1] e = {{0}}, int64[1] a = {{2}}, int64[1] t = {{-1}}> {{ y = Slice (x, b, e, a, t) }}", 9, "Slice", 10),
    (f"g ({X}) => (y) <int64[1] i = {{-1}}> {{ y = Gather (x, i) }}", 10, "Gather", 11),
    (f"g ({X}, int64[4] s) => (y) {{ y = Reshape <allowzero = 1> (x, s) }}", 13, "Reshape", 14),
    (f"g ({X}) => (y) <float[3] s = {{1, 2, 3}}> {{ y = QuantizeLinear (x, s) }}", 12, "QuantizeLinear", 13),
    ("g (float[1,1,4,4] x, float[1,4] r, int64[1] i) => (y) { y = RoiAlign (x, r, i) }", 15, "RoiAlign", 16),
    ("g (float[1,1,4,4,4] x, float[1,2,2,2,3] t) => (y) { y = GridSample (x, t) }", 19, "GridSample", 20),
    ("g (float[2,2] x, float[2] t) => (y) { y = Max (x, t) }", 7, "Max", 8),
    ("g (float[4] x, float[1] t) => (y) <int64[1] i = {2}> { y = ScatterElements <reduction = 'max'> (x, i, t) }", 17, "ScatterElements", 18),
    (f"g ({X}) => (y) <{S4}> {{ y = Resize (x, , s) }}", 10, "Resize", 11),
    (f"g ({X}) => (y) <float[4] s = {{1, 1, 0.5, 0.5}}> {{ y = Resize <coordinate_transformation_mode = 'asymmetric', mode = 'linear'> (x, , s) }}", 9, "Resize", 10),
    ("g (int32[2] x) => (y) { y = Relu (x) }", 13, "Relu", 14),
    ("g (int64[2] x) => (y) { y = Add (x, x) y2 = Max (x, x) }", 7, "Max", 12),
    (f"g ({X}) => (y) {{ y = MaxPool <kernel_shape = [2, 2], dilations = [2, 2]> (x) }}", 9, "MaxPool", 10),
    ("g (float[2,3] x) => (y) <float[3,2] w = {1, 2, 3, 4, 5, 6}> { y = Gemm (x, w) }", 10, "Gemm", 11),
]  # fmt: skip


def fed(path):
    random = np.random.default_rng(0)
    found = {}
    for name in (graph := load_model(path)).inputs:
        type_ = graph.tensor_type(name)
        found[name] = (random.standard_normal(type_.shape) * 2).astype(type_.dtype.numpy())
    return found


def named(text):
    return text.replace("'", '"')


@pytest.mark.parametrize(("opset", "text"), CONVERTED, ids=[f"{o}-{t[10:80]}" for o, t in CONVERTED])
def test_a_file_leaves_at_the_opset_at_which_it_came(tmp_path, opset, text):
    path = saved(tmp_path, named(text), header=f'<ir_version: 7, opset_import: ["": {opset}]>\n')
    graph = load_model(path)
    report = export_onnx(graph, tmp_path / "out.onnx")
    written = onnx.load(tmp_path / "out.onnx")
    assert (written.opset_import[0].version, report.written.opset, report.written.needed_by) == (opset, opset, ())
    assert report.checks == ("onnx.checker",)
    assert written.ir_version == max(4, helper.find_min_ir_version_for(written.opset_import))
    for ours, theirs in zip(run_file(tmp_path / "out.onnx", fed(path)), run_file(path, fed(path)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("text", "opset", "operators"), WRITTEN, ids=[f"{o}-{t[10:110]}" for t, o, _ in WRITTEN])
def test_an_older_form_computes_the_same(tmp_path, text, opset, operators):
    newest = 21 if "RoiAlign" in text else 23  # of which ONNX Runtime has no kernel for opset 22
    path = saved(tmp_path, named(text), header=f'<ir_version: 10, opset_import: ["": {newest}]>\n')
    graph = load_model(path)
    report = export_onnx(graph, tmp_path / "out.onnx", opset=opset)
    assert report.written.opset == opset and report.checks == ("onnx.checker",)
    found = [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node]
    assert found == (operators.split() or [node.op_type for node in graph.nodes])
    for ours, theirs in zip(run_file(tmp_path / "out.onnx", fed(path)), run_file(path, fed(path)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_every_downgrade_is_tried():
    tried = set()
    for text, opset, _ in WRITTEN:
        for node in from_text(named(text)).nodes:
            since = since_version(node.op_type, 23)
            while since > opset:
                tried.add((node.op_type, since))
                since = since_version(node.op_type, since - 1)
    later = {("Resize", 10), ("Upsample", 9)}  # what a Resize becomes
    assert DOWNGRADES.keys() - tried <= later


@pytest.mark.parametrize(
    ("text", "opset", "operator", "since"), REFUSED, ids=[f"{o}-{t[10:90]}" for t, o, *_ in REFUSED]
)
def test_what_has_no_older_form_says_which_opset_it_needs(tmp_path, text, opset, operator, since):
    graph = load_model(saved(tmp_path, named(text), header='<ir_version: 10, opset_import: ["": 23]>\n'))
    assert newer_than(graph, opset).get(operator) == since
    with pytest.raises(NotWritable):
        lowered_to(graph, opset)
    with pytest.raises(OpsetError, match=f"{operator}.* opset {since}; run the passes with the same --opset"):
        export_onnx(graph, tmp_path / "out.onnx", opset=opset)
    needed = newer_than(graph, opset)
    assert lowered_to(graph, max(needed.values())).opset_imports[""] == max(needed.values())


def test_bodies_and_functions_are_written_at_the_same_opset(tmp_path):
    text = """g (bool c, float[2,3] x) => (float[2,1] y) <int64[1] axes = {1}> {
        y = If (c) <then_branch = t () => (a) { a = ReduceMax (x, axes) },
                    else_branch = e () => (b) { d = Shape <start = 1> (x)  e = f.sum(x)
                        b = If (c) <then_branch = u () => (k) { k = ReduceMin (e, axes) },
                                    else_branch = v () => (l) { l = ReduceMean (e, axes) }> }> }
        <domain: "f", opset_import: ["": 23]>
        sum (a) => (b) { axes = Constant <value_ints = [1]> ()  b = ReduceSum <keepdims = 1> (a, axes) }"""
    path = saved(tmp_path, text, header='<ir_version: 10, opset_import: ["": 23, "f": 1]>\n')
    report = export_onnx(load_model(path), tmp_path / "out.onnx", opset=12)
    written = onnx.load(tmp_path / "out.onnx")
    assert (report.written.opset, report.written.ir, report.checks) == (12, 8, ("onnx.checker",))
    assert [o.version for f in written.functions for o in f.opset_import if not o.domain] == [12]
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    for c in (True, False):
        given = {"c": np.array(c), "x": x}
        np.testing.assert_array_equal(run_file(tmp_path / "out.onnx", given)[0], run_file(path, given)[0])


GELU = """g (float[2,8] x) => (float[2,1,8] y) <float r = {1.4142135381698608}, float one = {1}, float half = {0.5}> {
    d = Div(x, r) e = Erf(d) a = Add(e, one) t = Mul(x, a) h = Mul(t, half) y = Unsqueeze <axes = [1]> (h) }"""


@pytest.fixture
def gelu(tmp_path):
    return saved(tmp_path, GELU, header='<ir_version: 6, opset_import: ["": 12]>\n')


def test_an_operator_raises_the_opset_just_so_far(gelu, tmp_path, run):
    code, said, _ = run("optimize", gelu, "-o", tmp_path / "out.onnx", "--passes", "recompose_gelu")
    assert code == 0
    assert (
        "opset 12 to 20, for Gelu; needs ONNX Runtime 1.17 or newer; `--opset keep` stays at 12, with 4 nodes more"
        in said
    )
    written = onnx.load(tmp_path / "out.onnx")
    assert [o.version for o in written.opset_import] == [20] and written.ir_version == 9
    assert [node.op_type for node in written.graph.node] == ["Gelu", "Unsqueeze"]


@pytest.mark.slow
def test_a_tool_that_needs_a_newer_opset_leaves_no_opset_to_keep(tmp_path, run):
    """Scales for each channel have an axis, which DequantizeLinear has from opset 13 on."""
    text = "g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {0.5, 0.1, -0.3, 0.2}> { y = MatMul(x, w) }"
    model = saved(tmp_path, text, header='<ir_version: 6, opset_import: ["": 12]>\n')
    chosen = ("--passes", "ort_quantize_static", "--option", "ort_quantize_static.per_channel=true")
    code, said, _ = run("optimize", model, "-o", tmp_path / "out.onnx", *chosen)
    assert code == 0 and "; `--opset keep` is not possible with ort_quantize_static" in said
    code, _, error = run("optimize", model, "-o", tmp_path / "kept.onnx", *chosen, "--opset", "keep")
    assert code != 0 and "opset 12 cannot be written, since DequantizeLinear needs opset 13" in error


@pytest.mark.parametrize(
    ("wanted", "opset", "ir", "count"), [("keep", 12, 7, 6), ("13", 13, 7, 6), ("20", 20, 9, 2), ("newest", 23, 11, 2)]
)
def test_the_opset_can_be_chosen(gelu, tmp_path, run, wanted, opset, ir, count):
    code, said, _ = run("optimize", gelu, "-o", tmp_path / "out.onnx", "--passes", "recompose_gelu", "--opset", wanted)
    assert code == 0 and f"opset {opset}, IR {ir}; checked: onnx.checker" in said and "needs ONNX Runtime" not in said
    written = onnx.load(tmp_path / "out.onnx")
    assert (written.opset_import[0].version, written.ir_version, len(written.graph.node)) == (opset, ir, count)
    given = {"x": np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)}
    np.testing.assert_allclose(
        run_file(tmp_path / "out.onnx", given)[0], run_file(gelu, given)[0], rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--opset", "24"), "opset 24 cannot be written; name one from 7 to 23, keep or newest"),
        (("--opset", "6"), "opset 6 cannot be written; name one from 7 to 23, keep or newest"),
        (("--ir", "6"), "IR 6 cannot be written; this model can be written at IR 9 to 14"),
        (("--ir", "15"), "IR 15 cannot be written; this model can be written at IR 9 to 14"),
    ],
)
def test_an_impossible_opset_or_format_is_one_sentence(gelu, tmp_path, run, words, sentence):
    code, _, said = run("optimize", gelu, "-o", tmp_path / "out.onnx", *words)
    assert code == 2 and sentence in said and not (tmp_path / "out.onnx").exists()


def test_the_format_can_be_newer_than_needed(gelu, tmp_path, run):
    assert run("optimize", gelu, "-o", tmp_path / "out.onnx", "--ir", "10")[0] == 0
    assert onnx.load(tmp_path / "out.onnx").ir_version == 10


def test_no_rule_in_a_body_goes_beyond_an_opset_that_is_kept(tmp_path):
    body = GELU[GELU.index("{ d") if "{ d" in GELU else GELU.rindex("{") :].replace("y =", "z =")
    text = f"""g (bool c, float[2,8] x) => (float[2,1,8] y) <float r = {{1.4142135381698608}}, float one = {{1}}, float half = {{0.5}}> {{
        y = If (c) <then_branch = t () => (z) {body}, else_branch = e () => (w) {{ w = Unsqueeze <axes = [1]> (x) }}> }}"""
    graph = load_model(saved(tmp_path, text, header='<ir_version: 6, opset_import: ["": 12]>\n'))
    assert wb.optimize(graph, ["recompose_gelu"])[1].rewrites
    assert not wb.optimize(graph, ["recompose_gelu"], opset="keep")[1].rewrites


@pytest.mark.parametrize(
    ("header", "text", "ir"),
    [
        ('"": 9', "g (float[2] x) => (float[2] y) { y = Relu(x) }", 4),
        ('"": 8', "g (float[2] x) => (float[2] y) { y = Relu(x) }", 4),
        ('"": 13', "g (float[2] x) => (float[2] y) { y = Relu(x) }", 7),
        ('"": 13, "ai.onnx.ml": 3', "g (float[1,2] x) => (float[1,2] y) { y = ai.onnx.ml.Normalizer(x) }", 8),
        ('"": 19', "g (float[2] x) => (float8e4m3fn[2] y) { y = Cast <to = 17> (x) }", 9),
        ('"": 21', "g (float[2] x) => (int4[2] y) { y = Cast <to = 22> (x) }", 10),
        ('"": 23', "g (float[2] x) => (float4e2m1[2] y) { y = Cast <to = 23> (x) }", 11),
        ('"": 15', "g (optional(float[2]) x) => (float[2] y) { y = OptionalGetElement(x) }", 8),
    ],
)
def test_the_lowest_format_that_suffices(header, text, ir):
    graph = from_text(f"<ir_version: 10, opset_import: [{header}]>\n{text}")
    assert onnx.ModelProto.FromString(to_bytes(graph)).ir_version == ir


def test_layouts_at_an_old_opset_are_functions_of_it(tmp_path):
    text = """g (float[1,4,8,8] x, float[8,4,3,3] w) => (float[1,8] y) {
        c = Conv <pads = [1, 1, 1, 1]> (x, w) r = Relu(c) m = ReduceMax <axes = [2, 3], keepdims = 0> (r) y = Identity(m) }"""
    path = saved(tmp_path, text, header='<ir_version: 6, opset_import: ["": 11]>\n')
    history = wb.optimize(load_model(path), layout="optimal", target="cuda")
    report = export_onnx(history.graph, tmp_path / "out.onnx")
    assert (report.written.opset, report.written.ir) == (11, 8) and onnx.load(tmp_path / "out.onnx").functions
    np.testing.assert_allclose(
        run_file(tmp_path / "out.onnx", fed(path))[0], run_file(path, fed(path))[0], rtol=1e-5, atol=1e-5
    )


def test_what_reads_a_file_is_said_by_opset_and_format():
    assert [oldest_onnxruntime(*pair) for pair in ((13, 7), (13, 10), (20, 9), (22, 10), (24, 12))] == [
        "1.6", "1.18", "1.17", "1.21", "1.24",
    ]  # fmt: skip
    assert oldest_onnxruntime(28, 14) is None


def test_a_format_that_onnx_runtime_does_not_read_is_verified_all_the_same(tmp_path, run):
    """The version that the pinned onnx writes by default."""
    text = '<ir_version: 14, opset_import: ["": 23]>\ng (float[300] x) => (float[300] y) { z = Relu(x) y = Add(z, w) }'
    model = onnx.parser.parse_model(text.replace("(float[300] y)", "(float[300] y) <float[300] w>"))
    del model.graph.input[1:]
    weight = onnx.numpy_helper.from_array(np.arange(300, dtype=np.float32), "w")
    model.graph.initializer.append(weight)
    for name, beside in (("inside", False), ("beside", True)):
        path = tmp_path / name / "m.onnx"
        path.parent.mkdir()
        onnx.save(model, path, save_as_external_data=beside, size_threshold=100)
        with pytest.raises(Exception, match="IR version"):
            run_file(path, {"x": np.zeros(300, np.float32)})
        code, said, _ = run("optimize", path, "-o", path.with_name("out.onnx"))
        assert code == 0 and "the end: Equal to the last bit" in said
        assert onnx.load(path.with_name("out.onnx")).ir_version == 11


@pytest.mark.slow
def test_torch_measures_the_forms_that_it_knows(tmp_path, shared_worker):
    """A file of an old opset is written in forms of it, which our executor would read wrongly."""
    text = """g (float[2,3,4,4] x) => (float[2] y) {
        c = Clip <min = -0.5, max = 0.25> (x) p = Pad <pads = [0, 0, 1, 1, 0, 0, 2, 2]> (c)
        y = ReduceMean <axes = [1, 2, 3], keepdims = 0> (p) }"""
    graph = load_model(saved(tmp_path, text, header='<ir_version: 5, opset_import: ["": 10]>\n'))
    inputs = {"x": np.random.default_rng(0).standard_normal((2, 3, 4, 4)).astype(np.float32)}
    reference = shared_worker.outputs(graph.source, inputs).tensors
    wanted = combined({"m": graph}, ["torch", "onnxruntime"], ["float32"])
    found = measure_models(wanted, inputs=inputs, reference=reference, repeat=2, worker=shared_worker)
    assert not found.failures and [v.error.ok for v in found.ran.values()] == [True, True]
