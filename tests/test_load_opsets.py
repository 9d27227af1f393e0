"""Loading at one opset: what conversion keeps and what it leaves; inputs with constants, functions, bodies."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, version_converter
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

from tests.loading import big_model, refusal, run, saved
from workbench.checker.running import cpu_session
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.formats.io.kernels import NEWEST_KERNEL
from workbench.interfaces import api
from workbench.ir import check
from workbench.ir.signature_changes import is_valid_unchanged
from workbench.ir.text import OPSET


def test_inputs_with_a_default_become_constants_in_files_that_had_to_list_all_weights(tmp_path):
    text = "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
    new = load_model(saved(tmp_path, text))
    assert new.inputs == ("x", "w") and len(new.warnings) == 1
    old = load_model(saved(tmp_path, text, header='<ir_version: 3, opset_import: ["": 9]>\n'))
    assert old.inputs == ("x",) and old.warnings == ()


def test_conversion_changes_the_form_and_not_the_result(tmp_path):
    text = "g (float[2,3,4] x) => (float[2,3,4] y) { s = Softmax <axis = 1> (x) u = Unsqueeze <axes = [0]> (s) y = Squeeze <axes = [0]> (u) }"
    path = saved(tmp_path, text, header='<ir_version: 7, opset_import: ["": 11]>\n')
    graph = load_model(path)
    check(graph)
    assert graph.opset_imports[""] == 23
    assert all("axes" not in node.attributes for node in graph.nodes)
    from workbench.formats.io.exporting import export_onnx

    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    export_onnx(graph, tmp_path / "out.onnx")
    np.testing.assert_allclose(run(tmp_path / "out.onnx", {"x": x})[0], run(path, {"x": x})[0], rtol=1e-6)


@pytest.mark.parametrize("version", range(7, OPSET))
def test_where_the_converter_is_not_asked_it_would_change_nothing(version):
    """Every such operator in one graph, but for those with bodies; it may write down a default."""
    nodes = []
    for name in sorted({schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}):
        known = onnx.defs.has(name, version, "")
        if not known or name in ("If", "Loop", "Scan", "SequenceMap") or not is_valid_unchanged(name, version, OPSET):
            continue
        schema = onnx.defs.get_schema(name, version, "")
        inputs, outputs = ([f"{name}_{side}{i}" for i in range(max(1, count))]
                           for side, count in (("in", schema.min_input), ("out", schema.min_output)))  # fmt: skip
        nodes.append(helper.make_node(name, inputs[: schema.max_input], outputs, name=name))
    assert len(nodes) > 30
    taken, made = ([helper.make_tensor_value_info(v, onnx.TensorProto.FLOAT, None) for n in nodes for v in side(n)]
                   for side in (lambda n: n.input, lambda n: n.output))  # fmt: skip
    graph = helper.make_graph(nodes, "g", taken, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    converted = version_converter.convert_version(model, OPSET).graph
    for node in converted.node:
        defaults = onnx.defs.get_schema(node.op_type, OPSET, "").attributes
        written = [a for a in node.attribute if a != defaults[a.name].default_value]
        del node.attribute[:]
        node.attribute.extend(written)
    assert [node.SerializeToString() for node in converted.node] == [node.SerializeToString() for node in nodes]


def test_bodies_are_converted_and_their_new_values_have_names_of_their_own(tmp_path):
    text = """g (bool c, float[2,3] x) => (float[2,3] y) {
        z = Softmax <axis = 0> (x)
        y = If (c) <then_branch = t () => (float[2,3] a) { a = Softmax <axis = 0> (z) },
                    else_branch = e () => (float[2,3] b) { r = ReduceSum <axes = [1], keepdims = 1> (z) b = Add(z, r) }> }"""
    path = saved(tmp_path, text, header='<ir_version: 7, opset_import: ["": 11]>\n')
    graph = load_model(path)
    check(graph)
    names = [v for node in graph.nodes for v in node.outputs]
    for node in graph.nodes:
        for body in node.bodies.values():
            names += [*body.constants, *(v for inner in body.nodes for v in inner.outputs)]
            assert all("axes" not in inner.attributes for inner in body.nodes)
    assert len(names) == len(set(names))
    from workbench.formats.io.exporting import export_onnx

    export_onnx(graph, tmp_path / "out.onnx")
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    for c in (True, False):
        given = {"c": np.array(c), "x": x}
        np.testing.assert_allclose(run(tmp_path / "out.onnx", given)[0], run(path, given)[0], rtol=1e-6)


def test_conversion_keeps_names_metadata_and_large_weights(tmp_path):
    values = np.random.default_rng(0).standard_normal((37, 41)).astype(np.float32)
    model = big_model(values, "node")
    model.metadata_props.add(key="author", value="someone")
    model.graph.node[1].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'layer1']")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    graph = load_model(path)
    assert graph.metadata["author"] == "someone"
    assert graph.node("add").metadata["pkg.torch.onnx.name_scopes"] == "['', 'layer1']"
    np.testing.assert_array_equal(graph.constant("w").numpy(), values)


FUNCTION = """<ir_version: 9, opset_import: ["": 17, "f": 1]>
g (float[2,3] x) => (float[2,3] y) { z = f.twice(x) y = Relu(z) }
<domain: "f", opset_import: ["": 17]>
twice (a) => (b) { two = Constant <value_float = 2.0> () b = Mul(a, two) }"""


def test_functions_survive(tmp_path):
    graph = load_model(saved(tmp_path, FUNCTION, header=""))
    (function,) = graph.functions.values()
    assert function.name == "twice" and function.graph.opset_imports[""] == 23
    assert graph.opset_imports == {"": 23, "f": 1}
    assert str(graph.type("z")) == "float[2,3]"


def test_a_function_that_splits_says_into_how_many_parts_since_opset_18(tmp_path):
    text = """<ir_version: 9, opset_import: ["": 13, "f": 1]>
    g (float[4,3] x) => (float[2,3] y) { y, z = f.halves(x) }
    <domain: "f", opset_import: ["": 13]>
    halves (a) => (b, c) { b, c = Split(a) }"""
    graph = load_model(saved(tmp_path, text, header=""))
    (function,) = graph.functions.values()
    assert [node.attr("num_outputs") for node in function.graph.nodes] == [2]


def test_a_function_keeps_the_default_that_its_operator_had(tmp_path):
    text = """<ir_version: 9, opset_import: ["": 13, "f": 1]>
    g (float[1,1,4,4] x, float[1,4] r, int64[1] i) => (float[1,1,1,1] y) { y = f.cut(x, r, i) }
    <domain: "f", opset_import: ["": 13]>
    cut (x, r, i) => (y) { y = RoiAlign(x, r, i) }"""
    graph = load_model(saved(tmp_path, text, header=""))
    (function,) = graph.functions.values()
    assert [n.attr("coordinate_transformation_mode") for n in function.graph.nodes] == ["output_half_pixel"]


def test_conversion_leaves_alone_what_means_the_same_and_names_its_constants_apart(tmp_path):
    text = """g (bool c, float[2,3] x) => (float[6,7] y) {
        z = LpPool <kernel_shape = [1]> (w)
        p = Pad <pads = [0, 0, 1, 1], value = 3.0> (x)
        w = Unsqueeze <axes = [0]> (p)
        q = Squeeze <axes = [0]> (z)
        y = If (c) <then_branch = t () => (float[6,7] a) { a = Pad <pads = [2, 2, 1, 1]> (q) },
                    else_branch = e () => (float[6,7] b) { b = Pad <pads = [1, 1, 2, 2]> (q) }> }"""
    graph = load_model(saved(tmp_path, text, header='<ir_version: 7, opset_import: ["": 10]>\n'))
    check(graph)
    assert set(graph.node("LpPool_z").attributes) == {"kernel_shape"}
    names = [*graph.constants, *(value for body in graph.node("If_y").bodies.values() for value in body.constants)]
    assert len(names) == len(set(names)) and {"w_axes", "p_pads", "a_pads", "b_pads"} <= set(names)


def test_a_function_is_converted_whose_attributes_its_calls_refer_to(tmp_path):
    text = """<ir_version: 9, opset_import: ["": 12, "f": 1]>
    g (float[2,3] x) => (float[2,1] y) { y = f.sum <dims = [1]> (x) }
    <domain: "f", opset_import: ["": 12]>
    sum <dims> (a) => (b) { b = ReduceSum <axes: ints = @dims> (a) }"""
    graph = load_model(saved(tmp_path, text, header=""))
    assert graph.opset_imports == {"": 23, "f": 1} and graph.warnings == ()
    (function,) = graph.functions.values()
    axes, total = function.graph.nodes
    assert axes.attr("value_ints").name == "dims" and total.inputs == ("a", axes.outputs[0])


def test_a_function_that_calls_itself_is_refused(tmp_path):
    assert "calls itself" in refusal(saved(tmp_path, FUNCTION.replace("Mul(a, two)", "f.twice(a)"), header=""))


X = "float[2,3,4,4] x"
SCALES = "<float[4] s = {1, 1, 1.5, 3}>"
CONVERTED = [
    (7, f"g ({X}) => (y) {{ y = Upsample <mode = 'nearest', scales = [1.0, 1.0, 1.5, 2.0]> (x) }}"),
    *((9, f"g ({X}) => (y) {SCALES} {{ y = Upsample <mode = '{mode}'> (x, s) }}") for mode in ("nearest", "linear")),
    *((10, f"g ({X}) => (y) {SCALES} {{ y = Resize <mode = '{mode}'> (x, s) }}") for mode in ("nearest", "linear")),
    (11, f"g ({X}) => (y) <float[0] r = {{}}, float[4] s = {{1, 1, 0.7, 2}}> {{ y = Resize (x, r, s) }}"),
    *((11, f"g ({X}) => (y) {{ y = Hardmax <axis = {axis}> (x) }}") for axis in (0, 1, 3, -1)),
    *((v, f"g ({X}) => (y) {{ y = {op} <axis = 2> (x) }}") for op in ("Softmax", "LogSoftmax") for v in (9, 12)),
    *(
        (v, f"g ({X}) => (y) {{ y = Reduce{op} <axes = [1, -1], keepdims = 0> (x) }}")
        for v in (9, 12, 17)
        for op in ("Sum", "Mean", "Max", "Min", "L1", "L2", "LogSumExp", "SumSquare", "Prod")
        if not (op == "Sum" and v > 12)
    ),
    (7, f"g ({X}) => (y) <float[3] s = {{1, 2, 3}}> {{ y = BatchNormalization (x, s, s, s, s) }}"),
    (13, f"g ({X}) => (y) <float[3] s = {{1, 2, 3}}> {{ y, m, v, a, b = BatchNormalization (x, s, s, s, s) }}"),
    (8, f"g ({X}) => (y) {{ y = Dropout (x) }}"),
    (9, f"g ({X}) => (y) {{ y = Clip <min = -0.5, max = 0.25> (x) }}"),
    (10, f"g ({X}) => (y) {{ y = Pad <pads = [0, 0, 1, 1, 0, 0, 2, 2], value = 3.0> (x) }}"),
    (9, f"g ({X}) => (y) {{ y = Slice <axes = [1, 2], starts = [0, 1], ends = [2, 3]> (x) }}"),
    (9, f"g ({X}) => (y) {{ y, i = TopK <k = 2> (x) }}"),
    (11, f"g ({X}) => (y) {{ a, y = Split <axis = 2, split = [1, 3]> (x) }}"),
    (13, f"g ({X}) => (y) {{ a, y = Split <axis = 2> (x) }}"),
    (7, "g (float[4,4] x) => (y) <float[1,4] c = {1, 2, 3, 4}> { y = Gemm <transB = 1> (x, x, c) }"),
    (10, f"g ({X}) => (y) {{ y = AveragePool <kernel_shape = [2, 2], ceil_mode = 1, strides = [3, 3]> (x) }}"),
    (10, "g (float[2,3] x) => (y) <int64[1,1] i = {1}, float[1,1] u = {9}> { y = Scatter (x, i, u) }"),
    (17, "g (float[1,8,1] x) => (y) { y = DFT <axis = 1, onesided = 1> (x) }"),
    (10, f"g ({X}) => (y) <float[1,4] r = {{0, 0, 5, 5}}, int64[1] b = {{0}}> {{ y = RoiAlign <output_height = 3, output_width = 3> (x, r, b) }}"),
    (9, f"g ({X}) => (y) {{ y = GlobalLpPool (x) }}"),
]  # fmt: skip


@pytest.mark.parametrize(("opset", "text"), CONVERTED, ids=[f"{o}-{t[10:90]}" for o, t in CONVERTED])
def test_conversion_keeps_what_each_operator_computes(tmp_path, opset, text):
    header = f'<ir_version: 7, opset_import: ["": {opset}]>\n'
    path = saved(tmp_path, text.replace("'", '"'), header=header)
    graph = load_model(path)
    assert graph.warnings == () and graph.opset_imports[""] in (18, 21, 23)
    from workbench.formats.io.exporting import export_onnx

    export_onnx(graph, tmp_path / "out.onnx")
    x = np.random.default_rng(0).standard_normal(graph.shape("x")).astype(np.float32)
    np.testing.assert_allclose(run(tmp_path / "out.onnx", {"x": x})[0], run(path, {"x": x})[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("opset", "call", "reason"),
    [
        (11, 'Resize <coordinate_transformation_mode = "tf_half_pixel_for_nn"> (x, r, w)', "coordinate mode"),
        (10, "Resize (x, w)", "shrink images"),
    ],
)
def test_what_cannot_be_converted_stays_and_is_named(tmp_path, opset, call, reason):
    text = f"g (float[1,4,2,2] x) => (y) <float[2] s = {{1, 2}}, float[0] r = {{}}, float[4] w = {{1, 1, 0.5, 0.5}}> {{ y = {call} }}"
    graph = load_model(saved(tmp_path, text, header=f'<ir_version: 8, opset_import: ["": {opset}]>\n'))
    assert graph.opset_imports == {"": 23, f"ai.onnx.opset{opset}": opset} and len(graph) == 1
    (warning,) = graph.warnings
    assert f"stays in its form of opset {opset}" in warning and call.split()[0] in warning and reason in warning


def test_newer_opsets_stay(tmp_path):
    header = '<ir_version: 11, opset_import: ["": 24]>\n'
    graph = load_model(saved(tmp_path, "g (float[2] x) => (float[2] y) { y = Relu(x) }", header=header))
    assert graph.opset_imports[""] == 24 and graph.warnings == ()
    graph = load_model(saved(tmp_path, "g (float[2] x) => (float[2] y) { y = Swish(x) }", header=header))
    assert "'Swish'" in graph.warnings[0] and "newer form in opset 24" in graph.warnings[0]


@pytest.mark.parametrize(
    ("op", "kind"), [(op, kind) for op, (_, kinds) in NEWEST_KERNEL.items() for kind in sorted(kinds)]
)
def test_a_newer_form_has_no_kernel_for_these_element_types(op, kind):
    def loads(opset: int) -> bool:
        node = helper.make_node(op, ["x", "x"] if op == "PRelu" else ["x"], ["y"])
        x, y = helper.make_tensor_value_info("x", kind, [2]), helper.make_tensor_value_info("y", kind, None)
        imports = [helper.make_opsetid("", opset)]
        model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=imports, ir_version=10)
        try:
            cpu_session(model)
        except NotImplemented:
            return False
        return True

    assert loads(NEWEST_KERNEL[op][0]) and not loads(22)


POOLED = """g (float[1,2,7,7] x) => (float[1,2,3,3] y)
    <float root = {1.41421354}, float one = {1}, float half = {0.5}> {
    p = AveragePool<kernel_shape=[5,5]>(x)
    a = Div(p, root)  b = Erf(a)  c = Add(b, one)  d = Mul(p, c)  y = Mul(d, half)
}"""


@pytest.mark.parametrize(
    ("mode", "opset", "operators"),
    [("ieee", 20, ["AveragePool", "Gelu"]), ("exact", 17, ["AveragePool", "Div", "Erf", "Add", "Mul", "Mul"])],
)
def test_an_average_does_not_hold_a_model_at_its_opset_but_in_mode_exact(mode, opset, operators, tmp_path):
    path = saved(tmp_path, POOLED, header='<ir_version: 8, opset_import: ["": 17]>\n')
    graph = load_model(path)
    assert graph.opset_imports[""] == OPSET
    with Verifier(graph) as verifier:
        history = api.optimize(graph, preset="simplify", mode=mode, verifier=verifier)
    assert all(step.verdict.ok for step in history.steps[1:]) and history[1].verdict.bit_equal
    api.export(history.graph, tmp_path / "out.onnx")
    written = onnx.load(tmp_path / "out.onnx")
    assert written.opset_import[0].version == opset
    assert [node.op_type for node in written.graph.node] == operators
