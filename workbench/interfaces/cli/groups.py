"""The command `groups`: compares groupings of the operators by the memory traffic that they save."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from workbench.interfaces.cli.arguments import (
    at_least_one,
    load_chosen,
    model_arguments,
    pipeline_text,
    target_argument,
)
from workbench.interfaces.cli.exit_codes import DONE
from workbench.interfaces.cli.printing import print_table, say, warn
from workbench.interfaces.cli.progress_line import ProgressLine

HELP = "group operators by every rule set and compare the memory traffic"
EXAMPLES = (
    "model.onnx",
    "model.onnx --json",
)
DETAILS = """
`fuse_groups` follows the fusion kinds of operators (TVM). `fuse_minimum` finds the groups with the least memory
traffic, with a lower bound: by the same rules, by wider ones, where operators may also follow a reduction, and where
several results may leave a group.
"""
_HEADER = ("grouping", "groups", "bytes", "ratio to unfused", "lower bound (bytes)", "gap", "seconds")


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command)
    command.add_argument("--passes", type=pipeline_text, default=(), metavar="a,b,c", help="passes to run before")
    target_argument(command, " for --passes")
    command.add_argument(
        "--max-operators",
        type=at_least_one,
        default=256,
        metavar="N",
        help="operators in a group, at most (default: 256)",
    )
    help_text = "time limit of each search for a minimum (default: 60)"
    command.add_argument("--seconds", type=at_least_one, default=60, metavar="S", help=help_text)
    command.add_argument("--json", action="store_true", help="print JSON")


def run(chosen: argparse.Namespace) -> int:
    from workbench.interfaces.api import groupings

    graph = load_chosen(chosen)
    with ProgressLine() as line:
        result = groupings(
            graph,
            chosen.passes,
            target=chosen.target,
            max_operators=chosen.max_operators,
            seconds=chosen.seconds,
            on_grouping=lambda name, _: line.comparing(f"grouping: {name}"),
        )
    rows = {name: grouping.row() for name, grouping in result.items()}
    if chosen.json:
        print(json.dumps({"groupings": rows}, indent=1))
        return DONE
    unfused_facts = next(iter(result.values())).facts
    operators = sum(len(group.members) for group in unfused_facts.groups)
    unfused = unfused_facts.traffic.unfused_bytes
    rows = {"unfused": {"groups": operators, "bytes": unfused}, **rows}
    print_table([_HEADER, *(_row(name, row, unfused) for name, row in rows.items())], left=(0,))
    if unfused is None:
        say("the memory traffic is unknown, since sizes do not follow from the inputs; bind dims with --dims")
    warn(graph.warnings)
    return DONE


def _row(name: str, row: Mapping[str, Any], unfused: int | None) -> tuple[str, ...]:
    moved, bound, seconds = row["bytes"], row.get("bound_bytes"), row.get("seconds")
    proven = " proven" if row.get("certified") else ""
    return (
        name,
        f"{row['groups']:,}",
        "-" if moved is None else f"{moved:,}",
        "-" if not moved or not unfused else f"{moved / unfused:.1%}",
        "-" if bound is None else f"{bound:,}{proven}",
        "-" if bound is None or not moved else f"{1 - bound / moved:.1%}",
        "-" if seconds is None else f"{seconds:.2f}",
    )
