"""A graph run by torch, operator by operator, through the contracts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.backends.nontensor_inputs import with_containers
from workbench.backends.torch.executor.operator_errors import OperatorError
from workbench.backends.torch.executor.program import Program
from workbench.backends.torch.executor.run_config import Setting, on_host
from workbench.errors import UserError
from workbench.ir import Graph, Node
from workbench.ops.dtypes import UnsupportedByTorch, to_numpy, to_tensor
from workbench.ops.lazy import torch as lazy_torch
from workbench.support.tf32 import tf32

if TYPE_CHECKING:
    import torch

__all__ = ["OperatorError", "TorchExecutor"]

MIXED, TF32 = "mixed", "tf32"
_DTYPES = ("float32", TF32, "float16", "bfloat16", MIXED)
Observer = Callable[[Node, "tuple[torch.Tensor, ...]"], None]


class TorchExecutor:
    """Prepares a graph once and runs it any number of times.

    device: "cpu", "cuda" or "cuda:N"; weights are put there once.
    dtype:  "float16" or "bfloat16" computes what the graph computes in
            float32 in that type; "mixed" uses torch.autocast, operator by
            operator (convolutions and products in float16, on a CPU bfloat16);
            "tf32" rounds the operands of float32 products to 10 bits on a GPU that does, and
            changes nothing elsewhere; None and "float32" change nothing.
    fallbacks: operator -> why torch does not run it. ONNX Runtime runs it on the
            CPU; known at once for unknown operators, for others after the first run.
    Raises UserError if the graph cannot be prepared.
    """

    def __init__(self, graph: Graph, device: str = "cpu", dtype: str | None = None) -> None:
        if dtype is not None and dtype not in _DTYPES:
            raise UserError(f"There is no element type '{dtype}' to run in; use {', '.join(_DTYPES)}.")
        self.graph = graph
        self.device = lazy_torch.device(device)
        self.fallbacks: dict[str, str] = {}
        self.dtype = dtype
        narrow = None if dtype in (None, "float32", MIXED, TF32) else getattr(lazy_torch, dtype)
        self._setting = Setting(self.device, narrow, graph.functions, graph.opset_imports, self.fallbacks)
        with lazy_torch.inference_mode():
            self.program = Program(graph, self._setting)

    def run(self, inputs: Mapping[str, np.ndarray], observe: Observer | None = None) -> dict[str, np.ndarray]:
        """Outputs by name, as `outputs_to_numpy` gives them.

        observe: called after each node of the main graph with its results.
        Raises OperatorError if an operator fails.
        """
        return outputs_to_numpy(self.run_tensors(self.upload(inputs), observe))

    def run_tensors(self, inputs: Mapping[str, torch.Tensor], observe: Observer | None = None) -> dict[str, Any]:
        """Outputs by name, left on the device; this is what is timed."""
        missing = [name for name in self.graph.inputs if name not in inputs]
        if missing:
            raise UserError(f"Input '{missing[0]}' of graph '{self.graph.name}' is missing; give a tensor for it.")
        with self.computing():
            results = self.program.execute([inputs[name] for name in self.graph.inputs], (), observe)
        return dict(zip(self.graph.outputs, results, strict=True))

    def upload(self, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The inputs on the device, floats in the type of the run; those read only by the host stay on the CPU."""
        return {name: self._uploaded(name, value) for name, value in with_containers(self.graph, inputs).items()}

    def placed(self, name: str, tensor: Any) -> Any:
        """An input where a run reads it: on the device, floats in the type of the run, or on the CPU."""
        if not self._setting.places_matter or name in self.program.on_cpu:
            return on_host(tensor)
        return self._setting.on_device(tensor)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """The context of every run, of this thread: autocast in a mixed one, TF32 where it is asked for alone."""
        with lazy_torch.inference_mode(), self._autocast(), self.tf32():
            yield

    def tf32(self) -> AbstractContextManager[None]:
        """The part of `computing` that compiled code needs too: the Casts of autocast are in it."""
        return tf32(self.dtype == TF32) if self.device.type == "cuda" else nullcontext()

    @property
    def is_float32(self) -> bool:
        """Whether nothing is computed in another type than the graph's."""
        return self.dtype in (None, "float32")

    @property
    def weights(self) -> list[torch.Tensor]:
        """The constants of the main graph and of bodies as loaded, which live across runs."""
        return [value for value in _resident(self.program) if isinstance(value, lazy_torch.Tensor)]

    @property
    def constants(self) -> dict[str, Any]:
        """The constants of the main graph as they were loaded, by name."""
        return self.program.constants

    def _autocast(self) -> AbstractContextManager[Any]:
        narrow = lazy_torch.float16 if self.device.type == "cuda" else lazy_torch.bfloat16
        return lazy_torch.autocast(self.device.type, narrow) if self.dtype == MIXED else nullcontext()

    def _uploaded(self, name: str, value: Any) -> Any:
        if value is None:  # an empty optional
            return None
        if isinstance(value, list):
            return [self._uploaded(name, item) for item in value]
        try:
            tensor = to_tensor(np.asarray(value))
        except UnsupportedByTorch as error:
            raise UserError(f"Input '{name}' cannot be used: {error}.") from None
        return self.placed(name, tensor)


def outputs_to_numpy(results: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Outputs by name; float16 and bfloat16 ones as float32. A sequence `s` becomes `s[0]`, `s[1]`, ..."""
    outputs: dict[str, np.ndarray] = {}
    for name, value in results.items():
        if isinstance(value, list):
            outputs.update((f"{name}[{i}]", to_numpy(item)) for i, item in enumerate(value))
        elif value is None:
            raise UserError(f"Output '{name}' is an optional that holds nothing, so there is no tensor to give.")
        else:
            outputs[name] = to_numpy(value)
    return outputs


def _resident(program: Program) -> Iterator[Any]:
    yield from program.resident
    for step in program.steps:
        for body, _ in step.call.bodies.values():
            yield from _resident(body)
