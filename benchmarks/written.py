"""The simplified file beside the original, in ONNX Runtime: `python benchmarks/written.py [--repeat N] MODEL.onnx ...`.

One row a model: its nodes, the nodes of the simplified file, and the time of one run of both with all of ONNX Runtime's
optimizations, on one thread, interleaved in one process. "slower" marks rows whose whole 95 % interval is above 1.01.
Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.extended import count_nodes, interleaved, session  # noqa: E402

COLUMNS = ("model", "nodes", "ours", "original ms", "ours ms", "ours over original", "")
MAX_RATIO = 1.01


def main() -> None:
    import workbench as wb
    from workbench.evidence.verification.verifier import Verifier
    from workbench.run.measurement.statistics import ratio, spread

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=60, help="runs of each")
    chosen = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for path in chosen.models:
            ours, graph = Path(folder) / "ours.onnx", wb.load(path)
            wb.export(wb.optimize(graph, preset="simplify").graph, ours)
            with Verifier(graph) as verifier:
                inputs = verifier.inputs
            sessions = {
                "original": session(path, "ORT_ENABLE_ALL", threads=1),
                "ours": session(ours, "ORT_ENABLE_ALL", threads=1),
            }
            times = interleaved(sessions, inputs, chosen.repeat)
            to_original = ratio(times["ours"], times["original"])
            cells = (
                path.stem,
                *(f"{count_nodes(file):,}" for file in (path, ours)),
                *(f"{spread(times[name]).median_ms:.2f}" for name in sessions),
                f"{to_original.ratio:.3f} ({to_original.ratio_low:.3f} to {to_original.ratio_high:.3f})",
                "slower" if to_original.ratio_low > MAX_RATIO else "",
            )
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
