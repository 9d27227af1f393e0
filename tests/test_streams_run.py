"""The backend `streams`: operators side by side, held to the last bit against one after the other.

The order in which streams of a GPU run operators is drawn at random here; `test_cuda.py` has the GPU's own.
"""

from __future__ import annotations

import dataclasses
import random
import time

import onnx
import pytest
import torch

import workbench as wb
from sample_models.light import LIGHT_MODELS, random_light
from tests.random_graphs import random_graph
from tests.slow import thorough_unless
from workbench.backends.randomness import uses_random_numbers
from workbench.backends.torch.executor.executor import OperatorError, TorchExecutor
from workbench.backends.torch.prepared import PREPARATIONS
from workbench.backends.torch.streams.launches import Launches, launches_of
from workbench.backends.torch.streams.select_run import copied, faster, has_same_bits
from workbench.errors import UserError
from workbench.formats.io.samples import samples
from workbench.run.inputs import seed_inputs
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.variants import Variant, combined
from workbench.run.worker.client import CancelledError

BRANCHES = "sample_models/memory/branches.onnx"
SMALL = "g (float[N,8] x) => (float[N,8] y) { a = Relu(x)  b = Neg(x)  y = Add(a, b) }"
_POISON = 0xFF


def planned(graph, dtype=None) -> tuple[TorchExecutor, dict, Launches]:
    executor = TorchExecutor(graph, dtype=dtype)
    tensors = executor.upload(seed_inputs(graph))
    with executor.computing():
        return executor, tensors, launches_of(executor, tensors)


def check(graph, dtype=None) -> Launches:
    """With poison in some orders that the streams allow, and as operator by operator computes."""
    executor, tensors, launches = planned(graph, dtype)
    eager = copied(list(executor.run_tensors(tensors).values()))
    with executor.computing():
        expected = copied(list(launches.arena.run()))
        found = [poisoned(launches, random.Random(seed)) for seed in range(4)]
    for run in found:
        assert all(map(has_same_bits, run, expected))
    for one, other in zip(expected, eager, strict=True):
        if isinstance(one, torch.Tensor):
            step = 4 * torch.finfo(other.dtype).eps if other.is_floating_point() else 0.0
            torch.testing.assert_close(one, other, rtol=max(1e-4, step), atol=max(1e-5, step), equal_nan=True)
    return launches


def poisoned(launches: Launches, rng: random.Random) -> list:
    """The outputs of a run in a random order that streams and waits allow, with NaN in the arena before it, and in the
    memory of each block when all that uses it has run."""
    arena, left = launches.arena, list(launches.in_order)
    arena.bytes.fill_(_POISON)
    used = uses_of_blocks(launches)
    for _, write in launches.prologue:
        write()
    ended: set[int] = set()
    while left:
        heads = {launch.stream: launch for launch in reversed(left)}
        chosen = rng.choice([launch for launch in heads.values() if ended.issuperset(launch.waits)])
        left.remove(chosen)
        chosen.run()
        ended.add(chosen.operator)
        for block in [block for block, users in used.items() if users <= ended]:
            begin, size = arena.plan.packed.offsets[block], arena.plan.sharing.packing.blocks[block].bytes
            arena.bytes[begin : begin + size].fill_(_POISON)
            del used[block]
    return copied(list(arena.outputs))


def uses_of_blocks(launches: Launches) -> dict[int, set[int]]:
    """For each block whose users are all on streams, and of which nothing is a result, those users."""
    sharing = launches.arena.plan.sharing
    of_node = {node.name: launch.operator for launch in launches.in_order for node, _ in launch.runs}
    found = {}
    for number, name in enumerate(sharing.blocks):
        values = [sharing.lifetimes.values[member] for member in sharing.memory.members(name)]
        steps = {step for value in values for step in (value.producer, *value.reads) if step is not None}
        labels = {sharing.lifetimes.steps[step].label for step in steps}
        runs = {step.instruction.node.name for step in launches.arena.steps if step.kernel != "view"}
        if not any(value.kind == "output" for value in values) and labels & runs and labels & runs <= of_node.keys():
            found[number] = {of_node[label] for label in labels & runs}
    return found


@pytest.mark.parametrize(
    "sample",
    [thorough_unless(s.group == "Memory", s) for s in samples() if s.group in ("", "Memory", "Fusion")],
    ids=lambda s: s.file.stem,
)
def test_samples(sample):
    graph = wb.load(sample.file, sample.dims)
    if uses_random_numbers(graph):
        pytest.skip("it draws other random numbers in each run")
    check(graph)


@pytest.mark.parametrize("name", [thorough_unless(n == "squeezenet", n) for n in LIGHT_MODELS if n != "densenet121"])
def test_narrow_light_models(name, tmp_path):
    onnx.save(random_light(name, narrow=1 if name == "shufflenet" else 8), tmp_path / "m.onnx")
    check(wb.load(tmp_path / "m.onnx"))


@pytest.mark.parametrize("dtype", ["float16", thorough_unless(False, "bfloat16"), thorough_unless(False, "mixed")])
def test_in_the_types_of_the_run(dtype):
    check(wb.load(BRANCHES), dtype=dtype)


@pytest.mark.parametrize("block", [thorough_unless(block == 0, block) for block in range(8)])
def test_random_graphs(block):
    ran = 0
    for seed in range(12 * block, 12 * block + 12):
        graph = random_graph(seed, [SMALL, SMALL], operators=8)
        try:
            TorchExecutor(graph).run(seed_inputs(graph))
        except UserError:
            continue
        check(graph)
        ran += 1
    assert ran > 8


def test_an_operator_that_fails_is_named():
    _, _, launches = planned(wb.load(BRANCHES))

    def write():
        raise RuntimeError("no such kernel")

    for launch in launches.in_order:
        node, _ = launch.runs[0]
        with pytest.raises(OperatorError, match=f"'{node.name}' failed: no such kernel"):
            dataclasses.replace(launch, runs=((node, write),)).run()


def prepared(graph):
    executor = TorchExecutor(graph)
    return PREPARATIONS["streams"](executor, executor.upload(seed_inputs(graph)), lambda stage: None)


def test_on_a_cpu_it_says_that_operators_run_one_after_the_other():
    found = prepared(wb.load(BRANCHES))
    assert found.reason == "operators run concurrently on a CUDA device only" and found.streams is None


def ran(result, sleep_s: float):
    def run():
        time.sleep(sleep_s)
        return {"y": torch.tensor(result)}

    return run


def test_the_faster_run_is_taken_if_its_bits_are_the_same():
    launches = planned(wb.load(BRANCHES))[2]
    slow, fast, other = ran(1.0, 0.02), ran(1.0, 0.0), ran(2.0, 0.0)
    taken = faster(launches.schedule, slow, fast, lambda: None)
    assert taken.run is fast and taken.sequential_reason is None
    assert (taken.measured.streams, taken.measured.waits) == (2, 1) and taken.measured.ratio < 1
    left = faster(launches.schedule, fast, slow, lambda: None)
    assert left.run is fast and "one stream is faster on this device" in left.sequential_reason
    wrong = faster(launches.schedule, slow, other, lambda: None)
    assert wrong.run is slow and "differ in their last bits" in wrong.sequential_reason and wrong.measured is None


@pytest.mark.slow
def test_measured_beside_the_others(kept_worker):
    graph = wb.load("sample_models/ppocr_cls_v2.onnx")
    inputs = seed_inputs(graph)
    found = measure_models(
        combined({"m": graph}, ["arena", "streams"], ["float32"]), inputs=inputs, repeat=2, worker=kept_worker
    )
    streams = found.ran["streams"]
    assert streams.memory.counted == "arena" and "CUDA device only" in streams.fallbacks["streams"]
    narrow = measure_models({"m": Variant(graph, "streams", "bfloat16")}, inputs=inputs, repeat=1, worker=kept_worker)
    reason = narrow.ran["m"].fallbacks.get("streams", "")
    assert narrow.ran["m"].memory.counted == "arena" and "element types" not in reason


@pytest.mark.slow
def test_a_measurement_on_streams_is_cancelled_and_the_next_one_runs(kept_worker):
    graph = wb.load("sample_models/ppocr_cls_v2.onnx")
    how = {"inputs": seed_inputs(graph), "worker": kept_worker}
    looked = []

    def cancel(progress):
        looked.append(progress)
        if progress["done"] > 2:
            kept_worker.cancel()

    with pytest.raises(CancelledError):
        measure_models({"m": Variant(graph, "streams")}, repeat=100_000, on_progress=cancel, **how)
    assert looked and measure_models({"m": Variant(graph, "streams")}, repeat=1, **how).ran
