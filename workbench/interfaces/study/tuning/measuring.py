"""Measures batches of candidates, interleaved, and records them, so that a stopped tuning can be resumed."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from workbench.errors import UserError
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.study.tuning.budget import Budget
from workbench.interfaces.study.tuning.graphs import CandidateGraph, error_fault
from workbench.interfaces.study.tuning.pipelines import Configuration
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.measurement_result import FailedVariant, MeasuredVariant
from workbench.run.measurement.notes import busy_notes
from workbench.run.measurement.variants import Variant
from workbench.run.records.store import model_hash
from workbench.run.tolerances import DTYPES, tolerance_for
from workbench.run.worker.process import CancelledError
from workbench.support.files import SPECIAL, is_special, not_written


class BudgetOverError(Exception):
    """The budget ended before a batch was measured."""


@dataclass(frozen=True)
class BatchTimes:
    """The measurement of a candidate in one batch.

    failed: the sentence why `times_ms` is empty, or "". busy: whether something else ran meanwhile.
    """

    times_ms: Sequence[float] = ()
    peak_bytes: int | None = None
    peak_counted: str = ""
    max_rel_error: float | None = None
    failed: str = ""
    busy: bool = False


@dataclass(frozen=True)
class Batch:
    """The measurement of all candidates of a batch, by label. notes: on a machine that was busy meanwhile."""

    times: Mapping[str, BatchTimes]
    notes: tuple[str, ...] = ()


@dataclass
class BatchMeasurer:
    """Measures batches of candidates, which are named by their labels.

    arms:        by label, each candidate and its graph.
    record:      a file to which each finished batch is added as a line of JSON; None: batches are not recorded.
    machine:     the device and the versions, which are part of a batch's key.
    results:     by label, the measurement in the last batch with that candidate. notes: on the last batch.
    on_progress: is called with a text; may raise to stop. is_enough: once true, the present batch ends early.
    """

    arms: Mapping[str, tuple[Configuration, CandidateGraph]]
    verifier: Verifier
    device: str
    max_error: float
    budget: Budget
    record: Path | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)
    on_progress: Callable[[str], None] = lambda text: None
    is_enough: Callable[[], bool] = lambda: False
    results: dict[str, BatchTimes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._recorded = read_record(self.record)

    def __call__(self, labels: Sequence[str], iterations: int) -> dict[str, Sequence[float] | str]:
        """For each label, the times (ms), equally many for each, or why there are none. Raises BudgetOverError."""
        key = self._key(labels, iterations)
        if key in self._recorded:
            batch = self._recorded[key]
        else:
            batch = self._measured(labels, iterations)
            if all(len(answer.times_ms) == iterations for answer in batch.times.values() if not answer.failed):
                self._write(key, batch)
        answers, self.notes = batch.times, batch.notes
        self.results |= answers
        length = min((len(answer.times_ms) for answer in answers.values() if not answer.failed), default=0)
        return {label: answer.failed or answer.times_ms[:length] for label, answer in answers.items()}

    def _measured(self, labels: Sequence[str], iterations: int) -> Batch:
        if self.budget.is_closed_to_batches or self.is_enough():
            raise BudgetOverError
        variants = {
            label: Variant(result.graph, candidate.backend, candidate.dtype)
            for label, (candidate, result) in ((label, self.arms[label]) for label in labels)
        }
        try:
            measured = measure_models(
                variants,
                inputs=self.verifier.inputs,
                reference=self.verifier.reference,
                device=self.device,
                repeat=iterations,
                operators=False,
                worker=self.verifier.worker,
                timeout_s=max(1.0, self.budget.left_s),
                on_progress=self._report,
                is_enough=lambda: self.budget.is_closed_to_batches or self.is_enough(),
            )
        except CancelledError:
            raise
        except UserError as error:
            if self.budget.is_closed_to_batches or self.is_enough():
                raise BudgetOverError from None
            return self._sequentially(labels, iterations, error)
        answers = {label: self._answer(label, measured.variants.get(label)) for label in labels}
        return Batch(answers, tuple(busy_notes(measured.ran)))

    def _sequentially(self, labels: Sequence[str], iterations: int, error: UserError) -> Batch:
        """Measure a batch that failed as a whole: each candidate alone, then those that run, together.

        If all run alone, they do not fit in memory together, and the times alone are returned.
        """
        if len(labels) == 1:
            return Batch({labels[0]: BatchTimes(failed=str(error))})
        batches = [self._measured([label], iterations) for label in labels]
        alone = {label: answer for batch in batches for label, answer in batch.times.items()}
        runnable = [label for label, answer in alone.items() if not answer.failed]
        if not 0 < len(runnable) < len(labels):
            return Batch(alone, tuple(note for batch in batches for note in batch.notes))
        together = self._measured(runnable, iterations)
        return Batch({**alone, **together.times}, together.notes)

    def _answer(self, label: str, variant: MeasuredVariant | FailedVariant | None) -> BatchTimes:
        if variant is None:
            return BatchTimes(failed="this backend does not run models in this element type")
        if isinstance(variant, FailedVariant):
            return BatchTimes(failed=variant.failed)
        error, memory = variant.error, variant.memory
        fault = ""
        if error is not None:
            of_model = tolerance_for(self.verifier.original)
            tolerance = max(DTYPES[variant.dtype], of_model, key=lambda results: results.relative)
            fault = error_fault(error, tolerance, self.max_error)
        return BatchTimes(
            [] if fault else variant.times_ms,
            memory.peak_bytes,
            memory.counted,
            None if error is None else error.max_rel_error,
            fault,
            variant.busy,
        )

    def _report(self, event: Mapping[str, Any]) -> None:
        self.on_progress(event["stage"])
        if event["stage"].startswith("waiting") and (self.budget.is_closed_to_batches or self.is_enough()):
            raise BudgetOverError  # it does not wait longer for a job of another process

    def _key(self, labels: Sequence[str], iterations: int) -> str:
        """The hash of everything that affects the batch's numbers."""
        batch = [(label, self.arms[label][1].digest, *self.arms[label][0].execution) for label in labels]
        return _hash(
            {
                "model": model_hash(self.verifier.original),
                "dims": dict(self.verifier.dims),
                "inputs": {
                    name: _hash([str(x.dtype), x.shape], x.tobytes()) for name, x in self.verifier.inputs.items()
                },
                "machine": self.machine,
                "max_error": self.max_error,
                "lot": batch,
                "turns": iterations,
            }
        )

    def _write(self, key: str, batch: Batch) -> None:
        self._recorded[key] = batch
        if self.record is None:
            return
        found = {label: asdict(answer) for label, answer in batch.times.items()}
        line = {"key": key, "found": found, "notes": batch.notes}
        try:
            with open(self.record, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise not_written(self.record, error) from None


def _hash(content: Any, data: bytes = b"") -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=list).encode() + data).hexdigest()


def forget_record(record: Path) -> None:
    """Remove the record of a finished tuning. Raises UserError."""
    try:
        record.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"'{record}' is no longer needed, but cannot be removed: {error.strerror or error}") from None


def _batch_times(answer: Mapping[str, Any]) -> BatchTimes:
    """The measurement in a record. Raises TypeError or ValueError for anything else."""
    batch_times = BatchTimes(**answer)
    numbers = (*batch_times.times_ms, batch_times.peak_bytes or 0, batch_times.max_rel_error or 0)
    if not all(isinstance(number, int | float) for number in numbers) or not all(
        map(math.isfinite, batch_times.times_ms)
    ):
        raise ValueError("not a finite number")
    return replace(
        batch_times,
        peak_counted=str(batch_times.peak_counted),
        failed=str(batch_times.failed),
        busy=bool(batch_times.busy),
    )


def _batch(line: Mapping[str, Any]) -> Batch:
    """The batch in a line of a record. Raises KeyError, TypeError, AttributeError or ValueError for anything else."""
    times = {label: _batch_times(answer) for label, answer in line["found"].items()}
    return Batch(times, tuple(map(str, line.get("notes", ()))))


def read_record(record: Path | None) -> dict[str, Batch]:
    """The batches in the file, by key. An incomplete last line, of a process that was killed, is removed.

    Raises UserError.
    """
    if record is None or not record.exists():
        return {}
    if is_special(record):
        raise UserError(f"'{record}' cannot hold measurements, for {SPECIAL}; write the recipe to another path")
    try:
        text = record.read_text(encoding="utf-8")
        complete = text[: text.rfind("\n") + 1]
        results = {}
        for line in filter(str.strip, complete.splitlines()):
            batch = json.loads(line)
            results[batch["key"]] = _batch(batch)
        if complete != text:
            os.truncate(record, len(complete.encode()))
    except OSError as error:
        raise UserError(
            f"'{record}' cannot be read: {error.strerror or error}; write the recipe to another path"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise UserError(f"'{record}' does not hold the measurements of a tuning; delete or move it") from None
    return results
