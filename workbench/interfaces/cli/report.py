"""The command `report`: writes the graph before and after every rewrite as one HTML file."""

from __future__ import annotations

import argparse
import shlex

from workbench.errors import UserError
from workbench.interfaces.cli.arguments import check_writes, load_chosen, model_arguments
from workbench.interfaces.cli.exit_codes import DONE
from workbench.interfaces.cli.pipeline import (
    PipelineRequest,
    exit_code,
    pipeline_arguments,
    pipeline_values,
    run_and_print,
)
from workbench.interfaces.cli.printing import megabytes, say, warn
from workbench.ir import Graph
from workbench.support.files import write_text

HELP = "write the graph before and after every rewrite as one HTML file"
EXAMPLES = (
    "model.onnx -o report.html --layout greedy --target cuda",
    "model.onnx -o report.html --dot end.dot   # the graph at the end too, for Graphviz",
    "model.onnx -o diff.html --against model.opt.onnx   # two files side by side",
    "model.onnx -o changes.md --against model.opt.onnx   # what changed by kind, as Markdown",
)
DETAILS = """
The page has the view of the app, with every step and every rewrite, and needs no network.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command)
    command.add_argument(
        "-o", "--output", required=True, metavar="R.html", help="the file to write; R.md: what changed, as Markdown"
    )
    command.add_argument("--dot", metavar="G.dot", help="also write the resulting graph for Graphviz")
    pipeline_arguments(command)
    command.add_argument("--against", metavar="OTHER.onnx", help="show the differences to another file; runs no pass")


def run(chosen: argparse.Namespace) -> int:
    from workbench.formats.io import load_model

    check_writes([chosen.output, chosen.dot], [chosen.model, chosen.against], [chosen.inputs])
    request = PipelineRequest(**pipeline_values(chosen))
    _check_no_pass(chosen)
    graph = load_chosen(chosen)
    if chosen.against is not None:
        return against_command(graph, load_model(chosen.against), request.target, chosen.output)
    code = report_command(graph, request, chosen.output, chosen.dot)
    warn(graph.warnings)
    return code


_PASS_ARGUMENTS = (
    "passes",
    "preset",
    "layout",
    "relayout_inputs",
    "relayout_outputs",
    "export_for",
    "precision",
    "option",
    "inputs",
)


def _check_no_pass(chosen: argparse.Namespace) -> None:
    """Raise UserError for arguments about passes if another file is compared."""
    if chosen.against is None:
        return
    if chosen.dot:
        raise UserError("--dot writes one graph and --against shows two; leave out one of them")
    for name in _PASS_ARGUMENTS:
        if getattr(chosen, name):
            raise UserError(f"--against shows two files and runs no pass; leave out --{name.replace('_', '-')}")
    if chosen.verify != "end":
        option = "--no-verify" if chosen.verify == "off" else "--verify"
        raise UserError(f"--against shows two files and runs no pass; leave out {option}")


def is_markdown(output: str) -> bool:
    """Whether the file that is to be written is Markdown, by its name."""
    return output.lower().endswith((".md", ".markdown"))


def _write_markdown(output: str, text: str) -> None:
    write_text(output, text)
    say(f"wrote {output}, what changed as Markdown, for a pull request")


def report_command(graph: Graph, request: PipelineRequest, output: str, dot_file: str | None) -> int:
    """Write the report. That of a failing pipeline is written too, since it shows the failure."""
    from workbench.interfaces.api import dot, report
    from workbench.presentation.explanations.gain import gain_of

    history = run_and_print(graph, request)
    if is_markdown(output):
        _write_markdown(output, gain_of(history).markdown)
    else:
        written = report(history, output, target=request.target, passes=request.pipeline.build().passes)
        say(f"wrote {output}, {megabytes(written)}; open it in a browser")
    if dot_file is not None:
        write_text(dot_file, dot(history.graph, target=request.target).source)
        say(f"wrote {dot_file}; draw it with: dot -Tsvg {shlex.quote(dot_file)} -O")
    return exit_code(history)


def against_command(graph: Graph, other: Graph, target: str, output: str) -> int:
    """Write the differences between two graphs as an HTML file, or what changed as Markdown."""
    from workbench.interfaces.api import report_pair
    from workbench.presentation.explanations.digest import digest_of_difference
    from workbench.presentation.explanations.digest_text import digest_markdown

    if is_markdown(output):
        digest = digest_of_difference(graph, other)
        say(digest.sentence)
        _write_markdown(output, digest_markdown(digest))
        return DONE
    sentence, written = report_pair(graph, other, output, target=target)
    say(sentence)
    say(f"wrote {output}, {megabytes(written)}; open it in a browser")
    return DONE
