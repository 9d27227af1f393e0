"""Measurements in words and in flat rows, for the command line and the app."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.errors import counted
from workbench.run.measurement.measured import FailedVariant, MeasuredVariant
from workbench.run.measurement.statistics import Ratio, ratio
from workbench.run.profiling.profiled import Kernel
from workbench.run.worker.machine import Machine
from workbench.support.files import as_text_cell

_OF_VARIANT = (
    *("step", "backend", "dtype", "median_ms", "median_error_ms", "min_ms", "p90_ms", "p99_ms", "iqr_ms", "busy"),
    *("stable", "ratio_to", "ratio", "ratio_low", "ratio_high", "ratio_busy", "cold_median_ms", "first_result_s"),
)
_OF_MEMORY = ("peak_bytes", "weights_bytes", "reserved_bytes", "process_bytes")
FIGURES = (*_OF_VARIANT, "runs", "peak_counted", *_OF_MEMORY, "max_rel_error", "fallbacks", "failed")


def figures(variant: MeasuredVariant | FailedVariant) -> dict[str, Any]:
    """A variant as one row with the keys of FIGURES, None if there is no number.

    `peak_counted` says what the peak counts (`Memory.counted`); `peak_bytes` includes the weights.
    """
    row, result = dict.fromkeys(FIGURES), variant.to_json()
    if isinstance(variant, FailedVariant):
        return {**row, **result}
    return {
        **row,
        **{name: result[name] for name in _OF_VARIANT},
        "runs": len(variant.times_ms),
        "peak_counted": variant.memory.counted,
        **{name: result["memory"][name] for name in _OF_MEMORY},
        "max_rel_error": None if variant.error is None else variant.error.max_rel_error,
        "fallbacks": "; ".join(f"{what}: {why}" for what, why in sorted(variant.fallbacks.items())) or None,
    }


def kernel_words(kernels: Sequence[Kernel], first_result_s: float) -> str:
    """ "57 groups: 52 by oneDNN, 2 by inductor, 3 operator by operator; the first result took 28.1 s"

    That is all of it: opening, timing what could compute each group, compiling and one run.
    """
    names = {"torch": "operator by operator", "in place": "in place"}
    counts = Counter(kernel.by for kernel in kernels)
    ways = ", ".join(f"{count:,} {names.get(by, f'by {by}')}" for by, count in counts.most_common())
    return f"{counted(len(kernels), 'group')}: {ways}; the first result took {first_result_s:,.1f} s"


def csv_text(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows as CSV, empty if a row lacks a column. No text is one that a spreadsheet runs (`as_text_cell`)."""
    out, names = io.StringIO(), list(columns)
    table = csv.writer(out, lineterminator="\n")
    table.writerow(map(as_text_cell, names))
    table.writerows([as_text_cell(row.get(name, "")) for name in names] for row in rows)
    return out.getvalue()


def machine_words(machine: Machine) -> str:
    """ "Xeon, 2 threads, 2,100 MHz; python 3.11, torch 2.13" """
    clock = "" if machine.clock_mhz is None else f", {machine.clock_mhz:,.0f} MHz"
    driver = "" if machine.driver is None else f", driver {machine.driver}"
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return f"{machine.device_name}, {machine.threads} threads{clock}{driver}; {versions}"


def speed_words(result: Ratio) -> str:
    """ "1.19x faster (95 % between 1.15x and 1.22x) than"; no factor if the machine was busy."""
    middle, low, high = result.ratio, result.ratio_low, result.ratio_high
    if result.ratio_busy:
        return "not comparable (the machine was busy; measure again) with"
    if low <= 1 <= high:
        return f"not clearly faster or slower (ratio {middle:.2f}, 95 % between {low:.2f} and {high:.2f}) than"
    if middle < 1:
        return f"{1 / middle:.2f}x faster (95 % between {1 / high:.2f}x and {1 / low:.2f}x) than"
    return f"{middle:.2f}x slower (95 % between {low:.2f}x and {high:.2f}x) than"


Speedup = tuple[str, str, str]  # a label, `speed_words`, the label that it is compared with


def compared_alike(variants: Mapping[str, MeasuredVariant]) -> list[Speedup]:
    """Each variant against the first of its own backend and precision, so that only the model differs.

    variants: by label. Variants that ran on a busy machine are not compared; a note says so.
    """
    others = [(label, v) for label, v in variants.items() if v.ratio_to != label and not v.ratio.ratio_busy]
    return [(label, speed_words(v.ratio), v.ratio_to) for label, v in others]


def compared_backends(variants: Mapping[str, MeasuredVariant]) -> list[Speedup]:
    """Backends and precisions on the first model: each against the first. variants: as above."""
    (first, start), *others = variants.items()
    alike = [
        (label, ratio(v.times_ms, start.times_ms, v.busy or start.busy)) for label, v in others if v.step == start.step
    ]
    return [(label, speed_words(result), first) for label, result in alike if not result.ratio_busy]


def fastest_here(variants: Mapping[str, MeasuredVariant]) -> Speedup | None:
    """The variant with the least median against the next; None if all ran alike, or a busy machine leaves it open.

    On a busy machine no factor is given, and it is said only if the minima agree.
    """
    if len({(v.backend, v.dtype) for v in variants.values()}) < 2:
        return None
    first, second, *_ = sorted(variants, key=lambda label: variants[label].latency.median_ms)
    best, next_ = variants[first], variants[second]
    result = ratio(best.times_ms, next_.times_ms, best.busy or next_.busy)
    if not result.ratio_busy:
        return first, speed_words(result), second
    is_first = result.ratio_high < 1 and best.latency.min_ms < next_.latency.min_ms
    return (first, "faster (the machine was busy, so no factor is given) than", second) if is_first else None
