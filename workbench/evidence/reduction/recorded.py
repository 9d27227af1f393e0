"""A file with the values of one run, on the user's inputs or on seeded ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workbench.backends.memory import DoesNotFitError
from workbench.evidence.reduction.recording import Recording
from workbench.evidence.reduction.regions import Whole
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import LoadError, load_model
from workbench.formats.io.proto_file import open_proto
from workbench.run.inputs import read_inputs
from workbench.run.npz import InputError
from workbench.run.worker.client import Worker
from workbench.run.worker.process import CancelledError, RunError


@dataclass(frozen=True)
class RecordedWhole:
    """A file to be cut. source: its path, or that of the converted file for ONNX text. failure: why it was not
    recorded."""

    whole: Whole
    source: str
    failure: str | None = None


def recorded_whole(
    path: str, dims: Mapping[str, int], inputs: str | None, seed: int, worker: Worker, folder: Path
) -> RecordedWhole:
    """The file, its values recorded in `folder` if it runs.

    dims, inputs, seed: as for `verify`. A file that does not load as a graph or does not run can still be reduced,
    since that may be the fault. Raises LoadError if it cannot be read, InputError for inputs that do not fit.
    """
    try:
        graph = load_model(path, dims)
    except LoadError as error:
        if dims or inputs:
            raise
        return RecordedWhole(Whole(open_proto(path)), path, str(error))
    source = str(graph.source)
    file = open_proto(source)
    user_inputs = None if inputs is None else read_inputs(inputs, graph)
    try:
        run_inputs = Verifier(graph, user_inputs, seed, worker, dims, patient=True).inputs
        recording = Recording(file, run_inputs, worker, folder)
    except CancelledError:
        raise
    except (RunError, DoesNotFitError, InputError) as error:
        return RecordedWhole(Whole(file), source, str(error))
    return RecordedWhole(Whole(file, recording), source)
