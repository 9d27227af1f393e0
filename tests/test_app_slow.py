"""Every page with real models on a slow machine, where whatever works in the background shows its progress."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import workbench.interfaces.ui.screens
from tests.conftest import CORPUS
from tests.pages import fine, opened_file, opened_sample
from tests.slow import thorough_unless
from tests.waiting import LIMIT_S
from workbench.interfaces.ui.screens.memory_page import MemoryPlans
from workbench.interfaces.ui.state.work import Job
from workbench.interfaces.ui.widgets import progress

_SLOWER_S = 0.02  # that every job takes longer
_FIRST = ("open", "optimize")  # what Optimize leaves behind is on the others too
_LINKING = ("export", "extract", "compare_tools", "tune", "workshop")  # pages that are given the page they link to
_SHIPPED = ("conv_relu_conv_relu", "basic_pitch_nmp", "silero_vad", "ppocr_cls_v2", "resnet50_narrow")
_REAL = sorted(CORPUS.glob("*.onnx"))
_FEW = ("basic_pitch_nmp", "ppocrv4_rec")


def page_names() -> list[str]:
    (folder,) = workbench.interfaces.ui.screens.__path__
    found = sorted(file.name.removesuffix("_page.py") for file in Path(folder).glob("*_page.py"))
    return [*_FIRST, *(name for name in found if name not in _FIRST)]


def page(name: str) -> AppTest:
    given = "None" if name in _LINKING else ""
    code = f"from workbench.interfaces.ui.screens.{name}_page import {name}_page; {name}_page({given})"
    return AppTest.from_string(code, default_timeout=3 * LIMIT_S)


@pytest.fixture
def watched(monkeypatch):
    """The titles of the jobs whose progress was drawn."""
    begin, watch, titles = Job._begin, progress._watch, []

    def later(job):
        time.sleep(_SLOWER_S)
        return begin(job)

    def noted(job, jobs, key):
        titles.append(job.title)
        watch(job, jobs, key)

    monkeypatch.setattr(Job, "_begin", later)
    monkeypatch.setattr(progress, "_SHOW_AFTER_S", 0.0)
    monkeypatch.setattr(progress, "_POLL_S", 0.01)
    monkeypatch.setattr(progress, "_watch", noted)
    return titles


def _side_by_side(at):
    return next(toggle for toggle in at.toggle if toggle.label == "Side by side")


def go_through(opened, watched):
    for name in page_names():
        at = page(name)
        at.session_state["opened"] = opened
        fine(at.run())
        if name == "memory":
            fine(_side_by_side(at).set_value(True).run())
    if opened.checking is not None:
        opened.checking.stop()
    assert watched.count("Memory") > 2 and "Pipeline" in watched


@pytest.mark.slow
@pytest.mark.parametrize("stem", _SHIPPED)
def test_every_page_of_a_sample_on_a_slow_machine(stem, watched):
    go_through(opened_sample(stem), watched)


@pytest.mark.slow
@pytest.mark.skipif(not _REAL, reason=f"THE CORPUS OF REAL MODELS IS NOT AT {CORPUS}: ITS PAGES ARE NOT OPENED")
@pytest.mark.parametrize(
    "path", [thorough_unless(path.stem in _FEW, path) for path in _REAL], ids=lambda path: path.stem
)
def test_every_page_of_a_real_model_on_a_slow_machine(path, watched):
    go_through(opened_file(path), watched)


def test_a_cancelled_plan_is_said_once(watched):
    """With two pictures beside each other too."""
    opened = opened_sample("npu_types")
    at = page("memory")
    at.session_state["opened"] = opened
    fine(at.run())
    fine(_side_by_side(at).set_value(True).run())
    opened.jobs.cancel("memory")
    fine(at.run())
    assert [message.value for message in at.info] == ["Planning was cancelled."]
    opened.forget_state(MemoryPlans)
    fine(next(button for button in at.button if button.label == "Plan again").click().run())
    assert not at.info
