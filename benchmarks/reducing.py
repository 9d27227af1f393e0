"""Wrong optimizers whose fault lies at a random place in a real model: what `reduce` leaves, and what that takes.

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
    from workbench.io.proto_file import open_proto
    from workbench.reduction.recording import Recording
    from workbench.reduction.reduce import Reduction
    from workbench.reduction.regions import Whole
    from workbench.run.worker.client import Worker

    print("| fault | in | nodes | left | candidates asked | seconds |\n|---|---|---|---|---|---|")
    with Worker() as worker, tempfile.TemporaryDirectory() as folder:
        for seed, fault in enumerate(FAULTS):
            name, model, inputs = faulty(fault, seed)
            path = Path(folder) / "model.onnx"
            onnx.save(model, path)
            start = time.perf_counter()
            file = open_proto(path)
            whole = Whole(file, Recording(file, inputs, worker, Path(folder)))
            reduction = Reduction(whole, check_of(fault.wrong), worker, Path(folder))
            left = reduction.run()
            seconds = time.perf_counter() - start
            operators = ", ".join(node.op_type for node in left.model.graph.node)
            counts = f"{reduction.nodes_before} | {left.nodes} ({operators}) | {reduction.asked} | {seconds:.1f}"
            print(f"| {fault.name} | {name} | {counts} |", flush=True)


if __name__ == "__main__":
    main()
