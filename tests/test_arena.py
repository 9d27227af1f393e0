"""The backend `arena`: plans that run, every value at its offset, held against operator by operator and with poison."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch

import workbench as wb
from sample_models.light import LIGHT_MODELS, random_light
from tests.conftest import ROOT
from tests.running import typed
from tests.slow import thorough_unless
from tests.test_memory_sharing import random_graph
from workbench.backends.torch.arena.arena_run import ArenaRun
from workbench.backends.torch.arena.out_kernels import out_variant, shapes_further_results
from workbench.backends.torch.arena.run_plan import plan_of_run
from workbench.backends.torch.arena.scratch import measure_scratch
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.formats.io.samples import samples
from workbench.planning.memory.blocks.packing import OverlapError
from workbench.planning.memory.planners import planners
from workbench.planning.memory.planning import MemoryPlan
from workbench.run.inputs import seed_inputs
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.variants import Variant, combined


def planned(graph, planner="exact", dtype=None):
    executor = TorchExecutor(graph, dtype=dtype)
    tensors = executor.upload(seed_inputs(graph))
    return executor, tensors, plan_of_run(executor, tensors, planner)


def copies(values):
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def _bits(value: torch.Tensor) -> bytes:
    return value.reshape(-1).view(torch.uint8).numpy().tobytes()


def check(graph, planner="exact", dtype=None) -> ArenaRun:
    """Equal to operator by operator; the same again, and the same with poison."""
    executor, tensors, plan = planned(graph, planner, dtype)
    expected = copies(executor.run_tensors(tensors).values())
    with executor.computing():
        arena = ArenaRun(executor, tensors, plan)
        runs = [copies(run()) for run in (arena.run, arena.run_poisoned, arena.run)]
    for found in runs:
        for one, other in zip(found, expected, strict=True):
            if isinstance(other, torch.Tensor):
                step = 4 * torch.finfo(other.dtype).eps if other.is_floating_point() else 0.0
                torch.testing.assert_close(one, other, rtol=max(1e-4, step), atol=max(1e-5, step), equal_nan=True)
    for one, other in zip(runs[0], runs[1], strict=True):
        if isinstance(one, torch.Tensor):
            assert _bits(one) == _bits(other)
    assert {step.kernel for step in arena.steps} <= {"view", "out", "copy", "passed on", "outside"}
    return arena


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(s, id=s.file.stem, marks=pytest.mark.slow if s.group == "Real networks" else ())
        for s in samples()
        if s.group in ("Real networks", "Layouts", "Memory", "Fusion")
    ],
)
def test_samples(sample):
    if sample.file.stem == "bias_add_dropout":
        pytest.skip("it draws other random numbers in each run")
    check(wb.load(sample.file, sample.dims))


@pytest.mark.parametrize("name", [thorough_unless(name == "squeezenet", name) for name in LIGHT_MODELS])
def test_narrow_light_models(name, tmp_path):
    onnx.save(random_light(name, narrow=1 if name == "shufflenet" else 8), tmp_path / "m.onnx")
    arena = check(wb.load(tmp_path / "m.onnx"))
    written = sum(step.kernel in ("out", "view", "passed on") for step in arena.steps)
    assert written > 0.8 * len(arena.steps)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "mixed"])
def test_the_plan_is_for_the_types_of_the_run(dtype, tmp_path):
    onnx.save(random_light("squeezenet", narrow=8), tmp_path / "m.onnx")
    graph = wb.load(tmp_path / "m.onnx")
    narrow, whole = check(graph, dtype=dtype), planned(graph)[2]
    assert narrow.plan.packed.total < 0.76 * whole.packed.total
    assert sum(step.kernel in ("out", "view", "passed on") for step in narrow.steps) > len(narrow.steps) / 2


def test_what_is_converted_on_its_way_is_converted_in_each_run():
    """The mean of a LayerNormalization is of float32 in any run, and narrowed where the Add reads it."""
    graph = typed(
        "g (float[4,8] x, float[8] s) => (float[4,8] y){ a = Relu(x)  n, m = LayerNormalization(a, s)  y = Add(n, m) }"
    )
    executor, tensors, plan = planned(graph, dtype="float16")
    with executor.computing():
        arena = ArenaRun(executor, tensors, plan)
        for value in (1.0, 2.0):
            tensors["x"].fill_(value)
            tensors["x"][0, 0] = 3 * value
            (expected,), (found,) = copies(executor.run_tensors(tensors).values()), copies(arena.run())
            torch.testing.assert_close(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("planner", [thorough_unless(name == "exact", name) for name in sorted(planners())])
def test_every_planner(planner):
    check(wb.load("sample_models/ppocr_cls_v2.onnx"), planner)


@pytest.mark.parametrize("block", [thorough_unless(block == 0, block) for block in range(4)])
def test_random_graphs(block):
    for seed in range(25 * block, 25 * block + 25):
        check(typed(random_graph(seed)))


BRANCH = "t () => (float[64] r) { r = Identity(a) }"
IF = f"If(c) <then_branch = {BRANCH}, else_branch = {BRANCH}>"
PASSED_ON = {
    "a branch": f"""
        a = Sigmoid(x)
        s = {IF}
        b = Neg(a)  d = Softmax(b)  e = Softmax(d)  y = Add(s, e)""",
    "a branch, to its only reader": f"""
        a = Sigmoid(x)  b = Softmax(a)
        s = {IF}
        y = Max(s)""",
    "a branch, to the caller": f"""
        a = Sigmoid(x)
        y = {IF}""",
    "a loop that runs no round": """
        a = Sigmoid(x)
        s = Loop(n, c, a) <body = l (int64 i, bool on, float[64] v) => (bool go, float[64] w) { go = Identity(on)  w = Neg(v) }>
        b = Neg(a)  d = Softmax(b)  e = Softmax(d)  y = Add(s, e)""",
    "a sequence": """
        a = Sigmoid(x)  p = SequenceConstruct(a, x)
        b = Neg(a)  d = Softmax(b)  e = Softmax(d)
        s = SequenceAt(p, n)  y = Add(s, e)""",
    "a part of a sequence": """
        a = Sigmoid(x)  h = Constant<value = int64 {32}>()  p = SplitToSequence(a, h)
        b = Neg(a)  d = Softmax(b)  e = Softmax(d)
        s = ConcatFromSequence<axis = 0>(p)  y = Add(s, e)""",
    "an optional": """
        a = Sigmoid(x)  p = Optional(a)
        b = Neg(a)  d = Softmax(b)  e = Softmax(d)
        s = OptionalGetElement(p)  y = Add(s, e)""",
}


@pytest.mark.parametrize("body", PASSED_ON.values(), ids=PASSED_ON)
def test_what_an_operator_passes_on_is_no_view_of_the_arena(body):
    """Others may overwrite its memory before it is read."""
    check(typed(f"g (float[64] x, bool c) => (float[64] y) <int64 n = {{0}}> {{ {body} }}"))


def test_one_part_is_a_view_and_the_other_a_copy():
    """As a view it would keep the whole in use beside what is larger."""
    text = """g (float[1,4,8] x) => (float[1,2,8] y) <int64[3] s = {64, 2, 8}> {
        a = Softmax(x)  p, q = Split<axis=1, num_outputs=2>(a)  e = Expand(p, s)  f = Softmax(e)
        m = ReduceMax<keepdims=0>(f)  y = Add(m, q) }"""
    _, _, plan = planned(typed(text))
    assert [value.alias_of for value in plan.values if value.name in ("p", "q")] == ["a", None]
    check(typed(text))


def too_short(plan: MemoryPlan, value: str, dies: int) -> MemoryPlan:
    """The plan as if nothing read the value from that step on."""
    packing = plan.sharing.packing
    blocks = tuple(dataclasses.replace(b, dies=dies) if b.name == value else b for b in packing.blocks)
    sharing = dataclasses.replace(plan.sharing, packing=dataclasses.replace(packing, blocks=blocks))
    return dataclasses.replace(plan, sharing=sharing)


def test_blocks_that_overlap_are_refused_before_they_run():
    executor, tensors, plan = planned(
        typed("g (float[64] x) => (float[64] y) { a = Softmax(x) b = Softmax(a) y = Add(a, b) }")
    )
    offsets = tuple(0 for _ in plan.packed.offsets)
    same = dataclasses.replace(plan, packed=dataclasses.replace(plan.packed, offsets=offsets))
    with pytest.raises(OverlapError, match="are in use at the same time"):
        ArenaRun(executor, tensors, same)


def test_what_is_read_after_its_end_is_caught_by_poison():
    text = (
        "g (float[64] x) => (float[64] y) { a = Softmax(x) b = Softmax(a) c = Softmax(b) d = Softmax(c) y = Add(d, b) }"
    )
    executor, tensors, plan = planned(typed(text), "no_reuse")
    with torch.inference_mode():
        good = ArenaRun(executor, tensors, plan).run_poisoned()[0].clone()
        bad = ArenaRun(executor, tensors, too_short(plan, "b", 3)).run_poisoned()[0].clone()
    assert not good.isnan().any() and bad.isnan().all()


@pytest.mark.slow
def test_measured_beside_the_others(kept_worker):
    graph = wb.load("sample_models/ppocr_cls_v2.onnx")
    found = measure_models(
        combined({"m": graph}, ["torch", "arena"], ["float32"]), inputs=seed_inputs(graph), repeat=3, worker=kept_worker
    )
    arena = found.ran["arena"]
    assert not arena.fallbacks and arena.memory.counted == "arena"
    assert "the arena (1.355 MB) and what operators allocate in passing" in arena.memory.kind
    narrow = measure_models(
        {"m": Variant(graph, "arena", "bfloat16")}, inputs=seed_inputs(graph), repeat=1, worker=kept_worker
    )
    assert not narrow.ran["m"].fallbacks and narrow.ran["m"].memory.counted == "arena"
    assert narrow.ran["m"].memory.peak_bytes < 0.76 * arena.memory.peak_bytes


@pytest.mark.slow
def test_passing_is_named():
    executor, tensors, plan = planned(wb.load("sample_models/resnet50_narrow.onnx"))
    with torch.inference_mode():
        arena = ArenaRun(executor, tensors, plan)
    passing = measure_scratch(arena)
    assert passing.operators[0][0] == "Conv" and 0 < passing.bytes < 10 * plan.packed.total


def test_concat_in_place_copies_nothing():
    text = """g (float[1,4,8] x) => (float[1,8,8] y) { a = Softmax(x)  b = Sigmoid(x)  y = Concat<axis=1>(a, b) }"""
    executor, tensors, plan = planned(typed(text))
    assert plan.packed.total == 256
    with torch.inference_mode():
        arena = ArenaRun(executor, tensors, plan)
        arena.run()
    by_name = {value.name: value.offset for value in plan.values}
    assert by_name["b"] == by_name["y"] + 128 and [step.kernel for step in arena.steps] == ["out"] * 3
    expected = np.concatenate([torch.softmax(tensors["x"], -1).numpy(), torch.sigmoid(tensors["x"]).numpy()], 1)
    np.testing.assert_allclose(arena.outputs[0].numpy(), expected, rtol=1e-6)


def test_attention_without_a_window_makes_no_matrix_of_distances():
    """It would be as large as the scores, in int64."""
    executor, tensors, plan = planned(
        typed("g (float[1,2,256,16] q) => (float[1,2,256,16] y) { a = Neg(q)  y = Attention(a, a, a) }")
    )
    with torch.inference_mode():
        arena = ArenaRun(executor, tensors, plan)
    assert measure_scratch(arena).bytes < 256 * 256 * 8


def overloads(device: str) -> dict[str, tuple[int, ...]]:
    """Of a process of its own: (equal, left to the operator's own function, wrong) by the overload."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.out_overloads", device], capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    assert ran.returncode == 0, f"the process ended with {ran.returncode}: {ran.stderr[-1000:]}"
    return {name: tuple(map(int, counts)) for name, *counts in map(str.split, ran.stdout.splitlines())}


@pytest.mark.slow
@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))],
)
def test_every_overload_computes_into_a_given_place_what_it_returns(device):
    found = overloads(device)
    assert len(found) > 100
    assert {name: counts for name, counts in found.items() if counts[2]} == {}
    if device == "cpu":
        assert [name for name, (equal, _, _) in found.items() if not equal] == [
            "aten.fft_ifft.default",  # its place is of a complex type, which no value of ONNX has
            "aten.fft_irfft.default",
        ]


def test_an_overload_takes_what_the_call_takes():
    aten = torch.ops.aten
    assert out_variant(aten.gt.Tensor).operator is aten.gt.Tensor_out
    assert out_variant(aten.gt.Scalar).operator is aten.gt.Scalar_out


def test_on_cuda_no_further_result_is_empty_but_of_structured_kernels():
    """native_batch_norm wrote beyond the end of such a result on an H200."""
    normalizing, pooling = (
        out_variant(operator)
        for operator in (torch.ops.aten.native_batch_norm.default, torch.ops.aten.max_pool2d_with_indices.default)
    )
    assert not shapes_further_results(normalizing, is_cuda=True) and shapes_further_results(normalizing, is_cuda=False)
    assert shapes_further_results(pooling, is_cuda=True)
