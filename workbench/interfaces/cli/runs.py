"""The command `runs`: prints kept measurements. `bench` keeps its measurement by `keep_bench`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import UserError, printable
from workbench.interfaces.cli.exit_codes import DONE
from workbench.interfaces.cli.printing import print_table, say
from workbench.ir import Graph
from workbench.run.measurement.measurement_result import Measurement
from workbench.run.measurement.variants import Variant
from workbench.run.records.formats import csv_of, json_of, pairs
from workbench.run.records.store import (
    MAX_RUNS,
    RecordsError,
    Run,
    RunOrigin,
    file_hash,
    find_runs,
    is_there,
    keep,
    model_hash,
    shown_location,
)

_MIN_HASH_DIGITS = 4
_MAX_NAME_LENGTH = 40  # characters of a name in the table


HELP = "print the measurements that were kept"
EXAMPLES = (
    "",
    "--model model.onnx",
)
DETAILS = """
Runs of bench, matrix and the app are kept in ~/.cache/graph-workbench/runs.sqlite (WORKBENCH_CACHE names another
folder), or in the database whose URL is in WORKBENCH_RUNS_URL (postgresql+psycopg://...).
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--model", metavar="MODEL", help="only runs of this file, or of the SHA-256 with these first digits"
    )
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, with the whole records")
    form.add_argument("--csv", action="store_true", help="print CSV")
    command.add_argument(
        "--url", metavar="URL", help="the database (default: WORKBENCH_RUNS_URL, or a file in your cache folder)"
    )


def run(chosen: argparse.Namespace) -> int:
    return runs_command(RunsRequest(chosen.model, chosen.json, chosen.csv, chosen.url))


@dataclass(frozen=True)
class RunsRequest:
    """The arguments of `runs`. model: a file, or the first digits of its SHA-256. url: of the database."""

    model: str | None
    as_json: bool
    as_csv: bool
    url: str | None


def runs_command(request: RunsRequest) -> int:
    """Print the kept runs, newest first. Raises RecordsError, and UserError if `model` is not a file or hash."""
    if request.url is not None and not is_there(request.url):
        raise UserError(f"there is no file '{shown_location(request.url)}' of kept runs; name an existing one")
    runs = find_runs(model_hash=_hash(request.model), url=request.url)
    if request.as_json:
        print(json_of(runs, request.url))
        return DONE
    if request.as_csv:
        print(csv_of(runs), end="")
        return DONE
    if not runs:
        say(f"no run is kept in {shown_location(request.url)}; `bench`, `matrix` and the app keep what they measure")
        return DONE
    header = (
        *("time (UTC)", "model", "variant", "dims", "device", "backend", "precision", "median ms", "peak MB"),
        "model file",
    )
    print_table([header, *map(_row, runs)], left=(0, 1, 2, 3, 4, 5, 6, 9))
    count = f"the newest {MAX_RUNS} of the runs" if len(runs) == MAX_RUNS else f"{len(runs):,} runs"
    say(f"{count} in {shown_location(request.url)}", sys.stderr)
    return DONE


def keep_bench(measurement: Measurement, variants: Mapping[str, Variant], models: Mapping[str, Graph]) -> None:
    """Keep the measurement. models: by path. If that fails, a note says why and the command continues."""
    names: dict[int, str] = {}
    for path, graph in models.items():  # a model measured against itself occurs twice
        names.setdefault(id(graph), Path(path).name)
    try:
        keep(measurement, {label: RunOrigin(model_hash(v.graph), names[id(v.graph)]) for label, v in variants.items()})
    except RecordsError as error:
        say(f"note: this measurement is not kept: {error}", sys.stderr)


def _hash(model: str | None) -> str:
    """The SHA-256 of the file, or its first digits; "" for None. Raises UserError."""
    if model is None:
        return ""
    if os.path.exists(model):
        return file_hash(model)
    if len(model) >= _MIN_HASH_DIGITS and all(digit in "0123456789abcdefABCDEF" for digit in model):
        return model
    raise UserError(
        f"'{model}' is neither a file nor the first {_MIN_HASH_DIGITS} or more digits of a SHA-256; name one"
    )


def _row(run: Run) -> tuple[str, ...]:
    return (
        f"{run.time:%Y-%m-%d %H:%M:%S}",
        _short(run.model_name),
        _short(run.label),
        _short(pairs(run.dims)) or "-",
        _short(run.device_name),
        run.backend,
        run.dtype,
        f"{run.median_ms:,.3f}",
        "-" if run.peak_bytes is None else f"{run.peak_bytes / 1e6:,.2f}",
        run.model_hash[:12],
    )


def _short(name: str) -> str:
    return printable(name) if len(name) <= _MAX_NAME_LENGTH else f"{printable(name[: _MAX_NAME_LENGTH - 3])}..."
