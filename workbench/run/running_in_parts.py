"""One run of a graph in ONNX Runtime, part by part, so that it can say how far it is and be cancelled."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from workbench.backends.profiling.progress import ProgressCallback
from workbench.backends.randomness import is_random, with_seeds
from workbench.backends.tensors import load_tensors, save_tensors
from workbench.formats.io.exporting import export_onnx
from workbench.formats.opsets.written import NEWEST
from workbench.ir import Graph
from workbench.run.inputs import Tensors
from workbench.run.partitions import GraphPart, partitions
from workbench.run.worker.client import Worker

_PART = 1000  # nodes that run at once


def run_in_parts(
    graph: Graph, inputs: Tensors, worker: Worker, need_bytes: int, stage: str, report: ProgressCallback
) -> Mapping[str, np.ndarray]:
    """The outputs of the graph by name, without optimizations of ONNX Runtime.

    Random operators get one seed, so that they draw the same numbers each time. stage: what the run is for.
    report: called with that and the share that is done; may raise to stop. Raises UserError if it does not run.
    """
    defaults = {value: constant.numpy() for value, constant in graph.kept.defaults.items()}
    with tempfile.TemporaryDirectory(dir=worker.folder, prefix="parts-") as folder:
        parts = []
        for number, part in enumerate(partitions(graph, _PART)):
            report(f"writing part {number + 1:,}", 0.0)
            parts.append(_written(part, Path(folder) / str(number)))
        source, target = Path(folder) / "inputs.npz", Path(folder) / "outputs.npz"
        save_tensors(source, {**defaults, **inputs})

        def on_event(event: Mapping[str, Any]) -> None:
            report(event["stage"], event["done"] / event["total"])

        worker.request(
            "parts",
            parts=parts,
            results=graph.outputs,
            inputs=str(source),
            outputs=str(target),
            stage=stage,
            need_bytes=need_bytes,
            on_progress=on_event,
        )
        return load_tensors(target)


def _written(part: GraphPart, folder: Path) -> dict[str, Any]:
    """The part as a file in a new folder, for the worker."""
    folder.mkdir()
    file = export_onnx(part.graph, folder / "model.onnx", check=False, opset=NEWEST).path
    model = with_seeds(file, folder) if is_random(part.graph) else file
    return {"model": str(model), "read": part.graph.inputs, "spent": part.spent}
