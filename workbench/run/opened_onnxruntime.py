"""A model opened by ONNX Runtime with all its optimizations, to be measured; used inside the worker only."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir

from workbench.ir.proto import from_model
from workbench.run.memory import weight_bytes
from workbench.run.process_memory import growth
from workbench.run.runners import open_session, provider_of, run_session

_GROWN = "growth of the process while it opened the model and ran it once; ONNX Runtime tells no more"


class SessionRun:
    """ONNX Runtime, as its users run it: on CUDA, inputs and outputs are copied in every run.

    fallbacks: operators that its CPU provider runs although the GPU was asked for.
    """

    def __init__(self, model: str, inputs: Mapping[str, np.ndarray], device: str) -> None:
        self._model, self._inputs, self._device = model, dict(inputs), device
        self.graph = from_model(onnx_ir.load(model))
        self._weights = weight_bytes(self.graph)
        self._grown = growth(self._open)
        self.fallbacks: Mapping[str, str] = {}

    def _open(self) -> None:
        self._session = open_session(self._model, "all", device=self._device)
        self.outputs()

    def outputs(self) -> dict[str, np.ndarray]:
        return run_session(self._session, self._inputs)

    def time_ms(self) -> float:
        start = time.perf_counter()
        self.outputs()
        return (time.perf_counter() - start) * 1e3

    def memory(self) -> dict[str, Any]:
        return {
            "kind": _GROWN,
            "weights_bytes": self._weights,
            "peak_bytes": self._grown,
            "process_bytes": self._grown,
            "timeline": [],
            "at_peak": None,
        }

    def operators(self) -> list[dict[str, Any]]:
        """From ONNX Runtime's own profile of one run; the operators are those after its optimizations."""
        with tempfile.TemporaryDirectory() as folder:
            prefix = str(Path(folder) / "profile")
            session = open_session(self._model, "all", device=self._device, profile_prefix=prefix)
            run_session(session, self._inputs)
            events = json.loads(Path(session.end_profiling()).read_text())
        ran = [e for e in events if e.get("cat") == "Node" and e["name"].endswith("_kernel_time")]
        wanted = provider_of(self._device)
        others = {e["args"].get("op_name", "") for e in ran if e["args"].get("provider", wanted) != wanted}
        self.fallbacks = dict.fromkeys(sorted(others), f"{wanted} has no kernel for it; it ran on the CPU")
        first = min((event["ts"] for event in ran), default=0)
        return [
            {
                "name": event["name"].removesuffix("_kernel_time"),
                "op": event["args"].get("op_name", ""),
                "time_ms": event["dur"] / 1e3,
                "start_ms": (event["ts"] - first) / 1e3,
            }
            for event in ran
        ]
