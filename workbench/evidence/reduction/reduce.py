"""The smallest model found in a file that still shows a fault.

A check says whether a candidate shows it. Every candidate is a well-formed model, and is checked once.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper

from workbench.errors import UserError
from workbench.evidence.reduction.candidates import Candidate, is_well_formed
from workbench.evidence.reduction.command import SHOWS, FileCheck
from workbench.evidence.reduction.inner_models import body_as_model, body_count, inner_models, with_part_of_body
from workbench.evidence.reduction.recorded import RecordedWhole, recorded_whole
from workbench.evidence.reduction.recording import Recording
from workbench.evidence.reduction.regions import Region, RegionError, Whole, node_count
from workbench.evidence.reduction.search import RegionSearch
from workbench.formats.io.proto_file import ProtoFile
from workbench.run.inputs import write_inputs
from workbench.run.worker.client import Worker
from workbench.run.worker.process import CancelledError, RunError
from workbench.support.delta_debugging import minimized

Check = Callable[[Candidate], bool]


class ReduceError(UserError):
    """There is nothing to reduce: the fault does not show, or it shows in any model."""


@dataclass(frozen=True)
class ReductionProgress:
    """nodes: of the smallest candidate so far that shows the fault; checked: the number of candidates so far;
    left: about how many more this stage may check; seconds_left: how long that takes."""

    stage: str
    nodes: int
    checked: int
    left: int
    seconds_left: float


OnReduction = Callable[[ReductionProgress], None]


class Reduction:
    """A run of the search. An exception of the check interrupts it; `best` is then the smallest candidate so far."""

    def __init__(
        self, whole: Whole, check: Check, worker: Worker, folder: Path, on_progress: OnReduction | None = None
    ) -> None:
        """folder: for recorded values; it must exist as long as candidates are used."""
        self._start, self._check, self._worker, self._folder = whole, check, worker, folder
        self._on_progress = on_progress
        self._answers: dict[str, bool] = {}
        self._stage, self._left = "the whole model", 1
        self._seconds = 0.0
        self._is_checked = is_well_formed(whole.file.model)
        self.nodes_before = node_count(whole.file.model)
        self._latest: Candidate | None = None
        self._outer: Candidate | None = None  # whose inner models are searched

    @property
    def best(self) -> Candidate | None:
        """The smallest candidate so far that shows the fault."""
        results = [candidate for candidate in (self._outer, self._latest) if candidate is not None]
        return min(results, key=lambda candidate: candidate.nodes, default=None)

    @property
    def checked(self) -> int:
        """The number of candidates that were checked."""
        return len(self._answers)

    def run(self) -> Candidate:
        """The smallest candidate. Raises ReduceError, and what the check raises."""
        self._require_specific_fault()
        region = self._start.everything
        if not self._shows_fault(self._start, region):
            raise ReduceError(
                "the fault does not show when the model is written again without metadata of nodes, unused inputs "
                "and unused functions; look for it in these"
            )
        self._reduce(self._start, region)
        while self._reduce_inside():
            pass
        self._empty_bodies()
        return self._smallest

    @property
    def _smallest(self) -> Candidate:
        assert self.best is not None  # the first candidate showed the fault
        return self.best

    def _reduce(self, whole: Whole, region: Region) -> None:
        RegionSearch(whole, lambda part: self._shows_fault(whole, part), self._begin).smallest(region)

    def _reduce_inside(self) -> bool:
        """Search in the inner models of the best candidate. Whether that gave a smaller one."""
        self._outer = outer = self._smallest
        wholes = [Whole(file, self._recorded(file, inputs)) for file, inputs in inner_models(outer)]
        for whole in sorted(wholes, key=lambda whole: not whole.recorded):  # those that run are reduced further
            self._begin("the inside of a node", 1)
            if self._shows_fault(whole, whole.everything):
                self._reduce(whole, whole.everything)
            if self._smallest is not outer:
                return True
        return False

    def _empty_bodies(self) -> None:
        """Remove nodes from the bodies of operators that the fault needs."""
        for index in range(body_count(self._smallest)):
            inner = body_as_model(self._smallest, index)
            inner_whole = None if inner is None else Whole(inner[0], self._recorded(*inner))
            if inner_whole is not None and inner_whole.recorded:
                shows = partial(self._body_shows_fault, self._smallest, index, inner_whole)
                minimized(range(len(inner_whole.nodes)), shows, partial(self._begin, "fewer nodes in a body"))

    def _body_shows_fault(self, start: Candidate, index: int, inner_whole: Whole, nodes: Sequence[int]) -> bool:
        try:
            return self._candidate_shows_fault(with_part_of_body(start, index, inner_whole, nodes))
        except RegionError:
            return False

    def _recorded(self, file: ProtoFile, inputs: Mapping[str, np.ndarray]) -> Recording | None:
        if not self._start.recorded:
            return None
        try:
            return Recording(file, inputs, self._worker, self._folder)
        except CancelledError:
            raise
        except RunError:  # an inner model may not run by itself; the check decides
            return None

    # ---- one candidate -------------------------------------------------------------------------

    def _shows_fault(self, whole: Whole, region: Region) -> bool:
        """Whether the region is a well-formed model that shows the fault."""
        try:
            return self._candidate_shows_fault(Candidate(whole, region, whole.build(region)))
        except RegionError:
            return False

    def _candidate_shows_fault(self, candidate: Candidate) -> bool:
        shows = self._answers.get(candidate.key)
        if shows is None:
            if self._is_checked and not is_well_formed(candidate.model):
                return False
            self._left = max(0, self._left - 1)
            self._report_progress(candidate)
            shows = self._answer(candidate)
        if shows:
            self._latest = candidate
        return shows

    def _answer(self, candidate: Candidate) -> bool:
        start = time.monotonic()
        try:
            shows = self._check(candidate)
        except CancelledError:
            raise
        except RunError:  # a constant that it needs cannot be recorded, for lack of memory or time
            shows = False
        self._answers[candidate.key] = shows
        self._seconds += time.monotonic() - start
        return shows

    def _begin(self, stage: str, count: int) -> None:
        self._stage, self._left = stage, count

    def _report_progress(self, candidate: Candidate) -> None:
        if self._on_progress is None:
            return
        each = self._seconds / max(1, self.checked)
        nodes = (self.best or candidate).nodes
        self._on_progress(ReductionProgress(self._stage, nodes, self.checked, self._left, self._left * each))

    def _require_specific_fault(self) -> None:
        """Raise ReduceError if the fault shows in any model, as it does if a script ends with an exception."""
        source = self._start.file.model
        type_ = helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
        model = ModelProto(ir_version=source.ir_version, opset_import=source.opset_import)
        model.graph.name = "identity"
        model.graph.input.add(name="x", type=type_)
        model.graph.node.add(op_type="Identity", input=["x"], output=["y"])
        model.graph.output.add(name="y", type=type_)
        identity = Whole(ProtoFile(model, self._start.read_tensor))
        if self._answer(Candidate(identity, identity.everything, model)):
            raise ReduceError(
                "a model of one Identity shows the fault too, so that it does not depend on this model; a script that "
                "ends with an exception also exits with 1: let it exit with another code"
            )


def begin_reduction(
    recorded: RecordedWhole, check: FileCheck, worker: Worker, folder: Path, on_progress: OnReduction | None = None
) -> Reduction:
    """A search that has not run yet. folder: as for `Reduction`.

    Raises UserError if the check needs inputs and none were recorded, or if the fault does not show in the file.
    """
    whole = recorded.whole
    if check.wants_inputs and not whole.recorded:
        raise UserError("the command asks for {inputs}, and there are none, since the model does not run here")
    inputs = folder / "model.inputs.npz"
    if check.wants_inputs:
        write_inputs(inputs, {name: whole.recorded_array(name) for name in whole.inputs})
    code = check.exit_code(recorded.source, inputs)
    if code != SHOWS:
        raise UserError(check.why_not(code))
    return Reduction(whole, check, worker, folder, on_progress)


def reduce_file(
    path: str, shows: Callable[[ModelProto, Mapping[str, np.ndarray]], bool], inputs: str | None, seed: int
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """The smallest part found, with all its weights in memory, and its inputs; `api.reduce` returns them."""
    with Worker() as worker, tempfile.TemporaryDirectory(prefix="graph-workbench-") as folder:
        whole = recorded_whole(path, {}, inputs, seed, worker, Path(folder)).whole
        check = lambda candidate: shows(candidate.complete, candidate.inputs)  # noqa: E731
        best = Reduction(whole, check, worker, Path(folder)).run()
        return best.complete, best.inputs
