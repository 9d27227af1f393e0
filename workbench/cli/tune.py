"""The command `tune`: the pipeline, backend and precision that are best for a model on this machine, as a recipe."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from workbench.cli.arguments import check_writes, input_arguments, load_chosen, model_arguments, verifier_of
from workbench.cli.exit_codes import DONE, STOPPED
from workbench.cli.printing import megabytes, print_table, say, warn
from workbench.cli.progress_line import ProgressLine
from workbench.io.dims import parse_dims
from workbench.run.measurement.formatting import error_words
from workbench.tuning.budget import parse_budget
from workbench.tuning.evidence import Evidence
from workbench.tuning.graphs import SAME_GRAPH
from workbench.tuning.pipelines import OBJECTIVES
from workbench.tuning.recipe import Recipe, save_recipe

HELP = "find the pipeline, backend and precision that are best for a model here, and write a recipe"
PART = ".part"  # behind the recipe's name: what is measured so far
_HEADER = ("candidate", "median ms", "ratio", "95 % between", "runs", "peak MB", "peak is of", "file MB", "max error")


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command)
    input_arguments(command)
    command.add_argument("-o", "--output", required=True, metavar="RECIPE.toml", help="the recipe to write")
    command.add_argument("--budget", default="10m", metavar="TIME", help="the longest it may take: 90s, 10m, 1h (10m)")
    whys = "; ".join(f"{name}: {words}" for name, words in OBJECTIVES.items())
    command.add_argument("--for", dest="objective", default="latency", metavar="WHAT", help=f"{whys} (latency)")
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    command.add_argument(
        "--max-error", type=float, default=1e-3, metavar="E", help="the relative error that is allowed (1e-3)"
    )
    command.add_argument("--json", action="store_true", help="print the recipe as JSON")


def run(chosen: argparse.Namespace) -> int:
    from workbench.tuning.measuring import forget_record
    from workbench.tuning.tune import BUDGET_ENDED, STOPPED_EARLY, TuneRequest, tune

    request = TuneRequest(chosen.objective, chosen.device, chosen.max_error, parse_budget(chosen.budget))
    part = f"{chosen.output}{PART}"
    check_writes([chosen.output, part], [chosen.model], [chosen.inputs])
    graph = load_chosen(chosen)
    with (
        ProgressLine() as line,
        verifier_of(graph, chosen.inputs, chosen.seed, parse_dims(chosen.dims)) as verifier,
    ):
        recipe = tune(graph, request, verifier, record=Path(part), on_words=line.comparing)
    save_recipe(recipe, chosen.output)
    goes_on = recipe.ended in (BUDGET_ENDED, STOPPED_EARLY)
    if not goes_on:
        forget_record(Path(part))
    if chosen.json:
        print(json.dumps(recipe.table(), indent=1))
    else:
        _print(recipe, chosen.output)
    again = [f"{recipe.ended} after {recipe.seconds:g} s; the same command goes on with what '{part}' holds"]
    warn([*graph.warnings, *(again if goes_on and Path(part).exists() else [])])
    return STOPPED if recipe.ended == STOPPED_EARLY else DONE


def _print(recipe: Recipe, output: str) -> None:
    say(f"for {recipe.objective} on {recipe.device_name}, error at most {recipe.max_error:g}")
    final = [one for one in recipe.evidence if one.dropped_in is None]
    others = [one for one in recipe.evidence if one.dropped_in is not None]
    front = [one for one in others if one.pareto]
    print_table([_HEADER, *map(_cells, (*final, *front))], left=(0, 6))
    if any(one.pareto for one in recipe.evidence):
        say("* no other that was measured is at least as good in latency, memory and error, and better in one")
    same = [one for one in others if one.why.startswith(SAME_GRAPH)]
    for why, labels in _reasons([one for one in others if one not in same]).items():
        say(f"{'; '.join(labels)}: {why}")
    if same:
        say(f"{len(same)} more have the same graph as another and were not measured twice; the recipe names them")
    say(f"best: {recipe.label}; {len(recipe.evidence)} candidates in {recipe.seconds:,.0f} s; {recipe.ended}")
    say(f"wrote {output}; `optimize MODEL --recipe {output} -o OUT.onnx` makes the file")


def _reasons(others: Sequence[Evidence]) -> dict[str, list[str]]:
    """By reason, in the order of the rounds, the candidates that went for it."""
    found: dict[str, list[str]] = {}
    for one in others:
        found.setdefault(f"{one.why}, round {one.dropped_in}" if one.dropped_in else one.why, []).append(one.label)
    return found


def _cells(one: Evidence) -> tuple[str, ...]:
    none = "-"
    between = none if one.ratio_low is None else f"{one.ratio_low:.3f} and {one.ratio_high:.3f}"
    return (
        f"{one.label}{' *' if one.pareto else ''}",
        none if one.median_ms is None else f"{one.median_ms:,.3f}",
        none if one.ratio is None else f"{one.ratio:.3f}",
        between,
        f"{one.runs}" if one.runs else none,
        none if one.peak_bytes is None else f"{one.peak_bytes / 1e6:,.2f}",
        one.peak_counted or none,
        none if one.file_bytes is None else megabytes(one.file_bytes).removesuffix(" MB"),
        none if one.max_rel_error is None else error_words(one.max_rel_error),
    )
