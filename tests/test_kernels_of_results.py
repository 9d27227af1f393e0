"""What is written runs where the input ran: no rule writes an operator for which ONNX Runtime has no kernel."""

import contextlib

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

import passes as library
import workbench as wb
from tests.loading import saved
from tests.slow import thorough_unless
from workbench.errors import UserError
from workbench.formats.io.exporting import export_onnx
from workbench.ir import Edit, Node
from workbench.ir.text import from_text
from workbench.ir.types import DataType
from workbench.rewrite.core.passes import with_options
from workbench.rewrite.core.runtime_kernels import MOVES, has_long_been_run, without_kernel

DTYPES = ("float", "double", "float16", "bfloat16")
NEWEST = 26  # the newest opset that ONNX Runtime 1.31 opens
_TYPES = {f"tensor({name.lower()})": number for name, number in TensorProto.DataType.items()}


def lacks_kernel(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = model if isinstance(model, str) else model.SerializeToString()
    try:
        onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except NoKernel:
        return True
    return False


# ---- what is known without asking -----------------------------------------------------------------


def call_of(op, opset, dtype):
    """A call with the fewest operands, the first of this element type, and its operands' types; None if there is none."""
    schema = onnx.defs.get_schema(op, opset, "")
    if schema.deprecated or not schema.max_input:
        return None
    chosen, operands = {}, []
    for index in range(max(schema.min_input, 1)):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        wanted = (dtype, "int64", "int32", "bool", "uint8", "float") if formal.type_str not in chosen else ()
        found = next((_TYPES[t] for name in wanted if (t := f"tensor({name})") in formal.types), None)
        if found is not None:
            chosen[formal.type_str] = found
        if formal.type_str not in chosen:
            return None
        operands.append(helper.make_tensor_value_info(f"i{index}", chosen[formal.type_str], None))
    values = {onnx.AttributeProto.INT: 1, onnx.AttributeProto.INTS: [1], onnx.AttributeProto.FLOAT: 1.0}
    required = {name: a.type.value for name, a in schema.attributes.items() if a.required}
    if not required.items() <= {(name, kind) for name, kind in required.items() if kind in values}:
        return None
    results = [onnx.ValueInfoProto(name=f"o{index}") for index in range(max(schema.min_output, 1))]
    node = helper.make_node(op, [i.name for i in operands], [o.name for o in results],
                            **{name: values[kind] for name, kind in required.items()})  # fmt: skip
    graph = helper.make_graph([node], "g", operands, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return model, [DataType(info.type.tensor_type.elem_type) for info in operands]


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype",
    [
        thorough_unless(t in ("float", "float16", "int64"), t)
        for t in (*DTYPES, "int64", "int32", "int8", "uint8", "bool")
    ],
)
def test_what_is_not_asked_is_run(dtype):
    """Each form of each operator: at the opset that made it, and at the newest."""
    asked, unasked, lacking = 0, 0, []
    for op in sorted({schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}):
        versions = {
            s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == op and s.domain == ""
        }
        for opset in sorted({min(max(version, 7), NEWEST) for version in versions} | {NEWEST}):
            if not onnx.defs.has(op, opset, ""):
                continue
            found = call_of(op, opset, dtype)
            if found is None:
                continue
            model, types = found
            if not has_long_been_run(op, types, opset):
                asked += 1
                continue
            unasked += 1
            with contextlib.suppress(Fail):  # the call lacks what the operator needs to be opened
                if lacks_kernel(model):
                    lacking.append((op, opset))
    assert lacking == [] and unasked >= len(MOVES) and asked


# ---- what rules write -----------------------------------------------------------------------------


def test_a_kernel_that_is_missing_at_the_files_opset_stops_the_rewrite(tmp_path):
    """Swish came with opset 24, for which ONNX Runtime has its body, and none for opset 25."""
    text = "g (float[N,4] x) => (float[N,4] y) { s = Sigmoid (x) y = Mul (x, s) }"
    written = {}
    for opset in (23, 24, 25, 26):
        path = saved(tmp_path, text, header=f'<ir_version: 10, opset_import: ["": {opset}]>\n')
        history = wb.optimize(wb.load(path), verify="off")
        wb.export(history.graph, tmp_path / "out.onnx")
        assert not lacks_kernel(str(tmp_path / "out.onnx"))
        written[opset] = [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node]
    assert written == {23: ["Sigmoid", "Mul"], 24: ["Swish"], 25: ["Sigmoid", "Mul"], 26: ["Sigmoid", "Mul"]}


def test_the_refusal_is_one_sentence(tmp_path):
    from workbench.pipeline.run_limits import limits_of

    text = "g (float[N,4] x) => (float[N,4] y) { s = Sigmoid (x) y = Mul (x, s) }"
    graph = wb.load(saved(tmp_path, text, header='<ir_version: 10, opset_import: ["": 25]>\n'))
    rules = library.find_pass("recompose_activations").rules
    rule = next(rule for rule in rules if rule.name == "swish")
    edit = rule.match(graph, graph.node("Mul_y"), library.find_pass("recompose_activations")()).edit
    said = limits_of(graph).refusal(graph, edit)
    assert said == "ONNX Runtime has no kernel for Swish of opset 25, and runs what that would replace"


@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [
        pytest.param("Neg", "Swish", True, id="only the new one lacks a kernel"),
        pytest.param("Neg", "Relu", False, id="both run"),
        pytest.param("Swish", "Mish", False, id="neither runs"),
        pytest.param("Swish", "Neg", False, id="only the old one lacks a kernel"),
    ],
)
def test_refused_is_what_ran_and_would_not(before, after, is_refused):
    """In double, for which ONNX Runtime is asked."""
    graph = from_text(f"g (double[4] x) => (double[4] y) {{ y = {before}(x) }}")
    graph.opset_imports[""] = NEWEST
    edit = Edit(remove=(graph.producer("y").name,), insert=(Node(after, ("x",), ("y",), name="new"),))
    assert bool(without_kernel(graph, edit)) is is_refused


EXAMPLES = [
    (name, index)
    for name, cls in library.all_passes().items()
    if not cls.missing() and not cls.demonstration and cls.rules and not name.startswith("ort_")
    for index in range(len(cls.examples()))
]


def require_runs(name, index, dtype, opset, tmp_path):
    example = library.find_pass(name).examples()[index]
    text = example.before.replace("float[", f"{dtype}[").replace("float ", f"{dtype} ")
    try:
        graph = from_text(text)
        if graph.opset_imports[""] != 23:
            return False
        graph.opset_imports[""] = max(opset, graph.opset_imports[""])
        export_onnx(graph, tmp_path / "in.onnx", check=False, opset=opset)
        if lacks_kernel(str(tmp_path / "in.onnx")):
            return False
        chosen = with_options(library.find_pass(name), example.options)
        history = wb.optimize(wb.load(tmp_path / "in.onnx"), [chosen], mode="fast", verify="off")
        wb.export(history.graph, tmp_path / "out.onnx")
    except (UserError, InvalidArgument, InvalidGraph, Fail, ValueError):
        return False  # the example is not a model in this element type
    assert not lacks_kernel(str(tmp_path / "out.onnx")), f"{name} {dtype} {opset}"
    return bool(history[1].rewrites)


def test_what_the_examples_of_all_rules_become_runs_where_they_ran(tmp_path):
    done = [require_runs(name, index, "double", NEWEST, tmp_path) for name, index in EXAMPLES]
    assert sum(done) > 100


@pytest.mark.slow
@pytest.mark.parametrize("opset", [17, 23, thorough_unless(False, 25), 26])
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_result_runs_where_its_example_ran(tmp_path, dtype, opset):
    for name, index in EXAMPLES:
        require_runs(name, index, dtype, opset, tmp_path)
