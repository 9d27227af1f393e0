"""Jobs on the nodes of a Ray cluster: an actor for each device; a job whose device is lost is started again.

The driver, the machine that submits the jobs, writes all results; nodes write only temporary files.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.backends.failures import first_line, shortened
from workbench.errors import UserError
from workbench.interfaces.study.cluster.device_actor import Answer, DeviceActor
from workbench.interfaces.study.cluster.file_transfer import Manifest, check_size, manifest_of, pieces_of
from workbench.interfaces.study.cluster.jobs import Device, DeviceKind, JobRequest, JobsProgress, OnJobs, Outcome
from workbench.support.files import not_written

START_LIMIT_S = 120.0  # the time that the first device has to answer
_OTHERS_S = 30.0  # the time that the other devices then have
WAIT_LIMIT_S = 600.0  # the time to wait for a new device of a kind, after the last one was lost
MAX_TRIES = 3  # the most tries of a job whose device was lost
_POLL_S, _NODES_S, _PROGRESS_S, _CLOSE_S = 0.5, 3.0, 1.0, 5.0
_THREADS = 3  # threads of an actor, for `run`, `progress` and `close`


class ClusterError(UserError):
    """The cluster cannot be used as requested."""


@dataclass
class _Actor:
    """An actor and its pending calls.

    described, running, progress: references to the results of `describe`, `run` and `progress`; None if not pending.
    device: None until `describe` has returned. job: the index of the job that it runs.
    """

    node: str
    handle: Any
    described: Any
    device: Device | None = None
    job: int | None = None
    running: Any = None
    progress: Any = None
    progress_asked_at: float = 0.0
    event: Mapping[str, Any] = field(default_factory=lambda: {"stage": "sent", "done": 0, "total": 1})


class OnRay:
    """An executor. ray: the package, connected to a cluster. `notes`: unused nodes, lost devices, other versions."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._type = "cpu"
        self._actors: list[_Actor] = []
        self._unusable: dict[str, str] = {}  # by node
        self._lost_notes: list[str] = []  # sentences
        self._devices_by_place: dict[str, Device] = {}  # by place
        self._manifests: dict[str, Manifest] = {}  # by path, of jobs that are not done
        self._sent: dict[str, list[Any]] = {}  # by SHA-256, references to the pieces of a file

    @property
    def notes(self) -> list[str]:
        devices = list(self._devices_by_place.values())
        remarks = [device.remark for device in devices if device.remark]
        return [*self._unusable.values(), *self._lost_notes, *remarks, *_other_versions(devices)]

    def devices(self, device: str) -> Sequence[Device]:
        """The devices that answer in time; `run` also uses those that answer later. Raises ClusterError for none."""
        if device != self._type:
            self.close()
        self._type, ends, has_device = device, time.monotonic() + START_LIMIT_S, False
        self._look_for_nodes()
        while time.monotonic() < ends and any(actor.device is None for actor in self._actors):
            self._wait(_POLL_S)
            self._receive_descriptions()
            if not has_device and any(actor.device is not None for actor in self._actors):
                has_device, ends = True, time.monotonic() + _OTHERS_S
        results = [actor.device for actor in self._actors if actor.device is not None]
        if results:
            return results
        busy = "" if not self._actors else "; its devices do not answer, or other programs have reserved them"
        reasons = "".join(f"; {reason}" for reason in self.notes)
        raise ClusterError(f"no node of the cluster has a free device '{device}'{busy}{reasons}")

    def run(self, jobs: Sequence[JobRequest], on_progress: OnJobs) -> Iterator[Outcome]:
        """Yields each job's outcome when it is done. Raises ClusterError if the cluster is lost."""
        waiting: dict[DeviceKind, deque[int]] = {kind: deque() for _, kind in jobs}
        for index, (_, kind) in enumerate(jobs):
            waiting[kind].append(index)
        tries, done = Counter[int](), 0
        uses = Counter(path for job, _ in jobs for path in job.files)
        began = looked = lost_at = time.monotonic()
        while done < len(jobs):
            now = time.monotonic()
            if now - looked > _NODES_S:
                self._look_for_nodes()
                looked = now
            outcomes = list(self._start_waiting(jobs, waiting))
            self._wait(_POLL_S)
            self._receive_descriptions()
            outcomes += self._finished(jobs, waiting, tries)
            self._receive_progress(jobs)
            busy = {actor.job: actor.event for actor in self._actors if actor.job is not None}
            lacking = self._missing_kinds(waiting)
            lost_at = lost_at if lacking and not busy else time.monotonic()
            if time.monotonic() - lost_at > WAIT_LIMIT_S:
                outcomes += [_no_device_outcome(index, kind) for kind in lacking for index in waiting[kind]]
                for kind in lacking:
                    waiting[kind].clear()
            for outcome in outcomes:
                done += 1
                uses.subtract(jobs[outcome.index][0].files)
                self._forget(path for path in jobs[outcome.index][0].files if not uses[path])
                yield outcome
            message = f"waiting for a device '{lacking[0].label}', none of which is left" if lacking else ""
            count = sum(actor.device is not None for actor in self._actors)
            on_progress(JobsProgress(done, len(jobs), count, busy, message, time.monotonic() - began))

    def close(self) -> None:
        """End all actors and the jobs that they run."""
        closing = [actor.handle.close.remote() for actor in self._actors]
        if closing:
            self._ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_S)
        for actor in self._actors:
            self._ray.kill(actor.handle)
        self._actors.clear()

    # ---- nodes and their devices -------------------------------------------------------------

    def _look_for_nodes(self) -> None:
        """Start an actor for each device that has none. Raises ClusterError if the cluster does not answer."""
        try:
            nodes = [node for node in self._ray.nodes() if node["Alive"]]
        except Exception as error:  # of the connection; Ray has several classes for it
            raise ClusterError(f"the cluster no longer answers: {first_line(error)}") from None
        for node in nodes:
            name, resources = node["NodeID"], node["Resources"]
            cpus = resources.get("CPU", 0.0)
            device_count = int(cpus >= 1) if self._type == "cpu" else int(resources.get("GPU", 0))
            actor_count = sum(actor.node == name for actor in self._actors)
            for _ in range(0 if name in self._unusable else device_count - actor_count):
                self._actors.append(self._reserved(name, cpus))

    def _reserved(self, node: str, cpus: float) -> _Actor:
        """A new actor; it reserves the whole CPU, or a GPU and one core, so that Ray starts nothing else there."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        handle = (
            self._ray.remote(DeviceActor)
            .options(
                num_cpus=cpus if self._type == "cpu" else min(1.0, cpus),
                num_gpus=0 if self._type == "cpu" else 1,
                max_concurrency=_THREADS,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            )
            .remote(self._type, node)
        )
        return _Actor(node, handle, handle.describe.remote())

    def _wait(self, timeout_s: float) -> None:
        """Wait until a pending call has returned, at most `timeout_s`."""
        pending = [actor.running or actor.described for actor in self._actors]
        pending = [reference for reference in pending if reference is not None]
        if pending:
            self._ray.wait(pending, num_returns=1, timeout=timeout_s)
        else:
            time.sleep(timeout_s)

    def _is_ready(self, reference: Any) -> bool:
        return bool(self._ray.wait([reference], num_returns=1, timeout=0)[0])

    def _receive_descriptions(self) -> None:
        for actor in [actor for actor in self._actors if actor.described is not None]:
            if not self._is_ready(actor.described):
                continue
            try:
                actor.device, actor.described = self._ray.get(actor.described), None
                self._devices_by_place[actor.device.place] = actor.device
            except self._ray.exceptions.RayError as error:
                self._remove(actor)
                if self._is_alive(actor.node):
                    self._unusable[actor.node] = f"node {self._host_of(actor.node)} is not used: {_reason(error)}"

    def _is_alive(self, name: str) -> bool:
        return any(node["NodeID"] == name and node["Alive"] for node in self._ray.nodes())

    def _host_of(self, name: str) -> str:
        return next((str(node["NodeManagerHostname"]) for node in self._ray.nodes() if node["NodeID"] == name), name)

    def _remove(self, actor: _Actor) -> None:
        """Kill an actor that is lost or cannot be reached, since it might go on running."""
        self._ray.kill(actor.handle)
        self._actors.remove(actor)

    # ---- jobs ----------------------------------------------------------------------------------

    def _start_waiting(self, jobs: Sequence[JobRequest], waiting: Mapping[DeviceKind, deque[int]]) -> Iterator[Outcome]:
        """Start a job on each free device; yields the outcomes of jobs whose files cannot be read."""
        for actor in self._actors:
            if actor.device is None or actor.job is not None:
                continue
            if not waiting.get(actor.device.kind):
                continue
            index = waiting[actor.device.kind].popleft()
            try:
                self._start(actor, index, jobs, missing=())
            except (UserError, OSError) as error:
                yield Outcome(index, None, str(error), None, time.time(), time.time())

    def _start(self, actor: _Actor, index: int, jobs: Sequence[JobRequest], missing: Sequence[str]) -> None:
        """Start a job. missing: paths of files that the node lacks; each is put into the store once, for all nodes."""
        job, _ = jobs[index]
        manifests = {path: manifest_of(path) for path in job.files}
        self._manifests |= manifests
        pieces = {}
        for path in missing:
            check_size(manifests[path])
            for file in manifests[path]:
                if file.sha256 not in self._sent:
                    self._sent[file.sha256] = [self._ray.put(piece) for piece in pieces_of(file)]
                pieces[file.sha256] = self._sent[file.sha256]
        actor.running = actor.handle.run.remote(job, manifests, _text_of(job.record), pieces)
        actor.job = index

    def _forget(self, paths: Iterator[str]) -> None:
        """Drop the references to these files, so that Ray frees their pieces."""
        for path in paths:
            for file in self._manifests.pop(path, ()):
                self._sent.pop(file.sha256, None)

    def _finished(
        self, jobs: Sequence[JobRequest], waiting: Mapping[DeviceKind, deque[int]], tries: Counter[int]
    ) -> Iterator[Outcome]:
        """The outcomes of jobs that have ended. tries: by job, how often its device was lost."""
        for actor in [actor for actor in self._actors if actor.running is not None]:
            if not self._is_ready(actor.running):
                continue
            index, device = actor.job, actor.device
            assert index is not None and device is not None  # it runs something
            job, _ = jobs[index]
            errors = self._ray.exceptions
            try:
                answer: Answer = self._ray.get(actor.running)
            except errors.RayTaskError as error:
                answer = Answer(failed=f"it failed on {device.place}: {_reason(error)}")
            except errors.RayError:  # the actor, or its node, is lost
                self._receive_progress_of(actor, job.record, wait=True)
                self._remove(actor)
                tries[index] += 1
                if tries[index] < MAX_TRIES:
                    self._lost_notes.append(f"{device.place} was lost while it ran a job, which was started again")
                    waiting[device.kind].appendleft(index)
                    continue
                failed = f"its process was lost {MAX_TRIES} times, last on {device.place}; check the memory there"
                yield Outcome(index, None, failed, device, time.time(), time.time())
                continue
            if answer.missing:
                try:
                    self._start(actor, index, jobs, answer.missing)
                    continue
                except (UserError, OSError, errors.RayError) as error:
                    answer = Answer(failed=_reason(error))
            self._receive_progress_of(actor, job.record, wait=True)
            _append(job.record, answer.added)
            actor.job = actor.running = None
            yield Outcome(index, answer.answer, answer.failed, device, answer.started, answer.ended)

    def _receive_progress(self, jobs: Sequence[JobRequest]) -> None:
        for actor in self._actors:
            if actor.job is None:
                continue
            self._receive_progress_of(actor, jobs[actor.job][0].record, wait=False)
            if actor.progress is None and time.monotonic() - actor.progress_asked_at > _PROGRESS_S:
                actor.progress, actor.progress_asked_at = actor.handle.progress.remote(), time.monotonic()

    def _receive_progress_of(self, actor: _Actor, record: str | None, wait: bool) -> None:
        """Take the result of the pending `progress` call, if it has returned. wait: wait for it."""
        if actor.progress is None or not (wait or self._is_ready(actor.progress)):
            return
        try:
            actor.event, added = self._ray.get(actor.progress, timeout=_CLOSE_S)
            _append(record, added)
        except self._ray.exceptions.RayError:  # `run` raises too if the actor is lost
            return
        finally:
            actor.progress = None

    def _missing_kinds(self, waiting: Mapping[DeviceKind, deque[int]]) -> list[DeviceKind]:
        """The kinds that jobs wait for although no device of them is left."""
        present = {actor.device.kind for actor in self._actors if actor.device is not None}
        return [kind for kind, indices in waiting.items() if indices and kind not in present]


def _no_device_outcome(index: int, kind: DeviceKind) -> Outcome:
    sentence = (
        f"no device '{kind.label}' is left, and none was added within {WAIT_LIMIT_S:,.0f} s; start a node and try again"
    )
    return Outcome(index, None, sentence, None, time.time(), time.time())


def _other_versions(devices: Sequence[Device]) -> list[str]:
    """A sentence for each device whose software versions are not those of the first."""
    sentences = []
    for device in devices[1:]:
        first, other = devices[0].versions, device.versions
        names = [name for name in {**first, **other} if first.get(name) != other.get(name)]
        if names:
            changes = ", ".join(
                f"{name} {other.get(name, 'none')} instead of {first.get(name, 'none')}" for name in names
            )
            sentences.append(
                f"{device.place} has {changes}, compared with {devices[0].place}; each run states its versions"
            )
    return sentences


def _reason(error: BaseException) -> str:
    """The sentence of the error that Ray has wrapped."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, UserError):
        return str(cause)
    lines = str(cause or error).strip().splitlines()
    return shortened(lines[-1]) if lines else type(error).__name__


def _text_of(record: str | None) -> str:
    """The text of a record; "" if there is none yet."""
    path = None if record is None else Path(record)
    return path.read_text(encoding="utf-8") if path is not None and path.exists() else ""


def _append(record: str | None, text: str) -> None:
    if record is None or not text:
        return
    try:
        with open(record, "a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise not_written(record, error) from None
