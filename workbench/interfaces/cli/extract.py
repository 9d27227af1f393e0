"""The command `extract`: writes the region between values as a model, or puts a changed one back."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.errors import UserError
from workbench.formats.io.dims import parse_dims
from workbench.interfaces.cli.arguments import check_writes, dims_argument, input_arguments
from workbench.interfaces.cli.exit_codes import DONE
from workbench.interfaces.cli.printing import megabytes, say, warn
from workbench.interfaces.cli.reduce import inputs_path
from workbench.pipeline.command_text import command_text

HELP = "write the region between values of a model as a model, with recorded inputs"
EXAMPLES = (
    "resnet50_narrow.onnx --from r15 --to r25 -o part.onnx",
    "resnet50_narrow.onnx --from r15 --to r25 --put-back part.onnx -o whole.onnx",
)
DETAILS = """
The inputs of the part are recorded in a run of the whole model, and written beside it. If the region needs another
value, the error names it.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=".onnx, or ONNX text")
    help_text = "values at which the region begins, its inputs (default: the model's inputs)"
    command.add_argument("--from", dest="sources", action="append", metavar="a,b", help=help_text)
    help_text = "values at which the region ends, its outputs"
    command.add_argument("--to", dest="targets", action="append", required=True, metavar="c", help=help_text)
    command.add_argument("-o", "--output", required=True, metavar="PART.onnx", help="the file to write")
    help_text = "write the model with this part in place of the region"
    command.add_argument("--put-back", metavar="PART.onnx", help=help_text)
    dims_argument(command)
    input_arguments(command)


def run(chosen: argparse.Namespace) -> int:
    from workbench.formats.io.exporting import check_replaceable

    check_replaceable(chosen.output)
    return _extract(chosen) if chosen.put_back is None else _put_back(chosen)


def _extract(chosen: argparse.Namespace) -> int:
    from workbench.evidence.reduction.parts import cut_out
    from workbench.run.worker.client import Worker

    inputs_file = inputs_path(chosen.output)
    check_writes([chosen.output, inputs_file], [chosen.model], [chosen.inputs])
    with Worker() as worker:
        part = cut_out(
            chosen.model,
            chosen.sources,
            chosen.targets,
            chosen.output,
            inputs_file,
            worker,
            dims=parse_dims(chosen.dims),
            inputs=chosen.inputs,
            seed=chosen.seed,
        )
    size = megabytes(Path(chosen.output).stat().st_size)
    written = f"wrote {chosen.output}, {part.nodes:,} of {part.whole_nodes:,} nodes, {size}"
    say(written + (f", and its inputs, {inputs_file}" if part.has_inputs else ""))
    say(f"inputs: {', '.join(part.inputs) or 'none'}; outputs: {', '.join(part.outputs)}")
    if part.failure is not None:
        warn([f"its inputs were not recorded, since the model does not run here: {part.failure}"])
    return DONE


def _put_back(chosen: argparse.Namespace) -> int:
    from workbench.evidence.reduction.parts import put_part

    if chosen.inputs or chosen.dims or chosen.seed:
        raise UserError("nothing is run when a part is put back; leave out --inputs, --dims and --seed")
    check_writes([chosen.output], [chosen.model, chosen.put_back])
    result = put_part(chosen.model, chosen.put_back, chosen.sources, chosen.targets, chosen.output)
    size = megabytes(Path(chosen.output).stat().st_size)
    say(f"wrote {chosen.output}, {size}, {result.summary}")
    say(f"compare both: {command_text('verify', chosen.model, chosen.output)}")
    return DONE
