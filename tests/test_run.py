"""Runs in a process of their own: whatever happens to it becomes one sentence, and the next run works."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest

from tests.waiting import until
from tests.worker_jobs import SMALL, assert_works, file_of, sentence
from workbench.backends.failures import TaskError, sentence_of
from workbench.backends.memory import DoesNotFitError, estimate_bytes, peak_activation_bytes, refuse_unless_fits
from workbench.backends.onnxruntime.sessions import open_session
from workbench.formats.io.exporting import export_onnx
from workbench.ir import Edit, Graph, constant, from_text
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.variants import MeasureError
from workbench.run.worker.client import CancelledError, RunError, Worker

ENDLESS = """g (float[1] x) => (float[1] y)
<int64 turns = {1000000000000}, bool on = {1}> {
    y = Loop<body = b (int64 i, bool c, float[1] v) => (bool d, float[1] w) { d = Identity(c) w = Sin(v) }>(turns, on, x)
}"""
HUGE = "g (int64[1] n) => (float[M] y) { y = ConstantOfShape(n) }"
WRONG_RESHAPE = "g (float[2,3] x, int64[2] shape) => (float[A,B] y) { y = Reshape(x, shape) }"


@pytest.fixture(autouse=True)
def own_turns(tmp_path, monkeypatch):
    """Whatever else runs on this machine is not waited for."""
    monkeypatch.setenv("WORKBENCH_QUEUE", str(tmp_path / "turns"))


@pytest.fixture
def worker(shared_worker):
    return shared_worker


def when_running(worker: Worker, act) -> threading.Thread:
    """Call `act` half a second after the worker has begun to compute."""

    def is_computing() -> bool:
        pid = worker.outputs_pid
        return bool(worker._busy and pid) and psutil.Process(pid).cpu_percent(0.3) > 50 and _has_loaded(pid)

    def wait():
        until(is_computing)
        time.sleep(0.5)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def _has_loaded(pid: int) -> bool:
    return "onnxruntime" in Path(f"/proc/{pid}/maps").read_text()


def test_outputs_come_back_and_the_process_stays(worker, tmp_path):
    assert_works(worker, tmp_path)
    first = worker.outputs_pid
    assert_works(worker, tmp_path)
    assert worker.outputs_pid == first
    assert Path(f"/proc/{first}/oom_score_adj").read_text().strip() == "1000"
    assert not list(worker.folder.glob("*.npz"))


def test_an_operator_without_a_kernel_is_named_with_its_opset(tmp_path):
    model = file_of(
        '<ir_version: 10, opset_import: ["": 22]> g (bfloat16[2] x) => (bfloat16[2] y) {y = Elu(x)}', tmp_path
    )
    with pytest.raises(TaskError) as caught:
        open_session(str(model), "all")
    assert re.search(r"has no kernel for Elu 'Elu_y' of opset \d+ in its element types", sentence_of(caught.value))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_outputs_in_types_that_numpy_lacks_come_back(worker, tmp_path, dtype):
    name = dtype.replace("_", "")
    code = onnx.TensorProto.DataType.Value(name.upper())
    cast = f"g (float[3] x) => ({name}[3] y, float[3] z) {{ y = Cast<to={code}>(x)  z = Neg(x) }}"
    x = np.array([1, 0, 5], np.float32)
    found = worker.outputs(file_of(f'<ir_version: 11, opset_import: ["": 23]> {cast}', tmp_path), {"x": x}).tensors
    assert (found["y"].dtype.name, found["y"].tolist(), found["z"].tolist()) == (dtype, [1, 0, 5], [-1, 0, -5])


@pytest.mark.slow
def test_our_own_executor_gives_the_same(worker, tmp_path):
    graph = conv_graph()
    export_onnx(graph, tmp_path / "model.onnx")
    x = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)
    theirs = worker.outputs(tmp_path / "model.onnx", {"x": x})
    ours = worker.outputs(tmp_path / "model.onnx", {"x": x}, backend="torch")
    assert np.allclose(ours.tensors["y"], theirs.tensors["y"], atol=1e-4)
    assert ours.fallbacks == {}


def test_a_killed_run_is_a_sentence(worker, tmp_path):
    endless = file_of(ENDLESS, tmp_path)
    killer = when_running(worker, lambda: os.kill(worker.outputs_pid, signal.SIGKILL))
    with pytest.raises(RunError) as caught:
        worker.outputs(endless, {"x": np.ones(1, np.float32)}, need_bytes=10**16, timeout_s=120)
    killer.join()
    assert "killed by the system, most likely out of memory (needed about 10000000.0 GB, " in sentence(caught)
    assert caught.value.stage == "process"
    assert_works(worker, tmp_path)


@pytest.mark.slow
def test_a_crash_names_its_signal(worker, tmp_path):
    endless = file_of(ENDLESS, tmp_path)
    killer = when_running(worker, lambda: os.kill(worker.outputs_pid, signal.SIGSEGV))
    with pytest.raises(RunError, match="crashed \\(SIGSEGV\\)") as caught:
        worker.outputs(endless, {"x": np.ones(1, np.float32)}, timeout_s=120)
    killer.join()
    sentence(caught)
    assert_works(worker, tmp_path)


def test_a_run_over_its_time_is_stopped(worker, tmp_path):
    assert_works(worker, tmp_path)
    old = worker.outputs_pid
    with pytest.raises(RunError, match=r"more than its limit of 1 s") as caught:
        worker.outputs(file_of(ENDLESS, tmp_path), {"x": np.ones(1, np.float32)}, timeout_s=1)
    sentence(caught)
    assert not psutil.pid_exists(old)
    assert_works(worker, tmp_path)


@pytest.mark.slow
def test_a_run_can_be_cancelled_from_elsewhere(worker, tmp_path):
    endless = file_of(ENDLESS, tmp_path)
    canceller = when_running(worker, worker.cancel)
    with pytest.raises(CancelledError, match="cancelled"):
        worker.outputs(endless, {"x": np.ones(1, np.float32)}, timeout_s=120)
    canceller.join()
    worker.cancel()  # nothing runs: nothing happens
    assert_works(worker, tmp_path)


def test_memory_that_is_not_there_is_a_sentence(worker, tmp_path):
    assert_works(worker, tmp_path)
    pid = worker.outputs_pid
    with pytest.raises(RunError, match=r"out of memory \(.* are free") as caught:
        worker.outputs(file_of(HUGE, tmp_path), {"n": np.array([2**45])})
    sentence(caught)
    assert_works(worker, tmp_path)
    assert worker.outputs_pid == pid


def test_an_error_in_the_model_is_a_sentence(worker, tmp_path):
    model = file_of(WRONG_RESHAPE, tmp_path)
    with pytest.raises(RunError, match=r"The run failed: .*Reshape") as caught:
        worker.outputs(model, {"x": np.ones((2, 3), np.float32), "shape": np.array([4, 4])})
    assert caught.value.stage == "run"
    sentence(caught)
    assert_works(worker, tmp_path)


def test_an_opset_newer_than_onnx_runtime_is_a_sentence_that_says_which_runs(worker, tmp_path):
    model = file_of('<ir_version: 10, opset_import: ["": 99]> g (float[2] x) => (float[2] y) {y = Relu(x)}', tmp_path)
    with pytest.raises(RunError, match=r"opset 99 of ai.onnx, and this .* at most \d+; write it with opset") as caught:
        worker.outputs(model, {"x": np.ones(2, np.float32)})
    sentence(caught)


def test_a_file_that_is_no_model_is_a_sentence(worker, tmp_path):
    (tmp_path / "noise.onnx").write_bytes(b"\x00\xffnoise")
    with pytest.raises(RunError, match="The model could not be loaded") as caught:
        worker.outputs(tmp_path / "noise.onnx", {})
    assert caught.value.stage == "load"
    sentence(caught)


@pytest.mark.slow
def test_what_libraries_print_does_not_disturb(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, threading, time\n"
        "print('begin without an end', end='', flush=True)\n"
        "def noise():\n"
        "    while True:\n"
        "        os.write(1, b'noise {\"result\": 1}\\n'); print('more'); time.sleep(0.001)\n"
        "threading.Thread(target=noise, daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Worker() as noisy:
        assert_works(noisy, tmp_path)
        log = (noisy.folder / "worker-outputs.log").read_text()
        assert "noise" in log
        assert "more" in log


def test_it_runs_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Worker() as lonely:
        assert_works(lonely, tmp_path)
        pid, folder = lonely.outputs_pid, lonely.folder
    assert not psutil.pid_exists(pid)
    assert not folder.exists()


@pytest.mark.slow
def test_a_progress_function_that_raises_stops_the_run(worker):
    class GaveUpError(Exception):
        pass

    def give_up(event):
        raise GaveUpError

    graph = from_text(SMALL)
    with pytest.raises(GaveUpError):
        measure_models(
            {"a": graph},
            inputs={"x": np.ones((2, 3), np.float32)},
            backend="onnxruntime",
            worker=worker,
            on_progress=give_up,
        )
    assert worker.pid is None


@pytest.mark.slow
def test_devices(worker):
    found = worker.request("devices")
    assert found["devices"][0]["device"] == "cpu"
    assert found["devices"][0]["memory_bytes"] > 0
    assert {"torch", "onnxruntime", "python", "platform"} <= set(found["versions"])


# ---- memory ---------------------------------------------------------------------------


def test_peak_counts_what_lives_at_one_time():
    graph = from_text("g (float[1000] x) => (float[1000] y) { a = Relu(x)\n b = Sin(a)\n c = Cos(b)\n y = Add(c, x) }")
    types = {name: graph.tensor_type("x") for name in ("x", "a", "b", "c", "y")}
    assert peak_activation_bytes(graph, types) == 3 * 4000  # x, which stays, one value and its result
    assert estimate_bytes(graph, {}) == 3 * 4000


def test_a_run_that_can_not_fit_is_refused():
    graph = from_text("g (float[N,1] x) => (float[N,K] y) <int64[2] to = {1, 1000000000}> { y = Expand(x, to) }")
    need = estimate_bytes(graph, {"N": 100_000})
    assert need >= 4 * 10**14
    with pytest.raises(DoesNotFitError, match=r"'g' needs about 400000\.\d GB of memory, and .* are free"):
        refuse_unless_fits(need, "'g'")
    with pytest.raises(DoesNotFitError):
        measure_models({"a": graph}, inputs={"x": np.ones((100_000, 1), np.float32)})


# ---- measuring --------------------------------------------------------------------------


def conv_graph() -> Graph:
    graph = from_text(
        """g (float[1,3,16,16] x) => (float[1,8,16,16] y) <float[8,3,3,3] w> {
            a = Conv<pads = [1,1,1,1]>(x, w)
            y = Relu(a)
        }"""
    )
    weights = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    graph.apply(Edit(constants={"w": constant(weights)}))
    return graph


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["onnxruntime", "torch"])
def test_measuring(worker, backend, tmp_path):
    graph = conv_graph()
    inputs = {"x": np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)}
    export_onnx(graph, tmp_path / "m.onnx")
    reference = worker.outputs(tmp_path / "m.onnx", inputs).tensors
    events = []
    found = measure_models(
        {"before": graph, "after": graph},
        inputs=inputs,
        backend=backend,
        repeat=5,
        warmup=2,
        reference=reference,
        worker=worker,
        on_progress=events.append,
    )
    assert events[-1]["done"] == events[-1]["total"] == 2 * (5 + 2 + 2)
    assert list(found.variants) == ["before", "after"]
    assert found.variants["before"].ratio.ratio == 1.0
    assert {"device_name", "threads", "versions"} <= set(found.machine.to_json())
    for variant in found.variants.values():
        assert len(variant.times_ms) == 5
        assert (
            0 < variant.latency.min_ms <= variant.latency.median_ms <= variant.latency.p90_ms <= variant.latency.p99_ms
        )
        assert variant.ratio.ratio_low <= variant.ratio.ratio <= variant.ratio.ratio_high
        assert variant.error.ok is True
        assert variant.fallbacks == {}
        assert variant.memory.peak_bytes >= 0
        assert variant.operators
        assert all(operator.time_ms >= 0 for operator in variant.operators)
    if backend == "torch":
        memory = found.variants["before"].memory
        assert memory.weights_bytes == 8 * 27 * 4
        assert [moment.op for moment in memory.timeline] == ["Conv", "Relu"]
        assert memory.peak_bytes >= memory.weights_bytes + (3 + 8) * 256 * 4


def test_bad_wishes_are_sentences(worker):
    graph, inputs = from_text(SMALL), {"x": np.ones((2, 3), np.float32)}
    for wish, words in (
        ({"backend": "tvm"}, "no backend 'tvm'"),
        ({"dtype": "int8"}, "no element type 'int8'"),
        ({"repeat": 0}, "at least one run"),
    ):
        with pytest.raises(MeasureError, match=words):
            measure_models({"a": graph}, inputs=inputs, worker=worker, **wish)
    with pytest.raises(MeasureError, match="no model"):
        measure_models({}, inputs=inputs, worker=worker)
    with pytest.raises(RunError, match="no device 'tpu'"):
        measure_models({"a": graph}, inputs=inputs, worker=worker, device="tpu")


@pytest.mark.slow
def test_cuda_without_a_gpu_is_a_sentence(worker):
    devices = worker.request("devices")["devices"]
    if len(devices) > 1:
        pytest.skip("NOT TESTED: this machine has a GPU")
    with pytest.raises(RunError, match=r"'cuda' cannot be used: .*use --device cpu"):
        measure_models({"a": from_text(SMALL)}, inputs={"x": np.ones((2, 3), np.float32)}, worker=worker, device="cuda")
