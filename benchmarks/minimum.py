"""The proven minimum on networks written in several ways, and how its time grows: `python benchmarks/minimum.py`.

First table: the transposes that remain, all certified. The last column has those that ONNX Runtime 1.31 leaves, and the
minimum known before with fewer operators in the table. Second table: chains of residual blocks, two of three with a
MatMul on NHWC values instead of a convolution.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# network, written, target -> left by ONNX Runtime 1.31, minimum known before
KNOWN = {
    ("resnet50", "nhwc", "cpu"): (1, 1),
    ("densenet121", "nhwc", "cpu"): (1, 1),
    ("inception_v1", "nhwc", "cpu"): (1, 1),
    ("squeezenet", "nhwc", "cpu"): (1, 1),
    ("shufflenet", "nhwc", "cpu"): (17, 17),
    ("resnet50", "mixed", "cpu"): (59, 40),
    ("squeezenet", "mixed", "cpu"): (26, 20),
    ("inception_v2", "mixed", "cpu"): (56, 56),
    ("inception_v1", "mixed", "cpu"): (56, 56),
    ("densenet121", "mixed", "cpu"): (124, 124),
}
NETWORKS = ("resnet50", "densenet121", "inception_v1", "inception_v2", "squeezenet", "shufflenet")
BLOCKS = (70, 220, 700, 2200)


def main() -> None:
    import onnx

    import workbench as wb
    from sample_models.light import random_light
    from sample_models.variants import mixed_layouts, nhwc_dataflow

    print("| network | written | profile | in | left | millions of elements | known: ONNX Runtime, minimum |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in NETWORKS:
            path = Path(folder) / f"{name}.onnx"
            onnx.save(random_light(name), path)
            graph = wb.optimize(wb.load(path), ["fold_constants", "fold_batchnorm"]).graph
            for written, variant in (("plain", graph), ("nhwc", nhwc_dataflow(graph)), ("mixed", mixed_layouts(graph))):
                for target in ("cpu", "cuda"):
                    _minimum(name, written, target, variant)
    print("\n| operators | choose and convert (s) | of it the cut (s) | transposes in | left |")
    print("|---|---|---|---|---|")
    for blocks in BLOCKS:
        _growth(blocks)


def _minimum(name: str, written: str, target: str, graph) -> None:
    import workbench as wb

    step = wb.optimize(graph, ["layout_optimal"], target=target)[1]
    assert step.facts.certified
    known = KNOWN.get((name, written, target))
    print(
        f"| {name} | {written} | {target} | {step.before['transposes']} | {step.after['transposes']} "
        f"| {step.after['elements_moved'] / 1e6:.2f} | {'-' if known is None else f'{known[0]}, {known[1]}'} |"
    )


def _growth(blocks: int) -> None:
    import workbench as wb
    from sample_models.variants import residual_chain
    from workbench.planning.layout.infer import infer_layouts
    from workbench.planning.layout.problem.two_layouts import layout_problem
    from workbench.planning.layout.profile import load_profile
    from workbench.planning.solvers.minimum_cut import solve_cut

    graph = residual_chain(blocks)
    step_seconds, cut_seconds = [], []
    for _ in range(3):
        started = time.perf_counter()
        step = wb.optimize(graph, ["layout_optimal"], target="cpu")[1]
        step_seconds.append(time.perf_counter() - started)
        problem = layout_problem(graph, infer_layouts(graph, through_reshapes=True), load_profile("cpu")).problem
        started = time.perf_counter()
        solve_cut(problem)
        cut_seconds.append(time.perf_counter() - started)
    counts = f"{step.before['transposes']:,} | {step.after['transposes']:,}"
    print(
        f"| {len(graph):,} | {statistics.median(step_seconds):.2f} | {statistics.median(cut_seconds):.2f} | {counts} |"
    )


if __name__ == "__main__":
    main()
