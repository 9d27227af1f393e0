"""Every operator is read in its own version: older calls beside foreign operators, at opsets 7 to 23, through every pass.

`python -m tests.older_calls` runs the whole matrix; here is one of each, and with --run-slow more.
"""

import itertools

import numpy as np
import onnx
import pytest
from onnx import parser

import passes as library
import workbench as wb
from tests import conformance
from tests.loading import refusal, run, saved
from tests.older_calls import (
    NEIGHBOURS,
    OLDER,
    cases,
    computed,
    feeds_of,
    model_of,
    pipelines,
    require_canonical,
    require_equal,
    require_kept,
    require_sound,
)
from tests.slow import thorough_unless
from workbench.formats.io import load_model
from workbench.formats.io.checks import every_node
from workbench.formats.io.onnx_file import load_proto
from workbench.formats.io.upgrades import changes
from workbench.formats.io.written_types import ContradictedOutput
from workbench.formats.opsets.written import OpsetError
from workbench.ir import Edit, Node, TensorType
from workbench.ir.function_calls import graphs_within
from workbench.ir.text import OPSET
from workbench.ir.types import DataType
from workbench.ir.versioned import opset_of_domain

LAYOUTS = [name for name in pipelines() if name.startswith("layout ")]
QUICK = {"preset simplify": pipelines()["preset simplify"]} | {name: pipelines()[name] for name in LAYOUTS}


def own_calls(graph):
    """The calls in the form of another opset."""
    nodes = (node for inner in graphs_within(graph, graph.functions) for node in inner.nodes)
    return [node for node in nodes if opset_of_domain(node.domain) is not None]


# ---- the table ------------------------------------------------------------------------------------


def test_the_table_has_each_operator_and_attribute_that_had_an_older_form():
    seen = {}
    for older in OLDER.values():
        for opset in range(older.first, older.last + 1):
            for node in every_node(model_of(older, opset)):
                seen.setdefault((node.op_type, opset), set()).update(a.name for a in node.attribute)
    for name in {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}:
        for opset in range(7, OPSET):
            known = onnx.defs.has(name, opset, "")
            if not known or onnx.defs.get_schema(name, opset, "").deprecated or not changes(name, opset, OPSET):
                continue
            assert set(onnx.defs.get_schema(name, opset, "").attributes) <= seen.get((name, opset), set()), (
                name,
                opset,
            )


@pytest.mark.parametrize("name", OLDER)
def test_each_older_call_is_converted_or_in_a_domain_of_its_own(name):
    older = OLDER[name]
    for opset in (older.first, older.last):
        graph = load_proto(model_of(older, opset))
        require_canonical(graph)
        assert bool(own_calls(graph)) == (older.own and opset < OPSET)
        assert bool(graph.warnings) == (older.own or name == "GroupNormalization")


# ---- the matrix -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OLDER)
def test_a_result_keeps_what_the_file_had_computes_the_same_and_is_optimized_again(name, tmp_path):
    """Each call at its first and last opset, in neighbourhoods and through pipelines that take turns."""
    older, turn = OLDER[name], list(OLDER).index(name)
    names = list(QUICK)
    for index, opset in enumerate(dict.fromkeys((older.first, older.last))):
        neighbour = NEIGHBOURS[(turn + index) % len(NEIGHBOURS)]
        if (older, opset, neighbour) not in set(cases()):
            neighbour = "before"
        for pipeline in ("preset simplify", names[1 + (turn + index) % (len(names) - 1)]):
            require_sound(model_of(older, opset, neighbour), QUICK[pipeline], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [thorough_unless(not index % 5, name) for index, name in enumerate(pipelines())])
def test_one_in_a_hundred_cases_through_every_pipeline(name, tmp_path):
    for older, opset, neighbour in itertools.islice(cases(), list(pipelines()).index(name) % 100, None, 100):
        require_sound(model_of(older, opset, neighbour), pipelines()[name], tmp_path)


# ---- what was wrong -------------------------------------------------------------------------------


def test_an_enlargement_beside_a_foreign_operator_is_not_removed(tmp_path):
    text = """<ir_version: 5, opset_import: ["": 10, "my": 1]>
    g (float[1,3,6,6] x) => (float[1,3,12,12] y, float[1,3,6,6] z) <float[4] s = {1, 1, 2, 2}> {
        z = my.Op (x) r = Resize <mode = "linear"> (x, s) y = Relu (r) }"""
    graph = require_sound(parser.parse_model(text), {"preset": "simplify"}, tmp_path)
    assert graph.shape("y") == (1, 3, 12, 12) and len(graph.nodes_of({"Resize"})) == 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_a_softmax_of_several_axes_beside_a_foreign_operator_stays_one_through_layouts(tmp_path, layout, op):
    text = f"""<ir_version: 6, opset_import: ["": 11, "my": 1]>
    g (float[1,3,6,6] x) => (float[1,4,4,4] y, float[1,3,6,6] z) {{
        z = my.Op (x) c = Conv (x, w) y = {op} <axis = 1> (c) }}"""
    model = parser.parse_model(text)
    weight = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    require_sound(model, pipelines()[layout], tmp_path)
    written = onnx.load(tmp_path / "third.onnx")
    assert [node.attribute[0].i for node in written.graph.node if node.op_type == op] == [1]


def chain(random, opset):
    """Slices, Pads, Squeezes, Softmaxes and reductions in the forms of an old opset, with foreign calls between them."""
    lines, value, shape = [], "x", [2, 3, 4]
    for index in range(random.integers(2, 7)):
        made, axis = f"v{index}", int(random.integers(0, 3))
        kind = random.choice(["foreign", "slice", "pad", "softmax", "reduce", "clip", "split", "dropout"])
        if kind == "foreign":
            call = f"my.Op ({value})"
        elif kind == "slice":
            call = f"Slice <axes = [{axis}], starts = [{int(shape[axis] > 1)}], ends = [9]> ({value})"
            shape[axis] -= int(shape[axis] > 1)
        elif kind == "pad":
            mode = random.choice(["constant", "edge"])
            pads = [int(place == axis) for place in range(3)] * 2
            call = f'Pad <mode = "{mode}", pads = {pads}, value = 0.5> ({value})'
            shape[axis] += 2
        elif kind == "softmax":
            call = f"{random.choice(['Softmax', 'LogSoftmax', 'Hardmax'])} <axis = {axis}> ({value})"
        elif kind == "reduce":
            call = f"ReduceMax <axes = [{axis}], keepdims = 1> ({value})"
            shape[axis] = 1
        elif kind == "clip":
            call = f"Clip <min = -0.5> ({value})"
        elif kind == "split":
            call, made = f"Split <axis = {axis}, split = [{shape[axis]}]> ({value})", made
        else:
            call = f"Dropout ({value})"
        lines.append(f"{made} = {call}")
        value = made
    header = f'<ir_version: 4, opset_import: ["": {opset}, "my": 1]>'
    sizes = ",".join(map(str, shape))
    return parser.parse_model(f"{header} g (float[2,3,4] x) => (float[{sizes}] {value}) {{ {' '.join(lines)} }}")


@pytest.mark.parametrize("opset", [7, 9])
def test_random_chains_of_older_and_foreign_calls(tmp_path, opset):
    random = np.random.default_rng(opset)
    for _ in range(15):
        require_sound(chain(random, opset), {"preset": "simplify"}, tmp_path)


def test_a_result_with_functions_of_an_old_opset_is_opened_and_optimized_again(tmp_path):
    """A channels-last convolution is a function whose body refers to attributes; beside it are calls of older forms."""
    text = """<ir_version: 4, opset_import: ["": 9]>
    g (float[1,3,8,8] x) => (float[1,3,4,4] p, float[1,3,7,7] c) <float[3,3,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[4] s = {1, 1, 2, 2}> {
        k = Conv <strides = [2, 2]> (x, w) l = LeakyRelu (k) p = Softmax <axis = 1> (l)
        u = Upsample <mode = "nearest"> (l, s) c = Slice <axes = [2, 3], starts = [0, 0], ends = [7, 7]> (u) }"""
    for layout in LAYOUTS:
        require_sound(parser.parse_model(text), {**pipelines()[layout], "passes": None, "preset": "simplify"}, tmp_path)


# ---- what the input had, the output may have -------------------------------------------------------


def test_a_plugin_in_the_default_domain_is_written_as_it_was(tmp_path):
    text = """g (float[1,3,6,6] x) => (int32[1,1] num, float[1,100,4] boxes) {
        i = Identity (x) num, boxes = EfficientNMS_TRT <plugin_version = "1", score_threshold = 0.25> (i) }"""
    path = saved(tmp_path, text, header='<ir_version: 7, opset_import: ["": 13]>\n')
    report = wb.export(wb.optimize(wb.load(path), verify="off").graph, tmp_path / "out.onnx")
    assert report.checks == ("onnx.checker, but for EfficientNMS_TRT",)
    before, after = (onnx.load(file).graph for file in (path, tmp_path / "out.onnx"))
    assert len(after.node) == 1 and after.node[0].attribute == before.node[1].attribute
    assert after.node[0].input == ["x"] and after.output == before.output


def test_a_plugin_with_the_name_of_a_newer_operator_is_not_taken_for_it(tmp_path):
    text = "g (float[2,3] x) => (float[2,3] y) { y = Mish (x) }"
    path = saved(tmp_path, text, header='<ir_version: 7, opset_import: ["": 11]>\n')
    graph = wb.load(path)
    assert graph.node("Mish_y").op == "ai.onnx.opset11.Mish" and graph.opset_imports[""] == OPSET
    wb.export(graph, tmp_path / "out.onnx")
    require_kept(onnx.load(path), onnx.load(tmp_path / "out.onnx"))
    for opset in (17, 23):
        with pytest.raises(OpsetError) as refused:
            wb.export(graph, tmp_path / "out.onnx", opset=opset)
        assert str(refused.value) == (
            f"opset {opset} cannot be written, since Mish 'Mish_y' has no form but that of opset 11; write at opset 11"
        )


@pytest.mark.parametrize(
    ("opset", "call", "fault"),
    [
        (18, "ReduceMax <axes = [1]> (x)", "it has the attribute 'axes', which the operator does not have there"),
        (13, "Squeeze <axes = [0]> (x)", "it has the attribute 'axes', which the operator does not have there"),
        (11, "Relu <alpha = 1.0> (x)", "it has the attribute 'alpha', which the operator does not have there"),
    ],
)
def test_a_call_that_its_opset_does_not_have_is_left_alone(tmp_path, opset, call, fault):
    text = f"g (float[1,3] x) => (float[a,b] y, float[1,3] z) {{ y = {call} i = Identity (x) z = Neg (i) }}"
    path = saved(tmp_path, text, header=f'<ir_version: 8, opset_import: ["": {opset}]>\n')
    graph = wb.load(path)
    assert graph.warnings[0].endswith(
        f"stays in its form of opset {opset}, which no pass changes, and so does the file: {fault}"
    )
    wb.export(wb.optimize(graph, verify="off").graph, tmp_path / "out.onnx")
    before, after = (onnx.load(file).graph.node for file in (path, tmp_path / "out.onnx"))
    assert after[0].op_type == before[0].op_type and after[0].attribute == before[0].attribute


@pytest.mark.parametrize("opset", [24, 25, 26])
def test_a_call_that_says_more_than_the_opset_of_rules_can_is_left_alone(tmp_path, opset):
    text = """g (float[2,3] x) => (int32[2,3] y, float16[2,3] z) {
        y = Cast <to = 6, round_mode = "nearest"> (x) z = Cast <to = 10> (x) }"""
    graph = wb.load(saved(tmp_path, text, header=f'<ir_version: 10, opset_import: ["": {opset}]>\n'))
    assert [node.op for node in graph.nodes] == [f"ai.onnx.opset{opset}.Cast", "Cast"]
    wb.export(graph, tmp_path / "out.onnx")
    written = onnx.load(tmp_path / "out.onnx")
    assert written.opset_import[0].version == opset and {node.domain for node in written.graph.node} == {""}


def test_rules_write_only_what_the_opset_of_a_call_of_its_own_has(tmp_path):
    """Gelu came with opset 20: it is recomposed, unless a call has no form but that of opset 17."""
    gelu = "a = Div (x, r) b = Erf (a) c = Add (b, o) d = Mul (x, c) y = Mul (d, h)"
    for own, operators in (("z = Relu (x)", ["Gelu"]), ("z = Mish (x)", ["Div", "Erf", "Add", "Mul", "Mul"])):
        text = f"""g (float[2,3] x) => (float[2,3] y, float[2,3] z)
            <float r = {{1.41421354}}, float o = {{1}}, float h = {{0.5}}> {{ {own} {gelu} }}"""
        graph = wb.load(saved(tmp_path, text, header='<ir_version: 8, opset_import: ["": 17]>\n'))
        after = wb.optimize(graph, ["recompose_gelu"], verify="off").graph
        assert [node.op for node in after.nodes if node.outputs != ("z",)] == operators
        wb.export(after, tmp_path / "out.onnx")


INSIDE = """<ir_version: 8, opset_import: ["": 11, "my": 1, "f": 1]>
g (float[2,3,4] x) => (float[2,3,4] y) <bool c = {1}> { z = f.F (x) y = If (c) <
    then_branch = t () => (float[2,3,4] a) {
        r = Softmax <axis = 1> (z) q = my.Op (r) u = Unsqueeze <axes = [0]> (q) a = Squeeze <axes = [0]> (u) },
    else_branch = e () => (float[2,3,4] b) { o = my.Op (z) b = Clip (o) }> }
<domain: "f", opset_import: ["": 11, "my": 1]> F (a) => (b) {
    s = my.Op (a) u = Unsqueeze <axes = [0]> (s) t = Hardmax <axis = 1> (u) b = Squeeze <axes = [0]> (t) }"""


@pytest.mark.parametrize("how", QUICK)
def test_older_and_foreign_calls_in_bodies_and_functions(tmp_path, how):
    """Strict inference demands a type of what a body reads, and none follows from a foreign operator."""
    require_sound(parser.parse_model(INSIDE), QUICK[how], tmp_path)


def test_what_a_check_leaves_out_is_said(tmp_path):
    (tmp_path / "m.onnx").write_bytes(parser.parse_model(INSIDE).SerializeToString())
    report = wb.export(wb.load(tmp_path / "m.onnx"), tmp_path / "out.onnx")
    assert report.checks == ("onnx.checker, but for types that a foreign operator leaves open",)


def test_a_file_has_no_call_in_a_domain_that_stands_for_an_opset_in_memory(tmp_path):
    text = "g (float[2,3] x) => (float[2,3] y) { y = ai.onnx.opset11.Softmax (x) }"
    said = refusal(saved(tmp_path, text, header='<ir_version: 8, opset_import: ["": 17, "ai.onnx.opset11": 11]>\n'))
    assert "is of the domain 'ai.onnx.opset11', which stands for ONNX's of that opset in memory alone; export" in said


# ---- functions ------------------------------------------------------------------------------------


def test_a_function_refers_to_its_attributes_again_in_the_file_that_is_written(tmp_path):
    text = """<ir_version: 9, opset_import: ["": 17, "f": 1]>
    g (float[2,3,4] x) => (float[2,1,4] y) { y = f.mean <dims = [1]> (x) }
    <domain: "f", opset_import: ["": 17]> mean <dims> (a) => (b) { b = ReduceMean <axes: ints = @dims> (a) }"""
    path = saved(tmp_path, text, header="")
    graph = load_model(path)
    require_canonical(graph)
    wb.export(graph, tmp_path / "out.onnx")
    (function,) = onnx.load(tmp_path / "out.onnx").functions
    (node,) = function.node
    assert (node.op_type, node.attribute[0].ref_attr_name, list(node.input)) == ("ReduceMean", "dims", ["a"])


def test_a_function_of_another_opset_keeps_a_call_of_its_own_version():
    text = """<ir_version: 9, opset_import: ["": 17, "f": 1]>
    g (float[1,3,2,2] x) => (float[1,3,4,4] y) { y = f.larger (x) }
    <domain: "f", opset_import: ["": 11]> larger (a) => (b) {
        r = Constant <value = float[1] {1}> () s = Constant <value = float[4] {1, 1, 2, 2}> ()
        b = Resize <mode = "nearest", coordinate_transformation_mode = "tf_half_pixel_for_nn"> (a, r, s) }"""
    graph = load_proto(parser.parse_model(text))
    (function,) = graph.functions.values()
    assert function.graph.nodes[-1].op == "ai.onnx.opset11.Resize" and "ai.onnx.opset11" not in graph.opset_imports


# ---- declared outputs -------------------------------------------------------------------------------


def test_a_rewrite_that_changes_the_size_of_an_output_is_not_written(tmp_path):
    graph = wb.load(saved(tmp_path, "g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }"))
    edit = Edit(remove=("Relu_y",), insert=(Node("Transpose", ("x",), ("y",), name="wrong"),))
    graph.apply(edit)
    graph.apply(Edit(types={"y": TensorType(DataType.FLOAT, (3, 2))}))
    with pytest.raises(ContradictedOutput) as refused:
        wb.export(graph, tmp_path / "out.onnx")
    assert str(refused.value) == (
        "output 'y' would be float[3,2], and is float[2,3] in the model: a rewrite changed it; leave that pass out, and "
        "report it"
    )
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("declared", ["1,3", "N,7", "5"])
def test_what_a_file_declares_of_an_output_is_written_again_also_if_it_does_not_follow(tmp_path, declared):
    text = f"g (float[N,5] x) => (float[{declared}] y) {{ i = Identity (x) y = Neg (i) }}"
    path = saved(tmp_path, text)
    graph = wb.load(path)
    wb.export(wb.optimize(graph, verify="off").graph, tmp_path / "out.onnx")
    before, after = (onnx.load(file).graph.output[0] for file in (path, tmp_path / "out.onnx"))
    assert before == after
    says = f"output 'y' is declared as float[{declared}], and is float[N,5]; what is declared is written again"
    assert graph.warnings == (says,)


def test_sizes_of_other_inputs_are_declared_of_outputs_too(tmp_path):
    graph = wb.load(saved(tmp_path, "g (float[N,5] x) => (float[1,5] y) { y = Neg (x) }"), dims={"N": 3})
    wb.export(wb.optimize(graph, ["fix_dims"], verify="off").graph, tmp_path / "out.onnx")
    assert [d.dim_value for d in onnx.load(tmp_path / "out.onnx").graph.output[0].type.tensor_type.shape.dim] == [3, 5]


# ---- second runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("shape", ["2,3,4,4", "N,3,H,W", "2,0,3"])
@pytest.mark.parametrize("opset", [7, 12])
def test_a_softmax_of_several_axes_does_not_grow(tmp_path, op, shape, opset):
    text = f"g (float[{shape}] x) => (float[{shape}] y) {{ y = {op} <axis = 1> (x) }}"
    path = saved(tmp_path, text, header=f'<ir_version: 7, opset_import: ["": {opset}]>\n')
    first = onnx.load(path).graph.node[0]
    for _ in range(3):
        wb.export(wb.optimize(wb.load(path), verify="off").graph, path)
        (node,) = onnx.load(path).graph.node
        assert (node.op_type, node.attribute) == (op, first.attribute)
    model = onnx.load(path)
    if "N" not in shape:
        require_equal(computed(parser.parse_model(f'<ir_version: 7, opset_import: ["": {opset}]> {text}'), feeds_of(model)),
                      computed(model, feeds_of(model)))  # fmt: skip


def test_every_pass_is_in_the_matrix():
    """All but tools, what needs another package or measures, and strategies, which are there by their names."""
    missing = library.all_passes().keys() - {name.removeprefix("pass ") for name in pipelines()}
    assert all(
        name.startswith(("layout_", "precision_", "onnx", "ort_", "modelopt", "saturate")) for name in missing
    ), missing


# ---- cases of ONNX itself ---------------------------------------------------------------------------


@pytest.mark.slow
def test_onnx_s_own_cases_in_older_forms_are_read_and_written_as_they_are(tmp_path):
    """Every twentieth case, at each opset that has its operators: what ONNX Runtime runs gives the same bits again."""
    compared = 0
    for name in sorted(conformance.cases())[::20]:
        case = conformance.cases()[name]
        newest = tmp_path / "newest.onnx"
        newest.write_bytes(case.model.SerializeToString())
        for opset in range(7, OPSET + 1):
            try:
                graph = load_model(newest)
                graph.file_opset = None
                wb.export(graph, tmp_path / "old.onnx", opset=opset)
                inputs = onnx.load(tmp_path / "old.onnx").graph.input
                feeds = dict(zip((i.name for i in inputs), map(conformance.array, case.data_sets[0][0]), strict=False))
                expected = run(tmp_path / "old.onnx", feeds)
            except Exception:  # the case has no form there, or ONNX Runtime does not run it
                continue
            report = wb.export(load_model(tmp_path / "old.onnx"), tmp_path / "out.onnx")
            assert report.written.opset == opset, (name, opset)
            np.testing.assert_equal(run(tmp_path / "out.onnx", feeds), expected, err_msg=f"{name} {opset}")
            compared += 1
    assert compared > 300
