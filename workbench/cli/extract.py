"""The command `extract`: the region between values of a model as a model of its own, and a changed one back again."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from workbench.cli.arguments import dims_argument, input_arguments
from workbench.cli.exit_codes import DONE
from workbench.cli.printing import megabytes, say, warn
from workbench.cli.reduce import inputs_beside
from workbench.errors import UserError
from workbench.files import check_outputs, not_written
from workbench.io.dims import parse_dims

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
    from workbench.reduction.candidates import Candidate
    from workbench.reduction.extract import region_between
    from workbench.reduction.recorded import recorded_whole
    from workbench.run.worker.client import Worker

    beside = inputs_beside(chosen.output)
    check_outputs([chosen.output, beside], [chosen.model, chosen.inputs])
    with Worker() as worker, tempfile.TemporaryDirectory(prefix="graph-workbench-") as folder:
        recorded = recorded_whole(
            chosen.model, parse_dims(chosen.dims), chosen.inputs, chosen.seed, worker, Path(folder)
        )
        whole = recorded.whole
        region = region_between(whole, *_bounds(chosen, {*whole.inputs, *whole.made_by}))
        part = Candidate(whole, region, whole.build(region))
        has_inputs = bool(whole.recorded)
        try:
            part.save(Path(chosen.output), Path(beside) if has_inputs else None)
        except OSError as error:
            raise not_written(chosen.output, error) from None
    size = megabytes(Path(chosen.output).stat().st_size)
    wrote = f"wrote {chosen.output}, {len(region.nodes):,} of {len(whole.nodes):,} nodes, {size}"
    say(wrote + (f", and its inputs, {beside}" if has_inputs else ""))
    say(f"inputs: {', '.join(whole.boundary(region)) or 'none'}; outputs: {', '.join(region.outputs)}")
    if recorded.failure is not None:
        warn([f"its inputs were not recorded, since the model does not run here: {recorded.failure}"])
    return DONE


def _put_back(chosen: argparse.Namespace) -> int:
    from workbench.io.proto_file import open_proto, write_proto
    from workbench.reduction.extract import region_between
    from workbench.reduction.putting_back import with_part

    if chosen.inputs or chosen.dims or chosen.seed:
        raise UserError("nothing is run when a part is put back; leave out --inputs, --dims and --seed")
    check_outputs([chosen.output], [chosen.model, chosen.put_back])
    whole, part = open_proto(chosen.model), open_proto(chosen.put_back)
    made = with_part(whole, part, lambda it: region_between(it, *_bounds(chosen, {*it.inputs, *it.made_by})))
    try:
        write_proto(chosen.output, made.model, made.read)
    except OSError as error:
        raise not_written(chosen.output, error) from None
    size = megabytes(Path(chosen.output).stat().st_size)
    say(f"wrote {chosen.output}, {len(made.model.graph.node):,} nodes, {size}; {len(whole.model.graph.node):,} before")
    say(f"compare both: {shlex.join(['python', '-m', 'workbench', 'verify', chosen.model, chosen.output])}")
    return DONE


def _bounds(chosen: argparse.Namespace, known: Collection[str]) -> tuple[Sequence[str] | None, Sequence[str]]:
    """The values that the region begins and ends at; None: the model's inputs."""
    sources = None if chosen.sources is None else _values_of(chosen.sources, known)
    return sources, _values_of(chosen.targets, known)


def _values_of(texts: Sequence[str], known: Collection[str]) -> list[str]:
    """The values of comma-separated lists; a value whose name has a comma in it stands alone."""
    found = []
    for text in texts:
        found += [text] if text in known else [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise UserError("--from and --to take names of values; name at least one")
    return list(dict.fromkeys(found))
