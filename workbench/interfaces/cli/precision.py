"""The command `precision`: which operator loses the accuracy in float16, bfloat16 or int8."""

from __future__ import annotations

import argparse
import glob
import json
import math
import shlex
import sys
from typing import TYPE_CHECKING

from workbench.errors import UserError
from workbench.formats.io.dims import parse_dims
from workbench.interfaces.cli.arguments import input_arguments, load_chosen, model_arguments, positive, verifier_of
from workbench.interfaces.cli.exit_codes import DONE
from workbench.interfaces.cli.printing import print_table, say, warn
from workbench.interfaces.cli.progress_line import ProgressLine
from workbench.planning.precision.int8.quantizer_rounding import INT8_TYPE
from workbench.run.precision_effects import (
    EFFECT_TYPES,
    by_loss,
    loss_sentence,
    loss_text,
    precision_effects,
    without_effect,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from workbench.ir import Graph
    from workbench.planning.precision.fitting import Fitted
    from workbench.run.precision_effects import Effect

HELP = "say which operators lose the accuracy in float16, bfloat16 or int8, each by itself and with all before it"
EXAMPLES = (
    "model.onnx",
    "model.onnx --type int8 --max-error 0.02   # which operators must not be quantized",
)
DETAILS = """
The model is measured as it is opened, without passes. "alone" is the error of an operator's results, relative to their
largest magnitude, if only this operator runs in the type: its recorded operands and its constants are rounded, it
computes in float32, and its results are rounded. "cumulative" is the same if all operators before it run so too.
"max |value|" is of the run in float32. In int8 those values are rounded that ONNX Runtime's static quantizer quantizes,
with the ranges of this run.
"""
_HEADER = ("node", "operator", "alone", "cumulative", "max |value|")
_SHOWN = 20  # rows of the table
_QUANTIZER = "ort_quantize_static"


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command)
    help_text = "the effect of each operator (the default)"
    command.add_argument("--explain", action="store_true", help=help_text)
    names = ("--type", "--precision-type")
    help_text = "the type (default: float16)"
    command.add_argument(*names, dest="type", choices=EFFECT_TYPES, default="float16", help=help_text)
    help_text = "with int8: one scale for each weight, as the quantizer has by default (default: one for each channel)"
    command.add_argument("--per-tensor", action="store_true", help=help_text)
    help_text = (
        "with int8: list the operators that must stay in float32 so that no output is off by more, relative to its "
        f"largest magnitude, and print the command of {_QUANTIZER} that leaves them out"
    )
    command.add_argument("--max-error", type=positive, metavar="E", help=help_text)
    input_arguments(command)
    help_text = "print all operators as JSON, in the order of the graph; with --max-error what it found"
    command.add_argument("--json", action="store_true", help=help_text)


def run(chosen: argparse.Namespace) -> int:
    _refuse_misfits(chosen)
    graph = load_chosen(chosen)
    with ProgressLine() as line, verifier_of(graph, chosen.inputs, chosen.seed, parse_dims(chosen.dims)) as verifier:
        line.comparing("running the model once, to see that it runs")
        inputs, worker = verifier.inputs, verifier.worker
        if chosen.max_error is None:
            effects = precision_effects(
                graph,
                chosen.type,
                per_channel=not chosen.per_tensor,
                inputs=inputs,
                worker=worker,
                on_progress=line.share,
            )
        else:
            from workbench.run.int8_fitting import fit_int8

            fitted = fit_int8(
                graph,
                chosen.max_error,
                per_channel=not chosen.per_tensor,
                inputs=inputs,
                worker=worker,
                on_progress=line.share,
            )
        settled = ", ".join(f"{name}={size}" for name, size in verifier.settled.items())
    if settled:
        say(f"note: the model runs with {settled}, found by trying", sys.stderr)
    if chosen.max_error is not None:
        _print_fitted(graph, fitted, chosen)
    elif chosen.json:
        print(json.dumps([effect.to_json() for effect in effects], indent=1))
        return DONE
    else:
        _print(graph, effects, chosen.type)
    warn(graph.warnings)
    return DONE


def _refuse_misfits(chosen: argparse.Namespace) -> None:
    """Raise UserError for arguments that only int8 has."""
    if chosen.type == INT8_TYPE:
        return
    if chosen.max_error is not None:
        raise UserError(
            f"--max-error of this command is for int8; `optimize --precision optimal --precision-type {chosen.type} "
            f"--max-error {chosen.max_error:g}` finds the operators in {chosen.type} and writes the model"
        )
    if chosen.per_tensor:
        raise UserError(f"--per-tensor is for int8; {chosen.type} has no scales")


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
        say(f"{others:,} of {len(graph):,} operators have no row: {without_effect(narrow)}")


# ---- int8 within an error ------------------------------------------------------------------


def _print_fitted(graph: Graph, fitted: Fitted, chosen: argparse.Namespace) -> None:
    command = _quantizer_command(chosen, fitted.kept)
    if chosen.json:
        found = {
            "max_error": chosen.max_error,
            "kept": [
                {"node": name, "op": graph.node(name).op, "alone": error if math.isfinite(error) else None}
                for name, error in fitted.kept.items()
            ],
            "error": fitted.error,
            "error_before": fitted.error_before if math.isfinite(fitted.error_before) else None,
            "runs": fitted.runs,
            "needed": fitted.needed,
            "command": command,
        }
        print(json.dumps(found, indent=1))
        return
    say(_fitted_sentence(graph, fitted, chosen.max_error))
    if fitted.kept:
        rows = [(name, graph.node(name).op, loss_text(error, 1)) for name, error in fitted.kept.items()]
        print_table([_HEADER[:3], *rows], left=(0, 1))
    excluded = f"with these operators in its option 'keep': {command}" if fitted.kept else f"as it is: {command}"
    say(f"The precision strategies do not write int8; run {_QUANTIZER} {excluded}")


def _fitted_sentence(graph: Graph, fitted: Fitted, max_error: float) -> str:
    before = loss_text(fitted.error_before, 1)
    if not fitted.kept:
        return f"all outputs are off by {before} at most in int8, within {max_error:g}"
    count = len(fitted.kept)
    runs = f"{fitted.runs:,} runs" + ("" if fitted.needed else ", after which some may not be needed")
    is_ = "operator stays" if count == 1 else "operators stay"
    return (
        f"{count:,} {is_} in float32: outputs are then off by {loss_text(fitted.error, 1)} at most, within "
        f"{max_error:g}; without them by {before} ({runs})"
    )


def _quantizer_command(chosen: argparse.Namespace, kept: Collection[str]) -> str:
    """The command that quantizes the model with the same inputs and leaves these operators out."""
    model = chosen.model or "MODEL"
    words = ["graph-workbench", "optimize", *([] if chosen.torch else [model])]
    words += ["-o", f"{model.removesuffix('.gz').removesuffix('.onnx')}.int8.onnx", "--passes", _QUANTIZER]
    if not chosen.per_tensor:
        words += ["--option", f"{_QUANTIZER}.per_channel=true"]
    if kept:
        words += ["--option", f"{_QUANTIZER}.keep={','.join(map(_as_pattern, kept))}"]
    given = {"torch": chosen.torch, "dims": chosen.dims, "inputs": chosen.inputs, "seed": chosen.seed}
    words += [word for name, value in given.items() if value for word in (f"--{name}", str(value))]
    words += ["--freeze-defaults"] if chosen.freeze_defaults else []
    words += [word for layout in chosen.input_layout for word in ("--input-layout", layout)]
    return shlex.join(words)


def _as_pattern(name: str) -> str:
    """The name as a pattern for itself, in a list that commas separate."""
    return glob.escape(name).replace(",", "?")
