"""What stands on a node of a Ray cluster for one of its devices: it runs one job at a time in the usual worker."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench.errors import UserError
from workbench.run.worker.client import Worker
from workbench.run.worker.process import CancelledError
from workbench.study.cluster.jobs import Device, DeviceJob, Site, device_in
from workbench.study.cluster.travelling_files import Manifest, ReceivedFiles
from workbench.support.owned_folders import owned_folder

_FOLDER = "graph-workbench-node-"  # in the temporary folder: what was sent here


@dataclass(frozen=True)
class Answer:
    """missing: the paths of files that must be sent first; nothing ran then. added: lines that the record has more."""

    answer: Any = None
    failed: str = ""
    missing: tuple[str, ...] = ()
    started: float = 0.0
    ended: float = 0.0
    added: str = ""


class DeviceActor:
    """An actor: a process of the cluster with methods. `run` takes one thread, `progress` and `close` others.

    type: "cpu" or "cuda". node: the node's id.
    """

    def __init__(self, type: str, node: str) -> None:
        _without_rays_threads()
        self._open = ExitStack()
        self._folder = self._open.enter_context(owned_folder(_FOLDER))
        (self._folder / "files").mkdir()
        self._files = ReceivedFiles(self._folder / "files")
        self._worker = self._open.enter_context(Worker())
        self._host = f"{platform.node()}/{node[:8]}"  # several nodes may be on one machine
        self._device = type if type == "cpu" else _own_gpu()
        self._event: Mapping[str, Any] = {"stage": "", "done": 0, "total": 1}
        self._record: _Record | None = None
        self._is_closed = False

    def describe(self) -> Device:
        """Raises UserError."""
        niceness = _priority_as_usual()
        device = device_in(self._worker.request("devices", device=self._device), self._device, self._host)
        if not niceness:
            return device
        words = f"{device.place} runs at niceness {niceness}, so that other work there makes its times longer"
        return replace(device, remark=f"{words}; start the node with RAY_worker_niceness=0")

    def run(
        self, job: DeviceJob, manifests: Mapping[str, Manifest], record: str, pieces: Mapping[str, list[Any]]
    ) -> Answer:
        """manifests: by path, of the job's files. record: what its record holds. pieces: by SHA-256, references to
        objects of the store."""
        _priority_as_usual()
        try:
            self._files.keep_only(manifests.values())
            for manifest in manifests.values():
                if self._files.path_of(manifest) is None and all(one.sha256 in pieces for one in manifest):
                    self._files.receive(manifest, {sha: _fetched(refs) for sha, refs in pieces.items()})
            places = {path: self._files.path_of(manifest) for path, manifest in manifests.items()}
        except (UserError, OSError) as error:
            return Answer(failed=f"its files cannot be received on {self._host}: {error}")
        missing = tuple(path for path, place in places.items() if place is None)
        if missing:
            return Answer(missing=missing)
        self._record = kept = None if job.record is None else _Record(self._folder / "record", record)
        here = {path: place for path, place in places.items() if place is not None}
        if job.record is not None and kept is not None:
            here[job.record] = kept.path
        site = Site(self._worker, self._device, here.__getitem__, self._hear)
        answer, failed, started = None, "", time.time()
        try:
            answer = job.run(site)
        except CancelledError:
            failed = "it was stopped"
        except UserError as error:
            failed = str(error)
        return Answer(answer, failed, (), started, time.time(), "" if kept is None else kept.added())

    def _hear(self, event: Mapping[str, Any]) -> None:
        if self._is_closed:
            raise CancelledError
        self._event = event

    def progress(self) -> tuple[Mapping[str, Any], str]:
        """The last event, and the lines that the record has more than when this was asked before."""
        return self._event, "" if self._record is None else self._record.added()

    def close(self) -> None:
        """Stop what runs, and remove what was sent here."""
        self._is_closed = True
        self._worker.cancel()
        self._open.close()


class _Record:
    """The record of a job, as it lies here; its new lines go to the machine that gave the job."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        path.write_text(text, encoding="utf-8")
        self._told = path.stat().st_size
        self._guard = threading.Lock()

    def added(self) -> str:
        """Whole lines that were not told before."""
        with self._guard, open(self.path, "rb") as file:
            file.seek(self._told)
            new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._told += len(whole)
            return whole.decode()


def _fetched(references: list[Any]) -> Callable[[], Iterable[bytes]]:
    def pieces() -> Iterator[bytes]:
        import ray

        for reference in references:
            yield ray.get(reference)

    return pieces


def _own_gpu() -> str:
    """The GPU that Ray has reserved for this actor, by its index among all of the machine, as queues are named by it.

    Ray shows an actor its own GPUs only, so that each would be number 0.
    """
    import ray

    (number,) = ray.get_runtime_context().get_accelerator_ids()["GPU"]
    if not number.isdecimal():  # a name, as of a part of a GPU
        return "cuda:0"
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    return f"cuda:{number}"


def _priority_as_usual() -> int:
    """Ray gives its workers a low priority (niceness 15), which Linux keeps for each thread, and processes inherit.

    Returns what is left of it if this thread may not undo it.
    """
    if sys.platform == "win32":
        return 0
    try:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except PermissionError:  # only a privileged user may
        return os.getpriority(os.PRIO_PROCESS, 0)
    return 0


def _without_rays_threads() -> None:
    """Ray sets OMP_NUM_THREADS to the CPUs of an actor if nobody has set it; times would be of other threads than those
    that a run without Ray has. What the process began with is what the user set."""
    began_with = Path("/proc/self/environ")
    if began_with.exists() and b"\0OMP_NUM_THREADS=" not in b"\0" + began_with.read_bytes():
        os.environ.pop("OMP_NUM_THREADS", None)
