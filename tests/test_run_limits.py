"""Runs that take too much, hang, or do not even start: each becomes one sentence, and the next run works."""

from __future__ import annotations

import itertools
import os
import signal

import numpy as np
import psutil
import pytest

from tests.worker_jobs import LIMIT_S, SMALL, Client, assert_works, file_of, gate, is_opened, open_gate, sentence, site
from workbench.run import process
from workbench.run.client import CancelledError, RunError, Worker
from workbench.run.failures import TaskError
from workbench.run.torch_program import OperatorError
from workbench.run.worker import _sentence

GROWING = """g (int64[1] n) => (float[M] y)
<int64 turns = {1000000000000}, bool on = {1}> {
    x = ConstantOfShape(n)
    y = Loop<body = b (int64 i, bool c, float[M] v) => (bool d, float[M] w) { d = Identity(c) w = Sin(v) }>(turns, on, x)
}"""


@pytest.fixture(autouse=True)
def own_turns(tmp_path, monkeypatch):
    """Whatever else runs on this machine is not waited for."""
    monkeypatch.setenv("WORKBENCH_TURNS", str(tmp_path / "turns"))


@pytest.fixture(scope="module")
def worker():
    with Worker() as shared:
        yield shared


def test_a_run_over_its_memory_is_stopped(worker, tmp_path):
    model = file_of(GROWING, tmp_path)
    with pytest.raises(RunError, match=r"took \d+\.\d GB of memory, more than its limit of 0\.5 GB, and was") as caught:
        worker.outputs(model, {"n": np.array([200_000_000])}, memory_limit_bytes=500_000_000, timeout_s=120)
    assert caught.value.stage == "process"
    sentence(caught)
    assert worker.pid is None
    x = np.ones((2, 3), np.float32)
    found = worker.outputs(file_of(SMALL, tmp_path), {"x": x}, memory_limit_bytes=2_000_000_000)  # enough
    assert np.array_equal(found.tensors["y"], x)


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
        child.wait(timeout=60)
        assert parent.request("nothing") == {}


def test_the_memory_is_looked_at_less_often_than_the_clock_and_cancel(tmp_path, monkeypatch):
    memory_looks, resident_bytes = [], process._resident_bytes
    monkeypatch.setattr(process, "_resident_bytes", lambda pid: memory_looks.append(pid) or resident_bytes(pid))
    assert process.MEMORY_LOOK_S >= 1
    monkeypatch.setattr(process, "MEMORY_LOOK_S", 1e9)
    monkeypatch.setenv("PYTHONPATH", site(tmp_path))
    at, looks = gate(tmp_path, "gate"), itertools.count(1)
    held = process.WorkerProcess(tmp_path / "worker.log")
    answer = held.ask(
        {"kind": "hold", "device": "cpu", "gate": str(at), "memory_limit_bytes": None},
        limits=process.Limits(timeout_s=LIMIT_S, memory_bytes=10**15),
        heed_cancel=lambda: next(looks) > 5 and is_opened(at),
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
    assert _sentence(while_loading, "cuda:0", limit) == (
        "The run needs more of the memory of cuda:0 than its limit of 1.0 GB (CUDA out of memory. Tried to allocate "
        "2.00 GiB. GPU 0 has less); bind smaller dimensions or allow more memory."
    )
    assert "out of memory" in _sentence(while_loading, "cuda:0", None)
    while_running = operator_failure(OutOfMemoryError("CUDA out of memory"))
    assert _sentence(while_running, "cuda:0", limit) == (
        "The run needs more of the memory of cuda:0 than its limit of 1.0 GB (Conv 'c' failed: CUDA out of memory); "
        "bind smaller dimensions or allow more memory."
    )
    assert _sentence(while_running, "cuda:0", None) == "Conv 'c' failed: CUDA out of memory."
    assert _sentence(operator_failure(ValueError("no")), "cuda:0", limit) == "Conv 'c' failed: no."
    assert _sentence(TaskError(ValueError("no"), "run"), "cuda:0", limit) == "The run failed: no."


def test_a_stopped_process_is_killed_at_its_time_limit(worker, tmp_path):
    assert_works(worker, tmp_path)
    old = worker.pid
    os.kill(old, signal.SIGSTOP)
    with pytest.raises(RunError, match=r"more than its limit of 1 s"):
        worker.outputs(file_of(SMALL, tmp_path), {"x": np.ones((2, 3), np.float32)}, timeout_s=1)
    assert not psutil.pid_exists(old)
    assert_works(worker, tmp_path)


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


def test_a_process_that_ends_in_mid_run_while_its_child_lives_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", site(tmp_path))
    with Worker() as orphaning:
        client = Client(orphaning, "child", gate=str(gate(tmp_path, "never opened")))
        child = psutil.Process(client.hears("running")["pid"])
        os.kill(orphaning.pid, signal.SIGKILL)
        with pytest.raises(RunError, match="killed by the system"):
            client.result()
        child.wait(timeout=60)
        assert orphaning.request("nothing") == {}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "raise ImportError('psutil is broken')",
            r"code 1 while it started; its last line was: ImportError: psutil is",
        ),
        ("import os; os.kill(os.getpid(), 9)", "killed by the system"),
        ("import os; os.kill(os.getpid(), 11)", r"crashed \(SIGSEGV\)"),
    ],
)
def test_a_process_that_dies_while_it_starts_is_a_sentence(code, words, tmp_path, monkeypatch):
    (tmp_path / "psutil.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Worker() as failing:
        with pytest.raises(RunError, match=words) as caught:
            assert_works(failing, tmp_path)
        sentence(caught)
        assert caught.value.stage == "process"
        (tmp_path / "psutil.py").unlink()
        assert_works(failing, tmp_path)


def test_a_process_that_cannot_be_started_is_a_sentence(tmp_path, monkeypatch):
    with Worker() as failing:
        with monkeypatch.context() as patch:
            patch.setattr("sys.executable", str(tmp_path / "nowhere"))
            with pytest.raises(
                RunError, match=r"could not be started \(No such file or directory: .*nowhere\)"
            ) as caught:
                assert_works(failing, tmp_path)
        sentence(caught)
        assert_works(failing, tmp_path)
