"""The command `reduce`: the smallest model found that still shows a fault of another program."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.arguments import check_writes, dims_argument, input_arguments, positive
from workbench.cli.exit_codes import DONE, STOPPED
from workbench.cli.printing import megabytes, say, warn
from workbench.cli.progress_line import ProgressLine
from workbench.errors import UserError
from workbench.io.dims import parse_dims
from workbench.pipeline.command_text import program_name
from workbench.support.files import not_written

if TYPE_CHECKING:
    from workbench.reduction.command import FileCheck
    from workbench.reduction.reduce import Reduction
    from workbench.run.worker.client import Worker

HELP = "the smallest part of a model on which a command or a tool still fails (delta debugging)"


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=".onnx, or ONNX text")
    words = (
        "a command that exits with 1 if the fault shows in the model whose path stands for {}, with anything else if "
        "not; {inputs} is the path of an .npz of the model's inputs; it is run without a shell"
    )
    fault = command.add_mutually_exclusive_group(required=True)
    fault.add_argument("--check", metavar="COMMAND", help=words)
    words = "a tool, by its name in `rivals`, that changes the model's results or fails on it"
    fault.add_argument("--tool", metavar="NAME", help=words)
    command.add_argument("-o", "--output", required=True, metavar="SMALL.onnx", help="the file to write")
    words = "time limit of one run of the command, which is then taken for one without the fault (default: 60)"
    command.add_argument("--timeout", type=positive, default=60.0, metavar="S", help=words)
    dims_argument(command)
    input_arguments(command)


def run(chosen: argparse.Namespace) -> int:
    from workbench.io.exporting import check_replaceable
    from workbench.reduction.command import Command
    from workbench.reduction.recorded import recorded_whole
    from workbench.reduction.reduce import begin_reduction
    from workbench.run.worker.client import Worker

    given = None if chosen.check is None else Command(chosen.check, chosen.timeout)
    beside = inputs_beside(chosen.output)
    check_writes([chosen.output, beside], [chosen.model], [chosen.inputs])
    check_replaceable(chosen.output)
    with ExitStack() as opened:
        worker = opened.enter_context(Worker())
        command = given or _of_tool(chosen, worker)
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
        except (KeyboardInterrupt, UserError, OSError) as error:  # what was found in an hour is not lost
            if reduction.best is None:
                raise
            stopped = error
        progress.clear()
        _write(reduction, command, chosen.output, beside, time.monotonic() - start)
    if stopped is None:
        return DONE
    if not isinstance(stopped, KeyboardInterrupt):
        raise stopped
    say(f"{program_name()}: stopped; '{chosen.output}' is the smallest so far", sys.stderr)
    return STOPPED


def _of_tool(chosen: argparse.Namespace, worker: Worker) -> FileCheck:
    from workbench.study.compare_tools.tool_fault import ToolFault

    return ToolFault(chosen.tool, worker, chosen.timeout)


def inputs_beside(model: str) -> str:
    """The path of the .npz with the inputs of a model: `part.onnx` has `part.inputs.npz`."""
    return str(Path(model).with_suffix(".inputs.npz"))


def _write(reduction: Reduction, command: FileCheck, output: str, beside: str, seconds: float) -> None:
    best = reduction.best
    assert best is not None  # the search has begun
    has_inputs = bool(best.whole.recorded)
    try:
        best.save(Path(output), Path(beside) if has_inputs else None)
    except OSError as error:
        raise not_written(output, error) from None
    size = Path(output).stat().st_size
    nodes = f"nodes: {reduction.nodes_before:,} before, {best.nodes:,} left"
    say(f"{nodes}; candidates asked: {reduction.asked:,} in {seconds:,.1f} s")
    say(f"wrote {output}, {megabytes(size)}" + (f", and its inputs, {beside}" if has_inputs else ""))
    say(f"see it again: {command.text(output, beside)}")
