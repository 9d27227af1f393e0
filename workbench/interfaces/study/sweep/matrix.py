"""Measurements of many combinations: models, their steps or strategies, batches, devices, element types, backends.

A block is a model at a batch size on a kind of device; its variants are measured interleaved. A finished block is
written at once, so that an interrupted matrix can be resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.interfaces.study.cluster.jobs import Device, DeviceKind, Executor, JobsProgress
from workbench.interfaces.study.sweep.blocks import (
    Block,
    Matrix,
    MatrixError,
    block_key,
    check_block,
    job_of,
    variants_key,
)
from workbench.interfaces.study.sweep.record import record_at
from workbench.run.measurement.formatting import FIGURES, csv_text, figures
from workbench.run.measurement.measurement_result import MeasuredVariant
from workbench.run.measurement.notes import notes_of
from workbench.run.measurement.variants import validate_request

OnBlock = Callable[[str, float], None]


def run_matrix(
    matrix: Matrix, record: Path | str | None, executor: Executor, on_block: OnBlock | None = None
) -> Iterator[Block]:
    """Measure the blocks that `record` does not hold, on each kind of device; yields every block in order.

    record:   a file of one JSON object per line, created if missing; "database": the stored runs; None: runs are stored
              and the matrix cannot be resumed. A block with a failed variant is not written, so it is measured again.
    on_block: is called with a text and the fraction done, from 0 to 1; may raise to stop.
    Raises UserError before anything runs, RunError if there is no such device, CancelledError; finished blocks
    stay in the record.
    """
    validate_request(matrix.backends, matrix.dtypes, matrix.repeat)
    for model, batch in matrix.blocks():
        check_block(matrix, model, batch)
    devices = executor.devices(matrix.device)
    record_of = record_at(record)
    block_ids = [(*block, kind) for block in matrix.blocks() for kind in dict.fromkeys(d.kind for d in devices)]
    variants = {model: variants_key(matrix, model) for model in matrix.models}

    def key_of(model: str, batch: int | None, kind: DeviceKind, versions: Mapping[str, str]) -> str:
        return block_key(matrix, model, variants[model], batch, kind, versions)

    result = _finished(key_of, block_ids, devices, record_of)
    remaining = [block_id for block_id in block_ids if block_id not in result]
    yielded = 0
    jobs = [(job_of(matrix, model, batch), kind) for model, batch, kind in remaining]
    numbers = [number for number, block_id in enumerate(block_ids) if block_id not in result]
    for outcome in executor.run(jobs, lambda progress: _report(on_block, progress, block_ids, numbers)):
        model, batch, kind = block_id = remaining[outcome.index]
        versions = devices[0].versions if outcome.device is None else outcome.device.versions
        block = Block(key_of(model, batch, kind, versions), model, batch, kind.name).ended(outcome)
        result[block_id] = record_of.add(block, {} if outcome.answer is None else outcome.answer.origins)
        while yielded < len(block_ids) and block_ids[yielded] in result:
            yield result[block_ids[yielded]]
            yielded += 1
    yield from (result[block_id] for block_id in block_ids[yielded:])


_BlockId = tuple[str, int | None, DeviceKind]
_KeyOf = Callable[[str, int | None, DeviceKind, Mapping[str, str]], str]


def _finished(
    key_of: _KeyOf, block_ids: Sequence[_BlockId], devices: Sequence[Device], record: Any
) -> dict[_BlockId, Block]:
    """The blocks in the record that were measured with the software versions of a device of their kind."""
    versions_of: dict[DeviceKind, list[Mapping[str, str]]] = {}
    for device in devices:
        known = versions_of.setdefault(device.kind, [])
        if device.versions not in known:
            known.append(device.versions)
    blocks = {}
    for model, batch, kind in block_ids:
        for versions in versions_of[kind]:
            key = key_of(model, batch, kind, versions)
            blocks[key] = (model, batch, kind), Block(key, model, batch, kind.name)
    return {blocks[key][0]: block for key, block in record.read([block for _, block in blocks.values()]).items()}


def _block_label(model: str, batch: int | None) -> str:
    return model if batch is None else f"{model}, batch {batch:,}"


def _report(
    on_block: OnBlock | None, progress: JobsProgress, block_ids: Sequence[_BlockId], numbers: Sequence[int]
) -> None:
    """Call `on_block` with this progress. numbers: by job, the index of its block in `block_ids`."""
    if on_block is None:
        return
    total, before = len(block_ids), len(block_ids) - len(numbers)
    share = (before + progress.share * progress.total) / max(total, 1)
    running = [
        f"{_block_label(*block_ids[numbers[job]][:2])}, block {numbers[job] + 1} of {total}: {event['stage']}"
        for job, event in progress.running.items()
    ]
    overview = (
        f"{before + progress.done} of {total} blocks done on {progress.devices} devices" + progress.remaining_text
    )
    text = (
        f"{running[0]}{progress.remaining_text}"
        if progress.devices == 1 and running
        else "; ".join([overview, *running])
    )
    on_block("; ".join(filter(None, [text, progress.waiting])), share)


# ---- tables ------------------------------------------------------------------------------

COLUMNS = ("model", "batch", "variant", "device", *FIGURES)


def rows_of(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """One row per variant, with the keys of COLUMNS; a value is None if there is no number."""
    rows = []
    for block in blocks:
        cells = {"model": block.model, "batch": block.batch}
        if block.measurement is None:
            rows.append(dict.fromkeys(COLUMNS) | cells | {"device": block.device, "failed": block.failed})
            continue
        device = block.measurement.machine.device_name
        for label, variant in block.measurement.variants.items():
            rows.append({**cells, "variant": label, "device": device, **figures(variant)})
    return rows


def row_label(row: Mapping[str, Any]) -> str:
    """Model, batch and variant of a row, such as "net.onnx, batch 4, greedy"."""
    return ", ".join(filter(None, (_block_label(row["model"], row["batch"]), row["variant"])))


def matrix_notes(blocks: Sequence[Block]) -> list[str]:
    """Notes on the numbers, each once, with the labels of its variants or blocks."""
    ran: dict[str, MeasuredVariant] = {}
    block_notes: dict[str, list[str]] = {}
    device = "cpu"
    for block in blocks:
        if block.measurement is None:
            continue
        device, block_label = block.measurement.machine.device, _block_label(block.model, block.batch)
        ran |= {f"{block_label}, {label}": variant for label, variant in block.measurement.ran.items()}
        variant_notes = notes_of(block.measurement.ran, device)
        for note in block.measurement.notes:
            if note not in variant_notes:
                block_notes.setdefault(note, []).append(block_label)
    return [*(f"{note} ({'; '.join(labels)})" for note, labels in block_notes.items()), *notes_of(ran, device)]


def batch_sizes(text: str) -> tuple[int, ...]:
    """The sizes in a text such as "1, 8 32". Raises MatrixError for anything else."""
    parts = text.replace(",", " ").split()
    invalid = next((part for part in parts if not part.isdecimal() or int(part) < 1), None)
    if invalid is not None:
        raise MatrixError(f"batches are whole numbers such as 1,8,32, not '{invalid}'")
    return tuple(map(int, parts))


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as CSV."""
    return csv_text(COLUMNS, rows)
