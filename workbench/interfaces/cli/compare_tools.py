"""The command `compare-tools` (formerly `rivals`): runs every installed optimizer, including ours, on a model."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.errors import UserError
from workbench.formats.io.dims import parse_dims
from workbench.interfaces.cli.arguments import (
    at_least_one,
    input_arguments,
    load_chosen,
    model_arguments,
    names_of,
    verifier_of,
)
from workbench.interfaces.cli.exit_codes import DONE
from workbench.interfaces.cli.printing import print_table, say, warn
from workbench.interfaces.cli.progress_line import ProgressLine
from workbench.run.verdict_words import relative_error_text, verdict_label

HELP = "run every installed optimizer on a model, including ours, and compare the results"
EXAMPLES = ("model.onnx",)
DETAILS = """
Each optimizer gets the file as it is. A row has the nodes that are left, seconds, peak memory, error, whether the
result is right, and the latency in ONNX Runtime, interleaved. A wrong result of ONNX Runtime's optimizer is traced to
the optimizer of its own without which it is right. Where `ratio_busy` is true in the JSON, the machine was busy and
`ratio` means nothing. `reduce MODEL --tool NAME` finds the smallest part with which a tool is wrong or fails.
It measures on the CPU only.
"""
_HEADER = ("tool", "version", "nodes", "seconds", "peak MB", "max error", "result", "median ms", "min ms", "ratio")


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command)
    input_arguments(command)
    command.add_argument("--tools", type=names_of, metavar="a,b", help="only these and the original (default: all)")
    command.add_argument(
        "--repeat", type=at_least_one, metavar="N", help="timed runs of each (default: as many as needed)"
    )
    command.add_argument("--no-measure", action="store_true", help="do not measure latencies")
    command.add_argument("--save", metavar="FOLDER", help="keep what the tools write, one folder each")
    command.add_argument("--json", action="store_true", help="print JSON")


def run(chosen: argparse.Namespace) -> int:
    from workbench.interfaces.study.compare_tools.comparing import chosen_tools, compare_tools, notes_on

    compared = chosen_tools(chosen.tools)
    graph = load_chosen(chosen)
    with tempfile.TemporaryDirectory(prefix="workbench-tools-") as scratch, ProgressLine() as line:
        folder = Path(scratch) if chosen.save is None else _created_folder(chosen.save)
        with verifier_of(graph, chosen.inputs, chosen.seed, parse_dims(chosen.dims)) as verifier:
            outcome = compare_tools(
                graph,
                compared,
                folder,
                verifier,
                repeat=chosen.repeat,
                measure=not chosen.no_measure,
                on_progress=lambda stage, _: line.comparing(stage),
            )
        rows = [result.row() for result in outcome.values()]
    if chosen.json:
        print(json.dumps(rows, indent=1))
    else:
        _print(rows)
    warn([*notes_on(outcome), *graph.warnings])
    return DONE


def _created_folder(folder: str) -> Path:
    """The folder, created if it does not exist. Raises UserError."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder '{folder}' cannot be created: {error.strerror or error}; name another") from None
    return Path(folder)


def _print(rows: list[dict[str, Any]]) -> None:
    print_table([_HEADER, *map(_cells, rows)], left=(0, 1, 6))
    for row in rows:
        if row["failed"]:
            say(f"{row['tool']}: {row['failed']}")


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    absent = "-"
    result = "failed" if row["nodes"] is None else verdict_label(row["equal"])
    return (
        row["tool"],
        row["version"] or absent,
        absent if row["nodes"] is None else f"{row['nodes']:,}",
        absent if row["seconds"] is None else f"{row['seconds']:.2f}",
        absent if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:,.0f}",
        absent if row["max_rel_error"] is None else relative_error_text(row["max_rel_error"]),
        result,
        absent if row["median_ms"] is None else f"{row['median_ms']:,.2f}",
        absent if row["min_ms"] is None else f"{row['min_ms']:,.2f}",
        absent if row["ratio"] is None else "busy" if row["ratio_busy"] else f"{row['ratio']:.3f}",
    )
