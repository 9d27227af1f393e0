"""A graph as a function of tensors, of torch or of numpy, in the user's own program."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from workbench.errors import UserError, quoted
from workbench.fusion.grouped import grouped
from workbench.ir import DataType, Graph, TensorType
from workbench.ops.dtypes import CannotRun, to_tensor, torch_dtype
from workbench.ops.lazy import torch as late_torch
from workbench.run.inputs import dim_name, dims_of
from workbench.run.torch.executor.compilers import compiler_note
from workbench.run.torch.executor.executor import TorchExecutor, outputs_to_numpy
from workbench.run.torch.executor.input_numbers import reader_of_input_numbers
from workbench.run.torch.executor.opening import check_device
from workbench.run.torch.prepared import PREPARATIONS, Prepared, eager
from workbench.support.torch_here import need_torch

MOST_BUCKETS = 8
_EAGER, _FUSED, _OF_FILES = "torch", "fused", "onnxruntime"
_NARROW = ("float16", "bfloat16")
_TURN_OF_RECORDINGS = Lock()  # they share memory, see `cuda_graph.captured`
_Shapes = tuple[tuple[int, ...], ...]


class CallError(UserError):
    """The graph cannot be compiled or called so."""


@dataclass(frozen=True)
class _Bucket:
    """A run prepared for the shapes of `tensors`, which it reads where they are."""

    executor: TorchExecutor
    tensors: Mapping[str, Any]
    prepared: Prepared


class CompiledGraph:
    """A graph that is called: `compiled(x)`, `compiled(images=x)`, or with a mapping of names to tensors.

    A call takes torch tensors or numpy arrays, all alike, and gives the outputs by name as the same: copies, which
    later calls leave as they are. Tensors come on the device, in the types of the run; arrays as float32 where that is
    float16 or bfloat16. A sequence comes as a list of tensors, or as arrays `s[0]`, `s[1]`, ...

    The first call prepares the run for the shapes of its inputs, and may compile. Where the graph has symbols, other
    shapes get a run of their own, a bucket; the last 8 (MOST_BUCKETS) of them are kept. Inputs are copied to where the
    run reads them. Calls from several threads take turns; on a GPU all calls have to be of one stream.

    fallbacks: what does not run as the backend would, or not in torch, and why; known after the first call.
    Raises CallError for what the graph does not take, and OperatorError if an operator fails.
    """

    def __init__(self, graph: Graph, device: str, dtype: str, backend: str) -> None:
        _refuse_backend(backend)
        need_torch("A compiled graph", CallError)
        for name in graph.inputs:
            _input_type(graph, name)
        check_device(device)
        self.graph = graph
        self._backend, self._dtype, self._device = backend, dtype, late_torch.device(device)
        self._runs = grouped(graph) if backend == _FUSED else graph
        self._executor = TorchExecutor(self._runs, device, dtype)
        self._reader = None if backend == _EAGER else reader_of_input_numbers(graph)
        self._note = compiler_note([backend], device)
        self._kept: OrderedDict[_Shapes, _Bucket] = OrderedDict()
        self._turn = _TURN_OF_RECORDINGS if self._device.type == "cuda" else Lock()

    def __call__(self, /, *given: Any, **named: Any) -> dict[str, Any]:
        values = self._by_name(given, named)
        is_numpy = _is_numpy(values)
        tensors = {name: self._checked(name, values[name]) for name in self.graph.inputs}
        dims_of(self.graph, tensors)
        with self._turn, late_torch.autocast(self._device.type, enabled=False):  # the caller's is of its own operators
            bucket = self._bucket(tensors)
            results = {name: self._copied(value) for name, value in bucket.prepared.run().items()}
        return outputs_to_numpy(results) if is_numpy else results

    @property
    def buckets(self) -> list[dict[str, tuple[int, ...]]]:
        """The shapes of the inputs for which a run is kept, the last used at the end."""
        return [dict(zip(self.graph.inputs, shapes, strict=True)) for shapes in self._kept]

    @property
    def fallbacks(self) -> dict[str, str]:
        result = {} if self._note is None else {self._backend: self._note}
        for bucket in self._kept.values():
            result |= {**bucket.executor.fallbacks, **bucket.prepared.fallbacks_of(self._backend)}
        return result

    @property
    def sentence(self) -> str:
        """What it is, and for which shapes it is prepared."""
        shapes = "; ".join(", ".join(f"{name} {list(shape)}" for name, shape in one.items()) for one in self.buckets)
        prepared = f"{len(self._kept)} of at most {MOST_BUCKETS} ({shapes})" if self._kept else "none yet"
        return f"'{self.graph.name}' by {self._backend} on {self._device} in {self._dtype}; shapes prepared: {prepared}"

    # ---- what a call gives ---------------------------------------------------------------------

    def _by_name(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all inputs; those that are not given have their defaults."""
        inputs = self.graph.inputs
        is_mapping = len(given) == 1 and isinstance(given[0], Mapping)
        if not is_mapping and len(given) > len(inputs):
            raise CallError(f"{len(given)} inputs are given, and the graph has {len(inputs)}: {quoted(inputs)}.")
        values = {} if is_mapping else dict(zip(inputs, given, strict=False))
        for name, value in ({**given[0], **named} if is_mapping else named).items():
            if name not in inputs:
                raise CallError(f"There is no input '{name}'; the graph's inputs are {quoted(inputs)}.")
            if name in values:
                raise CallError(f"Input '{name}' is given twice; give it by its place or by its name.")
            values[name] = value
        defaults = self.graph.kept.defaults
        missing = next((name for name in inputs if name not in values and name not in defaults), None)
        if missing is not None:
            raise CallError(f"Input '{missing}' is missing; give a tensor for it.")
        return {name: values[name] if name in values else self._default(name, values) for name in inputs}

    def _default(self, name: str, values: Mapping[str, Any]) -> Any:
        array = self.graph.kept.defaults[name].numpy()
        return to_tensor(array) if values and not _is_numpy(values) else array

    def _checked(self, name: str, value: Any) -> Any:
        """The input as a tensor, of a type and shape that the graph takes."""
        try:
            tensor = value if isinstance(value, late_torch.Tensor) else to_tensor(np.asarray(value))
        except CannotRun as error:
            raise CallError(f"Input '{name}' cannot be used: {error}.") from None
        wanted = _input_type(self.graph, name)
        taken = self._taken(wanted.dtype)
        if tensor.dtype not in taken:
            raise CallError(f"Input '{name}' is of {_name(value.dtype)}, and the graph takes {_name(taken[0])}.")
        _refuse_shape(name, wanted, tuple(tensor.shape))
        return tensor

    def _taken(self, element_type: DataType) -> list[Any]:
        """The torch types in which an input may come; float32 also as the run computes it."""
        is_narrowed = element_type == DataType.FLOAT and self._dtype in _NARROW
        own = torch_dtype(element_type)
        return [own, getattr(late_torch, self._dtype)] if is_narrowed else [own]

    # ---- what runs -----------------------------------------------------------------------------

    def _bucket(self, tensors: Mapping[str, Any]) -> _Bucket:
        """The run for these shapes, its inputs filled in."""
        shapes: _Shapes = tuple(tuple(tensor.shape) for tensor in tensors.values())
        result = self._kept.get(shapes)
        if result is None:
            result = self._kept[shapes] = self._prepared(tensors)
            if len(self._kept) > MOST_BUCKETS:
                self._kept.popitem(last=False)
            return result
        self._kept.move_to_end(shapes)
        with late_torch.no_grad():
            for name, tensor in tensors.items():
                result.tensors[name].copy_(result.executor.placed(name, tensor))
        return result

    def _prepared(self, tensors: Mapping[str, Any]) -> _Bucket:
        executor = self._executor
        if self._backend == _FUSED and self._kept:  # kernels become part of a program, and are for its shapes
            executor = TorchExecutor(self._runs, str(self._device), self._dtype)
        with late_torch.no_grad():
            held = {
                name: executor.placed(name, tensor).clone(memory_format=late_torch.contiguous_format)
                for name, tensor in tensors.items()
            }
        if self._reader is None:
            return _Bucket(executor, held, PREPARATIONS[self._backend](executor, held, _say_nothing))
        reason = f"{self._reader} may read numbers that the inputs decide, which a prepared run would keep"
        return _Bucket(executor, held, replace(eager(executor, held, _say_nothing), reason=reason))

    def _copied(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._copied(item) for item in value]
        return value.to(self._device, copy=True) if isinstance(value, late_torch.Tensor) else value


def compile_graph(graph: Graph, *, device: str = "cpu", dtype: str = "float32", backend: str = _EAGER) -> CompiledGraph:
    """The graph as a function of tensors. Raises UserError if there is no such device, type or backend.

    device: "cpu", "cuda" or "cuda:N". dtype: of `TorchExecutor`. backend: a key of PREPARATIONS.
    """
    return CompiledGraph(graph, device, dtype, backend)


def _refuse_backend(backend: str) -> None:
    if backend == _OF_FILES:
        raise CallError(
            "ONNX Runtime runs files: export the graph, and open the file with onnxruntime.InferenceSession."
        )
    if backend not in PREPARATIONS:
        raise CallError(f"There is no backend '{backend}'; use {', '.join(PREPARATIONS)}.")


def _input_type(graph: Graph, name: str) -> TensorType:
    type_ = graph.tensor_type(name)
    if type_ is None:
        raise CallError(f"Input '{name}' is of type {graph.type(name)}; only graphs of tensors can be called.")
    if type_.dtype == DataType.STRING:
        raise CallError(f"Input '{name}' holds strings, which torch has not; run the exported file in ONNX Runtime.")
    return type_


def _is_numpy(values: Mapping[str, Any]) -> bool:
    """Raises CallError for values of other kinds, and of two kinds."""
    for name, value in values.items():
        if not isinstance(value, late_torch.Tensor | np.ndarray | np.generic):
            raise CallError(f"Input '{name}' is a {type(value).__name__}; give a torch tensor or a numpy array.")
    kinds = {name: not isinstance(value, late_torch.Tensor) for name, value in values.items()}
    if len(set(kinds.values())) > 1:
        raise CallError("Some inputs are torch tensors and some are numpy arrays; give all as one of them.")
    return next(iter(kinds.values()), True)


def _refuse_shape(name: str, wanted: TensorType, shape: tuple[int, ...]) -> None:
    if wanted.shape is None:
        return
    if len(shape) != len(wanted.shape):
        raise CallError(f"Input '{name}' has {len(shape)} axes, {list(shape)}, and the graph takes {wanted}.")
    for axis, (dim, size) in enumerate(zip(wanted.shape, shape, strict=True)):
        if dim_name(name, axis, dim) is None and dim != size:
            raise CallError(
                f"Input '{name}' has {size} on axis {axis}, which the graph fixes to {dim}; give {wanted}, or free a "
                "batch by the pass free_dims."
            )


def _name(dtype: Any) -> str:
    """float32, of torch or of numpy."""
    return str(dtype).removeprefix("torch.")


def _say_nothing(stage: str) -> None:
    """Nobody watches a call."""
