"""Kept runs as text for other programs: CSV of their columns, JSON of their whole records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from workbench.run.measurement.formatting import csv_text
from workbench.run.records.store import Run, records_of


def csv_of(runs: Sequence[Run]) -> str:
    """CSV: the columns' names, then one line per run; dims and versions as "name=value", separated by commas."""
    rows = ({**_row(run), "dims": pairs(run.dims), "versions": pairs(run.versions)} for run in runs)
    return csv_text((field.name for field in fields(Run)), rows)


def json_of(runs: Sequence[Run], url: str | None = None) -> str:
    """JSON, {"runs": [...]}: each run's columns, and its whole record under `record`. Raises RecordsError."""
    records = records_of(runs, url)
    rows: list[dict[str, Any]] = [{**_row(run), "record": records.get(run.id)} for run in runs]
    return json.dumps({"runs": rows}, indent=1)


def _row(run: Run) -> dict[str, Any]:
    return {**asdict(run), "time": run.time.isoformat(timespec="seconds")}


def pairs(values: Mapping[str, object]) -> str:
    """ "N=1,H=320"."""
    return ",".join(f"{name}={value}" for name, value in values.items())
