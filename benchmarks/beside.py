"""Whether ONNX Runtime is as fast interleaved with torch as alone.

    python benchmarks/beside.py [--rounds 12] [--repeat 20]

Each round measures a model by ONNX Runtime alone, and then interleaved with torch; a round's number is the minimum, and
the median, of its runs. The ratio of interleaved to alone is that of the rounds' medians, with its 95 % interval over
rounds (`run/measurement/statistics.py`). An interval that contains 1 shows no loss. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

MODELS = ("conv_relu_conv_relu", "ppocr_cls_v2", "resnet50_narrow")
HEAD = "| model | statistic | alone ms | interleaved ms | ratio | 95 % between |\n|" + "---|" * 6


def main() -> None:
    import numpy as np

    import workbench as wb
    from workbench.formats.io.samples import samples
    from workbench.run.inputs import seed_inputs
    from workbench.run.measurement.formatting import machine_text
    from workbench.run.measurement.measure import measure_models
    from workbench.run.measurement.statistics import ratio
    from workbench.run.measurement.variants import Variant
    from workbench.run.worker.client import Worker

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=20, help="runs a round")
    chosen = parser.parse_args()
    print(f"{chosen.rounds} rounds of {chosen.repeat} runs.\n\n{HEAD}", flush=True)
    machine = ""
    with Worker() as worker:
        for sample in (s for s in samples() if s.file.stem in MODELS):
            graph = wb.load(sample.file, dims=dict(sample.dims))
            inputs = seed_inputs(graph, dict(graph.dims), 0)
            runtime = {"onnxruntime": Variant(graph, "onnxruntime")}
            times: dict[str, list] = {"alone": [], "interleaved": []}
            for _ in range(chosen.rounds):
                for name, variants in (
                    ("alone", runtime),
                    ("interleaved", runtime | {"torch": Variant(graph)}),
                ):
                    measurement = measure_models(variants, inputs=inputs, repeat=chosen.repeat, worker=worker)
                    times[name].append(measurement.ran["onnxruntime"].latency)
                    machine = machine_text(measurement.machine)
            for key, statistic in (("min_ms", "minimum"), ("median_ms", "median")):
                alone, beside = ([float(getattr(v, key)) for v in times[name]] for name in ("alone", "interleaved"))
                of_medians = ratio(beside, alone)
                print(
                    f"| {sample.file.stem} | {statistic} | {np.median(alone):.3f} | {np.median(beside):.3f} "
                    f"| {of_medians.ratio:.2f} | {of_medians.ratio_low:.2f} to {of_medians.ratio_high:.2f} |",
                    flush=True,
                )
    print(f"\n{machine}.")


if __name__ == "__main__":
    main()
