"""Models opened in this process to be measured; used inside the worker only."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from workbench.run.compare import compare
from workbench.run.inputs import turned
from workbench.run.measurement.spinning import wait_for_sleep
from workbench.run.profiling.caches import flusher
from workbench.run.profiling.profiled import Kernel, MeasuredLanes, Memory, OperatorRun
from workbench.run.profiling.progress import OnStage
from workbench.run.tolerances import Tolerance
from workbench.run.worker.failures import BackendError, TaskError
from workbench.run.worker.tensors import load_tensors
from workbench.support.torch_here import need_torch


class OpenedModel(Protocol):
    """An opened model with its inputs on its device."""

    @property
    def fallbacks(self) -> Mapping[str, str]: ...

    @property
    def kernels(self) -> Sequence[Kernel]: ...

    @property
    def lanes(self) -> MeasuredLanes | None: ...

    def outputs(self) -> dict[str, np.ndarray]: ...

    def time_ms(self) -> float:
        """One run, without the transfer of inputs and outputs."""

    def memory(self) -> Memory: ...

    def operators(self) -> list[OperatorRun]:
        """The operators, in order, of profiled runs, which are separate from the timed ones."""


class LocalBackend:
    """The variants that this process has opened, by label. Failures raise TaskError or a UserError.

    reference: the file of the outputs to compare with. memory_limit: bytes of a CUDA device, None for all.
    """

    def __init__(self, device: str, memory_limit: int | None, reference: str | None) -> None:
        self._device, self._limit, self._reference = device, memory_limit, reference
        self._opened: dict[str, OpenedModel] = {}
        self._inputs: dict[str, Mapping[str, np.ndarray]] = {}

    def open(self, variant: Mapping[str, Any], say: OnStage) -> dict[str, Any]:
        """`first_result_s`, seconds of opening it, compiling and one run, and `error` against the reference or None.

        say: is called with what is being prepared.
        """
        file = variant["inputs"]
        if file not in self._inputs:
            self._inputs[file] = load_tensors(file)
        make = ran(lambda: self._maker(variant, say))
        start = time.perf_counter()
        model = ran(make)
        ran(model.outputs)
        seconds = time.perf_counter() - start
        self._opened[variant["label"]] = model
        return {"first_result_s": seconds, "error": self._error(model, variant)}

    def has(self, label: str) -> bool:
        """Whether it was opened here."""
        return label in self._opened

    def time_ms(self, label: str, cold: bool) -> float:
        """The time of the second of two runs, as if alone: the first wakes threads and fills caches that others used.

        cold: one run, after the device's cache was emptied. Returns when the threads of the run sleep again, since a
        library's may spin for a while and would share the cores with the next run, here or in another process.
        """
        run = self._opened[label].time_ms
        if cold:
            self._flush()
        else:
            ran(run)
        result = ran(run)
        wait_for_sleep()
        value: float = result
        return value

    def profile(self, label: str, operators: bool) -> dict[str, Any]:
        """`memory`, `operators`, `fallbacks`, `kernels`, `lanes`, see OpenedModel, as JSON.

        operators: whether to time them; else there are none.
        """
        model = self._opened[label]
        memory, timed = ran(model.memory), ran(model.operators) if operators else []
        return {
            "memory": asdict(memory),
            "operators": [asdict(operator) for operator in timed],
            "fallbacks": dict(model.fallbacks),
            "kernels": [asdict(kernel) for kernel in model.kernels],
            "lanes": None if model.lanes is None else asdict(model.lanes),
        }

    @cached_property
    def _flush(self) -> Callable[[], None]:
        return flusher(self._device)

    def _maker(self, variant: Mapping[str, Any], say: OnStage) -> Callable[[], OpenedModel]:
        """The function that opens the model. Loads its library, which then does not count for the first variant."""
        inputs = self._inputs[variant["inputs"]]
        if variant["backend"] == "onnxruntime":
            from workbench.run.onnxruntime.opened import SessionRun, load_kernels

            load_kernels(self._device)
            return lambda: SessionRun(variant["model"], inputs, self._device, self._limit)
        need_torch(f"The backend {variant['backend']} (unlike onnxruntime)", BackendError)
        import torch  # noqa: F401

        from workbench.run.torch.opened import TorchRun

        return lambda: TorchRun(variant["model"], inputs, self._device, variant["backend"], variant["dtype"], say)

    def _error(self, model: OpenedModel, variant: Mapping[str, Any]) -> dict[str, Any] | None:
        """The error against the reference; `orders` of the variant permute its outputs to the reference's."""
        if self._reference is None:
            return None
        found_by = partial(self._first_outputs, variant) if variant["seeded"] else model.outputs
        outputs = turned(ran(found_by), variant["orders"])
        allowed = {name: Tolerance(**words) for name, words in variant["tolerances"].items()}
        result = asdict(compare(load_tensors(self._reference), outputs, allowed))
        return {key: value for key, value in result.items() if key != "outputs"}

    def _first_outputs(self, variant: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Of a first run of the copy with seeds, in the way in which the variant runs."""
        if variant["backend"] != "onnxruntime":
            return self._maker({**variant, "model": variant["seeded"]}, lambda words: None)().outputs()
        from workbench.run.onnxruntime.sessions import open_session, run_session

        session = open_session(variant["seeded"], "all", device=self._device, memory_limit=self._limit)
        return run_session(session, self._inputs[variant["inputs"]])


def ran(what: Callable[[], Any]) -> Any:
    """The function's result. Raises TaskError of stage "run" for any error but a TaskError, which passes."""
    try:
        return what()
    except TaskError:
        raise
    except Exception as error:
        raise TaskError(error, "run") from error
