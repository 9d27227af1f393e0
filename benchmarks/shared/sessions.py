"""Sessions of ONNX Runtime on its CPU provider, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def session(path: Path, level: str, written: Path | None = None, threads: int = 0) -> Any:
    """A session on the CPU. written: where it saves its optimized model. threads: 0 for ONNX Runtime's default."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    if written is not None:
        options.optimized_model_filepath = str(written)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def count_nodes(path: Path) -> int:
    """Of the graph itself."""
    import onnx

    return len(onnx.load(path, load_external_data=False).graph.node)
