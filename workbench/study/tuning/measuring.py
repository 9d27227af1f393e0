"""Lots of candidates, measured by turns; what was measured is kept, so that a tuning that was stopped goes on."""

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
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.measured import FailedVariant, MeasuredVariant
from workbench.run.measurement.variants import Variant
from workbench.run.records.store import model_hash
from workbench.run.tolerances import DTYPES, tolerance_for
from workbench.run.worker.process import CancelledError
from workbench.study.tuning.budget import Budget
from workbench.study.tuning.graphs import MadeGraph, error_fault
from workbench.study.tuning.pipelines import Configuration
from workbench.support.files import SPECIAL, is_special, not_written
from workbench.verification.verifier import Verifier


class BudgetOverError(Exception):
    """The budget ended before a lot had times."""


@dataclass(frozen=True)
class LotTimes:
    """What one lot said of a candidate; times_ms is empty if it `failed`, a sentence."""

    times_ms: Sequence[float] = ()
    peak_bytes: int | None = None
    peak_counted: str = ""
    max_rel_error: float | None = None
    failed: str = ""


@dataclass
class LotMeasurer:
    """Measures lots of candidates, by their labels.

    record:   a file of one JSON object per lot, to which each finished one is added; None: nothing is kept.
    machine:  the device and the versions, which belong to the key of a lot.
    found:    by label, what the last lot with it said.
    on_progress: is called with the progress; may raise to stop. is_enough: once true, the present lot ends early.
    """

    made: Mapping[str, tuple[Configuration, MadeGraph]]
    verifier: Verifier
    device: str
    max_error: float
    budget: Budget
    record: Path | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)
    on_progress: Callable[[str], None] = lambda words: None
    is_enough: Callable[[], bool] = lambda: False
    found: dict[str, LotTimes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._kept = read_record(self.record)

    def __call__(self, labels: Sequence[str], turns: int) -> dict[str, Sequence[float] | str]:
        """The times of each, all of one length, or why it has none. Raises BudgetOverError."""
        key = self._key(labels, turns)
        if key in self._kept:
            answers = self._kept[key]
        else:
            answers = self._measured(labels, turns)
            if all(len(answer.times_ms) == turns for answer in answers.values() if not answer.failed):
                self._write(key, answers)
        self.found |= answers
        least = min((len(answer.times_ms) for answer in answers.values() if not answer.failed), default=0)
        return {label: answer.failed or answer.times_ms[:least] for label, answer in answers.items()}

    def _measured(self, labels: Sequence[str], turns: int) -> dict[str, LotTimes]:
        if self.budget.is_over or self.is_enough():
            raise BudgetOverError
        variants = {
            label: Variant(made.graph, candidate.backend, candidate.dtype)
            for label, (candidate, made) in ((label, self.made[label]) for label in labels)
        }
        try:
            measured = measure_models(
                variants,
                inputs=self.verifier.inputs,
                reference=self.verifier.reference,
                device=self.device,
                repeat=turns,
                operators=False,
                worker=self.verifier.worker,
                timeout_s=max(1.0, self.budget.left_s),
                on_progress=self._hear,
                is_enough=lambda: self.budget.is_over or self.is_enough(),
            )
        except CancelledError:
            raise
        except UserError as error:
            if self.budget.is_over or self.is_enough():
                raise BudgetOverError from None
            return self._one_by_one(labels, turns, error)
        return {label: self._answer(label, measured.variants.get(label)) for label in labels}

    def _one_by_one(self, labels: Sequence[str], turns: int, error: UserError) -> dict[str, LotTimes]:
        """After the whole lot failed: each alone, then those that run together again, without those that do not.

        If each runs alone, they do not fit beside each other, and their times alone are taken.
        """
        if len(labels) == 1:
            return {labels[0]: LotTimes(failed=str(error))}
        alone = {label: self._measured([label], turns)[label] for label in labels}
        able = [label for label, answer in alone.items() if not answer.failed]
        return {**alone, **self._measured(able, turns)} if 0 < len(able) < len(labels) else alone

    def _answer(self, label: str, variant: MeasuredVariant | FailedVariant | None) -> LotTimes:
        if variant is None:
            return LotTimes(failed="this backend does not run models in this element type")
        if isinstance(variant, FailedVariant):
            return LotTimes(failed=variant.failed)
        error, memory = variant.error, variant.memory
        fault = ""
        if error is not None:
            of_model = tolerance_for(self.verifier.original)
            tolerance = max(DTYPES[variant.dtype], of_model, key=lambda found: found.relative)
            fault = error_fault(error, tolerance, self.max_error)
        return LotTimes(
            [] if fault else variant.times_ms,
            memory.peak_bytes,
            memory.counted,
            None if error is None else error.max_rel_error,
            fault,
        )

    def _hear(self, event: Mapping[str, Any]) -> None:
        self.on_progress(event["stage"])
        if event["stage"].startswith("waiting") and (self.budget.is_over or self.is_enough()):
            raise BudgetOverError  # another's job is not waited for any longer

    def _key(self, labels: Sequence[str], turns: int) -> str:
        """The hash of everything that affects the lot's numbers."""
        parts = [(label, self.made[label][1].digest, *self.made[label][0].way) for label in labels]
        return _hash(
            {
                "model": model_hash(self.verifier.original),
                "dims": dict(self.verifier.dims),
                "inputs": {
                    name: _hash([str(x.dtype), x.shape], x.tobytes()) for name, x in self.verifier.inputs.items()
                },
                "machine": self.machine,
                "max_error": self.max_error,
                "lot": parts,
                "turns": turns,
            }
        )

    def _write(self, key: str, answers: Mapping[str, LotTimes]) -> None:
        self._kept[key] = dict(answers)
        if self.record is None:
            return
        line = {"key": key, "found": {label: asdict(answer) for label, answer in answers.items()}}
        try:
            with open(self.record, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise not_written(self.record, error) from None


def _hash(message: Any, more: bytes = b"") -> str:
    return hashlib.sha256(json.dumps(message, sort_keys=True, default=list).encode() + more).hexdigest()


def forget_record(record: Path) -> None:
    """Remove the file of a tuning that came to its end. Raises UserError."""
    try:
        record.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"'{record}' is not needed any more and cannot be removed: {error.strerror or error}") from None


def _lot_times(answer: Mapping[str, Any]) -> LotTimes:
    """Raises TypeError or ValueError for what is not written here."""
    lot_times = LotTimes(**answer)
    numbers = (*lot_times.times_ms, lot_times.peak_bytes or 0, lot_times.max_rel_error or 0)
    if not all(isinstance(number, int | float) for number in numbers) or not all(
        map(math.isfinite, lot_times.times_ms)
    ):
        raise ValueError("a number is none")
    return replace(lot_times, peak_counted=str(lot_times.peak_counted), failed=str(lot_times.failed))


def read_record(record: Path | None) -> dict[str, dict[str, LotTimes]]:
    """By their keys, the lots in the file. An incomplete last line, of a process that was killed, is cut off.

    Raises UserError.
    """
    if record is None or not record.exists():
        return {}
    if is_special(record):
        raise UserError(f"'{record}' cannot hold measurements, for {SPECIAL}; write the recipe to another place")
    try:
        text = record.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        results = {}
        for line in filter(str.strip, whole.splitlines()):
            lot = json.loads(line)
            results[lot["key"]] = {label: _lot_times(answer) for label, answer in lot["found"].items()}
        if whole != text:
            os.truncate(record, len(whole.encode()))
    except OSError as error:
        raise UserError(f"'{record}' cannot be read: {error.strerror or error}; write the recipe elsewhere") from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise UserError(f"'{record}' does not hold the measurements of a tuning; delete it or move it away") from None
    return results
