"""What a sweep or a search has to run, on which kind of device, and the executor that runs it here.

An executor (`Executor`) takes jobs and tells of each when it is done. `OnThisMachine` runs one after the other here,
`workbench.study.cluster.on_ray` on the nodes of a Ray cluster.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from workbench.errors import UserError
from workbench.run.worker.client import Worker
from workbench.run.worker.process import CancelledError


@dataclass(frozen=True)
class DeviceKind:
    """Devices whose times may stand in one table: of a type ("cpu", "cuda"), a name and, for a CPU, so many threads."""

    type: str
    name: str
    threads: int | None = None

    @property
    def words(self) -> str:
        return self.name if self.threads is None else f"{self.name}, {self.threads} threads"


@dataclass(frozen=True)
class Device:
    """A device of a machine.

    device: as the worker takes it, such as "cuda:1". place: in words, the machine and the device.
    versions: of the software there, see `worker.machine.versions`. remark: a sentence on it, "" for none.
    """

    kind: DeviceKind
    device: str
    place: str
    versions: Mapping[str, str] = field(hash=False)
    remark: str = ""


def device_in(machine: Mapping[str, Any], device: str, host: str) -> Device:
    """The device of that name, or the first of that type. machine: the worker's answer to "devices"."""
    facts = next(result for result in machine["devices"] if result["device"].startswith(device))
    kind = DeviceKind(facts["device"].partition(":")[0], facts["name"], facts.get("threads"))
    return Device(kind, device, f"{host} {facts['device']}", machine["versions"])


@dataclass(frozen=True)
class Site:
    """Where a job runs.

    path_of: where a file of the machine that gave the job lies here.
    hear:    is called with progress, {"stage", "done", "total"}; may raise to stop.
    """

    worker: Worker
    device: str
    path_of: Callable[[str], Path]
    hear: Callable[[Mapping[str, Any]], None]


class DeviceJob(Protocol):
    """What runs on one device at a time. It is pickled on its way to another machine.

    files:  models and other files that it reads, by their paths on the machine that gives it.
    record: a file to which it adds lines as it goes, and which it reads when it begins again; None for none.
    """

    @property
    def files(self) -> tuple[str, ...]: ...

    @property
    def record(self) -> str | None: ...

    def run(self, site: Site) -> Any:
        """The answer. Raises UserError."""


@dataclass(frozen=True)
class Outcome:
    """index: of the job. failed: the sentence that says why there is no answer. started, ended: seconds since the epoch
    by the clock of the machine where it ran; device is None if no machine took it."""

    index: int
    answer: Any
    failed: str
    device: Device | None
    started: float
    ended: float


@dataclass(frozen=True)
class JobsProgress:
    """running: by the indices of jobs, the last event of each. waiting: why nothing more begins, in words."""

    done: int
    total: int
    devices: int
    running: Mapping[int, Mapping[str, Any]]
    waiting: str = ""
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """From 0 to 1."""
        inside: float = sum(event["done"] / max(event["total"], 1) for event in self.running.values())
        return (self.done + inside) / max(self.total, 1)

    @property
    def left_words(self) -> str:
        """About how long it takes still, once a job is done."""
        if not self.done:
            return ""
        left = self.seconds * (1 - self.share) / self.share
        return f", about {left / 3600:,.1f} h still" if left >= 5400 else f", about {max(1, left / 60):,.0f} min still"


OnJobs = Callable[[JobsProgress], None]
Asked = tuple[DeviceJob, DeviceKind]


class Executor(Protocol):
    """Runs jobs on devices, one at a time on each."""

    @property
    def notes(self) -> list[str]:
        """Sentences on the machines, once `devices` was asked."""

    def devices(self, device: str) -> Sequence[Device]:
        """Those of that type, at least one. Raises UserError."""

    def run(self, jobs: Sequence[Asked], on_progress: OnJobs) -> Iterator[Outcome]:
        """Each job's outcome when it is done. on_progress may raise to stop."""


class OnThisMachine:
    """One job after the other, on this machine."""

    notes: list[str] = []  # noqa: RUF012  there is only this machine

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._devices: dict[DeviceKind, Device] = {}

    def devices(self, device: str) -> Sequence[Device]:
        """Raises RunError."""
        result = device_in(self._worker.request("devices", device=device), device, platform.node())
        self._devices[result.kind] = result
        return [result]

    def run(self, jobs: Sequence[Asked], on_progress: OnJobs) -> Iterator[Outcome]:
        """Of the kinds that `devices` told. Raises CancelledError."""
        began = time.monotonic()
        for index, (job, kind) in enumerate(jobs):

            def heard(event: Mapping[str, Any], index: int = index) -> None:
                on_progress(JobsProgress(index, len(jobs), 1, {index: event}, seconds=time.monotonic() - began))

            device = self._devices[kind]
            answer, failed, started = None, "", time.time()
            try:
                answer = job.run(Site(self._worker, device.device, Path, heard))
            except CancelledError:
                raise
            except UserError as error:  # the others may run
                failed = str(error)
            yield Outcome(index, answer, failed, device, started, time.time())
