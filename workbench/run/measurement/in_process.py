"""Models opened for measurement in this process; used inside the worker only."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from workbench.backends.failures import BackendError, in_stage
from workbench.backends.profiling.caches import flusher
from workbench.backends.profiling.profile_result import DeviceKernel, Kernel, MeasuredStreams, Memory, OperatorRun
from workbench.backends.profiling.progress import StageCallback
from workbench.backends.tensors import load_tensors
from workbench.run.compare import compare
from workbench.run.inputs import in_forms
from workbench.run.measurement.wait_idle import wait_for_sleep
from workbench.run.tolerances import Tolerance
from workbench.support.optional_torch import need_torch


class OpenedModel(Protocol):
    """An opened model with its inputs on its device."""

    @property
    def fallbacks(self) -> Mapping[str, str]: ...

    @property
    def kernels(self) -> Sequence[Kernel]: ...

    @property
    def streams(self) -> MeasuredStreams | None: ...

    def outputs(self) -> dict[str, np.ndarray]: ...

    def time_ms(self) -> float:
        """One run, without the transfer of inputs and outputs."""

    def memory(self) -> Memory: ...

    def operators(self) -> list[OperatorRun]:
        """The operators, in order, of profiled runs, which are not the timed runs."""

    def device_kernels(self) -> list[DeviceKernel]:
        """The kernels of one run on a CUDA device, with their streams, of another run than the timed ones."""


class LocalBackend:
    """The variants that this process has opened, by label. Failures raise TaskError or a UserError.

    reference: the file of the outputs to compare with. memory_limit: bytes of a CUDA device, None for all.
    """

    def __init__(self, device: str, memory_limit: int | None, reference: str | None) -> None:
        self._device, self._limit, self._reference = device, memory_limit, reference
        self._opened: dict[str, OpenedModel] = {}
        self._inputs: dict[str, Mapping[str, np.ndarray]] = {}

    def open(self, variant: Mapping[str, Any], on_stage: StageCallback) -> dict[str, Any]:
        """Open a variant. Returns `first_result_s`, the seconds of opening, compiling and one run, and `error` or None.

        error:    the comparison with the reference.
        on_stage: is called with the present stage.
        """
        file = variant["inputs"]
        if file not in self._inputs:
            self._inputs[file] = load_tensors(file)
        open_model = in_stage("run", lambda: self._opener(variant, on_stage))
        start = time.perf_counter()
        model = in_stage("run", open_model)
        in_stage("run", model.outputs)
        seconds = time.perf_counter() - start
        self._opened[variant["label"]] = model
        return {"first_result_s": seconds, "error": self._error(model, variant)}

    def has(self, label: str) -> bool:
        """Whether the variant of this label was opened by this object."""
        return label in self._opened

    def time_ms(self, label: str, cold: bool) -> float:
        """The time of the second of two runs: the first one wakes threads and fills caches that other variants used.

        cold: time one run after emptying the device's cache. Returns when the threads of the run sleep, since
        spinning threads would share the cores with the next run, in this or another process.
        """
        run = self._opened[label].time_ms
        if cold:
            self._flush_cache()
        else:
            in_stage("run", run)
        result = in_stage("run", run)
        wait_for_sleep()
        value: float = result
        return value

    def profile(self, label: str, operators: bool) -> dict[str, Any]:
        """`memory`, `operators`, `fallbacks`, `kernels`, `streams` and `device_kernels` of the OpenedModel, as JSON.

        operators: whether to time operators and kernels; if not, the lists are empty.
        """
        model = self._opened[label]
        memory, operators_timed = in_stage("run", model.memory), in_stage("run", model.operators) if operators else []
        return {
            "memory": asdict(memory),
            "operators": [asdict(operator) for operator in operators_timed],
            "fallbacks": dict(model.fallbacks),
            "kernels": [asdict(kernel) for kernel in model.kernels],
            "device_kernels": [asdict(kernel) for kernel in in_stage("run", model.device_kernels)] if operators else [],
            "streams": None if model.streams is None else asdict(model.streams),
        }

    @cached_property
    def _flush_cache(self) -> Callable[[], None]:
        return flusher(self._device)

    def _opener(self, variant: Mapping[str, Any], on_stage: StageCallback) -> Callable[[], OpenedModel]:
        """A function that opens the model; its library is loaded before, and does not count for the first variant."""
        inputs = self._inputs[variant["inputs"]]
        if variant["backend"] == "onnxruntime":
            from workbench.backends.onnxruntime.session_run import SessionRun, warm_up_runtime

            warm_up_runtime(self._device)
            return lambda: SessionRun(variant["model"], inputs, self._device, self._limit)
        need_torch(f"The backend {variant['backend']} (unlike onnxruntime)", BackendError)
        import torch  # noqa: F401

        from workbench.backends.torch.torch_run import TorchRun

        return lambda: TorchRun(variant["model"], inputs, self._device, variant["backend"], variant["dtype"], on_stage)

    def _error(self, model: OpenedModel, variant: Mapping[str, Any]) -> dict[str, Any] | None:
        """The error against the reference; its outputs are changed to the reference's `forms`."""
        if self._reference is None:
            return None
        run_outputs = partial(self._first_outputs, variant) if variant["seeded"] else model.outputs
        outputs = in_forms(in_stage("run", run_outputs), variant["forms"])
        allowed = {name: Tolerance(**fields) for name, fields in variant["tolerances"].items()}
        result = asdict(compare(load_tensors(self._reference), outputs, allowed))
        return {key: value for key, value in result.items() if key != "outputs"}

    def _first_outputs(self, variant: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The outputs of a first run of the model with seeds, on the backend of the variant."""
        if variant["backend"] != "onnxruntime":
            return self._opener({**variant, "model": variant["seeded"]}, lambda fields: None)().outputs()
        from workbench.backends.onnxruntime.sessions import open_session, run_session

        session = open_session(variant["seeded"], "all", device=self._device, memory_limit=self._limit)
        return run_session(session, self._inputs[variant["inputs"]])
