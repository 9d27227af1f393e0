"""What the app keeps of models: a session's memory does not grow with the models that it opens, and no thread fails."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.pages import fine, opened_sample, page
from workbench.formats.io import load_model
from workbench.formats.io.samples import samples

_BESIDE = 4  # threads of other sessions
_OPENED = 13


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", ["open", "optimize", "memory"])
def test_a_model_is_freed_when_others_have_taken_its_place(name):
    at = page(name, opened_sample("npu_types"))
    fine(at.run())
    last = weakref.ref(at.session_state["opened"].graph)
    for stem in ("two_orders", "npu_path"):
        at.session_state["opened"] = opened_sample(stem)
        fine(at.run())
    gc.collect()
    assert last() is None


@pytest.mark.slow
def test_views_are_made_while_other_sessions_build_tuples():
    """`gc.get_objects` hands out a tuple that another thread still fills, which raises SystemError there."""
    graph = load_model(next(s.file for s in samples() if s.file.stem == "ppocr_cls_v2"))
    values, ends, faults = list(graph.values()), threading.Event(), []

    def look():
        try:
            while not ends.is_set():
                for value in values:
                    graph.users(value)
        except BaseException as error:
            faults.append(error)

    beside = [threading.Thread(target=look) for _ in range(_BESIDE)]
    switched = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # seconds: threads meet in the middle of each other's work
    for thread in beside:
        thread.start()
    try:
        at = page("open", opened_sample("npu_types"))
        for _ in range(_OPENED):
            at.session_state["opened"] = opened_sample("npu_types")
            fine(at.run())
    finally:
        sys.setswitchinterval(switched)
        ends.set()
        for thread in beside:
            thread.join()
    assert not faults


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="NOT TESTED: only Linux gives freed memory back so")
def test_four_hundred_opens_take_little_more_than_twenty():
    code = [sys.executable, "-m", "tests.opens", "400"]
    told = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, check=True, timeout=500).stdout
    resident = [int(line) for line in told.split()]
    assert len(resident) == 400
    assert max(resident) < 1.3 * max(resident[:20])
