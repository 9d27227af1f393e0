"""The operator table against ONNX's own conformance cases, of which each has one operator and expected outputs."""

import warnings
from functools import cache

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import version_converter

from workbench.errors import UserError
from workbench.ir.proto import from_model
from workbench.ir.text import OPSET
from workbench.ops import contracts
from workbench.run.torch_executor import TorchExecutor

SHARES = 16  # the cases take seconds to make, so they are made in the tests and not while tests are collected

# Relative error of one rounding, a few times over, in the narrow float types.
NARROW = {"float16": 2e-3, "bfloat16": 2e-2}

# What contracts themselves leave to ONNX Runtime in these cases.
FALLBACK_REASONS = {
    "torch has no strings",
    "torch folds images of two axes",
    "torch rounds powers of two its own way",
}

# Cases that differ from ONNX's expected outputs, and why. Each is tested to differ still.
DIFFERENT = {
    "test_maxunpool_export_with_output_shape": "indices count in output_shape, as in ONNX Runtime",
    "test_scan_sum": "Scan of opset 8 has a batch axis, which ONNX's version converter leaves in",
    **dict.fromkeys(
        [f"test_bernoulli{kind}{form}" for kind in ("", "_double", "_seed") for form in ("", "_expanded")],
        "random numbers are not those of numpy",
    ),
    **dict.fromkeys(
        [f"test_training_dropout{kind}" for kind in ("", "_default", "_mask", "_default_mask")],
        "random numbers are not those of numpy",
    ),
}


@cache
def cases():
    """name -> (case, model at opset 23); only those whose operators all have contracts and exist at opset 23.

    4-bit floats, which torch lacks, are left out.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases' own divisions by zero
        from onnx.backend.test.case.node import collect_testcases

        collected = collect_testcases(None)
    found = {}
    for case in collected:
        if set(operators(case.model.graph)) <= set(contracts()) and "float4e2m1" not in case.name.lower():
            model = at_opset(case.model)
            if model is not None:
                found[case.name] = (case, model)
    return found


def operators(graph):
    for node in graph.node:
        if node.op_type != "Constant":
            yield f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        for attribute in node.attribute:
            yield from operators(attribute.g)


def at_opset(model):
    """The model at our opset; None where the operator, as the case uses it, came later."""
    version = next(o.version for o in model.opset_import if o.domain == "")
    if version < OPSET:
        return version_converter.convert_version(model, OPSET)
    later = onnx.ModelProto()
    later.CopyFrom(model)
    next(o for o in later.opset_import if o.domain == "").version = OPSET
    try:
        onnx.checker.check_model(later)
    except onnx.checker.ValidationError:
        return None
    return later


def numpy_value(value):
    """A case's tensor; those of types that numpy lacks are stored as protobuf."""
    if isinstance(value, list):
        return [numpy_value(item) for item in value]
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return None if value is None else np.asarray(value)


def compare_case(name):
    """Raise AssertionError where an output differs from what ONNX expects."""
    case, model = cases()[name]
    graph = from_model(onnx_ir.from_proto(model))
    for given, expected in case.data_sets:
        executor = TorchExecutor(graph)
        outputs = executor.run(dict(zip(graph.inputs, map(numpy_value, given), strict=False)))
        assert set(executor.fallbacks.values()) <= FALLBACK_REASONS
        for output, value in zip(graph.outputs, map(numpy_value, expected), strict=True):
            items = {f"{output}[{i}]": v for i, v in enumerate(value)} if isinstance(value, list) else {output: value}
            for key, item in items.items():
                assert_close(outputs[key], item, case)


def assert_close(ours, wanted, case):
    if wanted.dtype.kind in "OSU":
        assert ours.astype(str).tolist() == wanted.astype(str).tolist()
        return
    assert ours.shape == wanted.shape
    relative = max(case.rtol, NARROW.get(wanted.dtype.name, 0.0))
    absolute = max(case.atol, 1e-6)
    with np.errstate(invalid="ignore"):  # float8 NaN
        np.testing.assert_allclose(ours.astype(np.float64), wanted.astype(np.float64), relative, absolute)


def test_the_suite_is_there():
    assert len(cases()) > 1500
    assert set(DIFFERENT) <= set(cases())


@pytest.mark.parametrize("share", range(SHARES))
def test_conformance(share):
    wrong = {}
    for name in sorted(set(cases()) - set(DIFFERENT))[share::SHARES]:
        try:
            compare_case(name)
        except (AssertionError, UserError) as error:
            wrong[name] = str(error)
    assert wrong == {}


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_difference_remains(name):
    with pytest.raises(AssertionError):
        for _ in range(5):  # random numbers may agree once
            compare_case(name)
