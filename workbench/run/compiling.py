"""A graph as a function of torch tensors or numpy arrays, in the user's program."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from workbench.backends.torch.executor.compilers import compiler_note
from workbench.backends.torch.executor.executor import TorchExecutor, outputs_to_numpy
from workbench.backends.torch.executor.input_numbers import reader_of_input_numbers
from workbench.backends.torch.executor.opening import check_device
from workbench.backends.torch.prepared import PREPARATIONS, Prepared, eager
from workbench.errors import UserError, quoted
from workbench.ir import DataType, Graph, TensorType
from workbench.ops.dtypes import UnsupportedByTorch, to_tensor, torch_dtype
from workbench.ops.lazy import torch as lazy_torch
from workbench.planning.fusion.groups_at_once import grouped
from workbench.run.inputs import dim_name, dims_of
from workbench.support.optional_torch import need_torch

MAX_BUCKETS = 8
_EAGER, _FUSED, _ONNXRUNTIME = "torch", "fused", "onnxruntime"
_HALF_PRECISION = ("float16", "bfloat16")
_RECORDING_LOCK = Lock()  # recordings share memory, see `cuda_graph.captured`
_Shapes = tuple[tuple[int, ...], ...]


class CallError(UserError):
    """The graph cannot be compiled, or not be called with these inputs."""


@dataclass(frozen=True)
class _Bucket:
    """A run prepared for the shapes of `tensors`, which it reads at their addresses."""

    executor: TorchExecutor
    tensors: Mapping[str, Any]
    prepared: Prepared


class CompiledGraph:
    """A graph that is called: `compiled(x)`, `compiled(images=x)`, or with a mapping of names to tensors.

    A call takes either torch tensors or numpy arrays, and returns copies of the outputs by name, in the same kind.
    Result tensors are on the device, in the types of the run. Result arrays are float32 if the run computes in float16
    or bfloat16. A sequence is a list of tensors, or arrays `s[0]`, `s[1]`, ...

    The first call prepares the run for the shapes of its inputs, and may compile. If the graph has symbolic dims, other
    shapes get another prepared run, a bucket; the last MAX_BUCKETS are kept. Inputs are copied to the addresses that
    the run reads. Calls from several threads wait for each other; on a GPU all calls must be on one stream.

    fallbacks: what runs in another way than on the backend, or not in torch, and why; known after the first call.
    Raises CallError for inputs that the graph does not take, and OperatorError if an operator fails.
    """

    def __init__(self, graph: Graph, device: str, dtype: str, backend: str) -> None:
        _refuse_backend(backend)
        need_torch("A compiled graph", CallError)
        for name in graph.inputs:
            _input_type(graph, name)
        check_device(device)
        self.graph = graph
        self._backend, self._dtype, self._device = backend, dtype, lazy_torch.device(device)
        self._executed_graph = grouped(graph) if backend == _FUSED else graph
        self._executor = TorchExecutor(self._executed_graph, device, dtype)
        self._reader = None if backend == _EAGER else reader_of_input_numbers(graph)
        self._note = compiler_note([backend], device)
        self._buckets: OrderedDict[_Shapes, _Bucket] = OrderedDict()
        self._lock = _RECORDING_LOCK if self._device.type == "cuda" else Lock()

    def __call__(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        values = self._by_name(args, kwargs)
        is_numpy = _is_numpy(values)
        tensors = {name: self._checked(name, values[name]) for name in self.graph.inputs}
        dims_of(self.graph, tensors)
        with (
            self._lock,
            lazy_torch.autocast(self._device.type, enabled=False),
        ):  # the caller's autocast must not affect our operators
            bucket = self._bucket(tensors)
            results = {name: self._copy(value) for name, value in bucket.prepared.run().items()}
        return outputs_to_numpy(results) if is_numpy else results

    @property
    def buckets(self) -> list[dict[str, tuple[int, ...]]]:
        """The shapes of the inputs of each bucket, the last used at the end."""
        return [dict(zip(self.graph.inputs, shapes, strict=True)) for shapes in self._buckets]

    @property
    def fallbacks(self) -> dict[str, str]:
        result = {} if self._note is None else {self._backend: self._note}
        for bucket in self._buckets.values():
            result |= {**bucket.executor.fallbacks, **bucket.prepared.fallbacks_of(self._backend)}
        return result

    @property
    def sentence(self) -> str:
        """The graph, its backend, and the shapes for which it is prepared."""
        shapes = "; ".join(
            ", ".join(f"{name} {list(shape)}" for name, shape in bucket.items()) for bucket in self.buckets
        )
        prepared = f"{len(self._buckets)} of at most {MAX_BUCKETS} ({shapes})" if self._buckets else "none yet"
        return f"'{self.graph.name}' by {self._backend} on {self._device} in {self._dtype}; shapes prepared: {prepared}"

    # ---- inputs of a call -----------------------------------------------------------------------

    def _by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all inputs; omitted inputs have their defaults."""
        inputs = self.graph.inputs
        is_mapping = len(args) == 1 and isinstance(args[0], Mapping)
        if not is_mapping and len(args) > len(inputs):
            raise CallError(f"{len(args)} inputs are given, and the graph has {len(inputs)}: {quoted(inputs)}.")
        values = {} if is_mapping else dict(zip(inputs, args, strict=False))
        for name, value in ({**args[0], **kwargs} if is_mapping else kwargs).items():
            if name not in inputs:
                raise CallError(f"There is no input '{name}'; the graph's inputs are {quoted(inputs)}.")
            if name in values:
                raise CallError(f"Input '{name}' is given twice; give it by its position or by its name.")
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
            tensor = value if isinstance(value, lazy_torch.Tensor) else to_tensor(np.asarray(value))
        except UnsupportedByTorch as error:
            raise CallError(f"Input '{name}' cannot be used: {error}.") from None
        expected = _input_type(self.graph, name)
        accepted = self._accepted_types(expected.dtype)
        if tensor.dtype not in accepted:
            raise CallError(f"Input '{name}' has type {_name(value.dtype)}, and the graph takes {_name(accepted[0])}.")
        _refuse_shape(name, expected, tuple(tensor.shape))
        return tensor

    def _accepted_types(self, element_type: DataType) -> list[Any]:
        """The torch types that an input may have; for float32 also the narrow type of the run."""
        is_narrowed = element_type == DataType.FLOAT and self._dtype in _HALF_PRECISION
        element = torch_dtype(element_type)
        return [element, getattr(lazy_torch, self._dtype)] if is_narrowed else [element]

    # ---- buckets -------------------------------------------------------------------------------

    def _bucket(self, tensors: Mapping[str, Any]) -> _Bucket:
        """The run for these shapes, with its inputs copied in."""
        shapes: _Shapes = tuple(tuple(tensor.shape) for tensor in tensors.values())
        result = self._buckets.get(shapes)
        if result is None:
            result = self._buckets[shapes] = self._new_bucket(tensors)
            if len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
            return result
        self._buckets.move_to_end(shapes)
        with lazy_torch.no_grad():
            for name, tensor in tensors.items():
                result.tensors[name].copy_(result.executor.placed(name, tensor))
        return result

    def _new_bucket(self, tensors: Mapping[str, Any]) -> _Bucket:
        executor = self._executor
        if self._backend == _FUSED and self._buckets:  # kernels belong to a program and its shapes
            executor = TorchExecutor(self._executed_graph, str(self._device), self._dtype)
        with lazy_torch.no_grad():
            fixed_inputs = {
                name: executor.placed(name, tensor).clone(memory_format=lazy_torch.contiguous_format)
                for name, tensor in tensors.items()
            }
        if self._reader is None:
            return _Bucket(executor, fixed_inputs, PREPARATIONS[self._backend](executor, fixed_inputs, _ignore))
        reason = f"{self._reader} may read numbers that depend on the inputs, which a prepared run would fix"
        return _Bucket(executor, fixed_inputs, replace(eager(executor, fixed_inputs, _ignore), reason=reason))

    def _copy(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._copy(item) for item in value]
        return value.to(self._device, copy=True) if isinstance(value, lazy_torch.Tensor) else value


def compile_graph(graph: Graph, *, device: str = "cpu", dtype: str = "float32", backend: str = _EAGER) -> CompiledGraph:
    """The graph as a function of tensors. Raises UserError if there is no such device, type or backend.

    device: "cpu", "cuda" or "cuda:N". dtype: of `TorchExecutor`. backend: a key of PREPARATIONS.
    """
    return CompiledGraph(graph, device, dtype, backend)


def _refuse_backend(backend: str) -> None:
    if backend == _ONNXRUNTIME:
        raise CallError(
            "ONNX Runtime runs files: export the graph, and open the file with onnxruntime.InferenceSession."
        )
    if backend not in PREPARATIONS:
        raise CallError(f"There is no backend '{backend}'; use {', '.join(PREPARATIONS)}.")


def _input_type(graph: Graph, name: str) -> TensorType:
    type_ = graph.tensor_type(name)
    if type_ is None:
        raise CallError(f"Input '{name}' has type {graph.type(name)}; only graphs of tensors can be called.")
    if type_.dtype == DataType.STRING:
        raise CallError(
            f"Input '{name}' holds strings, which torch does not support; run the exported file in ONNX Runtime."
        )
    return type_


def _is_numpy(values: Mapping[str, Any]) -> bool:
    """Whether the values are numpy arrays. Raises CallError for other kinds, and for a mixture."""
    for name, value in values.items():
        if not isinstance(value, lazy_torch.Tensor | np.ndarray | np.generic):
            raise CallError(f"Input '{name}' is a {type(value).__name__}; give a torch tensor or a numpy array.")
    kinds = {name: not isinstance(value, lazy_torch.Tensor) for name, value in values.items()}
    if len(set(kinds.values())) > 1:
        raise CallError("Some inputs are torch tensors and some are numpy arrays; give all as one of them.")
    return next(iter(kinds.values()), True)


def _refuse_shape(name: str, expected: TensorType, shape: tuple[int, ...]) -> None:
    if expected.shape is None:
        return
    if len(shape) != len(expected.shape):
        raise CallError(f"Input '{name}' has {len(shape)} axes, {list(shape)}, and the graph takes {expected}.")
    for axis, (dim, size) in enumerate(zip(expected.shape, shape, strict=True)):
        if dim_name(name, axis, dim) is None and dim != size:
            raise CallError(
                f"Input '{name}' has {size} on axis {axis}, which the graph fixes to {dim}; give {expected}, or make "
                "the batch symbolic by the pass free_dims."
            )


def _name(dtype: Any) -> str:
    """The name of an element type of torch or numpy: "float32"."""
    return str(dtype).removeprefix("torch.")


def _ignore(stage: str) -> None:
    """A stage callback that reports nothing."""
