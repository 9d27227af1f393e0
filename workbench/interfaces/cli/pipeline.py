"""Running passes, shared by `optimize` and `report`: arguments, the run, and what it prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workbench.analysis.metrics import step_metrics
from workbench.errors import UserError
from workbench.formats.io.dims import parse_dims
from workbench.formats.opsets.written import INLINE, KEEP, FileForm
from workbench.interfaces.cli.arguments import (
    TARGET_DEFAULT,
    at_least_one,
    comparison_arguments,
    limit_arguments,
    opset_argument,
    options_of,
    positive,
    precision_type,
    verifier_of,
)
from workbench.interfaces.cli.exit_codes import DONE, FAILED, UNVERIFIED
from workbench.interfaces.cli.printing import print_table, say
from workbench.interfaces.cli.progress_line import ProgressLine
from workbench.ir import Graph
from workbench.pipeline.registry.pass_choice import DEFAULT_PRESET, PipelineOptions, leaves_out
from workbench.planning.layout.layout_facts import OperatorTime
from workbench.planning.layout.profile import machine_target
from workbench.planning.layout.strategies.strategy_facts import layout_facts
from workbench.planning.precision.element_types import NARROW_TYPES
from workbench.planning.precision.narrow_io import AS_COMPUTED, AS_IN_MODEL
from workbench.presentation.explanations.digest import change_digest
from workbench.presentation.explanations.digest_text import digest_rows, left_columns
from workbench.rewrite import DEFAULT_MODE, History, Step
from workbench.run.verdict_words import error_text, verdict_word

if TYPE_CHECKING:
    from workbench.interfaces.study.tuning.recipe import Recipe

_MAX_STEPS = 16  # if a list is longer, the steps that changed nothing are not printed
MAX_TIMES = 20  # printed rows of operators' times

# besides `passes` and `preset`, arguments that a recipe replaces
_RECIPE_ARGUMENTS = (
    "target",
    "layout",
    "relayout_inputs",
    "relayout_outputs",
    "export_for",
    "precision",
    "io",
    "mode",
    "option",
)


@dataclass(frozen=True)
class PipelineRequest:
    """The arguments of `pipeline_arguments`, parsed. given: dims that the user bound."""

    pipeline: PipelineOptions
    target: str
    mode: str
    inputs: str | None
    seed: int
    runs: int | None
    given: Collection[str]
    verify: str
    on_failure: str | None
    require_verified: bool
    recipe: Recipe | None
    form: FileForm
    grow: float
    keep: list[str]
    steps: bool

    @property
    def leaves_out(self) -> bool:
        """Whether a rewrite that changes results is left out."""
        return leaves_out(self.pipeline.passes, self.on_failure)


def pipeline_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments for passes, exactness and verification."""
    passes = command.add_mutually_exclusive_group()
    help_text = (
        "passes in order, with options, and presets among them: a,b{option=1},simplify,layout{strategy=optimal}; "
        "fixpoint{rounds=5}(a,b) runs its passes again until nothing changes"
    )
    passes.add_argument("--passes", metavar="a,b,c", help=help_text)
    passes.add_argument("--preset", metavar="NAME", help="a list of passes by name (default: simplify)")
    passes.add_argument("--recipe", metavar="R.toml", help="passes, options, target and mode as `tune` chose them")
    help_text = "target profile, by name or a .toml file; it need not be here: the graph is made for it and verified"
    command.add_argument("--target", metavar="NAME", help=f"{help_text} ({TARGET_DEFAULT})")
    command.add_argument("--layout", metavar="STRATEGY", help="layout strategy, such as greedy or record-then-insert")
    help_text = "write the bound dims into the graph as numbers, before the passes run, which then use them"
    command.add_argument("--fix-dims", action="store_true", help=help_text)
    help_text = (
        "axis 0 of the input `images` counts a batch: its size becomes the symbol N before the passes run, and the "
        "file takes a batch of any size"
    )
    command.add_argument("--free-dims", default="", metavar="images:0=N", help=help_text)
    help_text = "in the layout that is used, without a Transpose"
    command.add_argument("--relayout-inputs", action="store_true", help=f"take inputs {help_text}")
    command.add_argument("--relayout-outputs", action="store_true", help=f"return outputs {help_text}")
    for former, name in (("--feed-inputs", "relayout_inputs"), ("--give-outputs", "relayout_outputs")):
        command.add_argument(former, action="store_true", dest=name, help=argparse.SUPPRESS)  # the former names
    command.add_argument(
        "--export-for",
        choices=("onnxruntime",),
        help="behind the other passes, write operators of this runtime where its CPU provider has a kernel; only this "
        "runtime runs the file",
    )
    help_text = "run operators in a narrower type, chosen by a strategy: autocast, greedy, record-then-insert, optimal"
    command.add_argument("--precision", metavar="STRATEGY", help=f"{help_text}, optimal-with-layout (their layout too)")
    help_text = "the type (default: float16)"
    command.add_argument("--precision-type", type=precision_type, choices=tuple(NARROW_TYPES), help=help_text)
    help_text = (
        "with --precision, types of inputs and outputs: float32, as in the model (default), or as-computed: the "
        "narrower type where nothing needs float32, without Casts at the border, which `optimal` then does not count"
    )
    command.add_argument("--io", choices=(AS_IN_MODEL, AS_COMPUTED), help=help_text)
    help_text = "the largest relative error of an output; operators that lose most stay in float32 until it holds"
    command.add_argument("--max-error", type=positive, metavar="E", help=help_text)
    help_text = "a pattern of names of nodes that stay in float32; may be repeated"
    command.add_argument("--keep-float32", action="append", default=[], metavar="PATTERN", help=help_text)
    help_text = (
        "operators of which this runtime has no kernel in the type stay in float32, by the list of the installed "
        "ONNX Runtime; onnxruntime-cuda needs its GPU build"
    )
    command.add_argument("--precision-runtime", choices=("onnxruntime-cpu", "onnxruntime-cuda"), help=help_text)
    help_text = (
        "what may differ: exact: nothing; ieee (default): rounding, which may take a quantized value to the next "
        "integer, and results for which an intermediate overflows; fast: also signed zeros, infinities and NaN"
    )
    command.add_argument("--mode", choices=("exact", "ieee", "fast"), help=help_text)
    help_text = (
        "the result's opset: keep (the file's; no rewrite that needs more), newest (that of the passes), or a number "
        "from 7 on (default: the file's, raised only as far as a rewrite needs it, with the ONNX Runtime that takes it)"
    )
    command.add_argument("--opset", type=opset_argument, metavar="keep|newest|N", help=help_text)
    help_text = "the result's version of the file format (default: the lowest that suffices)"
    command.add_argument("--ir", type=at_least_one, metavar="N", help=help_text)
    help_text = (
        "channels-last operators, groups and other functions: keep calls of them (default), or inline their bodies"
    )
    command.add_argument("--functions", choices=(KEEP, INLINE), help=help_text)
    help_text = "do not write into the metadata of nodes which pass and rule made them, and from which nodes"
    command.add_argument("--no-metadata", dest="metadata", action="store_false", help=help_text)
    limit_arguments(command)
    command.add_argument("--option", action="append", default=[], metavar="pass.field=value", help="a pass's option")
    comparison_arguments(command)
    help_text = "print the steps too: rewrites, nodes, verdict and seconds of each pass"
    command.add_argument("--steps", action="store_true", help=help_text)
    verification = command.add_mutually_exclusive_group()
    verification.add_argument(
        "--verify",
        choices=("end", "each", "off"),
        default="end",
        help="compare with the original: the end, tracing a failure back (default), each step, or not at all",
    )
    verification.add_argument(
        "--no-verify", action="store_const", const="off", dest="verify", help="the same as --verify off"
    )
    help_text = "write nothing unless the result was compared and is equal"
    command.add_argument("--require-verified", action="store_true", help=help_text)
    command.add_argument(
        "--on-failure",
        choices=("stop", "skip"),
        help="a rewrite that changes results: write no model (default with --passes and --recipe), or leave it out, "
        "say so and go on (default with a preset)",
    )


def pipeline_values(chosen: argparse.Namespace) -> dict[str, Any]:
    """The values of the fields of `PipelineRequest`. Raises UserError."""
    recipe, options = _recipe(chosen), _pipeline_options(chosen)
    if recipe is not None:
        options = replace(recipe.pipeline, fix_dims=options.fix_dims, free_dims=options.free_dims)
    return {
        "pipeline": options,
        "target": (chosen.target or machine_target()) if recipe is None else recipe.target,
        "mode": (chosen.mode or DEFAULT_MODE) if recipe is None else recipe.mode,
        "inputs": chosen.inputs,
        "seed": chosen.seed,
        "runs": chosen.runs,
        "given": parse_dims(chosen.dims),
        "verify": chosen.verify,
        "on_failure": chosen.on_failure,
        "require_verified": _require_verified(chosen),
        "recipe": recipe,
        "form": FileForm(chosen.opset, chosen.ir, chosen.functions, chosen.metadata),
        "grow": chosen.grow,
        "keep": chosen.keep,
        "steps": chosen.steps,
    }


def _pipeline_options(chosen: argparse.Namespace) -> PipelineOptions:
    return PipelineOptions(
        passes=chosen.passes,
        preset=chosen.preset or DEFAULT_PRESET,
        layout=chosen.layout,
        fix_dims=chosen.fix_dims,
        free_dims=chosen.free_dims,
        relayout_inputs=chosen.relayout_inputs,
        relayout_outputs=chosen.relayout_outputs,
        export_for=chosen.export_for,
        precision=chosen.precision,
        io_as_computed=chosen.io == AS_COMPUTED,
        options={**options_of(chosen.option), **_precision_options(chosen)},
    )


def _require_verified(chosen: argparse.Namespace) -> bool:
    """Raises UserError if nothing is to be verified, and must be."""
    if chosen.require_verified and chosen.verify == "off":
        raise UserError("--require-verified needs the comparison that --no-verify switches off; leave one of them out")
    return bool(chosen.require_verified)


def _recipe(chosen: argparse.Namespace) -> Recipe | None:
    """The recipe of --recipe; None without one. Raises UserError for arguments that the recipe determines."""
    if chosen.recipe is None:
        return None
    from workbench.interfaces.study.tuning.recipe import load_recipe  # it imports everything for measuring

    excluded = next((name for name in _RECIPE_ARGUMENTS if getattr(chosen, name)), None)
    if excluded is not None:
        raise UserError(
            f"--{excluded.replace('_', '-')} cannot be given with --recipe, which determines it; leave one out"
        )
    return load_recipe(chosen.recipe)


def _precision_options(chosen: argparse.Namespace) -> dict[str, str]:
    """--precision-type and --keep-float32 as options of the strategy's pass. Raises UserError if none is chosen."""
    from workbench.pipeline.registry.reading import precision_strategy

    given = {"type": chosen.precision_type, "keep": ",".join(chosen.keep_float32), "max_error": chosen.max_error}
    given["runtime"] = chosen.precision_runtime
    options = {name: str(value) for name, value in given.items() if value}
    if chosen.precision is None:
        if options or chosen.io:
            names = "--precision-type, --precision-runtime, --io, --keep-float32 and --max-error"
            raise UserError(f"{names} need --precision, such as --precision optimal")
        return {}
    name = precision_strategy(chosen.precision).name
    return {f"{name}.{option}": value for option, value in options.items()}


def run_and_print(graph: Graph, request: PipelineRequest) -> History:
    """Run the pipeline and print its steps. Returns the history."""
    from workbench.interfaces.api import optimize

    settled = ""
    with ProgressLine() as line:
        arguments: dict[str, Any] = {
            **request.pipeline.arguments,
            "target": request.target,
            "mode": request.mode,
            "opset": request.form.opset,
            "grow": request.grow,
            "keep": request.keep,
            "on_progress": line.passing,
        }
        if request.verify == "off":
            history = optimize(graph, **arguments)
        else:
            arguments |= {
                "verify": request.verify,
                "on_failure": request.on_failure,
                "on_check": line.comparing,
            }
            words = {"form": request.form, "runs": request.runs}
            with verifier_of(graph, request.inputs, request.seed, request.given, **words) as verifier:
                history = optimize(graph, verifier=verifier, **arguments)
                settled = ", ".join(f"{name}={size}" for name, size in verifier.settled.items())
    _print_digest(history)
    if request.steps or request.verify == "each" or history.failed is not None:
        _print_steps(history)
    _print_conclusions(history)
    if settled:
        say(f"note: the model runs with {settled}, found by trying", file=sys.stderr)
    return history


def exit_code(history: History) -> int:
    """FAILED or UNVERIFIED as the history's verdicts are, else DONE."""
    if history.failed is not None:
        return FAILED
    return UNVERIFIED if history.unverified is not None else DONE


# ---- printing ---------------------------------------------------------------------------


def _print_digest(history: History) -> None:
    """Print what changed, by kind."""
    digest = change_digest(history)
    if digest.kinds:
        rows = digest_rows(digest)
        print_table(rows, left=left_columns(rows))
    say(digest.sentence)
    if len(history) > 1 and not digest.kinds:
        say(f"no pass changed anything; `explain {history[1].pass_name} MODEL` says why, node by node")


def _print_steps(history: History) -> None:
    titles = (metric.title for metric in step_metrics())
    header = ("#", "step", "rewrites", *titles, "max error", "verdict", "seconds")
    shown = [index for index in range(len(history)) if len(history) <= _MAX_STEPS or _is_notable(history, index)]
    print_table([header, *(_row(index, history[index]) for index in shown)], left=(1, header.index("verdict")))
    if len(shown) < len(history):
        say(f"{len(history) - len(shown):,} of {len(history) - 1:,} passes changed nothing; --report has them too")


def _print_conclusions(history: History) -> None:
    """Print what passes found, and the verdicts."""
    sentence = ""
    for step in history.steps:
        _print_times(step)
        if step.conclusion:
            say(f"{step.pass_name}: {step.conclusion}")
        if step.verdict is not None and step.verdict.ok is not True and step.verdict.sentence != sentence:
            sentence = step.verdict.sentence  # the same sentence is printed once, at its first step
            say(f"{step.pass_name}: {verdict_word(step.verdict)}: {step.verdict.sentence}")
        if step.broken_by is not None:
            rewrite = f"rewrite {step.broken_by + 1} of {len(step.rewrites)}"
            say(f"{step.pass_name}: {rewrite} broke it: {step.rewrites[step.broken_by].sentence}")

    for excluded in history.excluded:
        say(f"{excluded}")
    verdict = history[-1].verdict
    if verdict is not None and verdict.ok:
        say(f"the end: {verdict.sentence}")
    if history.failed is None and history.unverified is not None:
        say("NOT VERIFIED: whether the result computes what the model computes is not known; the exit code is 3")


def _is_notable(history: History, index: int) -> bool:
    """Whether the step changed or says something; the first and the last, which has the verdict, always are."""
    step = history[index]
    is_wrong = step.verdict is not None and step.verdict.ok is not True
    return index in (0, len(history) - 1) or step.changed or bool(step.conclusion) or is_wrong


def _print_times(step: Step) -> None:
    """Print the operators that take longest, if a layout strategy measured their times."""
    facts = layout_facts(step)
    times = facts.times
    if not times:
        return
    selection = "" if len(times) <= MAX_TIMES else f", the {MAX_TIMES} of {len(times):,} that take longest"
    say(f"{step.pass_name}: timed on {facts.device}{selection}; all with --report")
    header = ("operator", "operands", "nodes", "us as written", "us in the other layout", "converted")
    print_table([header, *(_time_row(row) for row in times[:MAX_TIMES])], left=(0, 1))


def _time_row(row: OperatorTime) -> tuple[str, ...]:
    operands = row.operands if len(row.operands) <= 60 else f"{row.operands[:57]}..."
    other = "-" if row.other_us is None else f"{row.other_us:,.1f}"
    converted = "-" if row.converted is None else f"{row.converted:,}"
    return row.operator, operands, f"{row.nodes:,}", f"{row.us:,.1f}", other, converted


def _row(index: int, step: Step) -> tuple[str, ...]:
    verdict = step.verdict
    error = "" if verdict is None or verdict.max_rel_error is None else error_text(verdict)
    return (
        str(index),
        step.label,
        f"{len(step.rewrites):,}" if index else "-",
        *(step.after.text(metric.name) for metric in step_metrics()),
        error,
        "" if verdict is None else verdict_word(verdict),
        f"{step.seconds:.2f}",
    )
