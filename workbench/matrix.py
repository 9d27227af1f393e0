"""Many measurements in one run: models, their steps or strategies, batches, element types, backends.

The variants of one block, a model at a batch size, are measured by turns. A finished block
is written at once, so that an interrupted matrix can be resumed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workbench.errors import UserError
from workbench.files import SPECIAL, is_special
from workbench.inference.bound_sizes import bound_types
from workbench.io.dims import bind_dims, symbols
from workbench.ir import Graph
from workbench.ir.to_proto import structure
from workbench.run.measurement.formatting import FIGURES, csv_text, figures
from workbench.run.measurement.measure import combined, measure_models, refused_sizes, validate_request
from workbench.run.measurement.measured import MeasuredVariant, Measurement, measurement_from_json
from workbench.run.measurement.notes import notes_of
from workbench.run.records.store import RecordsError, RunOrigin, keep, model_hash
from workbench.run.worker.client import RUN_LIMIT_S, Worker
from workbench.run.worker.process import CancelledError
from workbench.verification import Verifier

OnBlock = Callable[[str, float], None]


class MatrixError(UserError):
    """The matrix cannot be measured as requested."""


@dataclass(frozen=True)
class Matrix:
    """The models and settings to measure.

    models: by model, the graphs by step or strategy; the others are compared with the first.
    batches: sizes of `batch_dim`, one after the other; empty: each model with its dims as bound.
    batch_dim: a symbolic dim of the inputs; None: the first axis of each model's first input.
    timeout_s, memory_limit_bytes: limits of each block, see `Worker.request`.
    given: dims that the user bound; others may be changed until the model runs.
    pipelines: by model and step, the command that produces the step's graph, for the kept runs.
    """

    models: Mapping[str, Mapping[str, Graph]]
    batches: Sequence[int] = ()
    batch_dim: str | None = None
    backends: Sequence[str] = ("torch",)
    dtypes: Sequence[str] = ("float32",)
    device: str = "cpu"
    repeat: int | None = None
    cold: bool = False
    seed: int = 0
    timeout_s: float = RUN_LIMIT_S
    memory_limit_bytes: int | None = None
    given: Collection[str] = ()
    pipelines: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def blocks(self) -> Iterator[tuple[str, int | None]]:
        """Each model at each batch, in order."""
        for model in self.models:
            for batch in self.batches or (None,):
                yield model, batch


@dataclass(frozen=True)
class Block:
    """A model at a batch size, and its measurement, or the sentence that says why it could not run.

    key: the hash of everything on which the numbers depend.
    """

    key: str
    model: str
    batch: int | None
    found: Measurement | None = None
    failed: str = ""

    def to_json(self) -> dict[str, Any]:
        place = {"key": self.key, "model": self.model, "batch": self.batch}
        return place | ({"failed": self.failed} if self.found is None else {"found": self.found.to_json()})


def _block_from_json(block: Mapping[str, Any]) -> Block:
    return Block(block["key"], block["model"], block["batch"], measurement_from_json(block["found"]))


def run_matrix(matrix: Matrix, record: Path | None, worker: Worker, on_block: OnBlock | None = None) -> Iterator[Block]:
    """Measure the blocks that `record` does not hold; yields every block in order.

    record:   a file of one JSON object per line, created if missing; None: nothing is written.
              A block of which a part failed is not written, so it is tried again.
    on_block: is called with the progress, in words and from 0 to 1; may raise to stop.
    Raises MatrixError before anything runs, RunError if there is no such device, CancelledError; finished blocks
    stay in the record.
    """
    validate_request(matrix.backends, matrix.dtypes, matrix.repeat)
    bound = {(model, batch): _bound(matrix, model, batch) for model, batch in matrix.blocks()}
    machine = worker.request("devices", device=matrix.device)
    keys = {place: _key(matrix, *place, machine) for place in bound}
    done = _recorded(record)
    for index, (place, graphs) in enumerate(bound.items()):
        key = keys[place]
        if key not in done:
            report = _share(on_block, _words(*place), index, len(bound))
            block = _measured(matrix, Block(key, *place), graphs, worker, report)
            _write(record, block)
            done[key] = _keep(block, graphs, matrix.pipelines)
        yield done[key]


def _words(model: str, batch: int | None) -> str:
    return model if batch is None else f"{model}, batch {batch:,}"


def _share(on_block: OnBlock | None, words: str, index: int, count: int) -> Callable[[Mapping[str, Any]], None]:
    """Progress of one block as a share of all."""

    def heard(event: Mapping[str, Any]) -> None:
        if on_block is not None:
            inside = event["done"] / max(event["total"], 1)
            on_block(f"{words}, block {index + 1} of {count}: {event['stage']}", (index + inside) / count)

    return heard


def _bound(matrix: Matrix, model: str, batch: int | None) -> dict[str, Graph]:
    """The model's graphs with the batch bound."""
    graphs = matrix.models[model]
    if batch is None:
        return dict(graphs)
    name = matrix.batch_dim or _batch_dim(next(iter(graphs.values())), model)
    found = {}
    for label, graph in graphs.items():
        copy = graph.copy()
        copy.dims = bind_dims(graph, {**graph.dims, name: batch})
        copy.bound_types = bound_types(copy)
        found[label] = copy
    return found


def _batch_dim(graph: Graph, model: str) -> str:
    shape = graph.shape(graph.inputs[0]) if graph.inputs else None
    if shape and isinstance(shape[0], str):
        return shape[0]
    others = f"; its other dimensions are {', '.join(symbols(graph))}" if symbols(graph) else ""
    raise MatrixError(f"'{model}' has a fixed batch, so it cannot be measured at others{others}.")


def _measured(
    matrix: Matrix,
    block: Block,
    graphs: Mapping[str, Graph],
    worker: Worker,
    heard: Callable[[Mapping[str, Any]], None],
) -> Block:
    heard({"done": 0, "total": 1, "stage": "computing the reference in ONNX Runtime"})
    first = next(iter(graphs.values()))
    model, given = block.model, {*matrix.given}
    given = given if block.batch is None else {*matrix.given, matrix.batch_dim or _batch_dim(first, model)}
    try:
        verifier = Verifier(first, None, matrix.seed, worker=worker, given=given)
        with refused_sizes(model, {name: first.dims[name] for name in sorted(given & {*first.dims})}):
            inputs, reference = verifier.inputs, verifier.reference
        found = measure_models(
            combined(graphs, matrix.backends, matrix.dtypes),
            inputs=inputs,
            reference=reference,
            device=matrix.device,
            repeat=matrix.repeat,
            cold=matrix.cold,
            worker=worker,
            on_progress=heard,
            timeout_s=matrix.timeout_s,
            memory_limit_bytes=matrix.memory_limit_bytes,
        )
    except CancelledError:
        raise
    except UserError as error:  # too large for the machine, or not runnable: continue with the next block
        return replace(block, failed=str(error))
    return replace(block, found=found)


def _keep(block: Block, graphs: Mapping[str, Graph], pipelines: Mapping[tuple[str, str], str]) -> Block:
    """Keep the block's measurements among the runs, and return the block; if that fails, its notes say so."""
    found = block.found
    if found is None:
        return block
    try:
        origins = {
            label: RunOrigin(model_hash(graphs[v.step]), block.model, pipelines.get((block.model, v.step), ""))
            for label, v in found.variants.items()
        }
        keep(found, origins)
    except RecordsError as error:
        notes = [*found.notes, f"This block is not kept among the runs: {error}."]
        return replace(block, found=replace(found, notes=notes))
    return block


# ---- the record ------------------------------------------------------------------------


def _key(matrix: Matrix, model: str, batch: int | None, machine: Mapping[str, Any]) -> str:
    """The hash of everything that affects the block's numbers."""
    said = {
        "model": model,
        "graphs": {label: _digest(graph) for label, graph in matrix.models[model].items()},
        "dims": {label: dict(graph.dims) for label, graph in matrix.models[model].items()},
        "batch": batch,
        "device": next((d for d in machine["devices"] if d["device"].startswith(matrix.device)), matrix.device),
        "versions": machine["versions"],
        **{name: getattr(matrix, name) for name in ("batch_dim", "backends", "dtypes", "repeat", "cold", "seed")},
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=list).encode()).hexdigest()


def _digest(graph: Graph) -> str:
    """A digest of the graph's file and of its present structure."""
    written = structure(graph).SerializeToString(deterministic=True)
    return hashlib.sha256(model_hash(graph).encode() + written).hexdigest()


def _recorded(record: Path | None) -> dict[str, Block]:
    """The blocks in the file. An incomplete last line is removed from it."""
    if record is None or not record.exists():
        return {}
    if is_special(record):
        raise MatrixError(f"'{record}' cannot be a record, for {SPECIAL}; name another")
    try:
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise MatrixError(f"the record '{record}' cannot be read: {error}; name another file") from None
    whole = lines if not lines or _is_block(lines[-1]) or lines[-1].endswith("\n") else lines[:-1]
    wrong = next((number for number, line in enumerate(whole, 1) if line.strip() and not _is_block(line)), None)
    if wrong is not None:
        raise MatrixError(f"'{record}' is no record of a matrix: line {wrong}; name another file")
    try:
        if len(whole) < len(lines):
            os.truncate(record, len("".join(whole).encode()))
        elif whole and not whole[-1].endswith("\n"):
            with open(record, "a", encoding="utf-8") as file:
                file.write("\n")
    except OSError as error:
        raise _not_written(record, error) from None
    blocks = [_block_from_json(json.loads(line)) for line in whole if line.strip()]
    return {block.key: block for block in blocks}


def forget_blocks(record: Path, blocks: Collection[Block]) -> None:
    """Remove these blocks from the record, so that they are measured again. Raises MatrixError."""
    keys = {block.key for block in blocks}
    kept = [block for key, block in _recorded(record).items() if key not in keys]
    beside = record.with_name(f"{record.name}.new")
    try:
        beside.write_text("".join(f"{json.dumps(block.to_json())}\n" for block in kept), encoding="utf-8")
        os.replace(beside, record)  # atomically
    except OSError as error:
        raise _not_written(record, error) from None


def _is_block(line: str) -> bool:
    """Whether this is a block as `run_matrix` writes it."""
    try:
        return isinstance(_block_from_json(json.loads(line)).key, str)
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _write(record: Path | None, block: Block) -> None:
    tried_again = block.found is None or block.found.failures
    if record is None or tried_again:
        return
    try:
        with open(record, "a", encoding="utf-8") as file:
            file.write(json.dumps(block.to_json()) + "\n")
    except OSError as error:
        raise _not_written(record, error) from None


def _not_written(record: Path, error: OSError) -> MatrixError:
    return MatrixError(f"the record '{record}' cannot be written: {error.strerror or error}")


# ---- tables ------------------------------------------------------------------------------

COLUMNS = ("model", "batch", "variant", "device", *FIGURES)


def rows_of(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """One row per variant, with the keys of COLUMNS; None if there is no number."""
    rows = []
    for block in blocks:
        place = {"model": block.model, "batch": block.batch}
        if block.found is None:
            rows.append(dict.fromkeys(COLUMNS) | place | {"failed": block.failed})
            continue
        device = block.found.machine.device_name
        for label, variant in block.found.variants.items():
            rows.append({**place, "variant": label, "device": device, **figures(variant)})
    return rows


def place_words(row: Mapping[str, Any]) -> str:
    """Model, batch and variant of a row: "net.onnx, batch 4, greedy"."""
    return ", ".join(filter(None, (_words(row["model"], row["batch"]), row["variant"])))


def matrix_notes(blocks: Sequence[Block]) -> list[str]:
    """Notes on the numbers, each once with the variants or blocks that it concerns."""
    ran: dict[str, MeasuredVariant] = {}
    own: dict[str, list[str]] = {}
    device = "cpu"
    for block in blocks:
        if block.found is None:
            continue
        device, place = block.found.machine.device, _words(block.model, block.batch)
        ran |= {f"{place}, {label}": variant for label, variant in block.found.ran.items()}
        of_variants = notes_of(block.found.ran, device)
        for note in block.found.notes:
            if note not in of_variants:
                own.setdefault(note, []).append(place)
    return [*(f"{note} ({'; '.join(places)})" for note, places in own.items()), *notes_of(ran, device)]


def batch_sizes(text: str) -> tuple[int, ...]:
    """The sizes in "1, 8 32". Raises MatrixError for anything else."""
    parts = text.replace(",", " ").split()
    wrong = next((part for part in parts if not part.isdecimal() or int(part) < 1), None)
    if wrong is not None:
        raise MatrixError(f"batches are whole numbers such as 1,8,32, not '{wrong}'")
    return tuple(map(int, parts))


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as CSV."""
    return csv_text(COLUMNS, rows)
