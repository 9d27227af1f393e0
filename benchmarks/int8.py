"""Quantizers of others on models, and which operators lose most: `python benchmarks/int8.py [MODEL ...]`.

MODEL: a file, besides the samples and narrow networks of `gpu_networks.py` with random weights; the inputs that
`extract` recorded beside a part of a model are its inputs. One row per model and quantizer of ONNX Runtime, with one
scale for each weight and with one for each channel, and one row of ModelOpt's quantizer, where it is installed. Each
model is simplified first, since the quantizers expect folded batch norms. Ranges are those of one input, seeded or
recorded, the same on which results are compared. Weights are the bytes of all constants before and after. The error
is the largest of any output, relative to its largest element, in ONNX Runtime without optimizations. What an operator
loses is that error if its rewrite alone is applied, all others left out; operators that share a quantized operand are
one rewrite. Prints Markdown.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from workbench.evidence.verification.verifier import Verifier
    from workbench.ir import Graph, Node
    from workbench.rewrite import AppliedRewrite

SAMPLES = ("ppocr_cls_v2", "basic_pitch_nmp", "resnet50_narrow")
EXPORTED = ("vit_b16", "llama_block")
SCALES = {"tensor": {"per_channel": False}, "channel": {"per_channel": True}}
QUANTIZERS = {  # the options of each row, by its scales
    "ort_quantize_dynamic": SCALES,
    "ort_quantize_static": SCALES,
    "modelopt_quantize": {"channel": {}},
}
COLUMNS = ("model", "quantizer", "scales", "operators", "nodes", "MB of weights", "error", "lose most alone")
LOSERS = 3
MAX_NAME = 30


def main() -> None:
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        networks = [_exported(name, Path(folder)) for name in EXPORTED]
        samples = [ROOT / "sample_models" / f"{name}.onnx" for name in SAMPLES]
        for model in [*samples, *networks, *map(Path, sys.argv[1:])]:
            for row in _rows(model):
                print(f"| {' | '.join(row)} |", flush=True)


def _exported(name: str, folder: Path) -> Path:
    """The file of a network of `gpu_networks.py` with few and narrow layers, at batch 1."""
    from benchmarks.gpu_networks import exported, network

    return exported(*network(name, 1, True), folder / f"{name}_narrow.onnx")


def _rows(model: Path) -> Iterator[tuple[str, ...]]:
    import workbench as wb
    from passes import find_pass
    from workbench.errors import UserError, one_sentence
    from workbench.evidence.verification.verifier import Verifier

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
    from workbench.interfaces.cli.reduce import inputs_path
    from workbench.run.inputs import read_inputs

    file = Path(inputs_path(model))
    return read_inputs(file, graph) if file.exists() else None


def _row(original: Verifier, simple: Graph, expected: dict, name: str, options: dict) -> tuple[str, ...]:
    """What follows the names in a row. Raises UserError if the quantizer fails, or its result does not run."""
    import workbench as wb
    from workbench.errors import UserError

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
    from workbench.formats.io.exporting import export_onnx
    from workbench.formats.opsets.written import NEWEST

    with tempfile.TemporaryDirectory() as folder:
        file = export_onnx(graph, Path(folder) / "model.onnx", check=False, opset=NEWEST).path
        return original.worker.outputs(file, original.inputs_of(graph), anew=True).tensors


def _error(expected: dict, found: dict) -> float:
    """The largest relative error; infinite if an output is of another shape, or integers differ."""
    from workbench.run.compare import compare

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


if __name__ == "__main__":
    main()
