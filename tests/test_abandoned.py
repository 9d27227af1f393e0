"""Work whose model no open tab shows any more ends, in place of keeping the machine busy for nobody."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.browser import go, open_sample, running_app, watched_page
from tests.conftest import ROOT
from tests.waiting import LIMIT_S, until
from workbench.interfaces.ui.state.work import Job, Jobs, was_cancelled
from workbench.run.worker.client import Worker


def test_a_job_ends_at_its_next_report_and_another_may_follow():
    jobs, is_shown, reports = Jobs(), threading.Event(), []
    is_shown.set()
    jobs.is_abandoned = lambda: not is_shown.is_set()

    def work(report):
        while True:
            report("working", None)
            reports.append(1)
            time.sleep(0.01)

    with Worker() as worker:
        job = Job(work, worker)
        jobs.start("key", job)
        until(lambda: len(reports) > 3)
        assert jobs.by_key["key"] is job
        is_shown.clear()
        assert job.is_done(within_s=LIMIT_S)
        assert not jobs.by_key and was_cancelled(jobs, "key")
        is_shown.set()
        following = Job(lambda report: 7, worker)
        jobs.start("key", following)
        assert following.result() == 7


def measures(app: int) -> bool:
    """Whether a process of the app's worker computes."""
    busy = 0.0
    for process in psutil.Process(app).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            busy += process.cpu_percent(0.5) if "workbench.run.tasks" in process.cmdline() else 0.0
    return busy > 50


@pytest.mark.slow
@pytest.mark.browser
def test_a_measurement_ends_once_its_tab_is_closed_and_not_while_one_is_open(browser, tmp_path):
    """With 6 s in place of two minutes."""
    script = tmp_path / "app.py"
    patch = "from workbench.interfaces.ui.state import session_restore\nsession_restore.ABANDONED_S = 6.0\n"
    script.write_text(patch + Path(ROOT / "app.py").read_text(encoding="utf-8"), encoding="utf-8")
    with running_app(script=script) as (site, app):
        with watched_page(browser) as page:
            page.goto(site)
            open_sample(page, "resnet50_narrow")
            go(page, "Measure")
            page.get_by_label("Repetitions", exact=True).fill("10000")
            page.get_by_role("button", name="Measure", exact=True).click()
            page.get_by_text(re.compile(r"Measuring [^:]*: run \d+")).wait_for()
            time.sleep(8)
            assert measures(app), "the tab is open"
        until(lambda: not measures(app))
