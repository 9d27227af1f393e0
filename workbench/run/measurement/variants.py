"""Variants to measure: a graph, the backend that runs it, and the element type of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.run.tolerances import DTYPES

WARMUP = 3  # runs before the first that counts
BACKENDS = {
    "torch": "our executor, operator by operator",
    "cuda-graphs": "our executor, its kernels recorded once and launched together (CUDA)",
    "torch-compile": "our executor, traced and compiled by torch.compile, on CUDA recorded",
    "torch-compile-autotuned": "the same, each product and convolution by the fastest kernel that the compiler tries",
    "fused": "our executor, each group of operators as oneDNN, inductor or torch computes it, whichever is fastest",
    "arena": "our executor, every value at its planned offset in one block of memory",
    "streams": "our executor, operators on concurrent CUDA streams if that is faster",
    "onnxruntime": "ONNX Runtime on the exported file, with all its optimizations",
}
_FORMER_BACKENDS = {"lanes": "streams"}  # names of version 0.2, which are still read
ORT_MODEL_TYPES = "ONNX Runtime is measured with the model's own types"


def current_backend(name: str) -> str:
    """Today's name of a backend; other names are returned as they are."""
    return _FORMER_BACKENDS.get(name, name)


class MeasureError(UserError):
    """The request cannot be measured."""


@dataclass(frozen=True)
class Variant:
    """A graph and how it is run; see BACKENDS and DTYPES."""

    graph: Graph
    backend: str = "torch"
    dtype: str = "float32"
    step: str = ""  # the name of the graph, the same for all backends


def combined(graphs: Mapping[str, Graph], backends: Sequence[str], dtypes: Sequence[str]) -> dict[str, Variant]:
    """Each graph by each backend in each element type, by label; labels name only what differs."""
    variants = {}
    for label, graph in graphs.items():
        for backend in backends:
            for dtype in dtypes:
                parts = (
                    *([label] if len(graphs) > 1 or len(backends) * len(dtypes) == 1 else []),
                    *([backend] if len(backends) > 1 else []),
                    *([dtype] if len(dtypes) > 1 else []),
                )
                variants[", ".join(parts)] = Variant(graph, backend, dtype, label)
    return variants


def validate_request(backends: Sequence[str], dtypes: Sequence[str], repeat: int | None, warmup: int = WARMUP) -> None:
    """Raises MeasureError, before anything runs, if the request cannot be measured."""
    if not (backends and dtypes):
        raise MeasureError("There is no model to measure; name at least one.")
    for backend in backends:
        if backend not in BACKENDS:
            raise MeasureError(f"There is no backend '{backend}'; use {', '.join(BACKENDS)}.")
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise MeasureError(f"There is no element type '{dtype}' to measure in; use {', '.join(DTYPES)}.")
    if not any(is_supported(backend, dtype) for backend in backends for dtype in dtypes):
        raise MeasureError(
            f"{ORT_MODEL_TYPES}; use float32, or a torch backend for {', '.join(dict.fromkeys(dtypes))}."
        )
    if (repeat is not None and repeat < 1) or warmup < 0:
        raise MeasureError(f"{repeat} runs after {warmup} to warm up cannot be measured; request at least one run.")


def is_supported(backend: str, dtype: str) -> bool:
    """Whether the backend runs models in that type. For ONNX Runtime "float32" means the model's own types."""
    return backend != "onnxruntime" or dtype == "float32"
