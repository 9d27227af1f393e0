"""Transposes and elements moved of each layout strategy: `python benchmarks/strategies.py [MODEL ...]`.

Counts, which do not depend on the machine; weights are not counted. The preset is `normalize`. The default models are
the samples and ResNet-50 with random weights.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main() -> None:
    import passes
    import workbench as wb
    from benchmarks.engine import default_models

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    chosen = parser.parse_args()
    strategies = sorted(passes.compared_strategies())
    print(f"| model | profile | as loaded | {' | '.join(strategies)} |")
    print(f"|---|---|---|{'---|' * len(strategies)}")
    with tempfile.TemporaryDirectory() as folder:
        for path in chosen.models or default_models(Path(folder)):
            graph = wb.load(path)
            for target in ("cuda", "npu"):
                results = [wb.optimize(graph, target=target, preset="normalize", layout=name) for name in strategies]
                cells = [_counted(result[-1].after) for result in results]
                print(f"| {path.stem} | {target} | {_counted(results[0][0].after)} | {' | '.join(cells)} |")


def _counted(measured) -> str:
    return f"{measured.text('transposes')} ({measured.text('elements_moved')})"


if __name__ == "__main__":
    main()
