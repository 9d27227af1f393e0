"""The values of one run of a model by ONNX Runtime without optimizations, computed when they are first read."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir
from onnx import ModelProto, TypeProto, helper

from workbench.backends.tensors import load_tensors, save_tensors
from workbench.formats.io.checks import reads
from workbench.formats.io.proto_file import ProtoFile, known_types, write_proto
from workbench.ir import DataType, TensorType
from workbench.ir.from_proto import value_type
from workbench.run.worker.client import Worker

MAX_RUN_BYTES = 2**28  # the most bytes that one run returns; a value of unknown size counts as SMALL_BYTES
SMALL_BYTES = 2**14  # values up to this size are recorded by the first run


class Recording:
    """The tensors of the main graph in one run on given inputs.

    types: the type of every tensor that is recorded, or can be, with the sizes of this run.
    Values are stored in files. The first run records small values and those of unknown type. Others are recorded when
    they are first read, by a run of only the nodes that they need.
    """

    def __init__(self, file: ProtoFile, inputs: Mapping[str, np.ndarray], worker: Worker, folder: Path) -> None:
        """folder: the files are stored in a new folder in it. Raises RunError if the model does not run."""
        self._file, self._inputs, self._worker = file, dict(inputs), worker
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        self._numbers = itertools.count()
        self._files: dict[str, Path] = {}
        self.types: dict[str, TensorType] = {}
        self._store(inputs)
        inferred = _types_of_run(file.model, inputs)
        results = [v for node in file.model.graph.node for v in node.output if v]
        tensors = {v: t for v in results if isinstance(t := inferred.get(v), TensorType)}
        self.types.update((v, t) for v, t in tensors.items() if t.static_shape is not None)
        unknown = [v for v in results if v not in self.types and (v in tensors or v not in inferred)]
        self.fetch([*unknown, *(v for v in results if v in self.types and (self.types[v].bytes or 0) <= SMALL_BYTES)])

    def read(self, value: str) -> np.ndarray:
        """The value's array. Raises RunError."""
        self.fetch([value])
        return load_tensors(self._files[value])[value]

    def fetch(self, values: Iterable[str]) -> None:
        """Record these values in as few runs as hold no more than MAX_RUN_BYTES of results each. Raises RunError."""
        for names in self._portions([value for value in values if value not in self._files]):
            path = self._folder / f"recorded{next(self._numbers)}.onnx"
            write_proto(path, _model_computing(self._file.model, names), self._file.read_weight)
            result = self._worker.outputs(path, self._inputs).tensors
            # a sequence is returned under other names
            self._store({name: result[name] for name in names if name in result})
            path.unlink()

    def _store(self, tensors: Mapping[str, np.ndarray]) -> None:
        for name, array in tensors.items():
            self._files[name] = self._folder / f"value{next(self._numbers)}.tensors"
            self.types[name] = type_of(array)
            save_tensors(self._files[name], {name: array})

    def _portions(self, values: Sequence[str]) -> Iterator[list[str]]:
        """The values in parts of at most MAX_RUN_BYTES, each at least one value."""
        portion: list[str] = []
        total = 0
        for value in values:
            type_ = self.types.get(value)
            size = (None if type_ is None else type_.bytes) or SMALL_BYTES
            if portion and total + size > MAX_RUN_BYTES:
                yield portion
                portion, total = [], 0
            portion.append(value)
            total += size
        if portion:
            yield portion


def type_of(array: np.ndarray) -> TensorType:
    if array.dtype.kind in "USO":
        return TensorType(DataType.STRING, array.shape)
    return TensorType(onnx_ir.DataType.from_numpy(array.dtype), array.shape)


def _types_of_run(model: ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, object]:
    """The types of values by name, inferred from the sizes of these inputs."""
    bound = ModelProto()
    bound.CopyFrom(model)
    for info in bound.graph.input:
        if info.name in inputs:
            type_ = type_of(inputs[info.name])
            info.type.CopyFrom(helper.make_tensor_type_proto(int(type_.dtype), type_.static_shape))
    del bound.graph.value_info[:]
    results: dict[str, TypeProto] = known_types(bound)
    return {name: value_type(type_) for name, type_ in results.items()}


def _model_computing(model: ModelProto, values: Sequence[str]) -> ModelProto:
    """The model with these values as outputs, and only the nodes that they need."""
    needed, nodes = set(values), []
    for node in reversed(model.graph.node):
        if not needed.isdisjoint(node.output):
            nodes.append(node)
            needed.update(reads(node))
    part = ModelProto()
    part.CopyFrom(model)
    del part.graph.node[:], part.graph.output[:], part.graph.value_info[:]
    part.graph.node.extend(reversed(nodes))
    for value in values:
        part.graph.output.add(name=value)
    constants = [tensor for tensor in part.graph.initializer if tensor.name in needed]
    del part.graph.initializer[:]
    part.graph.initializer.extend(constants)
    return part
