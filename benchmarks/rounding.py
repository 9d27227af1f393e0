"""The rounding error of float32 itself.

A rewrite that is equal up to rounding changes the last digits, and a network may magnify the change. The first column
is the difference between the original and the result of the preset `simplify`; the others are the differences of both
from the same network in float64. If the original differs from float64 by more than from the simplified one, float32 has
no more precision.

Every figure is the largest difference over the largest value, of any output. ONNX Runtime, unoptimized, runs the
float32 networks, torch the float64 one, all on the same seeded inputs. The default models are the samples.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

import workbench as wb
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, RealModels, Row, table
from benchmarks.shared.models import SAMPLES, models_of
from workbench.backends.onnxruntime.sessions import open_session, run_session
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.evidence.verification.verifier import Verifier
from workbench.ir import DataType, Graph, Node, constant

TABLE = table("model", "simplified from original", "original from float64", "simplified from float64")
Tensors = Mapping[str, np.ndarray]


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    yield from map(row, models_of(chosen, SAMPLES))


def row(path: Path) -> Row:
    graph = wb.load(path)
    if graph.functions or any(node.bodies for node in graph.nodes):
        return path.stem, "not measured: bodies and functions cannot be converted to float64", "", ""
    with Verifier(graph) as verifier:
        inputs = verifier.inputs
    with tempfile.TemporaryDirectory() as folder:
        simplified = Path(folder) / "simplified.onnx"
        wb.export(wb.optimize(graph, preset="simplify").graph, simplified)
        ours = run_session(open_session(str(simplified), "disabled"), inputs)
    original = run_session(open_session(str(path), "disabled"), inputs)
    inputs_in_float64 = {
        name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in inputs.items()
    }
    exact = TorchExecutor(in_float64(graph)).run(inputs_in_float64)
    errors = (difference(ours, original), difference(original, exact), difference(ours, exact))
    return (path.stem, *(f"{error:.1e}" for error in errors))


def difference(outputs: Tensors, expected: Tensors) -> float:
    """The largest difference over the largest value, of any float output; over 1 if all values are zero."""
    floats = [name for name in expected if expected[name].dtype.kind == "f"]
    return max(
        float(np.abs(outputs[name] - expected[name]).max() / (np.abs(expected[name]).max() or 1)) for name in floats
    )


def in_float64(graph: Graph) -> Graph:
    """The same network with float64 in place of float32; it must have neither bodies nor functions."""
    constants = {
        name: constant(tensor.numpy().astype(np.float64)) if tensor.dtype == DataType.FLOAT else tensor
        for name, tensor in graph.constants.items()
    }
    return Graph(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        nodes=[_in_float64(node) for node in graph.nodes],
        constants=constants,
        opset_imports=graph.opset_imports,
        dims=graph.dims,
    )


def _in_float64(node: Node) -> Node:
    if node.op == "Cast" and node.attr("to") == DataType.FLOAT:
        return node.replace(attributes={**node.attributes, "to": int(DataType.DOUBLE)})
    value = node.attr("value")
    if node.op == "ConstantOfShape" and (value is None or value.dtype == DataType.FLOAT):
        number = np.zeros(1) if value is None else value.numpy().astype(np.float64)
        return node.replace(attributes={**node.attributes, "value": constant(number)})
    return node


def published(real: RealModels) -> list[list[str]]:
    return [[*real.paths, "bert_5000"]]


BENCHMARK = Benchmark(measure, (TABLE,), MODELS, published)
