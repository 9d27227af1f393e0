"""Is ONNX Runtime as quick by turns with torch as it is alone?

    python benchmarks/beside.py [--rounds 12] [--repeat 20]

Each round measures a model by ONNX Runtime alone, and then by turns with torch; a round's number is the minimum, and
the median, of its runs. The ratio by turns to alone is of the rounds' medians, with its 95 % interval over rounds
(`run/measurement/statistics.py`); 1 within it: measured beside another backend, nothing is lost. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

MODELS = ("conv_relu_conv_relu", "ppocr_cls_v2", "resnet50_narrow")
HEAD = "| model | of a round's | alone ms | by turns ms | ratio | 95 % between |\n|" + "---|" * 6


def main() -> None:
    import numpy as np

    import workbench as wb
    from workbench.io.samples import samples
    from workbench.run.inputs import seed_inputs
    from workbench.run.measurement.formatting import machine_words
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
            one = {"onnxruntime": Variant(graph, "onnxruntime")}
            times: dict[str, list] = {"alone": [], "by turns": []}
            for _ in range(chosen.rounds):
                for name, variants in (("alone", one), ("by turns", one | {"torch": Variant(graph)})):
                    found = measure_models(variants, inputs=inputs, repeat=chosen.repeat, worker=worker)
                    times[name].append(found.ran["onnxruntime"].latency)
                    machine = machine_words(found.machine)
            for key, word in (("min_ms", "minimum"), ("median_ms", "median")):
                alone, beside = ([float(getattr(v, key)) for v in times[name]] for name in ("alone", "by turns"))
                r = ratio(beside, alone)
                print(
                    f"| {sample.file.stem} | {word} | {np.median(alone):.3f} | {np.median(beside):.3f} "
                    f"| {r.ratio:.2f} | {r.ratio_low:.2f} to {r.ratio_high:.2f} |",
                    flush=True,
                )
    print(f"\n{machine}.")


if __name__ == "__main__":
    main()
