"""ONNX Runtime's quantizers on models, and which operators lose most: `python benchmarks/int8.py [MODEL ...]`.

MODEL: a file, besides the samples. One row per model and quantizer, with one scale for each weight and with one for
each channel. Each model is simplified first, since the quantizers expect folded batch norms. Ranges of the static one
are those of one seeded input, the same on which results are compared. Weights are the bytes of all constants before and
after. The error is the largest of any output, relative to its largest element, in ONNX Runtime without optimizations.
What an operator loses is that error if its rewrite alone is applied, all others left out; operators that share a
quantized operand are one rewrite. Prints Markdown.
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
    from workbench.ir import Graph, Node
    from workbench.rewrite import AppliedRewrite
    from workbench.verification.verifier import Verifier

SAMPLES = ("ppocr_cls_v2", "basic_pitch_nmp", "resnet50_narrow")
QUANTIZERS = ("ort_quantize_dynamic", "ort_quantize_static")
COLUMNS = ("model", "quantizer", "scales", "operators", "nodes", "MB of weights", "error", "lose most alone")
LOSERS = 3


def main() -> None:
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for model in [*(ROOT / "sample_models" / f"{name}.onnx" for name in SAMPLES), *map(Path, sys.argv[1:])]:
        for row in _rows(model):
            print(f"| {' | '.join(row)} |", flush=True)


def _rows(model: Path) -> Iterator[tuple[str, ...]]:
    import workbench as wb
    from workbench.verification.verifier import Verifier

    with Verifier(wb.load(model)) as original:
        simple = wb.optimize(original.original, verifier=original, verify="end").graph
        expected = _outputs(original, simple)
        for name in QUANTIZERS:
            for per_channel in (False, True):
                start = (model.stem, name.removeprefix("ort_quantize_"), "channel" if per_channel else "tensor")
                options = {f"{name}.per_channel": per_channel}
                history = wb.optimize(simple, [name], options=options, verifier=original, verify="end")
                if history[1].facts.failed:
                    yield (*start, "-", "-", "-", f"fails: {_one_line(history[1].facts.failed)}", "-")
                    continue
                rewrites = history[1].rewrites
                alone = [(_alone(original, simple, rewrite, expected), rewrite) for rewrite in rewrites]
                most = sorted(alone, key=lambda pair: -pair[0])[:LOSERS]
                yield (
                    *(*start, f"{len(rewrites):,}", f"{len(simple):,} to {len(history.graph):,}"),
                    f"{_megabytes(simple)} to {_megabytes(history.graph)}",
                    _text(_error(expected, _outputs(original, history.graph))),
                    ", ".join(f"{_kinds(simple, rewrite)} {_text(error)}" for error, rewrite in most),
                )


def _outputs(original: Verifier, graph: Graph) -> dict:
    from workbench.io.exporting import export_onnx
    from workbench.opsets.written import NEWEST

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
    first = f"{nodes[0].op} {nodes[0].name[-30:]}".replace("|", "/")
    return first + (f" and {len(nodes) - 1} more" if len(nodes) > 1 else "")


def _megabytes(graph: Graph) -> str:
    return f"{sum(tensor.nbytes for tensor in graph.constants.values()) / 1e6:.2f}"


def _text(error: float) -> str:
    return f"{error:.1e}" if math.isfinite(error) else "not comparable"


def _one_line(text: str) -> str:
    return " ".join(text.replace("|", "/").split())[:120].strip()


if __name__ == "__main__":
    main()
