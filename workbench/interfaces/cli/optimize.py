"""The command `optimize`: run passes on a model and write the result."""

from __future__ import annotations

import argparse
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import UserError
from workbench.interfaces.cli.arguments import check_writes, load_chosen, model_arguments
from workbench.interfaces.cli.pipeline import (
    PipelineRequest,
    exit_code,
    pipeline_arguments,
    pipeline_values,
    run_and_print,
)
from workbench.interfaces.cli.printing import megabytes, say, warn, write_json
from workbench.ir import Graph
from workbench.pipeline.command_text import command_text

if TYPE_CHECKING:
    from workbench.interfaces.study.tuning.recipe import Recipe

_WIDTH = 100  # characters of a line of help
HELP = "run passes over a model and write the result"
EXAMPLES = (
    "model.onnx -o model.opt.onnx",
    "model.onnx -o model.opt.onnx --preset normalize --precision optimal --max-error 1e-3",
    "model.onnx -o model.opt.onnx --layout optimal --target cuda --certificate c.json",
)
DETAILS = """
A failed verification is traced to one step and one rewrite. Files are replaced whole or not at all. `--help` without a
command lists the exit codes.

- In mode exact only rewrites run that keep the operands of every operator and the number of elements that functions
such as Exp compute. A runtime may still round elsewhere; then the verdict is a failure, and nothing is written.
- `--option layout_optimal.weigh=time` finds the least sum of times that are measured on your device, and so does
`precision_optimal.weigh=time`.
- `--recipe` determines passes, options, target, mode and --export-for, so that none of these can stand beside it.
"""


def introduction(program: str) -> str:
    """The examples, and the names that arguments take."""
    from workbench.pipeline.registry.pass_registry import library
    from workbench.planning.layout.profile import profile_names

    presets = [name for name, entry in library.presets().items() if "alias" not in entry]
    lines = [
        f"usage: {program} MODEL -o OUT.onnx [OPTIONS]",
        "",
        *(f"  {program} {example}" for example in EXAMPLES),
        "",
    ]
    for what, names in (
        ("--preset", presets),
        ("--target", [*profile_names(), "or a .toml file"]),
        ("--layout", [name for name, cls in library.strategies().items() if not cls.demonstration]),
        ("--precision", list(library.precision_strategies())),
    ):
        text = f"{what + ':':<12} {', '.join(names)}"
        lines += textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent=" " * 15, break_on_hyphens=False)
    return "\n".join([*lines, "  `passes` lists the passes for --passes.", ""])


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command)
    command.add_argument("-o", "--output", required=True, metavar="OUT.onnx", help="the file to write")
    pipeline_arguments(command)
    command.add_argument("--report", metavar="R.json", help="write what each step did, as JSON")
    help_text = "write a certificate of the result, which `check MODEL OUT.onnx C.json` re-checks"
    command.add_argument("--certificate", metavar="C.json", help=help_text)


def run(chosen: argparse.Namespace) -> int:
    from workbench.formats.io.exporting import check_replaceable

    if (chosen.report or "").lower().endswith((".html", ".htm")):
        raise UserError(
            f"--report writes JSON, and '{chosen.report}' is named as HTML; name a .json file, or run "
            f"`report {chosen.model or 'MODEL'} -o {chosen.report}` for the steps as a page"
        )
    request = OptimizeRequest(
        **pipeline_values(chosen),
        model=chosen.model,
        output=chosen.output,
        report=chosen.report,
        certificate=chosen.certificate,
    )
    written = [request.output, request.report, request.certificate]
    check_writes(written, [chosen.model], [chosen.inputs, chosen.recipe])
    check_replaceable(request.output)
    if request.certificate is not None:
        from workbench.evidence.certification.writing import check_certifiable

        check_certifiable(chosen.model)
    graph = load_chosen(chosen)
    code = optimize_command(graph, request)
    warn(graph.warnings)
    return code


@dataclass(frozen=True)
class OptimizeRequest(PipelineRequest):
    """The arguments of `optimize`. model: the user's file; None for a torch program."""

    model: str | None
    output: str
    report: str | None
    certificate: str | None


def optimize_command(graph: Graph, request: OptimizeRequest) -> int:
    """Run the passes, print the steps, and write the result unless verification failed."""
    from workbench.interfaces.api import certificate, export

    history = run_and_print(graph, request)
    if history.failed is None and history.unverified is not None and request.require_verified:
        reason = "it was not verified, and --require-verified is given"
        say(f"'{request.output}' was not written, since {reason}", sys.stderr)
    elif history.failed is None:
        report = export(history.graph, request.output, **request.form._asdict())
        form = f"opset {report.written.opset}, IR {report.written.ir}"
        say(f"wrote {request.output}, {megabytes(report.bytes)}, {form}; checked: {', '.join(report.checks)}")
        if report.written.sentence:
            from workbench.pipeline.registry.opset_choice import opset_increase_reason

            say(opset_increase_reason(report.written, history, request.pipeline.build()))
        if request.recipe is not None:
            _say_recipe(graph, request.recipe, request.output)
        if request.certificate is not None and request.model is not None:
            size = certificate(history, request.model, request.output, request.certificate)
            check = command_text("check", request.model, request.output, request.certificate)
            say(f"wrote the certificate of the result, {megabytes(size)}; check it with: {check}")
    else:
        skip = "" if request.leaves_out else ", or add --on-failure skip"
        reason = f"it would not compute what the model computes; leave the failing pass out{skip}"
        say(f"'{request.output}' was not written, since {reason}", sys.stderr)
    if request.report:
        from workbench.presentation.explanations.reporting import history_report

        write_json(request.report, {"model": graph.name, "output": request.output, **history_report(history)})
    return exit_code(history)


def _say_recipe(graph: Graph, recipe: Recipe, output: str) -> None:
    """Print how to run the result, and a note if the recipe was tuned for another model."""
    from workbench.run.records.store import model_hash

    options = ("--backend", recipe.backend, "--dtype", recipe.dtype, "--device", recipe.device)
    say(f"tuned for {recipe.objective} on {recipe.device_name}; run it with: {command_text('bench', output, *options)}")
    if model_hash(graph) != recipe.model_sha256:
        warn([f"the recipe was tuned for another file, '{recipe.model_name}'; `tune` this one to know what is best"])
