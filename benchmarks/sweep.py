"""The time of a sweep over many models, pipelines and devices: its measured parts, and a simulation from them.

The default models are six samples. Measured on this machine: a block without Ray (a model with one list of passes for
each strategy, interleaved); a local Ray from its start to the first device's answer; Ray's overhead for a job that does
nothing; the transfer of a file through its store into another process; the driver's time for a block (inspecting the
model, keys, rows in SQLite). Then a discrete-event simulation (heapq): devices take a block when they are free, one
driver assigns and writes one at a time, and devices are lost and return. A block takes 20 times the measured seconds of
a variant, cycling through the measured models.
"""

from __future__ import annotations

import argparse
import heapq
import os
import pickle
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import passes
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, Row, option, repeat, table
from benchmarks.shared.models import models_of
from workbench.interfaces.study.cluster import on_ray
from workbench.interfaces.study.cluster.choose_executor import OWN_RAY, executor_on
from workbench.interfaces.study.cluster.device_actor import Answer
from workbench.interfaces.study.cluster.file_transfer import manifest_of
from workbench.interfaces.study.cluster.jobs import Executor, JobsProgress, OnThisMachine, Site
from workbench.interfaces.study.sweep.blocks import Block, Matrix, block_key, check_block, job_of, variants_key
from workbench.interfaces.study.sweep.model_variants import model_file_at
from workbench.interfaces.study.sweep.record import record_at
from workbench.run.worker.client import Worker

DEFAULT = ("conv_relu_conv_relu", "npu_path", "ppocr_cls_v2", "resnet50_narrow", "basic_pitch_nmp", "silero_vad")
SIMULATED_MODELS, PIPELINES, DEVICES = 1000, 20, 32
BLOCKS = table(
    *("model", "variants", "s a block", "s a variant", "look ms", "driver ms", "file kB", "sent kB", "answer kB")
)
SWEEPS = table("devices", "blocks", "hours", "devices busy", "driver busy", "begun again", "answers GB", "rows")
MTBF_H = 100.0  # assumed mean hours between two losses of a device
RESTART_S = 60.0  # assumed time until a lost device is back


@dataclass(frozen=True)
class MeasuredBlock:
    """A measured block. variants: including the model as loaded. seconds: on the device. looking_s: of the driver
    before anything starts. driver_s: of the driver for the block. bytes: of the model's files. sent, answered: bytes
    of the pickled job and answer, without the files."""

    model: str
    variants: int
    seconds: float
    looking_s: float
    driver_s: float
    bytes: int
    sent: int
    answered: int


@dataclass(frozen=True)
class Nothing:
    """A job that does nothing."""

    record = None
    files: tuple[str, ...] = ()

    def run(self, site: Site) -> None:
        return None


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    with _isolated() as folder:
        blocks: list[MeasuredBlock] = []
        for path in models_of(chosen, DEFAULT):
            if not blocks:
                measured_block(str(path), 1)  # so that late imports are not measured
            blocks.append(measured_block(str(path), chosen.repeat))
        start_s, overhead_s, one_s, rate = measured_ray(chosen.jobs, folder / "large.npz", chosen.megabytes)
    yield BLOCKS
    yield from map(row, blocks)
    yield (
        f"A local Ray answers after {start_s:.1f} s. A job that does nothing takes {one_s * 1e3:.1f} ms "
        f"alone, {overhead_s * 1e3:.1f} ms among {chosen.jobs}. A file of {chosen.megabytes} MB goes at "
        f"{rate / 1e6:,.0f} MB/s from the driver's disk through the store to the node's, hashed on both sides."
    )
    yield from simulated(blocks, overhead_s)


@contextmanager
def _isolated() -> Iterator[Path]:
    """Separate queues, caches and runs for this benchmark; one thread, since waiting threads would use the cores."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
        os.environ["WORKBENCH_QUEUE"], os.environ["WORKBENCH_CACHE"] = f"{folder}/turns", f"{folder}/cache"
        os.environ["WORKBENCH_RUNS_URL"] = f"sqlite:///{folder}/runs.sqlite"
        yield Path(folder)


# ---- measurements ---------------------------------------------------------------------------------


def measured_block(path: str, repeat: int | None) -> MeasuredBlock:
    """One block of `matrix MODEL --layouts ...`, and the driver's time for it."""
    matrix = Matrix({path: model_file_at(path, layouts=passes.compared_strategies())}, repeat=repeat)
    with Worker() as worker:
        here = OnThisMachine(worker)
        (device,) = here.devices("cpu")
        before = _clock()
        check_block(matrix, path, None)
        looking_s, before = _clock() - before, _clock()
        key = block_key(matrix, path, variants_key(matrix, path), None, device.kind, device.versions)
        job = job_of(matrix, path, None)
        manifests = {path: manifest_of(path)}
        sent = pickle.dumps((job, manifests))
        driver_s = _clock() - before
        (outcome,) = here.run([(job, device.kind)], lambda progress: None)
    if outcome.failed:
        raise SystemExit(f"{path}: {outcome.failed}")
    answered = pickle.dumps(Answer(outcome.answer))
    before = _clock()
    answer = pickle.loads(answered).answer
    block = Block(key, path, None, device.kind.name, answer.measurement)
    record_at("database").add(block, answer.origins)
    driver_s += _clock() - before
    size = sum(one.size for one in manifests[path])
    variants = len(answer.measurement.variants)
    seconds = outcome.ended - outcome.started
    return MeasuredBlock(Path(path).stem, variants, seconds, looking_s, driver_s, size, len(sent), len(answered))


def measured_ray(count: int, file: Path, megabytes: int) -> tuple[float, float, float, float]:
    """Seconds until a device answers, of one of many empty jobs, and of one alone; bytes a second of a file."""
    began = _clock()
    with executor_on(OWN_RAY) as executor:
        (device,) = executor.devices("cpu")
        start_s = _clock() - began
        alone = [_seconds(executor, [Nothing()], device.kind) for _ in range(10)]
        many = _seconds(executor, [Nothing()] * count, device.kind) / count
        file.write_bytes(random.Random(0).randbytes(megabytes * 10**6))
        with _hidden_from_node(file):
            sending = _seconds(executor, [Nothing((str(file),))], device.kind)
    return start_s, many, statistics.median(alone), megabytes * 10**6 / sending


def _seconds(executor: Executor, jobs: Sequence[Nothing], kind: object) -> float:
    began = _clock()
    for outcome in executor.run([(job, kind) for job in jobs], _ignore):
        assert not outcome.failed, outcome.failed
    return _clock() - began


def _ignore(progress: JobsProgress) -> None:
    pass


@contextmanager
def _hidden_from_node(file: Path) -> Iterator[None]:
    """Inside the with block, the file is sent as to a machine without it."""
    manifest_of, pieces_of = on_ray.manifest_of, on_ray.pieces_of
    on_ray.manifest_of = lambda path: tuple(replace(one, path=f"/no/such{one.path}") for one in manifest_of(path))
    on_ray.pieces_of = lambda one: pieces_of(replace(one, path=one.path.removeprefix("/no/such")))
    try:
        yield
    finally:
        on_ray.manifest_of, on_ray.pieces_of = manifest_of, pieces_of


def _clock() -> float:
    return time.perf_counter()


# ---- the simulation -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Simulated:
    """seconds: until the last block is written. *_busy: shares of that time. lost: the number of restarted blocks."""

    seconds: float
    devices_busy: float
    driver_busy: float
    lost: int


def simulate(
    blocks_s: Sequence[float], devices: int, driver_s: float, before_s: float = 0.0, mtbf_s: float = MTBF_H * 3600
) -> Simulated:
    """Simulate blocks in their order on equal devices.

    blocks_s: seconds of each on a device. driver_s: seconds of the driver for a block, half when it assigns the block
    and half when it receives the answer; it does one at a time. before_s: of the driver before the first block.
    mtbf_s: the mean of the exponential time until a device is lost. The device is back after RESTART_S, and its block
    is the next to start.
    """
    draw = random.Random(0)
    waiting = list(reversed(blocks_s))
    driver_free, driver_busy, busy, done, lost, ended = before_s, before_s, 0.0, 0, 0, before_s
    events: list[tuple[float, int, float | None]] = [(before_s, number, None) for number in range(devices)]
    heapq.heapify(events)  # (when a device is free, its number, seconds of its finished block or None)
    while done < len(blocks_s):
        now, number, measured = heapq.heappop(events)
        work = (driver_s / 2 if measured is not None else 0) + (driver_s / 2 if waiting else 0)
        driver_free = max(driver_free, now) + work
        driver_busy += work
        if measured is not None:
            done, busy, ended = done + 1, busy + measured, driver_free
        if not waiting:
            continue
        block = waiting.pop()
        fails = draw.expovariate(1 / mtbf_s)
        if fails < block:
            lost += 1
            waiting.append(block)
            heapq.heappush(events, (driver_free + fails + RESTART_S, number, None))
        else:
            heapq.heappush(events, (driver_free + block, number, block))
    return Simulated(ended, busy / (devices * ended), driver_busy / ended, lost)


def row(one: MeasuredBlock) -> Row:
    times = (f"{seconds * 1e3:,.0f}" for seconds in (one.looking_s, one.driver_s))
    return (
        *(one.model, f"{one.variants}", f"{one.seconds:.1f}", f"{one.seconds / one.variants:.2f}", *times),
        *(f"{one.bytes / 1e3:,.0f}", f"{one.sent / 1e3:,.1f}", f"{one.answered / 1e3:,.0f}"),
    )


def simulated(blocks: Sequence[MeasuredBlock], overhead_s: float) -> Iterator[Item]:
    """Models that cycle through the measured ones, each with PIPELINES variants and as it is loaded."""
    of_variant = [one.seconds / one.variants for one in blocks]
    of_block = [of_variant[number % len(blocks)] * (PIPELINES + 1) for number in range(SIMULATED_MODELS)]
    looking = statistics.mean(one.looking_s for one in blocks)
    driver_s = statistics.mean(one.driver_s for one in blocks) + overhead_s
    answered = statistics.mean(one.answered / one.variants for one in blocks) * (PIPELINES + 1)
    yield SWEEPS
    cases = [(f"{count} alike", count, of_block) for count in (1, 8, DEVICES, 4 * DEVICES)]
    every = [block for block in of_block for _ in range(DEVICES)]
    for devices, count, seconds_of_blocks in (*cases, (f"{DEVICES} kinds, each measures all", DEVICES, every)):
        result = simulate(seconds_of_blocks, count, driver_s, before_s=SIMULATED_MODELS * looking)
        yield (
            *(devices, f"{len(seconds_of_blocks):,}", f"{result.seconds / 3600:,.2f}", f"{result.devices_busy:.1%}"),
            *(f"{result.driver_busy:.1%}", f"{result.lost:,}", f"{answered * len(seconds_of_blocks) / 1e9:,.2f}"),
            f"{len(seconds_of_blocks) * (PIPELINES + 1):,}",
        )
    yield (
        f"Assumed: {SIMULATED_MODELS:,} models that cycle through those above, each with {PIPELINES} lists of passes; "
        f"blocks take as long on other devices as here; a device is lost every {MTBF_H:g} h and back after "
        f"{RESTART_S:g} s; the driver inspects each model first ({looking * 1e3:.0f} ms) and takes "
        f"{driver_s * 1e3:.0f} ms for a block, {overhead_s * 1e3:.1f} of them Ray's; the models' files are on every "
        "node. The driver holds all answers in memory until its table is printed; the table has their pickled size."
    )


OPTIONS = (
    *MODELS,
    option("--jobs", type=int, default=200, help="jobs that do nothing, to measure Ray's overhead (200)"),
    repeat(None),
    option("--megabytes", type=int, default=256, help="size of the transferred file (256)"),
)
BENCHMARK = Benchmark(measure, (BLOCKS, SWEEPS), OPTIONS, lambda real: [["--repeat", "20"]])
