"""The command `extract`: the region between values of a model as a model of its own, and a changed one back again."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.cli.arguments import check_writes, dims_argument, input_arguments
from workbench.cli.exit_codes import DONE
from workbench.cli.printing import megabytes, say, warn
from workbench.cli.reduce import inputs_beside
from workbench.errors import UserError
from workbench.io.dims import parse_dims
from workbench.pipeline.command_text import command_text

HELP = "the region between values of a model as a model of its own, with real inputs"


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=".onnx, or ONNX text")
    words = "values at which the region begins, its inputs (default: the model's inputs)"
    command.add_argument("--from", dest="sources", action="append", metavar="a,b", help=words)
    words = "values at which it ends, its outputs"
    command.add_argument("--to", dest="targets", action="append", required=True, metavar="c", help=words)
    command.add_argument("-o", "--output", required=True, metavar="PART.onnx", help="the file to write")
    words = "write the model with this one in place of the region"
    command.add_argument("--put-back", metavar="PART.onnx", help=words)
    dims_argument(command)
    input_arguments(command)


def run(chosen: argparse.Namespace) -> int:
    from workbench.io.exporting import check_replaceable

    check_replaceable(chosen.output)
    return _extract(chosen) if chosen.put_back is None else _put_back(chosen)


def _extract(chosen: argparse.Namespace) -> int:
    from workbench.reduction.parts import cut_out
    from workbench.run.worker.client import Worker

    beside = inputs_beside(chosen.output)
    check_writes([chosen.output, beside], [chosen.model], [chosen.inputs])
    with Worker() as worker:
        part = cut_out(
            chosen.model,
            chosen.sources,
            chosen.targets,
            chosen.output,
            beside,
            worker,
            dims=parse_dims(chosen.dims),
            inputs=chosen.inputs,
            seed=chosen.seed,
        )
    size = megabytes(Path(chosen.output).stat().st_size)
    wrote = f"wrote {chosen.output}, {part.nodes:,} of {part.of:,} nodes, {size}"
    say(wrote + (f", and its inputs, {beside}" if part.has_inputs else ""))
    say(f"inputs: {', '.join(part.inputs) or 'none'}; outputs: {', '.join(part.outputs)}")
    if part.failure is not None:
        warn([f"its inputs were not recorded, since the model does not run here: {part.failure}"])
    return DONE


def _put_back(chosen: argparse.Namespace) -> int:
    from workbench.reduction.parts import put_part

    if chosen.inputs or chosen.dims or chosen.seed:
        raise UserError("nothing is run when a part is put back; leave out --inputs, --dims and --seed")
    check_writes([chosen.output], [chosen.model, chosen.put_back])
    put = put_part(chosen.model, chosen.put_back, chosen.sources, chosen.targets, chosen.output)
    size = megabytes(Path(chosen.output).stat().st_size)
    say(f"wrote {chosen.output}, {size}, {put.words}")
    say(f"compare both: {command_text('verify', chosen.model, chosen.output)}")
    return DONE
