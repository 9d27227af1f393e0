"""The command `lanes`: what running operators side by side can gain, on how many lanes, in which order."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from workbench.cli.arguments import load_chosen, model_arguments, names_of
from workbench.cli.exit_codes import DONE
from workbench.cli.printing import print_table, say, warn

if TYPE_CHECKING:
    from workbench.ir import Graph
    from workbench.run.measurement.lane_times import RanOnLanes
    from workbench.streams.analysis import StreamsAnalysis

HELP = "find what operators could run side by side, and bound what that gains"
_HEADER = ("lane", "operators", "busy (us)", "first", "last")


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command)
    command.add_argument("--passes", type=names_of, default=(), metavar="a,b,c", help="passes to run before")
    command.add_argument("--target", default="cuda", metavar="NAME", help="target profile of these (default: cuda)")
    command.add_argument("--measure", action="store_true", help="measure operators, and lanes (default: a model)")
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to measure (default: cpu)")
    command.add_argument("--json", action="store_true", help="print JSON")


def run(chosen: argparse.Namespace) -> int:
    from workbench.api import optimize
    from workbench.streams.analysis import find_lanes

    graph = load_chosen(chosen)
    if chosen.passes:
        graph = optimize(graph, list(chosen.passes), target=chosen.target).graph
    ran = _measured(graph, chosen.device) if chosen.measure else None
    streams_analysis = find_lanes(graph, None if ran is None else ran.times_us)
    if chosen.json:
        print(json.dumps({**streams_analysis.to_json(), "measured": None if ran is None else ran.to_json()}, indent=1))
        return DONE
    _print(streams_analysis)
    if ran is not None:
        say(ran.sentence)
    warn(graph.warnings)
    return DONE


def _measured(graph: Graph, device: str) -> RanOnLanes:
    """Each operator alone, and all side by side."""
    from workbench.api import measure
    from workbench.run.measurement.lane_times import LANE_ROUNDS, lane_variants, ran_on_lanes

    return ran_on_lanes(measure(lane_variants(graph), device=device, repeat=LANE_ROUNDS))


def _print(streams_analysis: StreamsAnalysis) -> None:
    schedule, operators = streams_analysis.schedule, streams_analysis.problem.operators
    times = schedule.dependencies.times
    rows = [
        (
            f"{number:,}",
            f"{len(chain):,}",
            f"{sum(times[one] for one in chain):,.1f}",
            operators[chain[0]].name,
            operators[chain[-1]].name,
        )
        for number, chain in enumerate(schedule.lanes)
    ]
    print_table([_HEADER, *rows], left=(3, 4))
    for sentence in streams_analysis.sentences:
        say(sentence)
