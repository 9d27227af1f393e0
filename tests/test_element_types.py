"""The element types in which operators that move elements run, and the numbers that a type represents."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from workbench.ir import DataType
from workbench.ir.text import OPSET
from workbench.rewrite.analyses.casts import CASTABLE, type_name
from workbench.rewrite.analyses.element_types import MOVERS, NO_FLOAT16, NO_KERNEL, represented

TYPES = sorted(CASTABLE)
CALLS = {  # operator -> shape of x, the call, further operands
    "Transpose": ("2,3", "Transpose(x)", ""),
    "Reshape": ("2,3", "Reshape(x, i)", "int64[1] i = {-1}"),
    "Flatten": ("2,3", "Flatten(x)", ""),
    "Squeeze": ("1,3", "Squeeze(x, i)", "int64[1] i = {0}"),
    "Unsqueeze": ("2,3", "Unsqueeze(x, i)", "int64[1] i = {0}"),
    "Identity": ("2,3", "Identity(x)", ""),
    "Slice": ("3", "Slice(x, i, e)", "int64[1] i = {0}, int64[1] e = {2}"),
    "Split": ("2", "Split(x, i)", "int64[1] i = {2}"),
    "Gather": ("3", "Gather(x, i)", "int64[2] i = {2, 0}"),
    "GatherElements": ("3", "GatherElements(x, i)", "int64[2] i = {2, 0}"),
    "GatherND": ("3", "GatherND(x, i)", "int64[2,1] i = {2, 0}"),
    "Expand": ("1", "Expand(x, i)", "int64[1] i = {4}"),
    "Tile": ("2", "Tile(x, i)", "int64[1] i = {3}"),
    "DepthToSpace": ("1,4,1,1", "DepthToSpace<blocksize=2>(x)", ""),
    "SpaceToDepth": ("1,1,2,2", "SpaceToDepth<blocksize=2>(x)", ""),
    "Pad": ("2", "Pad(x, i)", "int64[2] i = {1, 0}"),
    "Where": ("2", "Where(c, x, x)", "bool[2] c = {0, 1}"),
    "Concat": ("2", "Concat<axis=0>(x, x)", ""),
    **{op: ("2", f"{op}(x)", "") for op in ("Abs", "Neg", "Relu")},
    **{op: ("2", f"{op}(x, x)", "") for op in ("Max", "Min")},
}


def session(op: str, dtype: DataType, path=None) -> onnxruntime.InferenceSession:
    shape, call, operands = CALLS[op]
    header = f'<ir_version: 10, opset_import: ["": {OPSET}]>'
    text = f"{header} g ({type_name(dtype)}[{shape}] x) => ({type_name(dtype)}[A] y) <{operands}> {{ y = {call} }}"
    model = parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    if path is not None:
        options.optimized_model_filepath = str(path)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("op", sorted(MOVERS))
def test_the_types_without_a_kernel_are_those_that_onnx_runtime_refuses(op):
    schema = onnx.defs.get_schema(op, OPSET)
    allowed = [
        dtype for dtype in TYPES if f"tensor({type_name(dtype)})" in schema.inputs[1 if op == "Where" else 0].types
    ]
    missing = set()
    for dtype in allowed:
        try:
            session(op, dtype)
        except NoKernel:
            missing.add(dtype)
    assert missing == NO_KERNEL.get(op, frozenset())


@pytest.mark.parametrize("op", sorted(MOVERS))
def test_float16_is_computed_in_float_by_the_operators_that_are_said_to_be(op, tmp_path):
    session(op, DataType.FLOAT16, tmp_path / "m.onnx")
    casts = [node for node in onnx.load(tmp_path / "m.onnx").graph.node if node.op_type == "Cast"]
    assert bool(casts) == (op in NO_FLOAT16)


@pytest.mark.parametrize(
    ("numbers", "dtype", "kept"),
    [
        (np.float32([0.5, -0.0, np.nan, np.inf, 65504, 2**-24]), DataType.FLOAT16, True),
        (np.float32([65520]), DataType.FLOAT16, False),
        (np.float32([0.1]), DataType.FLOAT16, False),
        (np.float32([2**-25]), DataType.FLOAT16, False),
        (np.float32([3, -1]), DataType.INT8, True),
        (np.float32([-0.0]), DataType.INT8, False),
        (np.float32([np.nan]), DataType.INT64, False),
        (np.float32([2.0]), DataType.BOOL, False),
        (np.float32([1.0, 0.0]), DataType.BOOL, True),
        (np.float64([2**63]), DataType.INT64, False),
        (np.int64([2**53]), DataType.DOUBLE, True),
        (np.int64([2**53 + 1]), DataType.DOUBLE, False),
        (np.int64([-1]), DataType.UINT8, False),
        (np.float32([1.0, 2**-8 + 1]), DataType.BFLOAT16, False),
        (np.append(np.zeros(5000, np.float32), np.float32(0.1)), DataType.FLOAT16, False),
        (np.zeros((0, 3), np.float32), DataType.FLOAT16, True),
    ],
    ids=str,
)
def test_numbers_are_represented_with_sign_and_all_digits_or_not_at_all(numbers, dtype, kept):
    found = represented(numbers, dtype)
    assert (found is not None) == kept
    if found is not None:
        assert found.dtype == dtype.numpy()
        back = found.astype(numbers.dtype)
        np.testing.assert_array_equal(back, numbers)
        np.testing.assert_array_equal(np.signbit(back), np.signbit(numbers))
