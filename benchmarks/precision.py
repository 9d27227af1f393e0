"""Casts by every precision strategy and by other converters.

One row per model and converter. Each model is simplified first, so that all of them get the same file; ours know from a
run on seeded inputs what must stay. The
converters of others are measured where they are installed: onnxconverter-common (float16, auto_mixed_precision), ONNX
Runtime's transformers package and ModelOpt's AutoCast, which is calibrated by the same inputs. Counted are the Casts
between float32 and float16 of what is written, and the bytes that they read and write in one run. The error is the
largest of any output, relative to its largest element, where each result in float16 is rounded, as a device does that
computes in float16; ONNX Runtime on a CPU leaves roundings out. The default models are three samples, and two networks
of `gpu/networks.py` with random weights.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import onnx

import workbench as wb
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, Row, default_and_real, table
from benchmarks.shared.models import models_of
from passes import find_pass
from workbench.evidence.verification.verifier import Verifier
from workbench.ir import DataType
from workbench.planning.precision.cast_cost import count_casts
from workbench.run.inputs import write_inputs
from workbench.run.value_recording import RunRecorder

DEFAULT = ("ppocr_cls_v2", "basic_pitch_nmp", "resnet50_narrow", "vit_b16", "llama_block")
STRATEGIES = ("autocast", "greedy", "record-then-insert", "optimal")
TABLE = table("model", "by", "nodes", "Casts", "MB cast", "bound", "stay in float32", "error")


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    for model in models_of(chosen, DEFAULT):
        yield from _rows(model)


def _rows(model: Path) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as scratch, Verifier(wb.load(model)) as original:
        recorder = RunRecorder(original.worker, lambda graph: [original.inputs_of(graph)])
        output_error = recorder.output_error(original.original, "float16")

        def error_of(other: wb.Graph) -> float:
            return output_error.of(other, math.inf)

        simple = wb.optimize(original.original).graph
        file = Path(scratch) / "simple.onnx"
        wb.export(simple, file)
        for strategy in STRATEGIES:
            history = wb.optimize(simple, "", precision=strategy, verifier=original, verify="end")
            facts = history.steps[-1].facts
            bound = (
                "-" if facts.bound is None else f"{facts.bound / 1e6:.2f}, {'reached' if facts.certified else 'not'}"
            )
            yield (
                *(model.stem, strategy, f"{len(history.graph):,}", f"{facts.casts:,}"),
                *(f"{facts.bytes_converted / 1e6:.2f}", bound, f"{len(facts.kept):,}"),
                _error(error_of(history.graph)),
            )
        for name, convert in _others(original, Path(scratch)).items():
            yield (model.stem, name, *_converted(convert, file, Path(scratch) / "converted.onnx", error_of))


def _converted(convert: Callable[[Any], Any], file: Path, target: Path, error_of: Callable[[Any], float]) -> Row:
    """The row of another converter: what it wrote, or why it wrote nothing that runs."""
    try:
        with contextlib.redirect_stdout(sys.stderr):  # one of them prints its attempts
            onnx.save(convert(onnx.load(file)), target)
    except Exception as error:  # of whatever kind: it is the result of that converter
        return ("-", "-", "-", "-", "-", f"fails: {_one_line(error)}")
    try:
        onnx.checker.check_model(str(target), full_check=True)
        graph = wb.load(target)
    except Exception as error:
        return ("-", "-", "-", "-", "-", f"its file is invalid: {_one_line(error)}")
    counts = count_casts(graph, DataType.FLOAT16)
    wide = sum(
        any((type_ := graph.tensor_type(value)) is not None and type_.dtype == DataType.FLOAT for value in node.outputs)
        for node in graph.nodes
        if node.op != "Cast"
    )
    megabytes = f"{counts.bytes / 1e6:.2f}" + (f", {counts.unknown} unknown" if counts.unknown else "")
    return (f"{len(graph):,}", f"{counts.casts:,}", megabytes, "-", f"{wide:,}", _error_or_reason(error_of, graph))


def _error_or_reason(error_of: Callable[[Any], float], graph: Any) -> str:
    try:
        return _error(error_of(graph))
    except Exception as error:
        return f"does not run: {_one_line(error)}"


def _others(original: Any, scratch: Path) -> dict[str, Callable[[Any], Any]]:
    found: dict[str, Callable[[Any], Any]] = {}
    try:
        from onnxconverter_common import auto_mixed_precision, float16

        found["onnxconverter-common float16"] = lambda m: float16.convert_float_to_float16(m, keep_io_types=True)
        found["onnxconverter-common auto_mixed_precision"] = lambda m: (
            auto_mixed_precision.auto_convert_mixed_precision(
                m, dict(original.inputs), rtol=0.02, atol=0.001, keep_io_types=True
            )
        )
    except ImportError:
        print("onnxconverter-common is not installed: it is not measured", file=sys.stderr)
    found["ONNX Runtime transformers float16"] = _by_onnxruntime
    if missing := find_pass("modelopt_autocast").missing():
        print(f"{missing}: ModelOpt is not measured", file=sys.stderr)
    else:
        found["ModelOpt AutoCast"] = partial(_by_modelopt, original.inputs, scratch / "modelopt")
    return found


def _by_modelopt(inputs: Any, folder: Path, model: Any) -> Any:
    """Imported here, since its log goes to what standard output is then."""
    from modelopt.onnx.autocast import convert_to_mixed_precision

    calibration, file = folder / "calibration", folder / "model.onnx"
    calibration.mkdir(parents=True)
    onnx.save(model, file)
    write_inputs(calibration / "0.npz", inputs)
    return convert_to_mixed_precision(str(file), keep_io_types=True, calibration_data=str(calibration))


def _by_onnxruntime(model: Any) -> Any:
    """Sorted, since the converter adds its Casts at the end and its own scripts sort what it gives."""
    from onnxruntime.transformers import float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    converted = OnnxModel(float16.convert_float_to_float16(model, keep_io_types=True))
    converted.topological_sort()
    return converted.model


def _error(error: float) -> str:
    return f"{error:.1e}" if math.isfinite(error) else "NaN or infinity"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).replace("|", "/").split())[:120].strip()


BENCHMARK = Benchmark(measure, (TABLE,), MODELS, default_and_real)
