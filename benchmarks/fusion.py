"""Memory traffic of groups of operators: `python benchmarks/fusion.py [MODEL.onnx ...]`.

One row per model: the operators alone, the groups of `fuse_groups`, and the minimum of `fuse_minimum` under each set of
rules, with the lower bound where it is not proved. The default models are ten networks with random weights, without
other passes. Prints Markdown.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

NETWORKS = ("resnet50", "densenet121", "inception_v1", "inception_v2", "squeezenet", "shufflenet", "vgg19", "zfnet512")
SAMPLES = ("basic_pitch_nmp", "ppocr_cls_v2")
SECONDS = 60  # of each search
COLUMNS = ("model", "operators", "alone MB", "fuse_groups MB", "groups")
RULES = ("same", "wider", "several")
COLUMNS_OF_MINIMA = tuple(column for rules in RULES for column in (f"minimum MB, {rules}", "groups", "s"))


def main() -> None:
    import onnx

    from sample_models.light import random_light

    head = (*COLUMNS, *COLUMNS_OF_MINIMA)
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        models = [Path(argument) for argument in sys.argv[1:]]
        if not models:
            models = [ROOT / "sample_models" / f"{name}.onnx" for name in SAMPLES]
            for name in NETWORKS:
                models.append(Path(folder) / f"{name}.onnx")
                onnx.save(random_light(name), models[-1])
        for model in models:
            print(_row(model), flush=True)


def _row(model: Path) -> str:
    import workbench as wb

    graph = wb.load(model)
    groups = wb.optimize(graph, ["fuse_groups"])[1].facts
    if groups.traffic.bytes is None:
        return f"| {model.stem} | {len(graph):,} | unknown sizes |" + " - |" * (2 + 3 * len(RULES))
    cells = [model.stem, f"{len(graph):,}", _size(groups.traffic.unfused_bytes), _size(groups.traffic.bytes)]
    cells.append(f"{len(groups.groups):,}")
    for rules in RULES:
        started = time.perf_counter()
        options = {"fuse_minimum.rules": rules, "fuse_minimum.seconds": SECONDS}
        minimum = wb.optimize(graph, ["fuse_minimum"], options=options)[1].facts
        seconds = time.perf_counter() - started
        bound = minimum.traffic.bound_bytes
        lower_bound = "" if minimum.traffic.certified else f", at least {_size(bound)}"
        cells += [f"{_size(minimum.traffic.bytes)}{lower_bound}", f"{len(minimum.groups):,}", f"{seconds:.1f}"]
    return "| " + " | ".join(cells) + " |"


def _size(count: int) -> str:
    return f"{count / 1e6:,.2f}"


if __name__ == "__main__":
    main()
