"""The command `precision`: which operator loses the accuracy in float16 or bfloat16."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from workbench.cli.arguments import input_arguments, load_chosen, model_arguments, verifier_of
from workbench.cli.exit_codes import DONE
from workbench.cli.printing import print_table, say, warn
from workbench.cli.progress_line import ProgressLine
from workbench.io.dims import parse_dims
from workbench.run.precision_effects import WITHOUT_EFFECT, by_loss, loss_sentence, loss_text, precision_effects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.ir import Graph
    from workbench.run.precision_effects import Effect

HELP = "say which operators lose the accuracy in float16 or bfloat16, each by itself and with all before it"
_HEADER = ("node", "operator", "alone", "cumulative", "max |value|")
_SHOWN = 20  # rows of the table
_DESCRIPTION = """
The model is measured as it is opened, without passes. "alone" is the error of an operator's results, relative to their
largest magnitude, if only this operator runs in the type: its recorded operands and its constants are rounded, it
computes in float32, and its results are rounded. "cumulative" is the same if all operators before it run so too.
"max |value|" is of the run in float32.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.description = _DESCRIPTION
    model_arguments(command)
    help_text = "the effect of each operator (the default, since the command has no other)"
    command.add_argument("--explain", action="store_true", help=help_text)
    command.add_argument("--type", choices=("float16", "bfloat16"), default="float16", help="(default: float16)")
    input_arguments(command)
    command.add_argument("--json", action="store_true", help="print all operators as JSON, in the order of the graph")


def run(chosen: argparse.Namespace) -> int:
    graph = load_chosen(chosen)
    with ProgressLine() as line, verifier_of(graph, chosen.inputs, chosen.seed, parse_dims(chosen.dims)) as verifier:
        line.comparing("running the model once, to see that it runs")
        inputs, worker = verifier.inputs, verifier.worker
        effects = precision_effects(graph, chosen.type, inputs=inputs, worker=worker, on_progress=line.share)
        settled = ", ".join(f"{name}={size}" for name, size in verifier.settled.items())
    if settled:
        say(f"note: the model runs with {settled}, found by trying", sys.stderr)
    if chosen.json:
        print(json.dumps([effect.to_json() for effect in effects], indent=1))
        return DONE
    _print(graph, effects, chosen.type)
    warn(graph.warnings)
    return DONE


def _print(graph: Graph, effects: Sequence[Effect], narrow: str) -> None:
    ordered = by_loss(effects)
    say(loss_sentence(graph, effects, narrow))
    rows = [
        (
            effect.node,
            effect.op,
            loss_text(effect.alone, effect.max_abs),
            loss_text(effect.cumulative, effect.max_abs),
            f"{effect.max_abs:.3g}",
        )
        for effect in ordered[:_SHOWN]
    ]
    print_table([_HEADER, *rows], left=(0, 1))
    if len(effects) > _SHOWN:
        say(f"{len(effects) - _SHOWN:,} more operators lose less by themselves; --json prints all")
    others = len(graph) - len(effects)
    if others:
        say(f"{others:,} of {len(graph):,} operators have no row: {WITHOUT_EFFECT}")
