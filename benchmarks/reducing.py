"""`reduce` on wrong optimizers, whose fault is at a random node of a real model: the nodes left, and the time.

    python benchmarks/reducing.py

The check is a function of this process. Prints a Markdown table.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main() -> None:
    import onnx

    from tests.faults import FAULTS
    from tests.faulty_models import check_of, faulty
    from workbench.evidence.reduction.recording import Recording
    from workbench.evidence.reduction.reduce import Reduction
    from workbench.evidence.reduction.regions import Whole
    from workbench.formats.io.proto_file import open_proto
    from workbench.run.worker.client import Worker

    print("| fault | in | nodes | left | candidates checked | seconds |\n|---|---|---|---|---|---|")
    with Worker() as worker, tempfile.TemporaryDirectory() as folder:
        for seed, fault in enumerate(FAULTS):
            name, model, inputs = faulty(fault, seed)
            path = Path(folder) / "model.onnx"
            onnx.save(model, path)
            start = time.perf_counter()
            file = open_proto(path)
            whole = Whole(file, Recording(file, inputs, worker, Path(folder)))
            reduction = Reduction(whole, check_of(fault.wrong), worker, Path(folder))
            reduced = reduction.run()
            seconds = time.perf_counter() - start
            operators = ", ".join(node.op_type for node in reduced.model.graph.node)
            counts = f"{reduction.nodes_before} | {reduced.nodes} ({operators}) | {reduction.checked} | {seconds:.1f}"
            print(f"| {fault.name} | {name} | {counts} |", flush=True)


if __name__ == "__main__":
    main()
