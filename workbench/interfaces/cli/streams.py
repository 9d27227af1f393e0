"""The command `streams` (alias `lanes`): how much concurrent operators gain, on how many streams."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from workbench.interfaces.cli.arguments import load_chosen, model_arguments, pipeline_text, target_argument
from workbench.interfaces.cli.exit_codes import DONE
from workbench.interfaces.cli.printing import print_table, say, warn

if TYPE_CHECKING:
    from workbench.ir import Graph
    from workbench.planning.streams.analysis import StreamsAnalysis
    from workbench.run.measurement.stream_times import RanOnStreams

HELP = "find which operators could run concurrently, and bound the gain"
EXAMPLES = (
    "model.onnx",
    "model.onnx --measure",
)
DETAILS = """
It bounds what running operators side by side can gain, and makes a schedule with the memory that it needs. It takes
times from a stated model of a GPU. With --measure they come from a run operator by operator on --device, and on a GPU
the backend `streams` is timed: sequential, on streams, and their ratio. A plan of memory that was made for sequential
operators is refused, with the two values that would overlap.
"""
_HEADER = ("stream", "operators", "busy (us)", "first", "last")


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command)
    command.add_argument("--passes", type=pipeline_text, default=(), metavar="a,b,c", help="passes to run before")
    target_argument(command, " for --passes")
    command.add_argument(
        "--measure", action="store_true", help="measure operators and streams (default: times of a model)"
    )
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to measure (default: cpu)")
    command.add_argument("--json", action="store_true", help="print JSON")


def run(chosen: argparse.Namespace) -> int:
    from workbench.interfaces.api import optimize
    from workbench.planning.streams.analysis import analyze_streams

    graph = load_chosen(chosen)
    if chosen.passes:
        graph = optimize(graph, chosen.passes, target=chosen.target).graph
    ran = _measured(graph, chosen.device) if chosen.measure else None
    streams_analysis = analyze_streams(graph, None if ran is None else ran.times_us)
    if chosen.json:
        print(json.dumps({**streams_analysis.to_json(), "measured": None if ran is None else ran.to_json()}, indent=1))
        return DONE
    _print(streams_analysis)
    if ran is not None:
        say(ran.sentence)
    warn(graph.warnings)
    return DONE


def _measured(graph: Graph, device: str) -> RanOnStreams:
    """The measured times of the operators one by one, and of all on streams."""
    from workbench.interfaces.api import measure
    from workbench.run.measurement.stream_times import STREAM_ROUNDS, ran_on_streams, stream_variants

    return ran_on_streams(measure(stream_variants(graph), device=device, repeat=STREAM_ROUNDS))


def _print(analysis: StreamsAnalysis) -> None:
    schedule, operators = analysis.schedule, analysis.problem.operators
    times = schedule.dependencies.times
    rows = [
        (
            f"{number:,}",
            f"{len(chain):,}",
            f"{sum(times[operator] for operator in chain):,.1f}",
            operators[chain[0]].name,
            operators[chain[-1]].name,
        )
        for number, chain in enumerate(schedule.streams)
    ]
    print_table([_HEADER, *rows], left=(3, 4))
    for sentence in analysis.sentences:
        say(sentence)
