"""What was measured, in words and in flat rows: what the command line and the app both show."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from workbench.run.measurement.statistics import Ratio, ratio

_OF_VARIANT = (
    *("step", "backend", "dtype", "median_ms", "median_error_ms", "min_ms", "p90_ms", "p99_ms", "iqr_ms", "busy"),
    *("stable", "ratio_to", "ratio", "ratio_low", "ratio_high", "ratio_busy", "cold_median_ms", "first_result_s"),
)
_OF_MEMORY = ("peak_bytes", "weights_bytes", "reserved_bytes", "process_bytes")
FIGURES = (*_OF_VARIANT, "runs", "peak_counted", *_OF_MEMORY, "max_rel_error", "fallbacks", "failed")


def figures(variant: Mapping[str, Any]) -> dict[str, Any]:
    """A measured variant as one row with the keys of FIGURES, None where there is no number.

    variant: as `measure_models` returns it. `peak_counted` is what the peak is of, its memory's `counted`;
    `peak_bytes` includes the weights.
    """
    row = dict.fromkeys(FIGURES) | {name: variant[name] for name in _OF_VARIANT if name in variant}
    if "failed" in variant:
        return row | {"failed": variant["failed"]}
    memory = variant["memory"]
    return row | {
        "runs": len(variant["times_ms"]),
        "peak_counted": memory["counted"],
        **{name: memory.get(name) for name in _OF_MEMORY},
        "max_rel_error": (variant["error"] or {}).get("max_rel_error"),
        "fallbacks": "; ".join(f"{what}: {why}" for what, why in sorted(variant["fallbacks"].items())) or None,
    }


def ran_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """The variants that ran, of what `measure_models` returned."""
    return {label: variant for label, variant in found["variants"].items() if "failed" not in variant}


def csv_text(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows as a table that any program reads, empty where a row has no such column."""
    out = io.StringIO()
    table = csv.DictWriter(out, list(columns), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return out.getvalue()


def error_words(largest: float | None) -> str:
    """A relative error as tables show it."""
    return "-" if largest is None else f"{largest:.1e}"


def machine_words(machine: Mapping[str, Any]) -> str:
    """ "Xeon, 2 threads, 2,100 MHz; python 3.11, torch 2.13" """
    clock = f", {machine['clock_mhz']:,.0f} MHz" if "clock_mhz" in machine else ""
    driver = f", driver {machine['driver']}" if "driver" in machine else ""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['device_name']}, {machine['threads']} threads{clock}{driver}; {versions}"


def speed_words(found: Ratio) -> str:
    """ "1.19x faster (95 % between 1.15x and 1.22x) than"; no factor where the machine was busy."""
    middle, low, high = found.ratio, found.ratio_low, found.ratio_high
    if found.ratio_busy:
        return "not comparable (the machine was busy; measure again) with"
    if low <= 1 <= high:
        return f"not clearly faster or slower (ratio {middle:.2f}, 95 % between {low:.2f} and {high:.2f}) than"
    if middle < 1:
        return f"{1 / middle:.2f}x faster (95 % between {1 / high:.2f}x and {1 / low:.2f}x) than"
    return f"{middle:.2f}x slower (95 % between {low:.2f}x and {high:.2f}x) than"


Speedup = tuple[str, str, str]  # a label, `speed_words`, the label that it is compared with


def compared_alike(variants: Mapping[str, Mapping[str, Any]]) -> list[Speedup]:
    """Each variant against the first of its own backend and precision: what was done to the model, and nothing else.

    variants: those that ran, by label, see `measure_models`. What a busy machine ran is not compared; a note says so.
    """
    pairs = [(label, v, v["ratio_to"]) for label, v in variants.items() if v["ratio_to"] != label]
    return [(label, speed_words(_own_ratio(v)), first) for label, v, first in pairs if not v["ratio_busy"]]


def _own_ratio(variant: Mapping[str, Any]) -> Ratio:
    return Ratio(**{field.name: variant[field.name] for field in fields(Ratio)})


def compared_backends(variants: Mapping[str, Mapping[str, Any]]) -> list[Speedup]:
    """Backends and precisions among each other, on the first model: each against the first. variants: as above."""
    (first, start), *others = variants.items()
    alike = [(label, ratio(v["times_ms"], start["times_ms"])) for label, v in others if v["step"] == start["step"]]
    return [(label, speed_words(found), first) for label, found in alike if not found.ratio_busy]
