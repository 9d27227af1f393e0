"""Measuring, inside the worker: several variants of a model, run by turns."""

from __future__ import annotations

import ctypes
import gc
import json
import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx_ir
import psutil

from workbench.ir.proto import from_model
from workbench.run.compare import Tolerance, compare
from workbench.run.failures import TaskError
from workbench.run.memory import weight_bytes
from workbench.run.profile import Profile, profile
from workbench.run.runners import (
    BackendError,
    check_device,
    cpu_name,
    open_executor,
    open_session,
    run_session,
    versions,
)
from workbench.run.tensors import load_tensors

Tensors = Mapping[str, np.ndarray]


class Variant(Protocol):
    """One opened model with its inputs where it runs."""

    fallbacks: Mapping[str, str]

    def outputs(self) -> dict[str, np.ndarray]: ...

    def time_ms(self) -> float:
        """One run, without the transfer of inputs and outputs."""

    def memory(self) -> dict[str, Any]:
        """`kind` says what was counted; `weights_bytes`, `peak_bytes`; `timeline` per operator where it is known."""

    def operators(self) -> list[dict[str, Any]]:
        """One profiled run, apart from the timed ones: `name`, `op`, `time_ms` of each operator, in order."""


def measure(request: Mapping[str, Any], report: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Times, memory, errors of every variant in `models` ([label, file, inputs] each), which take turns.

    Progress: {"done", "total", "stage"} after every run.
    """
    check_device(request["device"])
    models, warmup, repeat = request["models"], request["warmup"], request["repeat"]
    total = len(models) * (warmup + repeat + 3)
    done = 0

    def step(stage: str) -> None:
        nonlocal done
        done += 1
        report({"done": done, "total": total, "stage": stage})

    variants: dict[str, Variant] = {}
    errors: dict[str, dict[str, Any]] = {}
    inputs = {file: load_tensors(file) for file in {file for _, _, file in models}}
    for label, model, file in models:
        variants[label] = _opened(request, model, inputs[file])
        step(f"opened {label}")
    reference = load_tensors(request["reference"]) if request["reference"] else None
    tolerance = Tolerance(**request["tolerance"])
    for label, variant in variants.items():
        outputs = _ran(variant.outputs)
        if reference is not None:
            found = compare(reference, outputs, tolerance)
            errors[label] = {key: value for key, value in asdict(found).items() if key != "outputs"}
        step(f"compared {label}")
    times: dict[str, list[float]] = {label: [] for label in variants}
    for turn in range(warmup + repeat):
        for label, variant in variants.items():
            time_ms = _ran(variant.time_ms)
            if turn >= warmup:
                times[label].append(time_ms)
            step("warming up" if turn < warmup else f"run {turn - warmup + 1} of {repeat}")
    results = {}
    for label, variant in variants.items():
        results[label] = {
            "times_ms": times[label],
            "memory": _ran(variant.memory),
            "operators": _ran(variant.operators),
            "fallbacks": dict(variant.fallbacks),
            "error": errors.get(label),
        }
        step(f"profiled {label}")
    return {"variants": results, "machine": _machine(request["device"])}


def _opened(request: Mapping[str, Any], model: str, inputs: Tensors) -> Variant:
    if request["backend"] == "torch":
        return _TorchVariant(model, inputs, request["device"], request["dtype"])
    if request["device"] != "cpu" or request["dtype"] != "float32":
        raise BackendError("ONNX Runtime is measured on the CPU with the model's own types; use the torch backend.")
    return _SessionVariant(model, inputs)


def _ran(what: Callable[[], Any]) -> Any:
    try:
        return what()
    except Exception as error:
        raise TaskError(error, "run") from error


def _machine(device: str) -> dict[str, Any]:
    import torch

    on_gpu = device.startswith("cuda")
    name = torch.cuda.get_device_name(device) if on_gpu else cpu_name()
    return {"device": device, "device_name": name, "threads": torch.get_num_threads(), "versions": versions()}


class _TorchVariant:
    """Our executor; the weights and the inputs lie on the device, the outputs stay there."""

    def __init__(self, model: str, inputs: Tensors, device: str, dtype: str) -> None:
        self._gpu = device if device.startswith("cuda") else None
        held = self._allocated()
        self._executor = open_executor(model, device, dtype)
        self._weights = self._allocated() - held if self._gpu else weight_bytes(self._executor.graph)
        self.fallbacks: Mapping[str, str] = self._executor.fallbacks
        self._inputs = inputs
        self._tensors = self._executor.upload(inputs)

    def outputs(self) -> dict[str, np.ndarray]:
        return self._executor.run(self._inputs)

    def time_ms(self) -> float:
        if self._gpu:
            return self._time_on_gpu()
        start = time.perf_counter()
        self._executor.run_tensors(self._tensors)
        return (time.perf_counter() - start) * 1e3

    def _time_on_gpu(self) -> float:
        import torch

        with torch.cuda.device(self._gpu):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            self._executor.run_tensors(self._tensors)
            end.record()
            torch.cuda.synchronize()
        return start.elapsed_time(end)

    def _allocated(self) -> int:
        import torch

        return torch.cuda.memory_allocated(self._gpu) if self._gpu else 0

    @cached_property
    def _profile(self) -> Profile:
        return profile(self._executor, self._tensors, self._gpu)

    def memory(self) -> dict[str, Any]:
        if self._gpu:
            return self._memory_of_gpu()
        peak = max((moment["peak_bytes"] for moment in self._profile.timeline), default=0)
        return {
            "kind": "values that are alive, counted by the executor; what operators use inside is not counted",
            "weights_bytes": self._weights,
            "peak_bytes": self._weights + peak,
            "timeline": self._profile.timeline,
        }

    def _memory_of_gpu(self) -> dict[str, Any]:
        import torch

        torch.cuda.reset_peak_memory_stats(self._gpu)
        held = self._allocated()
        self._executor.run_tensors(self._tensors)
        torch.cuda.synchronize(self._gpu)
        grown = torch.cuda.max_memory_allocated(self._gpu) - held
        own_inputs = sum(t.nbytes for t in self._tensors.values() if getattr(t, "is_cuda", False))
        return {
            "kind": "torch's CUDA allocator, with what operators use inside; the timeline counts values alone",
            "weights_bytes": self._weights,
            "peak_bytes": self._weights + own_inputs + grown,
            "timeline": self._profile.timeline,
        }

    def operators(self) -> list[dict[str, Any]]:
        return self._profile.operators


class _SessionVariant:
    """ONNX Runtime with all its optimizations, as its users run it."""

    def __init__(self, model: str, inputs: Tensors) -> None:
        self._model, self._inputs = model, dict(inputs)
        self.fallbacks: Mapping[str, str] = {}
        self._weights = weight_bytes(from_model(onnx_ir.load(model)))
        before = _reset_peak()
        self._session = open_session(model, "all")
        self.outputs()
        self._peak = max(0, _peak() - before)

    def outputs(self) -> dict[str, np.ndarray]:
        return run_session(self._session, self._inputs)

    def time_ms(self) -> float:
        start = time.perf_counter()
        self.outputs()
        return (time.perf_counter() - start) * 1e3

    def memory(self) -> dict[str, Any]:
        return {
            "kind": "growth of the process while it opened the model and ran it once; ONNX Runtime tells no more",
            "weights_bytes": self._weights,
            "peak_bytes": self._peak,
            "timeline": [],
        }

    def operators(self) -> list[dict[str, Any]]:
        """From ONNX Runtime's own profile; the operators are those after its optimizations."""
        with tempfile.TemporaryDirectory() as folder:
            session = open_session(self._model, "all", profile_prefix=str(Path(folder) / "profile"))
            run_session(session, self._inputs)
            events = json.loads(Path(session.end_profiling()).read_text())
        ran = [e for e in events if e.get("cat") == "Node" and e["name"].endswith("_kernel_time")]
        return [
            {
                "name": event["name"].removesuffix("_kernel_time"),
                "op": event["args"].get("op_name", ""),
                "time_ms": event["dur"] / 1e3,
            }
            for event in ran
        ]


def _reset_peak() -> int:
    """Forget the process's peak and return what it holds now, in bytes (proc(5), clear_refs; malloc_trim(3))."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc: what earlier models left free goes back to the system, or growth would hide in it
        trim(0)
    with suppress(OSError):  # not Linux: the peak is that of the process's whole life
        Path("/proc/self/clear_refs").write_text("5")
    return psutil.Process().memory_info().rss


def _peak() -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
