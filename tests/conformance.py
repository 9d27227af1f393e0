"""The torch executor on ONNX's own conformance cases: what becomes of each, for `docs/conformance.md` and its test."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx.backend.test.case.test_case import TestCase

from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.errors import UserError
from workbench.formats.io.onnx_file import load_proto
from workbench.ops.dtypes import torch_dtype

NATIVE, FALLBACK, REFUSED, DISPUTED, WRONG = KINDS = ("native", "fallback", "refused", "disputed", "wrong")

# Expected outputs that this executor does not give, and what stands against them; the test holds each sentence.
DISPUTES = {
    "test_maxunpool_export_with_output_shape": "ONNX Runtime differs in the same numbers: "
    "indices are places in `output_shape`, as MaxPool gives them, and not in the shape that the window implies",
    **dict.fromkeys(
        ("test_dft_inverse", "test_dft_inverse_opset19"),
        "ONNX Runtime differs too: the ten numbers are zeros, and numpy's rounding leaves 2e-7 in the expected output, "
        "with an absolute tolerance of 1e-7",
    ),
    "test_attention_4d_causal_fp16_expanded": "two numbers miss a tolerance that is less than two roundings of "
    "float16, where each step of the body is computed exactly and rounded once",
}

# Their numbers are drawn, and no runtime draws those of numpy: element type and shape are compared.
RANDOM = re.compile(r"test_bernoulli.*|test_training_dropout(_default)?(_mask)?")
BFLOAT16_RTOL = 2**-6  # two steps of bfloat16, as in ONNX's own runner


@dataclass(frozen=True)
class Verdict:
    """What became of a case. `reason`: of a fallback, of a refusal, or what differs."""

    case: str
    operator: str
    kind: str
    reason: str = ""


@cache
def cases() -> dict[str, TestCase]:
    """Every single-operator case of the installed onnx package, by name; they take about ten seconds to make."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases' own divisions by zero
        from onnx.backend.test.case.node import collect_testcases

        return {case.name: case for case in collect_testcases(None)}


@cache
def verdicts() -> tuple[Verdict, ...]:
    """One for each case, in the order of their names."""
    return tuple(verdict(name) for name in sorted(cases()))


def verdict(name: str) -> Verdict:
    """Load the case as a file would be, run it, and compare every output."""
    case, operator = cases()[name], operator_of(name)
    try:
        model = onnx.ModelProto.FromString(case.model.SerializeToString())
        executor = TorchExecutor(load_proto(model))
        wrong = next(filter(None, _differences(case, executor)), "")
    except UserError as error:
        return Verdict(name, operator, REFUSED, str(error))
    if wrong:
        disputed = name in DISPUTES
        return Verdict(name, operator, DISPUTED if disputed else WRONG, DISPUTES.get(name, wrong))
    if executor.fallbacks:
        reasons = (why if op == operator else f"{op}: {why}" for op, why in sorted(executor.fallbacks.items()))
        return Verdict(name, operator, FALLBACK, "; ".join(reasons))
    return Verdict(name, operator, NATIVE)


def operator_of(name: str) -> str:
    """The operator that a case is of; an expanded case, which has the body of one, is of that one."""
    plain = name.split("_expanded")[0]
    nodes = cases()[plain if plain in cases() else name].model.graph.node
    node = next((n for n in nodes if n.op_type != "Constant"), nodes[0])
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def _differences(case: TestCase, executor: TorchExecutor) -> Iterator[str]:
    """What differs in each output of each data set; empty where nothing does."""
    graph = executor.graph
    for given, expected in case.data_sets:
        inputs = dict(zip(graph.inputs, map(array, given), strict=True))
        for _ in range(2):  # by its steps, and written out as Python
            outputs = executor.run_tensors(executor.upload(inputs))
            for name, wanted in zip(graph.outputs, map(array, expected), strict=True):
                yield _difference(outputs[name], wanted, case, name)


def array(value: Any) -> Any:
    """A case's value: an array, a list of such, or None; types that numpy lacks come as protobuf."""
    if isinstance(value, (list, tuple)):
        return [array(item) for item in value]
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return None if value is None else np.asarray(value)


def _difference(ours: Any, wanted: Any, case: TestCase, name: str) -> str:
    """Types, shapes and numbers; integers, booleans and strings must be equal, floats within the case's tolerances."""
    if wanted is None or isinstance(wanted, list):
        return _difference_of_lists(ours, wanted, case, name)
    if ours is None or isinstance(ours, list):
        return f"output {name} is no tensor"
    if wanted.dtype.kind in "OSU":
        same = ours.shape == wanted.shape and ours.astype(str).tolist() == wanted.astype(str).tolist()
        return "" if same else f"output {name} has other strings"
    if isinstance(ours, np.ndarray):
        return f"output {name} has strings"
    dtype = torch_dtype(onnx_ir.DataType.from_numpy(wanted.dtype))
    if ours.dtype != dtype:
        return f"output {name} is of {ours.dtype}, not {dtype}"
    if tuple(ours.shape) != wanted.shape:
        return f"output {name} has shape {list(ours.shape)}, not {list(wanted.shape)}"
    if RANDOM.fullmatch(case.name.split("_expanded")[0]):
        return ""
    return _difference_of_numbers(ours, wanted, case, name)


def _difference_of_lists(ours: Any, wanted: Sequence | None, case: TestCase, name: str) -> str:
    if wanted is None:
        return "" if ours is None else f"output {name} holds something"
    if not isinstance(ours, list) or len(ours) != len(wanted):
        return f"output {name} is no sequence of {len(wanted)}"
    return next(filter(None, (_difference(o, w, case, name) for o, w in zip(ours, wanted, strict=True))), "")


def _difference_of_numbers(ours: Any, wanted: np.ndarray, case: TestCase, name: str) -> str:
    narrow = ours.is_floating_point() and ours.dtype.itemsize < 4
    found = (ours.float() if narrow else ours).numpy()
    if not (ours.is_floating_point() or ours.is_complex()):
        far = found != wanted.astype(found.dtype)
    else:
        relative = max(case.rtol, BFLOAT16_RTOL) if wanted.dtype.name == "bfloat16" else case.rtol
        with np.errstate(invalid="ignore"):  # NaN of float8
            far = ~np.isclose(found, wanted.astype(found.dtype), relative, case.atol, equal_nan=True)
    if not far.any():
        return ""
    place = np.unravel_index(int(far.argmax()), far.shape)
    return (
        f"output {name} has {int(far.sum())} of {far.size} numbers wrong, "
        f"the first {found[place]!s} where {wanted[place]!s} is expected"
    )
