"""Equality saturation beside lists of rules: `python benchmarks/saturation.py [MODEL...]`, by default the samples.

Operators in algebraic regions before and after `saturate_algebra`, of the model as it is and after the preset
`simplify` in the same mode; the number of regions for which no expression is smaller under the rules, with proof;
seconds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

SAMPLES = ("resnet50_narrow", "ppocr_cls_v2", "basic_pitch_nmp", "silero_vad")
MODES = ("exact", "ieee", "fast")
PART = ("regions", "largest", "operators", "after", "proved", "s")
HEAD = ("model", "mode", "nodes", *PART, "nodes, simplified", *PART)


def main() -> None:
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    models = [Path(argument) for argument in sys.argv[1:]]
    if not models:
        folder = ROOT / "sample_models"
        models = [folder / f"{name}.onnx" for name in SAMPLES] + sorted((folder / "saturation").glob("*.onnxtxt"))
    for model in models:
        for mode in MODES:
            print(_row(model, mode), flush=True)


def _row(model: Path, mode: str) -> str:
    import workbench as wb

    graph = wb.load(model)
    simplified = wb.optimize(graph, preset="simplify", mode=mode).graph
    cells = [model.stem, mode]
    for input_graph in (graph, simplified):
        started = time.perf_counter()
        facts = wb.optimize(input_graph, ["saturate_algebra"], mode=mode)[1].facts
        seconds = time.perf_counter() - started
        regions = facts.regions
        assert not facts.missing, facts.missing
        cells += [
            f"{len(input_graph):,}",
            f"{len(regions) + facts.late:,}",
            str(max((region.operators for region in regions), default=0)),
            f"{sum(region.operators for region in regions):,}",
            f"{sum(region.smallest for region in regions):,}",
            str(sum(region.certified for region in regions)),
            f"{seconds:.1f}",
        ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
