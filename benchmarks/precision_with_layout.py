"""Layout and type of every operator, one after the other and together: `python benchmarks/precision_with_layout.py
[MODEL ...]`.

One row per model and target. Each model is simplified first. A number is what Casts and Transposes of the result read
and write in one run, in megabytes. Types are chosen without values of a run. Prints Markdown.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

SAMPLES = ("precision/resize_conv_resize", "ppocr_cls_v2", "basic_pitch_nmp", "resnet50_narrow")
TARGETS = ("cuda", "npu")
COLUMNS = (
    *("model", "target", "layouts, then types (MB)", "types, then layouts (MB)", "together (MB)", "bound (MB)"),
    *("Casts", "Transposes", "seconds"),
)


def main() -> None:
    import workbench as wb

    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for model in sys.argv[1:] or [str(ROOT / "sample_models" / f"{name}.onnx") for name in SAMPLES]:
        simple = wb.optimize(wb.load(model)).graph
        for target in TARGETS:
            print(f"| {' | '.join((Path(model).stem, target, *_numbers(simple, target)))} |", flush=True)


def _numbers(graph, target: str) -> tuple[str, ...]:
    from passes.layout.layout_optimal_any_order import LayoutOptimalAnyOrder
    from passes.precision.precision_optimal import PrecisionOptimal
    from passes.precision.precision_optimal_with_layout import PrecisionOptimalWithLayout
    from workbench.planning.layout.profile import load_profile
    from workbench.rewrite import PassContext, run_pass

    context = PassContext(load_profile(target))

    def after(*passes) -> str:
        copy = graph.copy()
        for one in passes:
            run_pass(one, copy, context)
        return _megabytes(copy)

    one_after_the_other = (
        after(LayoutOptimalAnyOrder(), PrecisionOptimal()),
        after(PrecisionOptimal(), LayoutOptimalAnyOrder()),
    )
    together, started = graph.copy(), time.perf_counter()
    facts = run_pass(PrecisionOptimalWithLayout(), together, context).facts
    seconds = time.perf_counter() - started
    bound = "-" if facts.bound is None else f"{facts.bound / 1e6:.3f}, {'reached' if facts.certified else 'not'}"
    numbers = (f"{facts.casts:,}", f"{facts.transposes.transposes:,}", f"{seconds:.1f}")
    return (*one_after_the_other, _megabytes(together), bound, *numbers)


def _megabytes(graph) -> str:
    """What the Casts and Transposes read and write; and how many of them are of unknown size."""
    from workbench.analysis.inference.bound_shapes import infer_sizes
    from workbench.analysis.metrics.transpose_cost import count_transposes
    from workbench.ir import DataType
    from workbench.planning.precision.cast_cost import count_casts

    infer_sizes(graph)
    casts, transposes = count_casts(graph, DataType.FLOAT16), count_transposes(graph)
    unknown = casts.unknown + transposes.unknown
    return f"{(casts.bytes + 2 * transposes.bytes_moved) / 1e6:.3f}" + (f", {unknown} unknown" if unknown else "")


if __name__ == "__main__":
    main()
