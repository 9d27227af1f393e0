"""The command `matrix`: models x steps or strategies x batches x precisions x backends, in one run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.backends.memory import in_bytes
from workbench.errors import UserError
from workbench.formats.io.dims import parse_dims
from workbench.interfaces.cli.arguments import (
    check_writes,
    dims_argument,
    measure_arguments,
    names_of,
    on_argument,
    seed,
    target_argument,
)
from workbench.interfaces.cli.exit_codes import DONE, FAILED
from workbench.interfaces.cli.printing import cells_of, print_table, say, write_json
from workbench.interfaces.cli.progress_line import ProgressLine
from workbench.support.files import write_text

HELP = "measure models x steps x batches x precisions x backends in one run"
EXAMPLES = (
    "ppocr_cls_v2.onnx --layouts greedy,optimal --target cuda --batches 1,4 --record m.jsonl --csv m.csv",
    "ppocr_cls_v2.onnx --record database --on ray   # --on HOST:PORT: on the nodes of a Ray cluster",
    "--plan oneflow --device cuda   # ResNet-101, NCHW against channels-last",
)
DETAILS = """
A block is a model at a batch size on a kind of device, all its variants measured interleaved. The same command with the
same --record goes on with the blocks that are not there. `bench --help` says what the backends are.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("models", nargs="*", metavar="MODEL", help="one or several, each at every batch")
    command.add_argument("--plan", metavar="NAME", help="a matrix by name instead of models: oneflow")
    dims_argument(command)
    command.add_argument("--batches", default="", metavar="1,8", help="sizes of the batch dimension")
    command.add_argument(
        "--batch-dim", metavar="NAME", help="the batch dimension (default: the first input's first axis)"
    )
    command.add_argument(
        "--preset", default="simplify", metavar="NAME", help="passes of every variant (default: simplify)"
    )
    target_argument(command)
    variants = command.add_mutually_exclusive_group()
    variants.add_argument(
        "--layouts", type=names_of, metavar="a,b", help="also the passes with each of these strategies"
    )
    variants.add_argument(
        "--steps", action="store_true", help="the model as loaded, and the graph after each step that changes it"
    )
    measure_arguments(command)
    command.add_argument("--seed", type=seed, default=0, help="seed of the inputs (default: 0)")
    help_text = "write finished blocks to this file, and skip those in it; `database`: use the kept runs instead"
    command.add_argument("--record", metavar="R.jsonl", help=help_text)
    on_argument(command)
    command.add_argument("--csv", metavar="R.csv", help="write the table")
    command.add_argument("--json", metavar="R.json", help="write every number")


def run(chosen: argparse.Namespace) -> int:
    record = None if chosen.record == "database" else chosen.record
    check_writes([record, chosen.csv, chosen.json], chosen.models)
    values = vars(chosen)
    names = [name for name in MatrixRequest.__dataclass_fields__ if name != "dims"]
    return matrix_command(MatrixRequest(**{name: values[name] for name in names}, dims=parse_dims(chosen.dims)))


@dataclass(frozen=True)
class MatrixRequest:
    """The arguments of `matrix`, as parsed."""

    models: Sequence[str]
    plan: str | None
    dims: Mapping[str, int]
    batches: str
    batch_dim: str | None
    preset: str
    target: str
    layouts: Sequence[str] | None
    steps: bool
    device: str
    backend: Sequence[str]
    dtype: Sequence[str] | None
    repeat: int | None
    cold: bool
    time_limit: float
    memory_limit: float | None
    seed: int
    record: str | None
    on: str | None
    csv: str | None
    json: str | None


def matrix_command(request: MatrixRequest) -> int:
    """Measure, print the table, write the files. FAILED if a block or a variant could not run, else DONE.

    What a backend does not support is omitted with a note, and does not count as a failure.
    """
    from workbench.interfaces.study.cluster.choose_executor import executor_on
    from workbench.interfaces.study.sweep.matrix import as_csv, matrix_notes, rows_of, run_matrix

    matrix = _matrix(request)
    with ProgressLine() as line, executor_on(request.on) as executor:
        blocks = list(run_matrix(matrix, request.record, executor, line.share))
        nodes = executor.notes
    rows = rows_of(blocks)
    _print_rows(rows)
    for note in (*nodes, *matrix_notes(blocks)):
        say(f"note: {note}", file=sys.stderr)
    if request.csv:
        write_text(request.csv, as_csv(rows))
    if request.json:
        write_json(request.json, [block.to_json() for block in blocks])
    return FAILED if any(row["failed"] for row in rows) else DONE


def _matrix(request: MatrixRequest) -> Any:
    """The `Matrix` to run. Raises UserError for arguments that exclude each other."""
    from workbench.interfaces.study.sweep.blocks import Matrix
    from workbench.interfaces.study.sweep.matrix import batch_sizes
    from workbench.interfaces.study.sweep.model_variants import model_file_at
    from workbench.interfaces.study.sweep.named_sweeps import PLANS
    from workbench.pipeline.registry.pass_choice import DEFAULT_PRESET

    if (request.plan is None) == (not request.models):
        raise UserError(f"give either models or a plan; there is --plan {', '.join(PLANS)}")
    model_options = (request.dims, request.layouts, request.steps, request.batch_dim, request.preset != DEFAULT_PRESET)
    if request.plan is not None and any(model_options):
        raise UserError("a plan has its own models and steps; leave out dims, presets, layouts and steps")
    if request.plan is not None and request.plan not in PLANS:
        raise UserError(f"there is no plan '{request.plan}'; there is {', '.join(PLANS)}")
    batches = batch_sizes(request.batches)
    pass_options = (request.preset, request.target, request.layouts or (), request.steps)
    matrix = Matrix(
        models={path: model_file_at(path, request.dims, *pass_options) for path in request.models},
        batches=batches,
        batch_dim=request.batch_dim,
        backends=request.backend,
        dtypes=request.dtype or ("float32",),
        device=request.device,
        repeat=request.repeat,
        cold=request.cold,
        seed=request.seed,
        given=tuple(request.dims),
        timeout_s=request.time_limit,
        memory_limit_bytes=in_bytes(request.memory_limit),
    )
    if request.plan is None:
        return matrix
    if request.on is not None:
        raise UserError(
            "a plan builds its models in memory, so that it is measured here; leave out --on, or name model files"
        )
    plan = PLANS[request.plan]
    dtypes = matrix.dtypes if request.dtype else plan.dtypes
    return replace(matrix, models=plan.models(), dtypes=dtypes, batches=batches or plan.batches)


_FIGURES = ("median ms", "+- ms", "ratio", "ratio, 95 % interval", "peak MB", "peak covers", "max error")


def _print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    from workbench.interfaces.study.sweep.matrix import row_label

    with_device = len({row["device"] for row in rows}) > 1
    head = ("model", "batch", "variant", *(["device"] if with_device else []), *_FIGURES)
    print_table([head, *(_row(row, with_device) for row in rows)], left=(0, 2, 3) if with_device else (0, 2))
    for row in rows:
        if row["failed"]:
            say(f"{row_label(row)}: {row['failed']}", file=sys.stderr)


def _row(row: Mapping[str, Any], with_device: bool) -> tuple[str, ...]:
    batch = "-" if row["batch"] is None else f"{row['batch']:,}"
    device = [row["device"] or "-"] if with_device else []
    return (row["model"], batch, row["variant"] or "-", *device, *cells_of(row, _FIGURES))
