"""What only a GPU shows: our executor, CUDA graphs, the allocator's figures, warm and emptied caches, ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import workbench as wb
from sample_models.light import random_light
from tests.commands import RESNET
from workbench.backends.profiling.ceilings import ceilings
from workbench.backends.torch.executor.compilers import missing_toolkit
from workbench.backends.torch.executor.cuda_graph import NotCaptured, captured
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.backends.torch.prepared import with_output_names
from workbench.backends.torch.streams.cuda_streams import StreamedRun
from workbench.backends.torch.streams.launches import launches_of
from workbench.backends.torch.streams.select_run import copied, has_same_bits
from workbench.backends.torch.torch_run import TorchRun
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.ir.text import from_text
from workbench.run.inputs import seed_inputs
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.variants import combined
from workbench.run.worker.client import RunError, Worker

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")

GPU = "cuda:0"


@pytest.fixture(scope="module")
def worker():
    with Worker() as own:
        yield own


@pytest.fixture(scope="module")
def graph():
    return load_model(str(RESNET), {})


@pytest.fixture(scope="module")
def inputs(graph):
    return seed_inputs(graph)


@pytest.fixture(scope="module")
def reference(worker, inputs):
    """ONNX Runtime's on the CPU."""
    return worker.outputs(RESNET, inputs).tensors


@pytest.fixture(scope="module")
def exported(graph, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    export_onnx(graph, path)
    return str(path)


def measured(worker, graph, inputs, reference, backends, dtypes=("float32",), **how):
    wanted = combined({"m": graph}, backends, dtypes)
    how = {"repeat": 3, "warmup": 1, **how}
    return measure_models(wanted, inputs=inputs, reference=reference, device=GPU, worker=worker, **how)


@pytest.mark.parametrize("dtype", ["float32", "mixed", "float16"])
def test_it_computes_what_onnx_runtime_computes_on_the_cpu(worker, graph, inputs, reference, dtype):
    (found,) = measured(worker, graph, inputs, reference, ["torch"], [dtype]).variants.values()
    assert found.error.ok, found.error.sentence
    assert found.fallbacks == {}


@pytest.mark.parametrize("recorded", ["cuda-graphs", "arena"])
def test_a_cuda_graph_computes_what_the_executor_computes(exported, inputs, recorded):
    backends = ("torch", recorded)
    eager, graph = (TorchRun(exported, inputs, GPU, backend, "float32", lambda stage: None) for backend in backends)
    assert graph.fallbacks == {}
    first, again = eager.outputs(), graph.outputs()
    assert first.keys() == again.keys()
    for name in first:
        np.testing.assert_allclose(again[name], first[name], rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def branching(tmp_path_factory):
    """A network with branches, as a file of ours."""
    path = tmp_path_factory.mktemp("branching")
    onnx.save(random_light("inception_v2", narrow=4), path / "network.onnx")
    export_onnx(load_model(str(path / "network.onnx"), {}), path / "model.onnx")
    return str(path / "model.onnx")


def test_streams_are_within_one_cuda_graph(branching):
    """To the last bit as one after the other: as they are launched, and recorded."""
    executor = TorchExecutor(load_model(branching, {}), device=GPU)
    tensors = executor.upload(seed_inputs(executor.graph))
    with torch.inference_mode():
        launches = launches_of(executor, tensors)
        assert len(launches.schedule.streams) == 4 and launches.schedule.waits
        expected = copied(list(launches.arena.run()))
        launched = copied(list(StreamedRun(launches).run()))
        poisoned = copied(list(launches.arena.run_poisoned()))
    recorded = captured(executor, tensors, with_output_names(executor, StreamedRun(launches).run))
    assert recorded.workspaces_bytes <= recorded.bytes
    for found in (launched, poisoned, *(copied(list(recorded.run().values())) for _ in range(3))):
        assert all(map(has_same_bits, found, expected))


def test_streams_are_taken_where_they_are_faster(branching):
    inputs = seed_inputs(load_model(branching, {}))
    eager, on_streams = (
        TorchRun(branching, inputs, GPU, way, "float32", lambda stage: None) for way in ("torch", "streams")
    )
    assert on_streams.streams is not None and on_streams.streams.streams > 1
    assert (on_streams.fallbacks == {}) == on_streams.streams.is_faster
    for name, value in eager.outputs().items():
        np.testing.assert_allclose(on_streams.outputs()[name], value, rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module", params=["MatMul", "Conv"])
def long_sums(request, tmp_path_factory):
    """The file of one operator that sums 4,096 products, its inputs, and the sums in float64."""
    file = tmp_path_factory.mktemp("sums") / "m.onnx"
    x, w = (np.random.default_rng(seed).standard_normal((64, 4096), np.float32) for seed in (1, 2))
    right = x.astype(np.float64) @ w.astype(np.float64).T
    if request.param == "MatMul":
        text, inputs = "g (float[64,4096] x, float[4096,64] w) => (float[64,64] y) { y = MatMul(x, w) }", (x, w.T)
    else:
        text = "g (float[64,1024,2,2] x, float[64,1024,2,2] w) => (float[64,64,1,1] y) { y = Conv(x, w) }"
        inputs, right = (x.reshape(64, 1024, 2, 2), w.reshape(64, 1024, 2, 2)), right[..., None, None]
    export_onnx(from_text(text), file)
    return str(file), dict(zip("xw", map(np.ascontiguousarray, inputs), strict=True)), right, request.param


@pytest.mark.parametrize("backend", ["torch", "cuda-graphs", "torch-compile"])
def test_tf32_is_of_the_runs_that_ask_for_it(long_sums, backend):
    """Ten bits of each factor leave an error of some 1e-4 of the largest number, 23 bits one of 1e-6."""
    file, inputs, right, op = long_sums
    errors = {}
    for dtype in ("tf32", "float32"):
        (found,) = TorchRun(file, inputs, GPU, backend, dtype, lambda stage: None).outputs().values()
        errors[dtype] = np.abs(found - right).max() / np.abs(right).max()
    assert errors["float32"] < 1e-5 and errors["tf32"] < 1e-2
    assert op == "Conv" or errors["tf32"] > 1e-5  # cuDNN may have no kernel with TF32 for a convolution


def test_a_failed_recording_leaves_nothing_behind():
    """Others are recorded after it, random numbers are drawn, and the allocator gives memory back."""
    waiting = TorchExecutor(from_text("g (float[8] x) => (int64[1,M] y) { y = NonZero(x) }"), device=GPU)
    tensors = waiting.upload({"x": np.ones(8, np.float32)})
    with pytest.raises(NotCaptured, match="NonZero"):
        captured(waiting, tensors, lambda: waiting.run_tensors(tensors))
    assert torch.randn(4, device=GPU).isfinite().all()
    drawing = TorchExecutor(from_text("g (float[8] x) => (float[8] y) { y = RandomNormalLike(x) }"), device=GPU)
    replay = captured(drawing, tensors, lambda: drawing.run_tensors(tensors)).run
    first, second = (replay()["y"].clone() for _ in range(2))
    assert not torch.equal(first, second)
    block = torch.empty(1 << 26, device=GPU)
    reserved = torch.cuda.memory_reserved(GPU)
    del block
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved(GPU) < reserved


def test_recordings_share_a_pool_while_one_of_them_lives(exported, inputs):
    """What a run leaves there does not stop the next one, after its graph has ended."""
    kept = [TorchRun(exported, inputs, GPU, "cuda-graphs", "float32", lambda stage: None) for _ in range(2)]
    first, second = (run.memory() for run in kept)
    assert second.reserved_bytes < first.reserved_bytes + first.peak_bytes
    left = kept[0]._run()  # its outputs stay in the pool
    expected = {name: value.clone() for name, value in left.items()}
    kept.clear()
    again = TorchRun(exported, inputs, GPU, "cuda-graphs", "float32", lambda stage: None)
    assert again.fallbacks == {}
    for name, value in again._run().items():
        torch.testing.assert_close(value, expected[name])


def test_an_operator_that_waits_is_timed_with_its_launches(tmp_path):
    """And an operand that is left out is none, although an operator before it has a result that nothing reads."""
    graph = from_text(
        "g (float[3,2,4] x, float[1,12,4] w, float[1,12,4] r) => (float[1,2,4] z, int64[3,M] n) <float top = {0.5}>"
        "{ , h = GRU<hidden_size=4>(x, w, r)  z = Clip(h, , top)  n = NonZero(z) }"
    )
    export_onnx(graph, tmp_path / "m.onnx")
    run = TorchRun(str(tmp_path / "m.onnx"), seed_inputs(graph), GPU, "torch", "float32", lambda stage: None)
    times = {one.op: one.time_ms for one in run.operators()}
    assert times.keys() == {"GRU", "Clip", "NonZero"} and times["NonZero"] > 0


@pytest.mark.parametrize("dtype", ["float32", "mixed", "float16"])
def test_fused_groups_compute_the_same(worker, graph, inputs, reference, dtype):
    """By Triton's kernels, or one by one; oneDNN is for CPUs."""
    (found,) = measured(worker, graph, inputs, reference, ["fused"], [dtype]).variants.values()
    assert found.error.ok, found.error.sentence
    assert {kernel.by for kernel in found.kernels} <= {"inductor", "torch"}
    compiled = [kernel for kernel in found.kernels if kernel.by == "inductor"]
    assert all("Triton" in kernel.how and kernel.bytes for kernel in compiled)


def test_memory_is_the_allocators(worker, graph, inputs, reference):
    found = measured(worker, graph, inputs, reference, ["torch", "cuda-graphs", "torch-compile", "arena", "streams"])
    for label, variant in found.variants.items():
        memory = variant.memory
        assert memory.counted == "CUDA allocator", label
        assert 0 < memory.weights_bytes <= memory.peak_bytes <= memory.reserved_bytes, label
        assert memory.timeline and memory.at_peak.values, label


def test_warm_and_emptied_caches(worker, graph, inputs, reference):
    found = measured(worker, graph, inputs, reference, ["torch", "cuda-graphs"], cold=True)
    for variant in found.variants.values():
        assert variant.cold_median_ms > 0
        assert variant.latency.median_ms > 0
    assert found.machine.capability and found.machine.device == GPU


def test_operators_have_times_and_places_under_the_roofs(worker, graph, inputs, reference):
    found = measured(worker, graph, inputs, reference, ["torch"], ["mixed"])
    operators = found.variants["m"].operators
    conv = next(operator for operator in operators if operator.op == "Conv")
    assert (conv.dtype, conv.time_ms > 0, conv.of_roof > 0) == ("float16", True, True)
    assert {"mixed", "float16"} <= found.ceilings.keys()
    assert ceilings(GPU, ["float32"])["float32"].bytes_per_s > 1e10


def test_a_memory_limit_is_named_for_each_variant(worker, graph, inputs, reference):
    """Smaller than a CUDA context's first block: nothing fits, and each sentence says why."""
    with pytest.raises(RunError, match=r"more of the memory of cuda:0 than its limit of 1\.0 MB"):
        measured(worker, graph, inputs, reference, ["torch"], memory_limit_bytes=1_000_000)


@pytest.mark.skipif(
    "CUDAExecutionProvider" not in onnxruntime.get_available_providers(), reason="this ONNX Runtime has no CUDA"
)
def test_onnx_runtime_on_the_gpu(worker, graph, inputs, reference):
    (found,) = measured(worker, graph, inputs, reference, ["onnxruntime"]).variants.values()
    assert found.error.ok, found.error.sentence
    assert "of the host" in found.memory.kind


def test_a_recorded_run_has_kernels_on_streams(worker, graph, inputs, reference):
    found = measured(worker, graph, inputs, reference, ["torch", "cuda-graphs"])
    one_by_one, recorded = found.ran["torch"], found.ran["cuda-graphs"]
    assert not one_by_one.device_kernels and recorded.device_kernels
    end = max(kernel.start_ms + kernel.time_ms for kernel in recorded.device_kernels)
    assert 0 < end < 2 * recorded.latency.median_ms


def test_the_command(done):
    assert "CUDA allocator" in done("bench", Path(RESNET), "--device", "cuda", "--repeat", 2)


@pytest.mark.parametrize("backend", ["torch", "cuda-graphs", "arena", "torch-compile"])
def test_a_compiled_graph_takes_other_numbers_and_its_outputs_stay(graph, inputs, backend):
    compiled = wb.compile(graph, device=GPU, backend=backend)
    others = {name: array + 1 for name, array in inputs.items()}
    expected = [TorchExecutor(graph, device=GPU).run(given) for given in (inputs, others)]
    found = [compiled({name: torch.from_numpy(array).to(GPU) for name, array in g.items()}) for g in (inputs, others)]
    for right, outputs in zip(expected, found, strict=True):
        for name, array in right.items():
            assert outputs[name].is_cuda
            np.testing.assert_allclose(outputs[name].cpu().numpy(), array, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(missing_toolkit(GPU) is not None, reason=str(missing_toolkit(GPU)))
def test_a_package_for_the_gpu_computes_what_onnx_runtime_computes(graph, tmp_path):
    made = wb.package(graph, tmp_path / "m.pt2", device=GPU)
    assert made.comparison.ok, made.sentence
    assert (tmp_path / "m.pt2").is_file()
