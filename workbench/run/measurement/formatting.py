"""Measurements as text and as flat rows, for the command line and the app."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.backends.profiling.profile_result import Kernel
from workbench.errors import counted
from workbench.run.measurement.measurement_result import FailedVariant, MeasuredVariant
from workbench.run.measurement.statistics import Ratio, ratio
from workbench.run.worker.machine import Machine
from workbench.support.files import as_text_cell

_VARIANT_KEYS = (
    *("step", "backend", "dtype", "median_ms", "median_error_ms", "min_ms", "p90_ms", "p99_ms", "iqr_ms", "busy"),
    *("stable", "ratio_to", "ratio", "ratio_low", "ratio_high", "ratio_busy", "cold_median_ms", "first_result_s"),
)
_MEMORY_KEYS = ("peak_bytes", "weights_bytes", "reserved_bytes", "process_bytes")
FIGURES = (*_VARIANT_KEYS, "runs", "peak_counted", *_MEMORY_KEYS, "max_rel_error", "fallbacks", "failed")


def figures(variant: MeasuredVariant | FailedVariant) -> dict[str, Any]:
    """A variant as one row with the keys of FIGURES, None if there is no number.

    `peak_counted` says what the peak counts (`Memory.counted`); `peak_bytes` includes the weights.
    """
    row, result = dict.fromkeys(FIGURES), variant.to_json()
    if isinstance(variant, FailedVariant):
        return {**row, **result}
    return {
        **row,
        **{name: result[name] for name in _VARIANT_KEYS},
        "runs": len(variant.times_ms),
        "peak_counted": variant.memory.counted,
        **{name: result["memory"][name] for name in _MEMORY_KEYS},
        "max_rel_error": None if variant.error is None else variant.error.max_rel_error,
        "fallbacks": "; ".join(f"{what}: {why}" for what, why in sorted(variant.fallbacks.items())) or None,
    }


def kernels_text(kernels: Sequence[Kernel], first_result_s: float) -> str:
    """How groups were computed: "57 groups: 52 by oneDNN, 3 operator by operator; the first result took 28.1 s".

    first_result_s: for opening, timing candidate kernels, compiling and one run.
    """
    names = {"torch": "operator by operator", "in place": "in place"}
    counts = Counter(kernel.by for kernel in kernels)
    by_method = ", ".join(f"{count:,} {names.get(by, f'by {by}')}" for by, count in counts.most_common())
    return f"{counted(len(kernels), 'group')}: {by_method}; the first result took {first_result_s:,.1f} s"


def csv_text(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows as CSV, with an empty cell where a row lacks a column; no cell is a formula (`as_text_cell`)."""
    out, names = io.StringIO(), list(columns)
    table = csv.writer(out, lineterminator="\n")
    table.writerow(map(as_text_cell, names))
    table.writerows([as_text_cell(row.get(name, "")) for name in names] for row in rows)
    return out.getvalue()


def machine_text(machine: Machine) -> str:
    """ "Xeon, 2 threads, 2,100 MHz; python 3.11, torch 2.13" """
    clock = "" if machine.clock_mhz is None else f", {machine.clock_mhz:,.0f} MHz"
    driver = "" if machine.driver is None else f", driver {machine.driver}"
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return f"{machine.device_name}, {machine.threads} threads{clock}{driver}; {versions}"


def speed_text(result: Ratio) -> str:
    """ "1.19x faster (95 % interval: 1.15x to 1.22x) than"; no factor if the machine was busy."""
    median_ratio, low, high = result.ratio, result.ratio_low, result.ratio_high
    if result.ratio_busy:
        return "not comparable (the machine was busy; measure again) with"
    if low <= 1 <= high:
        return f"not clearly faster or slower (ratio {median_ratio:.2f}, 95 % interval: {low:.2f} to {high:.2f}) than"
    if median_ratio < 1:
        return f"{1 / median_ratio:.2f}x faster (95 % interval: {1 / high:.2f}x to {1 / low:.2f}x) than"
    return f"{median_ratio:.2f}x slower (95 % interval: {low:.2f}x to {high:.2f}x) than"


Speedup = tuple[str, str, str]  # a label, `speed_words`, the label that it is compared with


def compared_pipelines(variants: Mapping[str, MeasuredVariant]) -> list[Speedup]:
    """Each variant compared with the first of the same backend and precision, so that only the model differs.

    variants: by label. Variants that ran on a busy machine are left out; a note says so.
    """
    others = [(label, v) for label, v in variants.items() if v.ratio_to != label and not v.ratio.ratio_busy]
    return [(label, speed_text(v.ratio), v.ratio_to) for label, v in others]


def compared_backends(variants: Mapping[str, MeasuredVariant]) -> list[Speedup]:
    """Backends and precisions on the first model, each compared with the first one. variants: by label."""
    (first, baseline), *others = variants.items()
    comparisons = [
        (label, ratio(v.times_ms, baseline.times_ms, v.busy or baseline.busy))
        for label, v in others
        if v.step == baseline.step
    ]
    return [(label, speed_text(result), first) for label, result in comparisons if not result.ratio_busy]


def fastest_variant(variants: Mapping[str, MeasuredVariant]) -> Speedup | None:
    """The variant with the smallest median compared with the next; None for one backend and precision.

    On a busy machine there is no factor, and the result is None unless the minima confirm the order.
    """
    if len({(v.backend, v.dtype) for v in variants.values()}) < 2:
        return None
    first, second, *_ = sorted(variants, key=lambda label: variants[label].latency.median_ms)
    best, next_ = variants[first], variants[second]
    result = ratio(best.times_ms, next_.times_ms, best.busy or next_.busy)
    if not result.ratio_busy:
        return first, speed_text(result), second
    is_first = result.ratio_high < 1 and best.latency.min_ms < next_.latency.min_ms
    return (first, "faster (the machine was busy, so no factor is given) than", second) if is_first else None
