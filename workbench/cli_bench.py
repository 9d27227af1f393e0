"""The command `bench`: latency and memory of models, by turns, on backends and in element types of one's choice."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.cli_runs import keep_bench
from workbench.errors import UserError
from workbench.ir import Graph
from workbench.printing import DONE, in_bytes, print_table, say, verifier_of, write_json


@dataclass(frozen=True)
class BenchRequest:
    """The words of `bench`; `given`: dims that the user bound; limits in seconds and gigabytes."""

    device: str
    backends: Sequence[str]
    dtypes: Sequence[str]
    repeat: int | None
    cold: bool
    time_limit: float
    memory_limit: float | None
    inputs: str | None
    seed: int
    given: Collection[str]
    json: str | None


def bench_command(models: Mapping[str, Graph], request: BenchRequest) -> int:
    from workbench.run.measure import check_wishes, combined, measure_models

    if request.repeat is not None and request.repeat < 1:
        raise UserError(f"--repeat must be at least 1, not {request.repeat}")
    check_wishes(request.backends, request.dtypes, request.repeat)
    first = next(iter(models.values()))
    variants = combined(models, request.backends, request.dtypes)
    with verifier_of(first, request.inputs, request.seed, request.given) as verifier:
        found = measure_models(
            variants,
            inputs=verifier.inputs,
            reference=verifier.reference,
            device=request.device,
            repeat=request.repeat,
            cold=request.cold,
            timeout_s=request.time_limit,
            memory_limit_bytes=in_bytes(request.memory_limit),
            on_progress=_say_waiting(),
        )
    _print_bench(found)
    if request.json:
        write_json(request.json, found)
    keep_bench(found, variants, models)
    return DONE


def _say_waiting() -> Callable[[Mapping[str, Any]], None]:
    """Says on stderr that others are before, each number of them once."""
    said: set[str] = set()

    def heard(event: Mapping[str, Any]) -> None:
        if event["stage"].startswith("waiting") and event["stage"] not in said:
            said.add(event["stage"])
            say(event["stage"], sys.stderr)

    return heard


# ---- printing ---------------------------------------------------------------------------


_HEADER = (
    "variant",
    "median ms",
    "min",
    "p90",
    "p99",
    "ratio",
    "95 % between",
    "first result s",
    "peak MB",
    "max error",
)


def _print_bench(found: Mapping[str, Any]) -> None:
    ways = {f"; {variant['backend']}, {variant['dtype']}" for variant in found["variants"].values()}
    say(machine_words(found["machine"]) + ("".join(ways) if len(ways) == 1 else ""))
    if found["dims"]:
        say("dims: " + ", ".join(f"{name}={size}" for name, size in found["dims"].items()))
    print_table([_HEADER, *(_row(label, variant) for label, variant in found["variants"].items())], left=(0,))
    for label, variant in found["variants"].items():
        if "failed" in variant:
            say(f"{label}: {variant['failed']}")
            continue
        if variant["error"] is not None and not variant["error"]["ok"]:
            say(f"{label}: {variant['error']['sentence']}")
        if variant["cold_median_ms"] is not None:
            say(f"{label}: {variant['cold_median_ms']:,.2f} ms on an emptied cache")
        for what, why in sorted(variant["fallbacks"].items()):
            say(f"{label}: {what} fell back: {why}")
    for note in found["notes"]:
        say(f"note: {note}", file=sys.stderr)


def machine_words(machine: Mapping[str, Any]) -> str:
    """ "Xeon, 2 threads, 2,100 MHz; python 3.11, torch 2.13" """
    clock = f", {machine['clock_mhz']:,.0f} MHz" if "clock_mhz" in machine else ""
    driver = f", driver {machine['driver']}" if "driver" in machine else ""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['device_name']}, {machine['threads']} threads{clock}{driver}; {versions}"


def _row(label: str, variant: Mapping[str, Any]) -> tuple[str, ...]:
    if "failed" in variant:
        return (label, "failed", *("-" for _ in _HEADER[2:]))
    error = variant["error"]
    return (
        label,
        f"{variant['median_ms']:,.2f}",
        f"{variant['min_ms']:,.2f}",
        f"{variant['p90_ms']:,.2f}",
        f"{variant['p99_ms']:,.2f}",
        f"{variant['ratio']:.3f}",
        f"{variant['ratio_low']:.3f} and {variant['ratio_high']:.3f}",
        f"{variant['first_result_s']:,.2f}",
        f"{variant['memory']['peak_bytes'] / 1e6:,.1f}",
        "-" if error is None or error["max_rel_error"] is None else f"{error['max_rel_error']:.1e}",
    )
