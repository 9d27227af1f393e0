"""`reduce` on wrong optimizers, whose fault is at a random node of a real model: the nodes left, and the time.

The check is a function of this process.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx

from benchmarks.shared.benchmark import Benchmark, Item, table
from benchmarks.shared.timing import timed
from tests.faults import FAULTS
from tests.faulty_models import check_of, faulty
from workbench.evidence.reduction.recording import Recording
from workbench.evidence.reduction.reduce import Reduction
from workbench.evidence.reduction.regions import Whole
from workbench.formats.io.proto_file import open_proto
from workbench.run.worker.client import Worker

TABLE = table("fault", "in", "nodes", "left", "candidates checked", "seconds")


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    with Worker() as worker, tempfile.TemporaryDirectory() as folder:
        for seed, fault in enumerate(FAULTS):
            name, model, inputs = faulty(fault, seed)
            path = Path(folder) / "model.onnx"
            onnx.save(model, path)

            def reduction(fault=fault, inputs=inputs, path=path):
                file = open_proto(path)
                whole = Whole(file, Recording(file, inputs, worker, path.parent))
                begun = Reduction(whole, check_of(fault.wrong), worker, path.parent)
                return begun, begun.run()

            (begun, reduced), seconds = timed(reduction)
            operators = ", ".join(node.op_type for node in reduced.model.graph.node)
            counts = (f"{begun.nodes_before}", f"{reduced.nodes} ({operators})", f"{begun.checked}")
            yield (fault.name, name, *counts, f"{seconds:.1f}")


BENCHMARK = Benchmark(measure, (TABLE,))
