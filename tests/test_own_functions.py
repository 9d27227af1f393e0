"""Calls of one operator with different attributes, which every layout strategy converts, through files."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import passes
import tests.carrying_images  # noqa: F401  (it enters its rows)
from tests.carrying import ROWS, Case, Draw, Fixed, assert_near, graph_of
from tests.layout_kinds import CHOSEN
from tests.running import outputs
from tests.test_export import checked
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.formats.io.own_bodies import take_own_bodies
from workbench.formats.opsets.lowering import NotWritable, lowered_to
from workbench.ir import Graph, constant, constant_type
from workbench.ir.to_proto import function_proto
from workbench.ops import contracts
from workbench.ops.npu import own_function
from workbench.pipeline.registry.pass_choice import choose
from workbench.pipeline.running import run_pipeline
from workbench.planning.layout.problem.operator_benchmark import GivenTimes
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext

CONVERTED = [op for op, kind in CHOSEN.items() if kind == "sensitive" and ROWS[op].opset == 23]
OF_UNKNOWN_SIZE = {"MaxUnpool", "workbench.img2col"}  # which strategies that count bytes or time leave
WINDOWS = [
    {},
    {"pads": (1, 1, 1, 1)},
    {"auto_pad": "SAME_UPPER"},
    {"auto_pad": "SAME_LOWER", "strides": (2, 2)},
    {"dilations": (2, 1), "pads": (0, 1, 1, 0)},
]
# What a second call gives beside, or in place of, the attributes of the first; None: it omits them.
OTHERWISE = {
    "BatchNormalization": {"epsilon": 0.1},
    "DepthToSpace": {"mode": None},
    "GridSample": {"align_corners": 1},
    "GroupNormalization": {"epsilon": 0.1},
    "InstanceNormalization": {"epsilon": 0.1},
    "LRN": {"alpha": 0.5, "bias": 2.0},
    "LpPool": {"p": 1},
    "MaxUnpool": {"pads": (0, 0, 0, 0)},
    "workbench.BPA": {"pads": None, "dilations": None},
    "workbench.BPW": {"pads": None, "dilations": None},
    "workbench.img2col": {"pads": None, "strides": None},
    "workbench.tensornorm": {"epsilon": None},
}


def cases(op: str) -> list[Case]:
    """Calls with different sets of attributes, on images of 4 axes."""
    found: dict[frozenset[str], Case] = {}
    for number in range(40):
        case = ROWS[op].make(Draw(zlib.crc32(f"{op} {number}".encode())), op)
        if case.perm_rank == 4:
            found.setdefault(frozenset(case.attributes), case)
            if op in OTHERWISE:
                given = {name: v for name, v in (case.attributes | OTHERWISE[op]).items() if v is not None}
                found.setdefault(frozenset(given), Case(case.operands, given, case.outputs))
    return list(found.values())


def windows(op: str) -> list[Case]:
    """Convolutions and pools of 8 channels, which have a blocked form too."""
    draw = Draw(0)
    given = {"kernel_shape": (3, 3)} if op.endswith("Pool") else {}
    weight = [Fixed(draw.normal(8, 8, 3, 3))] if op == "Conv" else []
    return [Case([draw.normal(1, 8, 9, 10), *weight], given | more) for more in WINDOWS]


def beside_each_other(calls: list[tuple[str, Case]]) -> tuple[Graph, dict, dict]:
    """A graph of these calls, its inputs, and the result of each call alone."""
    parts, feeds, expected = [], {}, {}
    for number, (op, case) in enumerate(calls):
        alone, inputs = graph_of(op, case)
        names = {value: f"{op.rpartition('.')[2]}_{number}_{value}" for value in alone.values()}
        parts.append((alone, names))
        feeds |= {names[value]: array for value, array in inputs.items()}
        expected |= {names[value]: array for value, array in outputs(alone, inputs).items()}
    node_of = [alone.nodes[0].with_values_renamed(names) for alone, names in parts]
    graph = Graph(
        inputs=tuple(feeds),
        outputs=tuple(expected),
        nodes=[
            node.replace(name=f"node_{i}", outputs=tuple(parts[i][1][v] for v in parts[i][0].nodes[0].outputs))
            for i, node in enumerate(node_of)
        ],
        constants={names[v]: tensor for alone, names in parts for v, tensor in alone.constants.items()},
        types={v: constant_type(constant(array)) for v, array in (feeds | expected).items()},
        opset_imports={"": 23, "workbench": 1},
    )
    return graph, feeds, expected


def laid_out(path: Path, strategy: str, target: str, out: Path) -> Graph:
    times = {op: 1.0 if "_N" in op or op == "Transpose" else 100.0 for op in contracts()}
    context = PassContext(load_profile(target), GivenTimes(times))
    history = run_pipeline(load_model(path), choose(preset="none", layout=strategy).passes, context)
    export_onnx(history.graph, out)
    return history.graph


@pytest.fixture(scope="module")
def demanding(tmp_path_factory):
    """A profile that demands every operator with a channels-last form."""
    file = tmp_path_factory.mktemp("profiles") / "all.toml"
    demands = ", ".join(f'"{op}"' for op in CONVERTED)
    file.write_text(f'title = "every form"\nlayout = "NHWC"\nweights = "HWOI"\ndemands = [{demands}]\n')
    return str(file)


@pytest.fixture(scope="module")
def every_operator(tmp_path_factory):
    calls = [(op, case) for op in CONVERTED for case in cases(op)]
    calls += [(op, case) for op in ("Conv", "MaxPool", "AveragePool") for case in windows(op)]
    graph, feeds, expected = beside_each_other(calls)
    path = tmp_path_factory.mktemp("calls") / "calls.onnx"
    export_onnx(graph, path)
    return path, feeds, expected


@pytest.mark.slow
def test_most_operators_are_called_with_several_sets_of_attributes():
    without = {"GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "ConvInteger", "SpaceToDepth"}
    without |= {f"workbench.{name}" for name in ("bilinear", "maskunpool", "mirror", "rotate", "unpool")}
    assert {op for op in CONVERTED if len(cases(op)) < 2} <= without


@pytest.mark.slow
@pytest.mark.slow_after(1)
@pytest.mark.parametrize("strategy", passes.compared_strategies())
def test_calls_with_different_attributes_are_laid_out(every_operator, demanding, strategy, tmp_path):
    path, feeds, expected = every_operator
    out = tmp_path / "out.onnx"
    graph = laid_out(path, strategy, "blocked" if strategy == "blocked" else demanding, out)
    forms = {node.op_type.partition("_N")[0] for node in graph.nodes if "_N" in node.op_type}
    kept = {op for op in CONVERTED if op.rpartition(".")[2] not in forms}
    assert strategy == "blocked" or kept <= OF_UNKNOWN_SIZE
    for output, found in zip(expected, checked(out).run(list(expected), feeds), strict=True):
        assert_near(found, expected[output], output)
    again = load_model(out)
    assert again.warnings == () and again.functions == {}
    assert sorted(node.op for node in again.nodes) == sorted(node.op for node in graph.nodes)
    export_onnx(again, tmp_path / "again.onnx")
    assert computed(tmp_path / "again.onnx") == computed(out)


def computed(path: Path) -> onnx.ModelProto:
    """The model without the types of values between its nodes, of which some do not follow in a function's body."""
    model = onnx.load(path)
    del model.graph.value_info[:]
    return model


PADS_AND_AUTO_PAD = f"""<ir_version: 8, opset_import: ["": 19]>
g (float[1,4,12,12] x) => (float[1,4,8,8] y) <float[4,4,3,3] w = {{{", ".join(map(str, Draw(0).normal(144)))}}}> {{
    a = Conv <pads = [1, 1, 1, 1]> (x, w)
    r = Relu(a)
    b = Conv <auto_pad = "SAME_UPPER"> (r, w)
    c = Conv(b, w)
    y = Conv(c, w)
}}"""


@pytest.fixture
def two_paddings(tmp_path):
    model = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(PADS_AND_AUTO_PAD), model)
    return model


def test_the_names_of_the_functions_say_which_attributes_they_take(two_paddings, tmp_path):
    laid_out(two_paddings, "optimal", "npu", tmp_path / "out.onnx")
    functions = onnx.load(tmp_path / "out.onnx").functions
    assert {f.name: sorted(f.attribute) for f in functions} == {
        "Conv_NHWC_HWOI": [],
        "Conv_NHWC_HWOI__pads": ["pads"],
        "Conv_NHWC_HWOI__auto_pad": ["auto_pad"],
    }


def test_onnx_runs_what_is_written_too(two_paddings, tmp_path):
    laid_out(two_paddings, "optimal", "npu", tmp_path / "out.onnx")
    x = Draw(1).normal(1, 4, 12, 12)
    (expected,) = checked(two_paddings).run(None, {"x": x})
    (found,) = ReferenceEvaluator(onnx.load(tmp_path / "out.onnx")).run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_function_in_the_file_does_not_hide_the_attributes_of_a_new_call(two_paddings, tmp_path):
    """The file has a body for `pads` alone, and the second convolution has `auto_pad`."""
    graph = laid_out(two_paddings, "optimal", "npu", tmp_path / "whole.onnx")
    first = next(node for node in graph.nodes if node.op_type.startswith("Conv_NHWC"))
    alone = Graph(
        inputs=(first.inputs[0],),
        outputs=first.outputs,
        nodes=[first],
        constants={first.inputs[1]: graph.constants[first.inputs[1]]},
        types={value: graph.types[value] for value in (first.inputs[0], first.outputs[0])},
        opset_imports=graph.opset_imports,
    )
    export_onnx(alone, tmp_path / "alone.onnx")
    again = load_model(tmp_path / "alone.onnx")
    call = again.nodes[0]
    other = call.replace(
        attributes={"auto_pad": "VALID"}, inputs=(call.outputs[0], call.inputs[1]), outputs=("z",), name="z"
    )
    more = Graph(
        **again.constructor_arguments | {"outputs": ("z",), "nodes": [call, other], "types": again.types},
    )
    x = Draw(1).normal(1, 12, 12, 4)
    assert outputs(more, {again.inputs[0]: x})["z"].shape == (1, 10, 10, 4)


def test_the_checker_evaluates_each_call_by_its_own_function(two_paddings, done, tmp_path):
    out, certificate = tmp_path / "out.onnx", tmp_path / "c.json"
    done("optimize", two_paddings, "-o", out, "--layout", "optimal", "--target", "npu", "--certificate", certificate)
    said = done("check", two_paddings, out, certificate, "--run", "1", "--require", "log,run")
    assert "for 5 of 5 rewrites, the removed and the inserted nodes alone give equal results" in said


def test_a_text_that_calls_an_operator_of_ours_gets_its_body(tmp_path):
    text = tmp_path / "model.onnxtxt"
    text.write_text("""<ir_version: 8, opset_import: ["": 19, "workbench": 1]>
    g (float[1,2,4,4] x) => (float[1,2,4,4] y) { y = workbench.mirror(x) }""")
    graph = load_model(text)
    assert "workbench.mirror without a body, which no runtime runs; the bodies were added" in graph.warnings[0]
    x = Draw(0).normal(1, 2, 4, 4)
    np.testing.assert_array_equal(checked(Path(graph.source)).run(None, {"x": x})[0], x[..., ::-1])


NOT_OURS = """<ir_version: 8, opset_import: ["": 17, "workbench": 1]>
g (float[1,2,4,4] x) => (float[1,2,4,4] y, float[1,4,4,2] z) {
    y = workbench.Silu(x)
    z = workbench.ConvRelu_NHWC(x)
}
<domain: "workbench", opset_import: ["": 17]> Silu (s) => (t) { t = Neg(s) }
<domain: "workbench", opset_import: ["": 17, "workbench": 1]> ConvRelu_NHWC (a) => (b) {
    c = workbench.Silu(a) b = Transpose <perm = [0, 2, 3, 1]> (c)
}"""


def test_a_function_that_only_has_the_name_of_ours_keeps_its_body(tmp_path):
    onnx.save(onnx.parser.parse_model(NOT_OURS), tmp_path / "model.onnx")
    graph = load_model(tmp_path / "model.onnx")
    assert {node.domain for node in graph.nodes} == {"workbench.of_file"}
    export_onnx(graph, tmp_path / "out.onnx")
    x = Draw(0).normal(1, 2, 4, 4)
    y, z = checked(tmp_path / "out.onnx").run(None, {"x": x})
    np.testing.assert_array_equal(y, -x)
    np.testing.assert_array_equal(z, -x.transpose(0, 2, 3, 1))
    again = load_model(tmp_path / "out.onnx")
    assert again.functions.keys() == graph.functions.keys()


@pytest.mark.parametrize("op_type", ["Silu", "GemmGelu", "MatMulAddGelu", "BPW", "img2col", "bilinear", "maskunpool"])
def test_functions_of_ours_are_known_again_at_every_opset(op_type):
    """Their bodies are of other operators there: Gelu is an Erf before opset 20."""
    function, known = own_function(op_type), 0
    for opset in range(9, 24):
        try:
            written = lowered_to(Graph(functions={function.key: function}, opset_imports={"": 23}), opset)
        except NotWritable:
            continue
        model = onnx.ModelProto(opset_import=[onnx.helper.make_opsetid("", opset)])
        model.functions.append(function_proto(written.functions[function.key]))
        assert [f.name for f in take_own_bodies(model, model.functions[0].node)] == [op_type]
        known += 1
    assert known >= 3
