"""Runs that take too much, hang, or do not even start: each becomes one sentence, and the next run works."""

from __future__ import annotations

import itertools
import os
import signal

import numpy as np
import psutil
import pytest

from tests.waiting import LIMIT_S
from tests.worker_jobs import SMALL, Client, assert_works, file_of, gate, is_opened, open_gate, sentence, site
from workbench.backends import memory
from workbench.backends.failures import TaskError, first_line, sentence_of, shortened
from workbench.backends.torch.executor.program import OperatorError
from workbench.run.measurement import timing
from workbench.run.worker import process
from workbench.run.worker.client import CancelledError, RunError, Worker

GROWING = """g (int64[1] n) => (float[M] y)
<int64 turns = {1000000000000}, bool on = {1}> {
    x = ConstantOfShape(n)
    y = Loop<body = b (int64 i, bool c, float[M] v) => (bool d, float[M] w) { d = Identity(c) w = Sin(v) }>(turns, on, x)
}"""


@pytest.fixture(autouse=True)
def own_turns(tmp_path, monkeypatch):
    """Whatever else runs on this machine is not waited for."""
    monkeypatch.setenv("WORKBENCH_QUEUE", str(tmp_path / "turns"))


@pytest.fixture
def worker(shared_worker):
    return shared_worker


def test_a_run_over_its_memory_is_stopped(worker, tmp_path):
    model = file_of(GROWING, tmp_path)
    with pytest.raises(RunError, match=r"took \d+\.\d GB of memory, more than its limit of 0\.5 GB, and was") as caught:
        worker.outputs(model, {"n": np.array([200_000_000])}, memory_limit_bytes=500_000_000, timeout_s=120)
    assert caught.value.stage == "process"
    sentence(caught)
    assert worker.outputs_pid is None
    x = np.ones((2, 3), np.float32)
    found = worker.outputs(file_of(SMALL, tmp_path), {"x": x}, memory_limit_bytes=2_000_000_000)  # enough
    assert np.array_equal(found.tensors["y"], x)


@pytest.mark.slow
def test_the_memory_of_its_children_counts_and_they_end_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", site(tmp_path))
    with Worker() as parent:
        parent.request("nothing")
        limit = psutil.Process(parent.pid).memory_info().rss + 150_000_000
        at = gate(tmp_path, "gate")
        hungry = Client(parent, "child", gate=str(at), memory_limit_bytes=limit)
        child = psutil.Process(hungry.hears("running")["pid"])
        open_gate(at)
        with pytest.raises(RunError, match="more than its limit of"):
            hungry.result()
        child.wait(timeout=LIMIT_S)
        assert parent.request("nothing") == {}


def test_the_memory_is_looked_at_less_often_than_the_clock_and_cancel(tmp_path, monkeypatch):
    memory_looks, resident_bytes = [], process._resident_bytes
    monkeypatch.setattr(process, "_resident_bytes", lambda pid: memory_looks.append(pid) or resident_bytes(pid))
    assert process.MEMORY_POLL_S >= 1
    monkeypatch.setattr(process, "MEMORY_POLL_S", 1e9)
    monkeypatch.setenv("PYTHONPATH", site(tmp_path))
    at, looks = gate(tmp_path, "gate"), itertools.count(1)
    held = process.WorkerProcess(tmp_path / "worker.log")
    answer = held.ask(
        {"kind": "hold", "device": "cpu", "gate": str(at), "memory_limit_bytes": None},
        limits=process.Limits(timeout_s=LIMIT_S, memory_bytes=10**15),
        check_cancelled=lambda: next(looks) > 5 and is_opened(at),
    )
    held.kill()
    assert memory_looks == [answer["result"]["pid"]]


def operator_failure(cause: Exception) -> TaskError:
    """What a run raises whose operator failed for that reason: `Program` wraps it."""
    error = OperatorError(f"Conv 'c' failed: {cause}.")
    error.__cause__ = cause
    return TaskError(error, "run")


def test_what_a_gpu_refuses_at_its_limit_is_said_to_be_that():
    from torch import OutOfMemoryError

    limit = 1_000_000_000
    words = "CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has less. "
    while_loading = TaskError(OutOfMemoryError(words), "load")
    assert sentence_of(while_loading, "cuda:0", limit) == (
        "The run needs more of the memory of cuda:0 than its limit of 1.0 GB (CUDA out of memory. Tried to allocate "
        "2.00 GiB. GPU 0 has less); bind smaller dimensions or allow more memory."
    )
    assert "out of memory" in sentence_of(while_loading, "cuda:0", None)
    while_running = operator_failure(OutOfMemoryError("CUDA out of memory"))
    assert sentence_of(while_running, "cuda:0", limit) == (
        "The run needs more of the memory of cuda:0 than its limit of 1.0 GB (Conv 'c' failed: CUDA out of memory); "
        "bind smaller dimensions or allow more memory."
    )
    assert sentence_of(while_running, "cuda:0", None) == "Conv 'c' failed: CUDA out of memory."
    assert sentence_of(operator_failure(ValueError("no")), "cuda:0", limit) == "Conv 'c' failed: no."
    assert sentence_of(TaskError(ValueError("no"), "run"), "cuda:0", limit) == "The run failed: no."


def test_memory_of_the_host_is_not_blamed_on_the_limit_of_the_gpu():
    for error in (TaskError(MemoryError(), "run"), operator_failure(MemoryError("Unable to allocate 40 GiB"))):
        assert "its limit" not in sentence_of(error, "cuda:0", 1_000_000_000)
    assert "are free); bind" in sentence_of(TaskError(MemoryError(), "run"), "cuda:0", 1_000_000_000)


def test_the_limit_of_a_gpu_is_named_for_a_variant_that_fails_alone():
    from torch import OutOfMemoryError

    results: dict[str, dict[str, str]] = {}
    with timing._recording_failure("big", {"device": "cuda:0", "memory_limit_bytes": 1_000_000_000}, results):
        raise operator_failure(OutOfMemoryError("CUDA out of memory"))
    assert "more of the memory of cuda:0 than its limit of 1.0 GB" in results["big"]["failed"]


def test_what_onnx_runtime_cannot_have_of_a_gpu_names_the_limit_too():
    refused = RuntimeError("Available memory of 0 is smaller than requested bytes of 4096")
    assert "its limit of 1.0 GB (Available memory of 0" in sentence_of(refused, "cuda:0", 1_000_000_000)
    assert "are free" in sentence_of(refused)
    assert "are free" not in sentence_of(refused, "cuda:0")  # that would be the host's


def test_where_the_system_killed_for_memory_that_is_said(tmp_path, monkeypatch):
    """The system's own count of such kills decides: it grows while the run ends."""
    counts = tmp_path / "vmstat"
    counts.write_text("pgfault 7\noom_kill 4\n")
    monkeypatch.setattr(memory, "VMSTAT", counts)
    monkeypatch.setenv("PYTHONPATH", site(tmp_path))
    with Worker() as killed:
        client = Client(killed, gate=str(gate(tmp_path, "never opened")))
        pid = client.hears("running")["pid"]
        counts.write_text("pgfault 7\noom_kill 5\n")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RunError, match=r"most likely out of memory \(.* were free\)"):
            client.result()


def test_a_systems_own_words_become_one_sentence():
    raw = (
        "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Reshape node. Name:'r' Status "
        "Message: /build/core/reshape.h:40 onnxruntime::Reshape::Reshape(const Shape&, bool) size == wanted was false. "
        "The input cannot be reshaped. Input shape:{4,4}"
    )
    assert sentence_of(RuntimeError(raw)) == (
        "The run failed: Reshape 'r' does not run: The input cannot be reshaped; Input shape:{4,4}."
    )
    assert shortened("one two three", 9) == "one two ..."
    assert first_line(ValueError(" first. \n second")) == "first"
    assert first_line(ValueError()) == "ValueError"


def test_a_stopped_process_is_killed_at_its_time_limit(worker, tmp_path):
    assert_works(worker, tmp_path)
    old = worker.outputs_pid
    os.kill(old, signal.SIGSTOP)
    with pytest.raises(RunError, match=r"more than its limit of 1 s"):
        worker.outputs(file_of(SMALL, tmp_path), {"x": np.ones((2, 3), np.float32)}, timeout_s=1)
    assert not psutil.pid_exists(old)
    assert_works(worker, tmp_path)


@pytest.mark.slow
def test_a_process_stopped_in_mid_run_can_be_cancelled(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", site(tmp_path))
    with Worker() as stopped:
        client = Client(stopped, gate=str(gate(tmp_path, "never opened")))
        pid = client.hears("running")["pid"]
        os.kill(pid, signal.SIGSTOP)
        stopped.cancel(client.thread)
        with pytest.raises(CancelledError):
            client.result()
        assert not psutil.pid_exists(pid)
        assert stopped.request("nothing") == {}


@pytest.mark.slow
def test_a_process_that_ends_in_mid_run_while_its_child_lives_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", site(tmp_path))
    with Worker() as orphaning:
        client = Client(orphaning, "child", gate=str(gate(tmp_path, "never opened")))
        child = psutil.Process(client.hears("running")["pid"])
        os.kill(orphaning.pid, signal.SIGKILL)
        with pytest.raises(RunError, match=r"killed from outside \(signal 9\), though .* of memory were free"):
            client.result()
        child.wait(timeout=LIMIT_S)
        assert orphaning.request("nothing") == {}


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "raise ImportError('psutil is broken')",
            r"code 1 while it started; its last line was: ImportError: psutil is",
        ),
        ("import os; os.kill(os.getpid(), 9)", "killed from outside"),
        ("import os; os.kill(os.getpid(), 11)", r"crashed \(SIGSEGV\)"),
    ],
)
def test_a_process_that_dies_while_it_starts_is_asentence_of(code, words, tmp_path, monkeypatch):
    (tmp_path / "psutil.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Worker() as failing:
        with pytest.raises(RunError, match=words) as caught:
            assert_works(failing, tmp_path)
        sentence(caught)
        assert caught.value.stage == "process"
        (tmp_path / "psutil.py").unlink()
        assert_works(failing, tmp_path)


def test_a_process_that_cannot_be_started_is_asentence_of(tmp_path, monkeypatch):
    with Worker() as failing:
        with monkeypatch.context() as patch:
            patch.setattr("sys.executable", str(tmp_path / "nowhere"))
            with pytest.raises(
                RunError, match=r"could not be started \(No such file or directory: .*nowhere\)"
            ) as caught:
                assert_works(failing, tmp_path)
        sentence(caught)
        assert_works(failing, tmp_path)
