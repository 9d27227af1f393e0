"""A candidate of a reduction: a model that may still show the fault, with recorded inputs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto

from workbench.evidence.reduction.regions import Region, Whole, node_count
from workbench.formats.io.checks import every_tensor
from workbench.formats.io.proto_file import write_proto
from workbench.run.inputs import write_inputs


@dataclass(frozen=True)
class Candidate:
    """A region of a whole as a model. model: without the large weights, which `complete` has."""

    whole: Whole
    region: Region
    model: ModelProto

    @property
    def nodes(self) -> int:
        """The number of nodes, with those in bodies and functions."""
        return node_count(self.model)

    @property
    def complete(self) -> ModelProto:
        """The model with all its weights in memory, for a check in this process."""
        full = ModelProto()
        full.CopyFrom(self.model)
        self.whole.fetch_constants(full)
        for tensor in every_tensor(full):
            if tensor.data_location == TensorProto.EXTERNAL:
                weight = self.whole.read_tensor(tensor)
                tensor.ClearField("external_data")
                tensor.ClearField("data_location")
                tensor.raw_data = weight.tobytes()
        return full

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """The recorded arrays of the model's inputs; {} if nothing could be recorded."""
        return self.whole.recorded_inputs(self.model)

    @cached_property
    def key(self) -> str:
        """Equal for candidates of one whole that are the same model."""
        return hashlib.sha256(self.model.SerializeToString(deterministic=True)).hexdigest()

    def save(self, model: Path, inputs: Path | None) -> None:
        """Write the model, and its inputs as an .npz if a path is given. Raises OSError."""
        self.whole.fetch_constants(self.model)
        write_proto(model, self.model, self.whole.read_tensor, self.whole.file.sparse)
        if inputs is not None:
            write_inputs(inputs, self.inputs)


def is_well_formed(model: ModelProto) -> bool:
    """Whether onnx.checker accepts the model, with empty tensors for large weights, whose files it would look for."""
    light = ModelProto()
    light.CopyFrom(model)
    for tensor in every_tensor(light):
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.CopyFrom(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0], raw_data=b""))
    try:
        onnx.checker.check_model(light)
    except onnx.checker.ValidationError:
        return False
    return True
