"""The Ray actor of one device of a node: it runs one job at a time, in the same worker process as without Ray."""

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
from workbench.interfaces.study.cluster.file_transfer import Manifest, ReceivedFiles
from workbench.interfaces.study.cluster.jobs import Device, DeviceJob, Site, device_in
from workbench.run.worker.client import Worker
from workbench.run.worker.process import CancelledError
from workbench.support.owned_folders import owned_folder

_FOLDER = "graph-workbench-node-"  # prefix, in the temporary folder; holds the files that were sent here


@dataclass(frozen=True)
class Answer:
    """What a job returned, or why it returned nothing.

    failed:  a sentence, or "".
    missing: paths of files that must be sent first; if there are any, the job did not run.
    added:   the lines that the job added to its record and that `progress` has not returned.
    """

    answer: Any = None
    failed: str = ""
    missing: tuple[str, ...] = ()
    started: float = 0.0
    ended: float = 0.0
    added: str = ""


class DeviceActor:
    """A Ray actor, that is a process with remote methods. `run`, `progress` and `close` have a thread each.

    type: the type of the device, "cpu" or "cuda". node: Ray's id of the node.
    """

    def __init__(self, type: str, node: str) -> None:
        _unset_rays_threads()
        self._open = ExitStack()
        self._folder = self._open.enter_context(owned_folder(_FOLDER))
        (self._folder / "files").mkdir()
        self._files = ReceivedFiles(self._folder / "files")
        self._worker = self._open.enter_context(Worker())
        self._host = f"{platform.node()}/{node[:8]}"  # several nodes may be on one machine
        self._device = type if type == "cpu" else _assigned_gpu()
        self._event: Mapping[str, Any] = {"stage": "", "done": 0, "total": 1}
        self._record: _Record | None = None
        self._is_closed = False

    def describe(self) -> Device:
        """The device of this actor. Raises UserError."""
        niceness = _restore_priority()
        device = device_in(self._worker.request("devices", device=self._device), self._device, self._host)
        if not niceness:
            return device
        remark = (
            f"{device.place} runs at niceness {niceness}, so other work there lengthens its times; "
            "start the node with RAY_worker_niceness=0"
        )
        return replace(device, remark=remark)

    def run(
        self, job: DeviceJob, manifests: Mapping[str, Manifest], record: str, pieces: Mapping[str, list[Any]]
    ) -> Answer:
        """Run the job, if its files are on this node.

        manifests: the manifests of the job's files, by path on the driver.
        record:    the text of the job's record so far.
        pieces:    by a file's SHA-256, references to its pieces in Ray's object store.
        """
        _restore_priority()
        try:
            self._files.keep_only(manifests.values())
            for manifest in manifests.values():
                if self._files.path_of(manifest) is None and all(file.sha256 in pieces for file in manifest):
                    self._files.receive(manifest, {sha: _fetched(refs) for sha, refs in pieces.items()})
            received = {path: self._files.path_of(manifest) for path, manifest in manifests.items()}
        except (UserError, OSError) as error:
            return Answer(failed=f"its files cannot be received on {self._host}: {error}")
        missing = tuple(path for path, local in received.items() if local is None)
        if missing:
            return Answer(missing=missing)
        self._record = local_record = None if job.record is None else _Record(self._folder / "record", record)
        local_paths = {path: local for path, local in received.items() if local is not None}
        if job.record is not None and local_record is not None:
            local_paths[job.record] = local_record.path
        site = Site(self._worker, self._device, local_paths.__getitem__, self._on_progress)
        answer, failed, started = None, "", time.time()
        try:
            answer = job.run(site)
        except CancelledError:
            failed = "it was stopped"
        except UserError as error:
            failed = str(error)
        return Answer(answer, failed, (), started, time.time(), "" if local_record is None else local_record.added())

    def _on_progress(self, event: Mapping[str, Any]) -> None:
        if self._is_closed:
            raise CancelledError
        self._event = event

    def progress(self) -> tuple[Mapping[str, Any], str]:
        """The last event, and the lines added to the record since the last call."""
        return self._event, "" if self._record is None else self._record.added()

    def close(self) -> None:
        """Cancel the running job and remove the received files."""
        self._is_closed = True
        self._worker.cancel()
        self._open.close()


class _Record:
    """The copy of a job's record on this node; its new lines are sent to the driver."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        path.write_text(text, encoding="utf-8")
        self._sent_bytes = path.stat().st_size
        self._guard = threading.Lock()

    def added(self) -> str:
        """The complete lines that no earlier call returned."""
        with self._guard, open(self.path, "rb") as file:
            file.seek(self._sent_bytes)
            new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._sent_bytes += len(whole)
            return whole.decode()


def _fetched(references: list[Any]) -> Callable[[], Iterable[bytes]]:
    def pieces() -> Iterator[bytes]:
        import ray

        for reference in references:
            yield ray.get(reference)

    return pieces


def _assigned_gpu() -> str:
    """The GPU that Ray reserved for this actor, such as "cuda:1", by its index among all GPUs of the machine.

    Queues are named by that index. Ray shows an actor only its own GPU, which would always be number 0.
    """
    import ray

    (number,) = ray.get_runtime_context().get_accelerator_ids()["GPU"]
    if not number.isdecimal():  # the name of a part of a GPU
        return "cuda:0"
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    return f"cuda:{number}"


def _restore_priority() -> int:
    """Set the niceness of this thread to 0; returns the niceness that remains, which is 0 if that is permitted.

    Ray starts its workers at niceness 15. Linux keeps it per thread, and processes inherit it.
    """
    if sys.platform == "win32":
        return 0
    try:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except PermissionError:  # only a privileged user may lower it
        return os.getpriority(os.PRIO_PROCESS, 0)
    return 0


def _unset_rays_threads() -> None:
    """Unset OMP_NUM_THREADS unless the user has set it, so that runs have as many threads as without Ray.

    Ray sets it to the number of CPUs of the actor. The environment at the start of the process holds the user's value.
    """
    initial = Path("/proc/self/environ")
    if initial.exists() and b"\0OMP_NUM_THREADS=" not in b"\0" + initial.read_bytes():
        os.environ.pop("OMP_NUM_THREADS", None)
