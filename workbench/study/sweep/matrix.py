"""Many measurements in one run: models, their steps or strategies, batches, devices, element types, backends.

The variants of one block, a model at a batch size on a kind of device, are measured by turns. A finished block
is written at once, so that an interrupted matrix can be resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.run.measurement.formatting import FIGURES, csv_text, figures
from workbench.run.measurement.measured import MeasuredVariant
from workbench.run.measurement.notes import notes_of
from workbench.run.measurement.variants import validate_request
from workbench.study.cluster.jobs import Device, DeviceKind, Executor, JobsProgress
from workbench.study.sweep.blocks import Block, Matrix, MatrixError, block_key, check_block, job_of, variants_key
from workbench.study.sweep.record import record_at

OnBlock = Callable[[str, float], None]


def run_matrix(
    matrix: Matrix, record: Path | str | None, executor: Executor, on_block: OnBlock | None = None
) -> Iterator[Block]:
    """Measure the blocks that `record` does not hold, on each kind of device; yields every block in order.

    record:   a file of one JSON object per line, created if missing; "database": the kept runs; None: nothing is
              written beside these. A block of which a part failed is not written, so it is tried again.
    on_block: is called with the progress, in words and from 0 to 1; may raise to stop.
    Raises UserError before anything runs, RunError if there is no such device, CancelledError; finished blocks
    stay in the record.
    """
    validate_request(matrix.backends, matrix.dtypes, matrix.repeat)
    for asked in matrix.blocks():
        check_block(matrix, *asked)
    devices = executor.devices(matrix.device)
    record_of = record_at(record)
    wanted = [(*asked, kind) for asked in matrix.blocks() for kind in dict.fromkeys(d.kind for d in devices)]
    variants = {model: variants_key(matrix, model) for model in matrix.models}

    def key_of(model: str, batch: int | None, kind: DeviceKind, versions: Mapping[str, str]) -> str:
        return block_key(matrix, model, variants[model], batch, kind, versions)

    result = _finished(key_of, wanted, devices, record_of)
    left = [place for place in wanted if place not in result]
    yielded = 0
    jobs = [(job_of(matrix, model, batch), kind) for model, batch, kind in left]
    numbers = [number for number, place in enumerate(wanted) if place not in result]
    for outcome in executor.run(jobs, lambda progress: _report(on_block, progress, wanted, numbers)):
        model, batch, kind = place = left[outcome.index]
        versions = devices[0].versions if outcome.device is None else outcome.device.versions
        block = Block(key_of(model, batch, kind, versions), model, batch, kind.name).ended(outcome)
        result[place] = record_of.add(block, {} if outcome.answer is None else outcome.answer.origins)
        while yielded < len(wanted) and wanted[yielded] in result:
            yield result[wanted[yielded]]
            yielded += 1
    yield from (result[place] for place in wanted[yielded:])


_Place = tuple[str, int | None, DeviceKind]
_KeyOf = Callable[[str, int | None, DeviceKind, Mapping[str, str]], str]


def _finished(key_of: _KeyOf, wanted: Sequence[_Place], devices: Sequence[Device], record: Any) -> dict[_Place, Block]:
    """Those that the record holds, measured with the versions of any device of their kind."""
    versions_of: dict[DeviceKind, list[Mapping[str, str]]] = {}
    for device in devices:
        known = versions_of.setdefault(device.kind, [])
        if device.versions not in known:
            known.append(device.versions)
    asked = {}
    for model, batch, kind in wanted:
        for versions in versions_of[kind]:
            key = key_of(model, batch, kind, versions)
            asked[key] = (model, batch, kind), Block(key, model, batch, kind.name)
    return {asked[key][0]: block for key, block in record.read([block for _, block in asked.values()]).items()}


def _words(model: str, batch: int | None) -> str:
    return model if batch is None else f"{model}, batch {batch:,}"


def _report(on_block: OnBlock | None, progress: JobsProgress, wanted: Sequence[_Place], numbers: Sequence[int]) -> None:
    """JobsProgress as words and a share of all. numbers: of the jobs, among the wanted blocks."""
    if on_block is None:
        return
    count, before = len(wanted), len(wanted) - len(numbers)
    share = (before + progress.share * progress.total) / max(count, 1)
    running = [
        f"{_words(*wanted[numbers[job]][:2])}, block {numbers[job] + 1} of {count}: {event['stage']}"
        for job, event in progress.running.items()
    ]
    several = f"{before + progress.done} of {count} blocks done on {progress.devices} devices" + progress.left_words
    words = (
        f"{running[0]}{progress.left_words}" if progress.devices == 1 and running else "; ".join([several, *running])
    )
    on_block("; ".join(filter(None, [words, progress.waiting])), share)


# ---- tables ------------------------------------------------------------------------------

COLUMNS = ("model", "batch", "variant", "device", *FIGURES)


def rows_of(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """One row per variant, with the keys of COLUMNS; None if there is no number."""
    rows = []
    for block in blocks:
        place = {"model": block.model, "batch": block.batch}
        if block.found is None:
            rows.append(dict.fromkeys(COLUMNS) | place | {"device": block.device, "failed": block.failed})
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
