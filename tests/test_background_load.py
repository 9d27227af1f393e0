"""What other processes take of the cores while something is measured is seen, told, and takes the factor away."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil
import pytest

import workbench as wb
from tests.running import typed
from tests.waiting import LIMIT_S
from workbench.run.measurement import notes
from workbench.run.measurement.background_load import BackgroundLoad, Watch
from workbench.run.measurement.statistics import ratio
from workbench.run.worker.process import Limits, WorkerProcess

TEXT = "g (float[384,384] x) => (float[384,384] y) { a = MatMul(x, x)  y = Relu(a) }"
SPINS = "while True: pass"


@contextmanager
def somebody_else():
    """A process that is not our child, and spins on every core."""
    start = f"p = subprocess.Popen([sys.executable, '-c', {SPINS!r}], stdout=-3, stderr=-3); print(p.pid)"
    code = f"import subprocess, sys\nfor _ in range({len(os.sched_getaffinity(0))}): {start}"
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    spinning = [psutil.Process(int(pid)) for pid in started.stdout.split()]
    try:
        yield
    finally:
        for one in spinning:
            one.kill()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="NOT TESTED: processes move between all cores")
def test_what_others_take_is_seen_and_what_we_take_is_not():
    watch = Watch()
    child = subprocess.Popen([sys.executable, "-c", SPINS])
    ends = time.monotonic() + 1
    while time.monotonic() < ends:
        pass
    ours = watch.result(1)
    child.kill()
    child.wait()
    with somebody_else():
        time.sleep(0.3)
        watch = Watch()
        time.sleep(1)
        theirs = watch.result(1)
    assert ours is not None and theirs is not None
    assert theirs.cores > ours.cores and theirs.cores > 0.8 * theirs.of and theirs.is_contended


def test_too_short_a_time_says_nothing():
    assert Watch().result(2) is None


@pytest.mark.parametrize(("cores", "idle", "of", "threads", "crowd"), [
    (0.1, 0.0, 2, 2, False), (0.5, 0.5, 2, 2, True), (0.5, 5.5, 8, 2, False), (6.5, 0.5, 8, 2, True),
    (1.2, 0.5, 4, 3, False), (0.5, 1.0, 2, 4, True), (1.0, 0.0, 2, 1, True), (1.0, 0.9, 2, 1, False),
])  # fmt: skip
def test_a_crowd_leaves_fewer_cores_than_threads(cores, idle, of, threads, crowd):
    assert BackgroundLoad(cores, idle, of, threads).is_contended is crowd


@pytest.mark.slow
def test_where_others_crowd_no_factor_is_shown():
    with somebody_else():
        time.sleep(0.3)
        found = wb.measure({"it": typed(TEXT), "again": typed(TEXT)}, device="cpu", repeat=60)
    again = found.ran["again"]
    assert again.others is not None and again.others.is_contended and again.busy and again.ratio.ratio_busy
    assert "Other processes used" in " ".join(found.notes) and "no factor is shown" in " ".join(found.notes)


def test_a_ratio_of_calm_times_is_busy_if_others_crowded():
    calm = [1.0, 1.01, 0.99] * 5
    assert not ratio(calm, calm).ratio_busy and ratio(calm, calm, True).ratio_busy
    assert notes.notes_of({}, "cpu") == []


@pytest.mark.slow
def test_threads_of_torch_do_not_keep_a_core_for_long(tmp_path):
    """Unless the user says how they wait."""
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        pytest.skip("NOT TESTED: the environment says how threads wait")
    held = WorkerProcess(tmp_path / "worker.log")
    try:
        held.ask(
            {"kind": "devices", "device": "cpu", "memory_limit_bytes": None},
            limits=Limits(60),
            check_cancelled=lambda: None,
        )
        assert psutil.Process(held.pid).environ()["GOMP_SPINCOUNT"] == "10000"
    finally:
        held.kill()
