"""The command `reduce`: finds a smallest part of a model that still shows a fault of another program."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import UserError
from workbench.formats.io.dims import parse_dims
from workbench.interfaces.cli.arguments import check_writes, dims_argument, input_arguments, positive
from workbench.interfaces.cli.exit_codes import DONE, STOPPED
from workbench.interfaces.cli.printing import megabytes, say, warn
from workbench.interfaces.cli.progress_line import ProgressLine
from workbench.pipeline.command_text import program_name
from workbench.support.files import not_written

if TYPE_CHECKING:
    from workbench.evidence.reduction.command import FileCheck
    from workbench.evidence.reduction.reduce import Reduction
    from workbench.run.worker.client import Worker

HELP = "find a smallest part of a model on which a command or a tool still fails (delta debugging)"
EXAMPLES = ('model.onnx --check "python check.py {}" -o small.onnx',)
DETAILS = """
The inputs that show the fault are written beside the result. Candidates are models that onnx.checker passes, of the
file's own opset, operators and attributes. With --tool the fault is that the tool's result is wrong, cannot be opened,
or that the tool fails in the same way. Ctrl-C ends the search and writes the smallest model so far.
Opsets below 7 are refused.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=".onnx, or ONNX text")
    help_text = (
        "a command that exits with 1 if the fault shows, else with another code; {} stands for the path of the model, "
        "{inputs} for an .npz of its inputs; it runs without a shell"
    )
    fault = command.add_mutually_exclusive_group(required=True)
    fault.add_argument("--check", metavar="COMMAND", help=help_text)
    help_text = "a tool, by its name in `compare-tools`, that changes the model's results or fails on it"
    fault.add_argument("--tool", metavar="NAME", help=help_text)
    command.add_argument("-o", "--output", required=True, metavar="SMALL.onnx", help="the file to write")
    help_text = "time limit of one run of the command; at the limit the fault does not count as shown (default: 60)"
    command.add_argument("--timeout", type=positive, default=60.0, metavar="S", help=help_text)
    dims_argument(command)
    input_arguments(command)


def run(chosen: argparse.Namespace) -> int:
    from workbench.evidence.reduction.command import Command
    from workbench.evidence.reduction.recorded import recorded_whole
    from workbench.evidence.reduction.reduce import begin_reduction
    from workbench.formats.io.exporting import check_replaceable
    from workbench.run.worker.client import Worker

    check = None if chosen.check is None else Command(chosen.check, chosen.timeout)
    inputs_file = inputs_path(chosen.output)
    check_writes([chosen.output, inputs_file], [chosen.model], [chosen.inputs])
    check_replaceable(chosen.output)
    with ExitStack() as opened:
        worker = opened.enter_context(Worker())
        command = check or _tool_fault(chosen, worker)
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="graph-workbench-")))
        progress = opened.enter_context(ProgressLine())
        progress.comparing("running the model, to record its values")
        recorded = recorded_whole(chosen.model, parse_dims(chosen.dims), chosen.inputs, chosen.seed, worker, folder)
        progress.clear()
        if recorded.failure is not None and not command.wants_inputs:
            warn([f"no values were recorded, so that cut values become inputs, never constants: {recorded.failure}"])
        reduction = begin_reduction(recorded, command, worker, folder, progress.reducing)
        start = time.monotonic()
        stopped: BaseException | None = None
        try:
            reduction.run()
        except (KeyboardInterrupt, UserError, OSError) as error:  # the smallest candidate so far is written
            if reduction.best is None:
                raise
            stopped = error
        progress.clear()
        _write(reduction, command, chosen.output, inputs_file, time.monotonic() - start)
    if stopped is None:
        return DONE
    if not isinstance(stopped, KeyboardInterrupt):
        raise stopped
    say(f"{program_name()}: stopped; '{chosen.output}' is the smallest so far", sys.stderr)
    return STOPPED


def _tool_fault(chosen: argparse.Namespace, worker: Worker) -> FileCheck:
    from workbench.interfaces.study.compare_tools.tool_fault import ToolFault

    return ToolFault(chosen.tool, worker, chosen.timeout)


def inputs_path(model: str) -> str:
    """The path of the .npz with the inputs of a model: `part.onnx` has `part.inputs.npz`."""
    return str(Path(model).with_suffix(".inputs.npz"))


def _write(reduction: Reduction, command: FileCheck, output: str, inputs_file: str, seconds: float) -> None:
    best = reduction.best
    assert best is not None  # the search has begun
    has_inputs = bool(best.whole.recorded)
    try:
        best.save(Path(output), Path(inputs_file) if has_inputs else None)
    except OSError as error:
        raise not_written(output, error) from None
    size = Path(output).stat().st_size
    nodes = f"nodes: {reduction.nodes_before:,} before, {best.nodes:,} left"
    say(f"{nodes}; candidates checked: {reduction.checked:,} in {seconds:,.1f} s")
    say(f"wrote {output}, {megabytes(size)}" + (f", and its inputs, {inputs_file}" if has_inputs else ""))
    say(f"reproduce it with: {command.text(output, inputs_file)}")
