"""Jobs whose begin and end the tests decide, in real worker processes; and clients that ask for them.

A worker started with this folder's `sitecustomize.py` in its PYTHONPATH can be
asked for more kinds, and writes begin and end of whatever it runs to a log.
"""

from __future__ import annotations

import errno
import json
import os
import queue
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.waiting import LIMIT_S, until
from workbench.formats.io.exporting import export_onnx
from workbench.ir import from_text
from workbench.run.worker.client import Worker

SITE = """
import json, os, subprocess, sys, time
from workbench.run.tasks import tasks

def logged(kind, task):
    def run(request, report):
        began = time.monotonic()
        try:
            return task(request, report)
        finally:
            with open(LOG, "a") as log:
                log.write(json.dumps([kind, began, time.monotonic(), os.getpid()]) + "\\n")
    return run

def hold(request, report):
    report({"stage": "running", "pid": os.getpid()})
    open(request["gate"]).close()  # a pipe: until the other end is opened
    return {"pid": os.getpid()}

def child(request, report):
    code = "import sys, time; open(sys.argv[1]).close(); taken = bytearray(b'1') * 300_000_000; time.sleep(1000)"
    with subprocess.Popen([sys.executable, "-S", "-c", code, request["gate"]]) as process:
        report({"stage": "running", "pid": process.pid})
        process.wait()
    return {}

more = {"nothing": lambda request, report: {}, "hold": hold, "child": child}
tasks.TASKS = {kind: logged(kind, task) for kind, task in {**tasks.TASKS, **more}.items()}
"""


SMALL = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x)\n y = Mul(a, a) }"


def file_of(text: str, folder: Path) -> Path:
    export_onnx(from_text(text), folder / "model.onnx")
    return folder / "model.onnx"


def sentence(caught: pytest.ExceptionInfo) -> str:
    text = str(caught.value)
    assert "\n" not in text
    assert "Traceback" not in text
    return text


def assert_works(worker: Worker, folder: Path) -> None:
    x = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
    found = worker.outputs(file_of(SMALL, folder), {"x": x})
    assert np.array_equal(found.tensors["y"], np.square(np.maximum(x, 0)))


def site(folder: Path) -> str:
    """The folder to put into PYTHONPATH; the log is written beside it."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(f"LOG = {str(folder / 'log')!r}\n{SITE}")
    return str(folder / "site")


def log_of(folder: Path) -> list[tuple[str, float, float, int]]:
    """(kind, begin and end in seconds of the machine's monotonic clock, process) of all that ran, in order of begin."""
    lines = (folder / "log").read_text().splitlines()
    return sorted((tuple(json.loads(line)) for line in lines), key=lambda entry: entry[1])


def gate(folder: Path, name: str) -> Path:
    """A closed gate; a job that holds before it ends when it is opened."""
    os.mkfifo(folder / name)
    return folder / name


def open_gate(gate: Path) -> None:
    """Waits for the job that holds there."""
    until(lambda: is_opened(gate))


def is_opened(gate: Path) -> bool:
    """Open the gate; False where no job holds there yet."""
    try:
        os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        assert error.errno == errno.ENXIO, error
        return False
    return True


class Client:
    """A thread that asks a worker for one job."""

    def __init__(self, worker: Worker, kind: str = "hold", **fields: Any) -> None:
        self._heard: queue.Queue[dict[str, Any]] = queue.Queue()
        self._outcome: dict[str, Any] = {}
        self.thread = threading.Thread(target=self._ask, args=(worker, kind, fields), daemon=True)
        self.thread.start()

    def hears(self, words: str) -> dict[str, Any]:
        """Wait for an event with those words; the event."""
        while True:
            event = self._heard.get(timeout=LIMIT_S)
            if words in event["stage"]:
                return event

    def result(self) -> Any:
        """What the job returned; what it raised is raised."""
        self.thread.join(LIMIT_S)
        if "error" in self._outcome:
            raise self._outcome["error"]
        return self._outcome["result"]

    def _ask(self, worker: Worker, kind: str, fields: dict[str, Any]) -> None:
        try:
            self._outcome["result"] = worker.request(kind, on_progress=self._heard.put, **fields)
        except BaseException as error:  # handed to the test, which raises it
            self._outcome["error"] = error
