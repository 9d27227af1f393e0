"""Runs of a model's file whose results are all its values, not its outputs alone: used inside the worker only."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from workbench.backends.onnxruntime.sessions import open_session, run_session
from workbench.formats.opsets.versions import NEWEST_IR
from workbench.run.inner_values.rounding import Values

_ROUNDING: Mapping[int, float] = {
    TensorProto.FLOAT: 2.0**-22,
    TensorProto.DOUBLE: 2.0**-51,
    TensorProto.FLOAT16: 2.0**-10,
}
# Operators whose constants are numbers of things, scales of sizes, exponents and quantization steps.
_EXACT = ("Resize", "Upsample", "Range", "Pow", "QuantizeLinear", "DequantizeLinear", "OneHot")
_STILL, _NOISE = "workbench_still ", "workbench_noise "
_LEAST_FACTORS = 2**16
_INPUT_ROUNDING = {np.dtype(np.float32): 2.0**-22, np.dtype(np.float64): 2.0**-51, np.dtype(np.float16): 2.0**-10}


def session_with_values(model: str, values: Sequence[str]) -> Any:
    """A session of the file, unoptimized, whose results are its outputs and these values. The last two are kept."""
    return _session(model, os.stat(model).st_mtime_ns, tuple(values))


@lru_cache(maxsize=2)
def _session(model: str, changed: int, values: tuple[str, ...]) -> Any:
    return _opened(message_of(model), model, values)


def message_of(model: str) -> onnx.ModelProto:
    """The file's message, without weights that lie in other files."""
    return onnx.load(model, load_external_data=False)


def _opened(message: onnx.ModelProto, model: str, values: Sequence[str]) -> Any:
    message.ir_version = min(message.ir_version, NEWEST_IR)
    computed = {value for node in message.graph.node for value in node.output}
    missing = computed - {output.name for output in message.graph.output}
    message.graph.output.extend(ValueInfoProto(name=value) for value in values if value in missing)
    folder = {"session.model_external_initializers_file_folder_path": os.path.dirname(os.path.abspath(model))}
    return open_session(message.SerializeToString(), "disabled", arena=False, entries=folder)


# ---- rounded anew ----------------------------------------------------------------------


class Movements:
    """By how much the values of a model move if all its numbers are rounded anew, in each of several runs.

    These are its weights and inputs, and what its nodes compute: a sum that cancels shows the rounding of its summands.

    model: its file. values: those that are recorded. large: further values of float32, by name, with their sizes.
    Nothing is run before a value is asked for.
    """

    def __init__(
        self,
        model: str,
        values: Sequence[str],
        large: Mapping[str, Sequence[int]],
        inputs: Sequence[Values],
        runs: Sequence[Values],
    ) -> None:
        self._model, self._values, self._large, self._inputs, self._runs = model, values, large, inputs, runs
        self._moved: dict[int, list[Values]] = defaultdict(list)
        # Whether scalars and results of nodes move. A way that fails once, since a scalar decides a size, is not tried
        # again. The session is of the first that is left.
        self._ways = [(True, True), (False, True), (False, False)]
        self._session: Any = None
        self._moving: list[str] = []  # the values that move where they are computed, in this session
        self._random = np.random.default_rng(0)

    def of(self, run: int, name: str, times: int = 1) -> np.ndarray | None:
        """The largest distance that each element of a value moved; None if nothing ran.

        times: how often all is rounded anew. Once it may be moved by nearly nothing, by chance.
        """
        while len(self._moved[run]) < times:
            self._moved[run].append(self._run(run))
        right, moved = self._runs[run].get(name), [values.get(name) for values in self._moved[run][:times]]
        distances = [_distance(right, array) for array in moved if right is not None and array is not None]
        return np.maximum.reduce(distances) if distances else None

    def _run(self, run: int) -> Values:
        """The values of a run with other numbers; {} if it fails, since one of them decides a size or a place."""
        while self._ways:
            found, right = self._tried(run), self._runs[run]
            if found and all(found[name].shape == array.shape for name, array in right.items() if name in found):
                return found
            del self._ways[0]
            self._session = None
        return {}

    def _tried(self, run: int) -> Values:
        """The values of a run in the first way that is left; {} if it fails."""
        fed = {value: _rounded(array, self._random) for value, array in self._inputs[run].items()}
        try:
            if self._session is None:
                self._session = self._opened(*self._ways[0])
            return run_session(self._session, {**fed, **self._factors(run)})
        except Exception:  # onnxruntime's own classes have no common base but Exception
            return {}

    def _opened(self, with_scalars: bool, computed: bool) -> Any:
        message = _rounded_anew(self._model, with_scalars, self._random)
        self._moving = _add_factors(message.graph, self._computed) if computed else []
        return _opened(message, self._model, self._values)

    @cached_property
    def _computed(self) -> dict[str, np.dtype]:
        """The element types of values that are rounded where they are computed. Whole numbers are exact."""
        recorded = {
            name: array.dtype
            for name, array in self._runs[0].items()
            if array.dtype in (np.float32, np.float64)
            and any(not np.array_equal(run[name], np.rint(run[name])) for run in self._runs)
        }
        return {**dict.fromkeys(self._large, np.dtype(np.float32)), **recorded}

    def _factors(self, run: int) -> Values:
        """A factor near 1 for each element of each value that moves: parts of one array, which takes no time."""
        if not self._moving:
            return {}
        right = self._runs[run]
        sizes = {name: right[name].shape if name in right else tuple(self._large[name]) for name in self._moving}
        factors = {}
        for name, size in sizes.items():
            count, all_ = math.prod(size), self._all_factors[self._computed[name]]
            start = int(self._random.integers(len(all_) - count + 1))
            factors[_NOISE + name] = all_[start : start + count].reshape(size)
        return factors

    @cached_property
    def _all_factors(self) -> dict[np.dtype, np.ndarray]:
        """Twice as many as the largest value has elements, for each element type."""
        sizes = [array.size for run in self._runs for array in run.values()]
        count = 2 * max(_LEAST_FACTORS, *sizes, *map(math.prod, self._large.values()))
        uniform = 2.0 * self._random.random(count, np.float32) - 1.0
        return {kind: (1.0 + _INPUT_ROUNDING[kind] * uniform).astype(kind) for kind in {*self._computed.values()}}


def _rounded_anew(model: str, with_scalars: bool, random: np.random.Generator) -> onnx.ModelProto:
    message = onnx.load(model)
    for tensor in _numbers(message.graph):
        if tensor.dims or with_scalars:
            array = numpy_helper.to_array(tensor)
            moved = _scaled(array, _ROUNDING[tensor.data_type], random)
            tensor.CopyFrom(numpy_helper.from_array(moved, tensor.name))
    return message


def _add_factors(graph: onnx.GraphProto, types: Mapping[str, np.dtype]) -> list[str]:
    """Multiply results of nodes with factors, which are further inputs. Returns the names of these results.

    types: their element types, by name.
    """
    exact = _read_exactly(graph)
    moving: list[str] = []
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        here = [name for name in node.output if name in types and name not in exact and node.op_type != "Constant"]
        copy = graph.node.add()
        copy.CopyFrom(node)
        copy.output[:] = [_STILL + name if name in here else name for name in node.output]
        graph.node.extend(helper.make_node("Mul", [_STILL + name, _NOISE + name], [name]) for name in here)
        moving += here
    for name in moving:
        kind = helper.np_dtype_to_tensor_dtype(types[name])
        graph.input.append(helper.make_tensor_value_info(_NOISE + name, kind, None))
    return moving


def _numbers(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """Constants of floats of the graph and of its bodies, without those that are exact, as the 2 of a square."""
    exact = _read_exactly(graph)
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR and node.op_type == "Constant":
                tensors[node.output[0]] = attribute.t
            elif attribute.type == AttributeProto.GRAPH:
                yield from _numbers(attribute.g)
    yield from (tensor for name, tensor in tensors.items() if name not in exact and tensor.data_type in _ROUNDING)


def _read_exactly(graph: onnx.GraphProto) -> set[str]:
    return {value for node in graph.node if node.op_type in _EXACT for value in node.input[1:]}


def _rounded(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    rounding = _INPUT_ROUNDING.get(array.dtype)
    return array if rounding is None else _scaled(array, rounding, random)


def _scaled(array: np.ndarray, rounding: float, random: np.random.Generator) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(array * (1.0 + rounding * random.uniform(-1, 1, array.shape))).astype(array.dtype)


def _distance(array: np.ndarray, moved: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        distance = np.abs(array.astype(np.float32, copy=False) - moved.astype(np.float32, copy=False))
    return np.where(np.isfinite(distance), distance, 0)
