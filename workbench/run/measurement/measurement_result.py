"""The result of a measurement, and its JSON, which files and the database of runs contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from typing import Any

from workbench.backends.profiling.ceilings import Roofs
from workbench.backends.profiling.profile_result import (
    DeviceKernel,
    Kernel,
    MeasuredStreams,
    Memory,
    OperatorRun,
    kernel_from_json,
    memory_from_json,
    streams_from_json,
)
from workbench.run.compare import Comparison
from workbench.run.measurement.background_load import BackgroundLoad, background_load_from_json
from workbench.run.measurement.statistics import LatencyStats, Ratio
from workbench.run.verdict_words import relative_error_text
from workbench.run.worker.machine import Machine

_HEADINGS = ("variant", "median ms", "+- ms", "ratio", "ratio, 95 % interval", "peak MB", "largest error")


@dataclass(frozen=True)
class MeasuredVariant:
    """A variant that ran.

    latency, busy, stable: derived from `times_ms`, see `workbench.run.measurement.statistics`.
    ratio: to `ratio_to`, the first variant of the same backend and element type that ran.
    first_result_s: opening, compiling and one run.
    cold_times_ms: the times of runs after the device's cache was emptied; None if not requested.
    sum_ms: the sum of the operators' times; `difference` is a sentence that compares it with the run's time.
    launching_ms: milliseconds of the run on CUDA in which no kernel runs, see `notes.launching_ms`.
    fallbacks: what ran in another way than requested, with the reason.
    kernels: how each group of operators ran, by the backend `fused`; else empty.
    others: the use of the CPU by other processes meanwhile; None on another device, or if unknown.
    device_kernels: of one recorded run on a CUDA device, with their streams; else empty.
    streams: how the backend `streams` compares with sequential execution; None if it could not use several streams.
    error: against the reference, without the comparison of each output; None without a reference.
    """

    step: str
    backend: str
    dtype: str
    times_ms: Sequence[float]
    latency: LatencyStats
    busy: bool
    stable: bool
    ratio_to: str
    ratio: Ratio
    first_result_s: float
    cold_times_ms: Sequence[float] | None
    cold_median_ms: float | None
    memory: Memory
    operators: Sequence[OperatorRun]
    sum_ms: float
    difference: str
    fallbacks: Mapping[str, str]
    error: Comparison | None
    kernels: Sequence[Kernel] = ()
    streams: MeasuredStreams | None = None
    others: BackgroundLoad | None = None
    launching_ms: float = 0.0
    device_kernels: Sequence[DeviceKernel] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells in a table: median, its interval, ratio, its interval, peak in MB, largest error."""
        between = f"{self.ratio.ratio_low:.3f} to {self.ratio.ratio_high:.3f}"
        factor = ("busy", "-") if self.ratio.ratio_busy else (f"{self.ratio.ratio:.3f}", between)
        error = relative_error_text(None if self.error is None else self.error.max_rel_error)
        times = f"{self.latency.median_ms:,.3f}", f"{self.latency.median_error_ms:,.3f}"
        return (*times, *factor, f"{self.memory.peak_bytes / 1e6:,.1f}", error)

    def to_json(self) -> dict[str, Any]:
        """Flat JSON: the numbers of `latency` and `ratio` are at the top level."""
        result = asdict(self)
        return {**result, **result.pop("latency"), **result.pop("ratio"), "error": _error_json(self.error)}


@dataclass(frozen=True)
class FailedVariant:
    """A variant that could not be opened or run; `failed` is a sentence that says why."""

    step: str
    backend: str
    dtype: str
    failed: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, repr=False)
class Measurement:
    """Variants that were measured interleaved, by label.

    ceilings: by element type; None if they could not be measured.
    dims: the dims of the first variant. repeat, warmup: as requested. notes: sentences.
    """

    variants: Mapping[str, MeasuredVariant | FailedVariant]
    machine: Machine
    ceilings: Mapping[str, Roofs | None]
    dims: Mapping[str, int]
    repeat: int | None
    warmup: int
    notes: Sequence[str]

    def __repr__(self) -> str:
        """A table of the variants that ran, the failures, and the notes."""
        rows = self._cells
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
        return "\n".join([*lines, *self._remarks])

    def _repr_html_(self) -> str:
        """The same, for a notebook."""
        head, *rows = ([escape(cell) for cell in row] for row in self._cells)
        lines = [f"<tr><th>{'</th><th>'.join(head)}</th></tr>"]
        lines += [f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows]
        return f"<table>{''.join(lines)}</table>" + "".join(f"<p>{escape(line)}</p>" for line in self._remarks)

    @property
    def _cells(self) -> list[tuple[str, ...]]:
        """The headings, and a row for each variant that ran."""
        return [_HEADINGS, *((label, *variant.cells) for label, variant in self.ran.items())]

    @property
    def _remarks(self) -> list[str]:
        return [*(f"{label} failed: {sentence}" for label, sentence in self.failures.items()), *self.notes]

    @property
    def ran(self) -> dict[str, MeasuredVariant]:
        """The variants that ran."""
        return {label: result for label, result in self.variants.items() if isinstance(result, MeasuredVariant)}

    @property
    def failures(self) -> dict[str, str]:
        """For each label, why a variant did not run."""
        return {label: result.failed for label, result in self.variants.items() if isinstance(result, FailedVariant)}

    def to_json(self) -> dict[str, Any]:
        return {
            "variants": {label: result.to_json() for label, result in self.variants.items()},
            "machine": self.machine.to_json(),
            "ceilings": {dtype: None if roofs is None else asdict(roofs) for dtype, roofs in self.ceilings.items()},
            "dims": dict(self.dims),
            "repeat": self.repeat,
            "warmup": self.warmup,
            "notes": list(self.notes),
        }


def measurement_from_json(results: Mapping[str, Any]) -> Measurement:
    """The inverse of `to_json`. Raises KeyError or TypeError for another form."""
    return Measurement(
        variants={label: _variant_from_json(variant) for label, variant in results["variants"].items()},
        machine=Machine(**results["machine"]),
        ceilings={dtype: None if roofs is None else Roofs(**roofs) for dtype, roofs in results["ceilings"].items()},
        dims=results["dims"],
        repeat=results["repeat"],
        warmup=results["warmup"],
        notes=results["notes"],
    )


def _variant_from_json(results: Mapping[str, Any]) -> MeasuredVariant | FailedVariant:
    if "failed" in results:
        return FailedVariant(**results)
    unchanged = (
        "step",
        "backend",
        "dtype",
        "times_ms",
        "busy",
        "stable",
        "ratio_to",
        "first_result_s",
        "cold_median_ms",
    )
    return MeasuredVariant(
        **{name: results[name] for name in (*unchanged, "sum_ms", "difference", "fallbacks")},
        latency=LatencyStats(**{field.name: results[field.name] for field in fields(LatencyStats)}),
        ratio=Ratio(**{field.name: results[field.name] for field in fields(Ratio)}),
        cold_times_ms=results.get("cold_times_ms"),
        memory=memory_from_json(results["memory"]),
        operators=tuple(OperatorRun(**operator) for operator in results["operators"]),
        error=error_from_json(results["error"]),
        kernels=tuple(kernel_from_json(kernel) for kernel in results.get("kernels", ())),
        streams=streams_from_json(results.get("streams", results.get("lanes"))),  # "lanes" in version 0.2
        others=background_load_from_json(results.get("others")),
        launching_ms=results.get("launching_ms", 0.0),
        device_kernels=tuple(DeviceKernel(**kernel) for kernel in results.get("device_kernels", ())),
    )


def error_from_json(results: Mapping[str, Any] | None) -> Comparison | None:
    """The comparison, without that of each output, which is not in the JSON."""
    if results is None:
        return None
    former = {"left_out": "excluded"}  # in version 0.2
    return Comparison(outputs=(), **{former.get(name, name): value for name, value in results.items()})


def _error_json(error: Comparison | None) -> dict[str, Any] | None:
    """Without that of each output, and of which run; there is one."""
    return None if error is None else {key: x for key, x in asdict(error).items() if key not in ("outputs", "run")}
