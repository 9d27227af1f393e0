"""The jobs of a sweep or a tuning, the devices that they run on, and the executor for this machine.

An executor (`Executor`) takes jobs and yields the outcome of each. `OnThisMachine` runs one after the other here,
`workbench.interfaces.study.cluster.on_ray` on the nodes of a Ray cluster.
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
    """Devices whose times are comparable: type ("cpu", "cuda"), name and, of a CPU, number of threads."""

    type: str
    name: str
    threads: int | None = None

    @property
    def label(self) -> str:
        """For the user: the name, with the threads of a CPU."""
        return self.name if self.threads is None else f"{self.name}, {self.threads} threads"


@dataclass(frozen=True)
class Device:
    """A device of a machine.

    device:   as the worker takes it, such as "cuda:1". place: host and device, as the user reads them.
    versions: the versions of the software there, see `worker.machine.versions`. remark: a sentence for the user, or "".
    """

    kind: DeviceKind
    device: str
    place: str
    versions: Mapping[str, str] = field(hash=False)
    remark: str = ""


def device_in(machine: Mapping[str, Any], device: str, host: str) -> Device:
    """The first device of the machine whose name begins with `device`. machine: the worker's answer to "devices"."""
    facts = next(result for result in machine["devices"] if result["device"].startswith(device))
    kind = DeviceKind(facts["device"].partition(":")[0], facts["name"], facts.get("threads"))
    return Device(kind, device, f"{host} {facts['device']}", machine["versions"])


@dataclass(frozen=True)
class Site:
    """Where a job runs.

    path_of:     the path on this machine of a file of the driver.
    on_progress: is called with {"stage", "done", "total"}; may raise to stop.
    """

    worker: Worker
    device: str
    path_of: Callable[[str], Path]
    on_progress: Callable[[Mapping[str, Any]], None]


class DeviceJob(Protocol):
    """A job for one device. It is pickled to be sent to another machine.

    files:  models and other files that it reads, as paths on the driver.
    record: a file to which it appends lines, and which it reads if it is started again; None: it keeps nothing.
    """

    @property
    def files(self) -> tuple[str, ...]: ...

    @property
    def record(self) -> str | None: ...

    def run(self, site: Site) -> Any:
        """Returns the job's answer, which `Outcome.answer` holds. Raises UserError."""


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    index:  the index of the job. failed: the sentence that says why there is no answer, or "".
    device: None if no machine took the job. started, ended: seconds since the epoch, by that machine's clock.
    """

    index: int
    answer: Any
    failed: str
    device: Device | None
    started: float
    ended: float


@dataclass(frozen=True)
class JobsProgress:
    """Progress of all jobs.

    done, total: numbers of jobs. devices: number of devices in use. seconds: since the start.
    running: the last event of each running job, by the job's index. waiting: why no further job starts, or "".
    """

    done: int
    total: int
    devices: int
    running: Mapping[int, Mapping[str, Any]]
    waiting: str = ""
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """The share that is done, from 0 to 1."""
        inside: float = sum(event["done"] / max(event["total"], 1) for event in self.running.values())
        return (self.done + inside) / max(self.total, 1)

    @property
    def remaining_text(self) -> str:
        """The estimated remaining time, such as ", about 10 min left"; "" before the first job is done."""
        if not self.done:
            return ""
        seconds = self.seconds * (1 - self.share) / self.share
        if seconds >= 5400:
            return f", about {seconds / 3600:,.1f} h left"
        return f", about {max(1, seconds / 60):,.0f} min left"


OnJobs = Callable[[JobsProgress], None]
JobRequest = tuple[DeviceJob, DeviceKind]


class Executor(Protocol):
    """Runs jobs on devices, one at a time on each."""

    @property
    def notes(self) -> list[str]:
        """Sentences on the machines; complete once `devices` was called."""

    def devices(self, device: str) -> Sequence[Device]:
        """The devices of that type, at least one. Raises UserError."""

    def run(self, jobs: Sequence[JobRequest], on_progress: OnJobs) -> Iterator[Outcome]:
        """Yields each job's outcome when it is done. on_progress may raise to stop."""


class OnThisMachine:
    """One job after the other, on this machine."""

    notes: list[str] = []  # noqa: RUF012  always empty

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._devices: dict[DeviceKind, Device] = {}

    def devices(self, device: str) -> Sequence[Device]:
        """The one device of that name or type. Raises RunError."""
        result = device_in(self._worker.request("devices", device=device), device, platform.node())
        self._devices[result.kind] = result
        return [result]

    def run(self, jobs: Sequence[JobRequest], on_progress: OnJobs) -> Iterator[Outcome]:
        """Runs jobs for the kinds that `devices` has returned. Raises CancelledError."""
        began = time.monotonic()
        for index, (job, kind) in enumerate(jobs):

            def report(event: Mapping[str, Any], index: int = index) -> None:
                on_progress(JobsProgress(index, len(jobs), 1, {index: event}, seconds=time.monotonic() - began))

            device = self._devices[kind]
            answer, failed, started = None, "", time.time()
            try:
                answer = job.run(Site(self._worker, device.device, Path, report))
            except CancelledError:
                raise
            except UserError as error:  # other jobs may still run
                failed = str(error)
            yield Outcome(index, answer, failed, device, started, time.time())
