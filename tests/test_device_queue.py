"""One job at a time on a device, in the order in which they came: threads, tabs and processes never time each other."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT
from tests.pages import fine, opened_sample, page
from tests.waiting import LIMIT_S, until
from tests.worker_jobs import Client, gate, log_of, open_gate, site
from workbench.interfaces.ui.state import session
from workbench.interfaces.ui.state.work import Job
from workbench.run.worker.client import CancelledError, RunError, Worker
from workbench.run.worker.device_queue import queue_of_device, turn, waiting_text

NOBODY = pytest.fail  # who would be heard of, were anybody before


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """Queues and jobs of this test alone."""
    monkeypatch.setenv("WORKBENCH_QUEUE", str(tmp_path / "turns"))
    monkeypatch.setenv("PYTHONPATH", site(tmp_path))
    return tmp_path


@pytest.fixture
def worker(folder):
    with Worker() as worker:
        yield worker


def tickets(folder: Path, queue: str) -> int:
    return sum(path.name.isdecimal() for path in (folder / "turns" / queue).glob("*"))


def assert_by_turns(folder: Path, kinds: list[str]) -> None:
    """The log has these kinds in order, and none began before the one before it had ended.

    Asking for the devices is left out: the answer is kept, so that only the first test asks.
    """
    ran = [entry for entry in log_of(folder) if entry[0] != "devices"]
    assert [kind for kind, *_ in ran] == kinds
    assert all(ended <= began for (_, _, ended, _), (_, began, _, _) in pairwise(ran))


# ---- in one process ----------------------------------------------------------------------


def test_jobs_run_in_the_order_in_which_they_came(folder, worker):
    gates = [gate(folder, f"gate{i}") for i in range(3)]
    clients = []
    for before, at in enumerate(gates):
        clients.append(Client(worker, gate=str(at)))
        clients[-1].hears("running" if before == 0 else waiting_text([""] * before, "cpu"))
    for client, at, later in zip(clients, gates, [*clients[1:], None], strict=True):
        pid = client.hears("running")["pid"] if client is not clients[0] else worker.pid
        if later is not None:
            later.hears("1 job before it on cpu")
        open_gate(at)
        assert client.result() == {"pid": pid}
    assert_by_turns(folder, ["hold"] * 3)
    assert tickets(folder, "cpu") == 0


def test_who_is_cancelled_while_waiting_leaves_the_queue_and_disturbs_nobody(folder, worker):
    first, third = gate(folder, "first"), gate(folder, "third")
    running = Client(worker, gate=str(first))
    pid = running.hears("running")["pid"]
    waiting = Client(worker, gate="never reached")
    waiting.hears("1 job before it on cpu")
    last = Client(worker, gate=str(third))
    last.hears("2 jobs before it on cpu")
    worker.cancel(waiting.thread)
    with pytest.raises(CancelledError):
        waiting.result()
    last.hears("1 job before it on cpu")
    open_gate(first)
    open_gate(third)
    assert running.result() == last.result() == {"pid": pid}
    assert_by_turns(folder, ["hold"] * 2)


def test_who_is_cancelled_while_running_stops_alone(folder, worker):
    running = Client(worker, gate=str(gate(folder, "never opened")))
    pid = running.hears("running")["pid"]
    at = gate(folder, "gate")
    waiting = Client(worker, gate=str(at))
    waiting.hears("1 job before it on cpu")
    worker.cancel(running.thread)
    with pytest.raises(CancelledError):
        running.result()
    assert not psutil.pid_exists(pid)
    open_gate(at)
    assert waiting.result()["pid"] != pid


@pytest.mark.slow
def test_cancel_without_a_client_stops_what_runs_and_not_what_waits(folder, worker):
    running = Client(worker, gate=str(gate(folder, "never opened")))
    running.hears("running")
    at = gate(folder, "gate")
    waiting = Client(worker, gate=str(at))
    waiting.hears("1 job before it on cpu")
    worker.cancel()
    with pytest.raises(CancelledError):
        running.result()
    open_gate(at)
    waiting.result()


def test_a_progress_function_that_raises_leaves_the_queue(folder, worker):
    class GaveUpError(Exception):
        pass

    def give_up(event):
        assert event == {"stage": "waiting for its turn, 1 job before it on cpu", "done": 0, "total": 1}
        raise GaveUpError

    at = gate(folder, "gate")
    running = Client(worker, gate=str(at))
    running.hears("running")
    with Worker() as other, pytest.raises(GaveUpError):
        other.request("nothing", on_progress=give_up)
    assert tickets(folder, "cpu") == 1
    open_gate(at)
    running.result()


def test_the_time_that_a_job_waits_does_not_count(worker, monkeypatch):
    clock = time.monotonic
    with turn("cpu", NOBODY):
        waiting = Client(worker, "nothing", timeout_s=LIMIT_S)
        waiting.hears("1 job before it on cpu")
        monkeypatch.setattr(time, "monotonic", lambda: clock() + 100 * LIMIT_S)  # so long it waits
    assert waiting.result() == {}


@pytest.mark.slow
def test_devices_do_not_wait_for_each_other(folder, worker):
    at = gate(folder, "gate")
    running = Client(worker, gate=str(at))
    running.hears("running")
    with turn("cuda:0", NOBODY):
        pass
    with pytest.raises(RunError, match="cuda:77"):  # at once, by a process of its own
        worker.request("hold", device="cuda:77", on_progress=NOBODY, gate="never reached")
    pid = worker.pid
    open_gate(at)
    assert running.result() == {"pid": pid}


@pytest.mark.slow
def test_devices_are_listed_while_a_job_runs_and_without_disturbing_it(folder, worker):
    at = gate(folder, "gate")
    running = Client(worker, gate=str(at))
    pid = running.hears("running")["pid"]
    assert Client(worker, "devices").result()["devices"][0]["device"] == "cpu"
    (kind, _, _, lister), *others = log_of(folder)
    assert (kind, others) == ("devices", [])
    assert not psutil.pid_exists(lister)
    assert tickets(folder, "cpu") == 1
    open_gate(at)
    assert running.result() == {"pid": pid}


def test_a_device_has_one_name():
    assert [queue_of_device(device) for device in ("cpu", "cuda", "cuda:0", "cuda:1", "tpu", "../x")] == [
        "cpu", "cuda:0", "cuda:0", "cuda:1", "cpu", "cpu",
    ]  # fmt: skip


def test_a_folder_that_cannot_be_used_is_a_sentence(folder, worker, monkeypatch):
    (folder / "file").touch()
    monkeypatch.setenv("WORKBENCH_QUEUE", str(folder / "file"))
    with pytest.raises(RunError, match=r"file cannot be used .*; set WORKBENCH_QUEUE to a folder that") as caught:
        worker.request("hold", gate="never reached")
    assert caught.value.stage == "process"


def test_the_folders_of_the_queue_are_its_users_alone(folder):
    with turn("cpu", NOBODY):
        modes = {path.name: path.stat().st_mode & 0o777 for path in (folder / "turns", folder / "turns" / "cpu")}
    assert modes == {"turns": 0o700, "cpu": 0o700}


def test_a_queue_that_others_could_write_or_that_is_a_link_is_not_used(folder):
    """Another user of the machine could put a link there, by which a file of this one's would be emptied."""
    turns, elsewhere = folder / "turns", folder / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    turns.symlink_to(elsewhere)
    with (
        pytest.raises(RunError, match="is a link, or other users may write or read it; remove it"),
        turn("cpu", NOBODY),
    ):
        pass
    turns.unlink()
    turns.mkdir()
    for mode in (0o777, 0o1777, 0o770, 0o755):
        turns.chmod(mode)
        with pytest.raises(RunError, match="turns is a link, or other users"), turn("cpu", NOBODY):
            pass
    turns.chmod(0o700)
    (turns / "cpu").symlink_to(elsewhere)
    with pytest.raises(RunError, match="cpu is a link, or other users"), turn("cpu", NOBODY):
        pass
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("name", ["numbering", "1"])
def test_no_link_in_a_queue_is_followed(folder, name):
    (folder / "dear").write_text("what is dear to the user")
    with turn("cpu", NOBODY):
        pass
    place = folder / "turns" / "cpu" / name
    place.unlink(missing_ok=True)
    place.symlink_to(folder / "dear")
    with pytest.raises(RunError, match="cannot be used"), turn("cpu", NOBODY):
        pass
    assert (folder / "dear").read_text() == "what is dear to the user"


def test_the_queue_is_in_the_users_own_folders(folder, monkeypatch):
    monkeypatch.delenv("WORKBENCH_QUEUE")
    folder.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setenv("WORKBENCH_CACHE", str(folder / "cache"))
    with turn("cpu", NOBODY):
        assert (folder / "graph-workbench" / "cpu" / "1").is_file()
    (folder / "open").mkdir(mode=0o755)
    for other in ("not there", "open"):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / other))
        with turn("cpu", NOBODY):
            assert len(list((folder / "cache").glob("turns-*/cpu/1"))) == 1
    monkeypatch.setenv("WORKBENCH_TURNS", str(folder / "named as before"))
    with turn("cpu", NOBODY):
        assert (folder / "named as before" / "cpu" / "1").is_file()


# ---- between processes -------------------------------------------------------------------

HOLDS = """
import sys
from workbench.run.worker.client import Worker
with Worker() as worker:
    worker.request("hold", gate=sys.argv[1], on_progress=lambda event: print(event["stage"], flush=True))
"""
MEASURES = """
import numpy as np
from workbench.ir import from_text
from workbench.run.worker.client import Worker
from workbench.run.measurement.measure import measure_models
graph = from_text("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
say = lambda event: print(event["stage"], flush=True)
with Worker() as worker:
    found = measure_models(
        {"a": graph}, inputs={"x": np.ones((2, 3), np.float32)}, repeat=3, worker=worker, on_progress=say
    )
print(len(found.variants["a"].times_ms), flush=True)
"""


@contextmanager
def started(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that runs this code, ended with the block."""
    path = os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]])
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_process_that_measures_waits_for_another(folder):
    at = gate(folder, "gate")
    with started(HOLDS, str(at)) as first:
        assert first.stdout.readline() == "running\n"
        with started(MEASURES) as second:
            assert second.stdout.readline() == "waiting for its turn, 1 job before it on cpu\n"
            open_gate(at)
            assert second.stdout.readlines()[-1] == "3\n"
    assert_by_turns(folder, ["hold", "measure"])
    assert len({pid for *_, pid in log_of(folder)}) == 2


@pytest.mark.slow
def test_another_process_is_waited_for_and_no_longer_when_it_is_dead(folder, worker):
    at = gate(folder, "gate")
    with started(HOLDS, str(gate(folder, "never opened"))) as other:
        assert other.stdout.readline() == "running\n"
        ours = Client(worker, gate=str(at))
        ours.hears("1 job before it on cpu")
        assert worker.pid is None  # not even started
        assert tickets(folder, "cpu") == 2
        other.kill()
        ours.hears("running")
        open_gate(at)
        ours.result()
    assert tickets(folder, "cpu") == 0


# ---- in the app ----------------------------------------------------------------------------


@pytest.fixture
def shared(folder):
    """The worker that all sessions of the app share, started with this test's jobs."""
    session.worker.clear()
    yield session.worker()
    session.worker().close()
    session.worker.clear()


def holding(at: Path | str):
    """A piece of the app's work."""
    return lambda report: session.worker().request(
        "hold", gate=str(at), on_progress=lambda event: report(event["stage"], None)
    )


def shows(job: Job, words: str) -> None:
    until(lambda: job.last_report[0] == words)


def test_a_tab_sees_its_place_and_its_cancel_takes_it_out_alone(folder, shared):
    first, third = gate(folder, "first"), gate(folder, "third")
    running = Job(holding(first), shared, "cpu").start()
    shows(running, "running")
    waiting = Job(holding("never reached"), shared, "cpu").start()
    shows(waiting, "waiting for its turn, 1 job before it on cpu")
    last = Job(holding(third), shared, "cpu").start()
    shows(last, "waiting for its turn, 2 jobs before it on cpu")
    waiting.stop()
    until(lambda: waiting.is_done(within_s=0))
    shows(last, "waiting for its turn, 1 job before it on cpu")
    open_gate(first)
    running.result()
    open_gate(third)
    last.result()
    assert_by_turns(folder, ["hold"] * 2)
    assert tickets(folder, "app-cpu") == 0


def test_a_tab_that_runs_is_stopped_alone(folder, shared):
    at = gate(folder, "gate")
    running = Job(holding(gate(folder, "never opened")), shared, "cpu").start()
    shows(running, "running")
    waiting = Job(holding(at), shared, "cpu").start()
    shows(waiting, "waiting for its turn, 1 job before it on cpu")
    running.stop()
    with pytest.raises(CancelledError):
        running.result()
    open_gate(at)
    waiting.result()


def test_work_that_was_stopped_between_two_runs_gets_no_other(shared):
    begun, stopped = threading.Event(), threading.Event()

    def work(report):
        begun.set()
        stopped.wait()
        return shared.request("nothing")

    job = Job(work, shared, "cpu").start()
    begun.wait()
    job.stop()
    stopped.set()
    with pytest.raises(CancelledError):
        job.result()
    assert shared.pid is None


def test_work_for_another_device_goes_on_at_the_same_time(folder, shared):
    at = gate(folder, "gate")
    running = Job(holding(at), shared, "cpu").start()
    shows(running, "running")
    assert Job(lambda report: "done", shared, "cuda").start().result() == "done"
    open_gate(at)
    running.result()


@pytest.mark.slow
def test_the_run_page_waits_for_another_process(folder, shared, monkeypatch):
    opened = opened_sample("conv_relu_conv_relu")
    at = page("run", opened).run()
    next(m for m in at.multiselect if m.label == "Backends").set_value(["torch"])
    opened.verifier.reference  # noqa: B018  computed now, so that the page waits in the measurement
    said = []
    monkeypatch.setattr(
        "workbench.run.worker.client.waiting_text", lambda *who: said.append(waiting_text(*who)) or said[-1]
    )
    held = gate(folder, "gate")
    with started(HOLDS, str(held)) as other:
        assert other.stdout.readline() == "running\n"

        def open_when_the_page_waits() -> None:
            until(lambda: len(said) > 1)  # the page has taken the first words, and goes on waiting
            open_gate(held)

        opener = threading.Thread(target=open_when_the_page_waits)
        opener.start()
        fine(next(b for b in at.button if b.label == "Measure").click().run())
        opener.join()
    assert set(said) == {"waiting for its turn, 1 job before it on cpu"}
    assert len(at.dataframe[0].value) == 1
    assert_by_turns(folder, ["record_values", "hold", "measure"])
