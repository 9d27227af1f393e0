"""Quantizers of others on models, and which operators lose most.

The default models are three samples, and narrow networks of `gpu/networks.py` with random weights. Of the UNet, the
innermost block is measured, on the inputs that it has in a run of the whole.

One row per model and quantizer of ONNX Runtime, with one scale for each weight and with one for each channel, and one
row of ModelOpt's quantizer, where it is installed. Each model is simplified first, since the quantizers expect folded
batch norms. Ranges are those of one input, seeded or recorded, the same on which results are compared. Weights are the
bytes of all constants before and after. The error is the largest of any output, relative to its largest element, in
ONNX Runtime without optimizations. What an operator loses is that error if its rewrite alone is applied, all others
left out; operators that share a quantized operand are one rewrite.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import workbench as wb
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, RealModels, Row, table
from benchmarks.shared.models import models_of
from benchmarks.shared.processes import graph_workbench, ran
from passes import find_pass
from workbench.errors import UserError, one_sentence
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io.exporting import export_onnx
from workbench.formats.opsets.written import NEWEST
from workbench.interfaces.cli.reduce import inputs_path
from workbench.ir import Graph, Node
from workbench.rewrite import AppliedRewrite
from workbench.run.compare import compare
from workbench.run.inputs import read_inputs

DEFAULT = ("ppocr_cls_v2", "basic_pitch_nmp", "resnet50_narrow", "vit_b16_narrow", "llama_block_narrow")
UNET = "unet_sd15_raw"  # each quantized operator is a run, and one of the whole takes seconds
MIDDLE_BLOCK = ("--from", "add_39,ctx,unsqueeze_19,unsqueeze_21", "--to", "add_47")
PUBLISHED = ("magika_v3_3", "ppocrv4_det", "open_nsfw_resnet", "ddddocr_det_yolox", "bert_12l_raw", UNET)
SCALES = {"tensor": {"per_channel": False}, "channel": {"per_channel": True}}
QUANTIZERS = {  # the options of each row, by its scales
    "ort_quantize_dynamic": SCALES,
    "ort_quantize_static": SCALES,
    "modelopt_quantize": {"channel": {}},
}
TABLE = table("model", "quantizer", "scales", "operators", "nodes", "MB of weights", "error", "lose most alone")
LOSERS = 3
MAX_NAME = 30


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    with tempfile.TemporaryDirectory() as folder:
        for model in models_of(chosen, DEFAULT):
            yield from _rows(_middle_block(model, Path(folder)) if model.stem == UNET else model)


def _middle_block(unet: Path, folder: Path) -> Path:
    """The innermost block of the UNet as a model, with its inputs recorded beside it."""
    part = folder / f"{unet.stem}_middle_block.onnx"
    ran(graph_workbench("extract", unet, *MIDDLE_BLOCK, "-o", part))
    return part


def _rows(model: Path) -> Iterator[Row]:
    graph = wb.load(model)
    with Verifier(graph, _recorded(model, graph)) as original:
        simple = wb.optimize(graph, verifier=original, verify="end").graph
        expected = _outputs(original, simple)
        for name, options_of in QUANTIZERS.items():
            if missing := find_pass(name).missing():
                print(f"{name} is not measured: {missing}", file=sys.stderr)
                continue
            for scales, options in options_of.items():
                start = (model.stem, name.removeprefix("ort_quantize_").removesuffix("_quantize"), scales)
                try:
                    row = _row(original, simple, expected, name, options)
                except UserError as error:
                    row = ("-", "-", "-", f"fails: {one_sentence(str(error)).replace('|', '/')}", "-")
                yield (*start, *row)


def _recorded(model: Path, graph: Graph) -> dict | None:
    """The inputs beside the file of a part; None if there are none."""
    file = Path(inputs_path(model))
    return read_inputs(file, graph) if file.exists() else None


def _row(original: Verifier, simple: Graph, expected: dict, name: str, options: dict) -> Row:
    """What follows the names in a row. Raises UserError if the quantizer fails, or its result does not run."""
    step_options = {f"{name}.{option}": value for option, value in options.items()}
    history = wb.optimize(simple, [name], options=step_options, verifier=original, verify="end")
    if history[1].facts.failed:
        raise UserError(history[1].facts.failed)
    rewrites = history[1].rewrites
    error = _text(_error(expected, _outputs(original, history.graph)))
    alone = [(_alone(original, simple, rewrite, expected), rewrite) for rewrite in rewrites]
    most = sorted(alone, key=lambda pair: -pair[0])[:LOSERS]
    return (
        *(f"{len(rewrites):,}", f"{len(simple):,} to {len(history.graph):,}"),
        *(f"{_megabytes(simple)} to {_megabytes(history.graph)}", error),
        ", ".join(f"{_kinds(simple, rewrite)} {_text(error)}" for error, rewrite in most),
    )


def _outputs(original: Verifier, graph: Graph) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        file = export_onnx(graph, Path(folder) / "model.onnx", check=False, opset=NEWEST).path
        return original.worker.outputs(file, original.inputs_of(graph), anew=True).tensors


def _error(expected: dict, found: dict) -> float:
    """The largest relative error; infinite if an output is of another shape, or integers differ."""
    compared = compare(expected, found)
    return math.inf if any(one.max_rel is None for one in compared.outputs) else compared.max_rel_error or 0.0


def _alone(original: Verifier, simple: Graph, rewrite: AppliedRewrite, expected: dict) -> float:
    graph = simple.copy()
    graph.apply(rewrite.edit)
    return _error(expected, _outputs(original, graph))


def _kinds(graph: Graph, rewrite: AppliedRewrite) -> str:
    nodes: list[Node] = [graph.node(name) for name in rewrite.nodes]
    name = nodes[0].name
    short = name if len(name) <= MAX_NAME else f"...{name[-MAX_NAME:]}"
    first = f"{nodes[0].op} {short}".replace("|", "/")
    return first + (f" and {len(nodes) - 1} more" if len(nodes) > 1 else "")


def _megabytes(graph: Graph) -> str:
    return f"{sum(tensor.nbytes for tensor in graph.constants.values()) / 1e6:.2f}"


def _text(error: float) -> str:
    return f"{error:.1e}" if math.isfinite(error) else "not comparable"


def published(real: RealModels) -> list[list[str]]:
    return [["--and-default", *real.named(*PUBLISHED)]]


BENCHMARK = Benchmark(measure, (TABLE,), MODELS, published)
