"""Measuring models, as the application sees it: the numbers that a person compares.

Habits of the field: warm-up, many repetitions, variants interleaved, so that a
busy moment meets them all; median with p90, p99 and the interquartile range;
the ratio of two medians with a bootstrap interval (Efron 1979); the device and
every version in the record.
"""

from __future__ import annotations

import shutil
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.layout.feed import order_between
from workbench.run.client import RUN_LIMIT_S, Progress, Worker
from workbench.run.compare import BFLOAT16, FLOAT16, FLOAT32, Tolerance, tolerance_for
from workbench.run.inputs import dims_of, fed
from workbench.run.memory import estimate_bytes, refuse_unless_fits
from workbench.run.tensors import save_tensors

WARMUP = 3  # runs before the first that counts
BUSY = 0.15  # interquartile range over median, above which something else was running
RESAMPLES = 2000
CONFIDENCE = 95  # percent
BACKENDS = ("torch", "onnxruntime")
DTYPES = {"float32": FLOAT32, "mixed": BFLOAT16, "float16": FLOAT16, "bfloat16": BFLOAT16}  # with their tolerance


class MeasureError(UserError):
    """What was asked for can not be measured."""


def measure_models(
    graphs: Mapping[str, Graph],
    *,
    inputs: Mapping[str, np.ndarray],
    device: str = "cpu",
    backend: str = "torch",
    dtype: str = "float32",
    repeat: int = 20,
    warmup: int = WARMUP,
    reference: Mapping[str, np.ndarray] | None = None,
    tolerance: Tolerance | None = None,
    worker: Worker | None = None,
    on_progress: Progress | None = None,
    timeout_s: float = RUN_LIMIT_S,
) -> dict[str, Any]:
    """Latency and memory of each graph on the same inputs, by turns, in the worker's process.

    reference: outputs to compare with (ONNX Runtime's, see `Verifier.reference`),
               within `tolerance`, by default that of `dtype` or of the first graph,
               whichever is looser.
    on_progress: gets {"done", "total", "stage"} after every run.
    Returns plain JSON: `variants` by label, each with `times_ms`, `min_ms`,
    `median_ms`, `p90_ms`, `p99_ms`, `iqr_ms`, `ratio` to the first graph with
    its `ratio_low` and `ratio_high` (95 %), `memory` (`kind`, `peak_bytes`,
    `weights_bytes`, `timeline` of `name`, `op`, `live_bytes`), `operators`
    (`name`, `op`, `time_ms`), `fallbacks`, `error`, `busy`; and `machine`,
    `backend`, `dtype`, `dims`, `repeat`, `warmup`, `notes`.
    Raises MeasureError, DoesNotFitError, or RunError for a run that broke off.
    """
    _check_wishes(graphs, backend, dtype, repeat, warmup)
    first = next(iter(graphs.values()))
    dims = {**first.dims, **dims_of(first, inputs)}
    need = sum(estimate_bytes(graph, dims) for graph in graphs.values())
    if device == "cpu":
        refuse_unless_fits(need, "these models side by side" if len(graphs) > 1 else f"'{first.name}'")
    own = worker is None
    worker = worker or Worker()
    folder = Path(tempfile.mkdtemp(dir=worker.folder, prefix="measure-"))
    try:
        raw = worker.request(
            "measure",
            models=[
                [label, str(_exported(graph, folder)), _saved_for(graph, first, inputs, folder)]
                for label, graph in graphs.items()
            ],
            reference=None if reference is None else _saved(folder / "reference.npz", reference),
            tolerance=asdict(tolerance or max(DTYPES[dtype], tolerance_for(first), key=lambda t: t.relative)),
            device=device,
            backend=backend,
            dtype=dtype,
            repeat=repeat,
            warmup=warmup,
            on_progress=on_progress,
            timeout_s=timeout_s,
            need_bytes=need,
        )
    finally:
        if own:
            worker.close()
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return {
        **_summarized(raw),
        "backend": backend,
        "dtype": dtype,
        "dims": dims,
        "repeat": repeat,
        "warmup": warmup,
    }


def _check_wishes(graphs: Mapping[str, Graph], backend: str, dtype: str, repeat: int, warmup: int) -> None:
    if not graphs:
        raise MeasureError("There is no model to measure; name at least one.")
    if backend not in BACKENDS:
        raise MeasureError(f"There is no backend '{backend}'; use {' or '.join(BACKENDS)}.")
    if dtype not in DTYPES:
        raise MeasureError(f"There is no element type '{dtype}' to measure in; use {', '.join(DTYPES)}.")
    if repeat < 1 or warmup < 0:
        raise MeasureError(f"{repeat} runs after {warmup} to warm up can not be measured; ask for at least one run.")
    names = {graph.inputs for graph in graphs.values()}
    if len(names) > 1:
        raise MeasureError("The models have different inputs, so they can not be measured on the same ones.")


def _exported(graph: Graph, folder: Path) -> Path:
    from workbench.exporting import export_onnx

    own = Path(tempfile.mkdtemp(dir=folder, prefix="model-"))
    export_onnx(graph, own / "model.onnx", check=False)
    return own / "model.onnx"


def _saved_for(graph: Graph, first: Graph, inputs: Mapping[str, np.ndarray], folder: Path) -> str:
    """The file of the inputs as `graph` takes them, one for all graphs that take them alike."""
    orders = "".join(str(order_between(first, graph, value)) for value in inputs)
    path = folder / f"inputs-{zlib.crc32(orders.encode()):08x}.npz"
    return str(path) if path.exists() else _saved(path, fed(inputs, first, graph))


def _saved(path: Path, tensors: Mapping[str, np.ndarray]) -> str:
    save_tensors(path, tensors)
    return str(path)


# ---- numbers ---------------------------------------------------------------------------


def _summarized(raw: Mapping[str, Any]) -> dict[str, Any]:
    variants: dict[str, Any] = {}
    first: Sequence[float] = next(iter(raw["variants"].values()))["times_ms"]
    for label, found in raw["variants"].items():
        numbers = spread(found["times_ms"])
        variants[label] = {**numbers, **ratio(found["times_ms"], first), **found}
        variants[label]["busy"] = numbers["iqr_ms"] > BUSY * numbers["median_ms"]
    busy = [label for label, found in variants.items() if found["busy"]]
    notes = [
        f"The times of '{label}' spread by {variants[label]['iqr_ms'] / variants[label]['median_ms']:.0%} of their "
        "median: the machine was busy with something else; trust the minimum, or measure again."
        for label in busy
    ]
    return {"variants": variants, "machine": raw["machine"], "notes": notes}


def spread(times_ms: Sequence[float]) -> dict[str, float]:
    """Minimum, median, p90, p99 and interquartile range, in milliseconds."""
    low, median, high, p90, p99 = np.percentile(times_ms, [25, 50, 75, 90, 99])
    return {
        "min_ms": min(times_ms),
        "median_ms": float(median),
        "p90_ms": float(p90),
        "p99_ms": float(p99),
        "iqr_ms": float(high - low),
    }


def ratio(times_ms: Sequence[float], first_ms: Sequence[float]) -> dict[str, float]:
    """The median over the first variant's, below 1 where faster, with its 95 % bootstrap interval.

    Turns are drawn again together, as the runs of one turn met the same moment.
    """
    ours, theirs = np.asarray(times_ms), np.asarray(first_ms)
    turns = np.random.default_rng(0).integers(0, len(ours), (RESAMPLES, len(ours)))
    drawn = np.median(ours[turns], axis=1) / np.median(theirs[turns], axis=1)
    low, high = np.percentile(drawn, [(100 - CONFIDENCE) / 2, (100 + CONFIDENCE) / 2])
    middle = float(np.median(ours) / np.median(theirs))
    return {"ratio": middle, "ratio_low": float(low), "ratio_high": float(high)}
