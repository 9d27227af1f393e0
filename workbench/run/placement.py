"""Where ONNX Runtime would run each node of a graph on this machine: its own placement, asked without a run."""

from __future__ import annotations

import tempfile
from pathlib import Path

from workbench.formats.io.exporting import export_onnx
from workbench.ir import Graph
from workbench.ir.function_calls import function_key
from workbench.ops.channels_last import DOMAIN
from workbench.run.worker.client import Worker

FUSED = "fused or folded by ONNX Runtime"
INLINED = "a function, inlined by ONNX Runtime"


def onnxruntime_placement(graph: Graph, worker: Worker, device: str) -> dict[str, str]:
    """By node of the main graph, the execution provider, such as "CPUExecutionProvider".

    A node that ONNX Runtime did not assign is FUSED, since its optimizations replaced it before, or INLINED: the nodes
    of the function's body were assigned. Raises RunError, ExportError.
    """
    with tempfile.TemporaryDirectory(dir=worker.folder, prefix="placement-") as folder:
        model = export_onnx(graph, Path(folder) / "model.onnx", check=False, metadata=False).path
        providers = worker.request("placement", device=device, model=str(model))["providers"]
    is_function = {node.name: node.domain == DOMAIN or function_key(node) in graph.functions for node in graph.nodes}
    return {name: providers.get(name, INLINED if is_function[name] else FUSED) for name in is_function}
