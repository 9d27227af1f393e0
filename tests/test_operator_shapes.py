"""The shapes in operators' docstrings, on random calls and on ONNX's own cases."""

from __future__ import annotations

import dataclasses
import inspect
import zlib

import onnx
import pytest
from torch import fx

from tests.carrying import Draw, graph_of
from tests.conformance import array, cases
from tests.operator_shapes import fault, forms_of
from tests.ort_operators import NATIVE
from tests.test_fusion_kinds import TESTED
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.errors import UserError
from workbench.formats.io.onnx_file import load_proto
from workbench.ops import contract, contracts

# Their shapes depend on an equation, or on the number of operands or results.
NOT_IN_THE_NOTATION = {"Einsum", "Concat", "Split", "com.microsoft.QLinearConcat"}


@pytest.fixture
def calls(monkeypatch):
    """Faults of the calls that executors make, and the operators that they call."""
    faults, called = [], set()
    checked = {
        op for op, known in contracts().items() if known.category not in ("sequence", "control")
    } - NOT_IN_THE_NOTATION

    def spied(op, run):
        def spy(call, *operands):
            results = run(call, *operands)
            if op in checked and not any(isinstance(x, fx.Proxy) for x in operands):
                called.add(op)
                wrong = fault(run, call, operands, results)
                faults.extend([f"{op}: {wrong}"] if wrong else [])
            return results

        return spy

    for op, known in contracts().items():
        monkeypatch.setitem(contract._TABLE, op, dataclasses.replace(known, run=spied(op, known.run)))
    return faults, called


@pytest.mark.parametrize("op", [*TESTED, *(op for op in NATIVE if op not in TESTED)])
def test_the_shapes_of_random_calls_are_those_of_the_docstring(op, calls):
    faults, called = calls
    for number in range(8):
        draw = Draw(zlib.crc32(f"{op} {number}".encode()))
        make = TESTED[op].make if op in TESTED else None
        graph, feeds = graph_of(op, make(draw, op) if make else NATIVE[op](draw), TESTED[op].opset if make else 23)
        TorchExecutor(graph).run(feeds)
    assert faults == []
    assert op in called or op in NOT_IN_THE_NOTATION


@pytest.mark.slow
def test_the_shapes_of_onnxs_cases_are_those_of_the_docstrings(calls):
    faults, _ = calls
    for case in cases().values():
        try:
            executor = TorchExecutor(load_proto(onnx.ModelProto.FromString(case.model.SerializeToString())))
            inputs = zip(executor.graph.inputs, map(array, case.data_sets[0][0]), strict=True)
            executor.run_tensors(executor.upload(dict(inputs)))
        except UserError:
            continue
    assert sorted(set(faults)) == []


def test_operands_with_shapes_are_parameters():
    for op, known in contracts().items():
        names = set(inspect.signature(inspect.unwrap(known.run)).parameters)
        for form in forms_of(known.run):
            assert {value.name for value in form.operands} - {""} <= names, op
