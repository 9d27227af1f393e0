"""Jobs on the nodes of a Ray cluster: an actor for each device, each job on one of its kind, again if that is lost.

The machine that gives the jobs, the driver, writes all that is kept; nodes write nothing but temporary files.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import UserError
from workbench.run.worker.failures import first_line, shortened
from workbench.study.cluster.device_actor import Answer, DeviceActor
from workbench.study.cluster.jobs import Asked, Device, DeviceKind, JobsProgress, OnJobs, Outcome
from workbench.study.cluster.travelling_files import Manifest, check_size, manifest_of, pieces_of
from workbench.support.files import not_written

START_LIMIT_S = 120.0  # until the first device must have told its name
_OTHERS_S = 30.0  # for the others, after that
WAIT_LIMIT_S = 600.0  # for another device of a kind, after the last one was lost
MOST_TRIES = 3  # of a job, each on a device that was lost
_LOOK_S, _NODES_S, _PROGRESS_S, _CLOSE_S = 0.5, 3.0, 1.0, 5.0
_THREADS = 3  # of an actor: the job, progress, close


class ClusterError(UserError):
    """The cluster cannot be used as asked."""


@dataclass
class _Actor:
    """An actor and what is asked of it. device: None until it has told. job: the index of what it runs."""

    node: str
    handle: Any
    described: Any
    device: Device | None = None
    job: int | None = None
    running: Any = None
    progress: Any = None
    asked_at: float = 0.0
    event: Mapping[str, Any] = field(default_factory=lambda: {"stage": "sent", "done": 0, "total": 1})


class OnRay:
    """An executor. ray: the package, connected to a cluster. `notes`: nodes that are not used, other versions."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._type = "cpu"
        self._actors: list[_Actor] = []
        self._unusable: dict[str, str] = {}  # by node
        self._lost: list[str] = []  # sentences
        self._seen: dict[str, Device] = {}  # by place
        self._manifests: dict[str, Manifest] = {}  # by path, of jobs that are not done
        self._sent: dict[str, list[Any]] = {}  # by SHA-256, references to the pieces of a file

    @property
    def notes(self) -> list[str]:
        devices = list(self._seen.values())
        remarks = [device.remark for device in devices if device.remark]
        return [*self._unusable.values(), *self._lost, *remarks, *_other_versions(devices)]

    def devices(self, device: str) -> Sequence[Device]:
        """Those that answer within some seconds. Others are used when they do. Raises ClusterError if there is none."""
        if device != self._type:
            self.close()
        self._type, ends, has_one = device, time.monotonic() + START_LIMIT_S, False
        self._look_for_nodes()
        while time.monotonic() < ends and any(actor.device is None for actor in self._actors):
            self._ready(_LOOK_S)
            self._hear_names()
            if not has_one and any(actor.device is not None for actor in self._actors):
                has_one, ends = True, time.monotonic() + _OTHERS_S
        results = [actor.device for actor in self._actors if actor.device is not None]
        if results:
            return results
        busy = "" if not self._actors else "; those that there are do not answer, or other programs have reserved them"
        reasons = "".join(f"; {reason}" for reason in self.notes)
        raise ClusterError(f"no node of the cluster has a free device '{device}'{busy}{reasons}")

    def run(self, jobs: Sequence[Asked], on_progress: OnJobs) -> Iterator[Outcome]:
        """Each job's outcome as it is done. Raises ClusterError if the cluster is lost."""
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
            outcomes = list(self._begin(jobs, waiting))
            self._ready(_LOOK_S)
            self._hear_names()
            outcomes += self._ended(jobs, waiting, tries)
            self._hear_progress(jobs)
            busy = {actor.job: actor.event for actor in self._actors if actor.job is not None}
            lacking = self._lacking(waiting)
            lost_at = lost_at if lacking and not busy else time.monotonic()
            if time.monotonic() - lost_at > WAIT_LIMIT_S:
                outcomes += [_given_up(index, kind) for kind in lacking for index in waiting[kind]]
                for kind in lacking:
                    waiting[kind].clear()
            for outcome in outcomes:
                done += 1
                uses.subtract(jobs[outcome.index][0].files)
                self._forget(path for path in jobs[outcome.index][0].files if not uses[path])
                yield outcome
            message = f"waiting for a device '{lacking[0].words}', of which none is left" if lacking else ""
            count = sum(actor.device is not None for actor in self._actors)
            on_progress(JobsProgress(done, len(jobs), count, busy, message, time.monotonic() - began))

    def close(self) -> None:
        """End all actors, and what they run."""
        closing = [actor.handle.close.remote() for actor in self._actors]
        if closing:
            self._ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_S)
        for actor in self._actors:
            self._ray.kill(actor.handle)
        self._actors.clear()

    # ---- nodes and their devices -------------------------------------------------------------

    def _look_for_nodes(self) -> None:
        """An actor for each device that has none. Raises ClusterError if the cluster does not answer."""
        try:
            nodes = [node for node in self._ray.nodes() if node["Alive"]]
        except Exception as error:  # of the connection; Ray has several classes for it
            raise ClusterError(f"the cluster does not answer any more: {first_line(error)}") from None
        for node in nodes:
            name, resources = node["NodeID"], node["Resources"]
            cpus = resources.get("CPU", 0.0)
            wanted = int(cpus >= 1) if self._type == "cpu" else int(resources.get("GPU", 0))
            there = sum(actor.node == name for actor in self._actors)
            for _ in range(0 if name in self._unusable else wanted - there):
                self._actors.append(self._reserved(name, cpus))

    def _reserved(self, node: str, cpus: float) -> _Actor:
        """The whole CPU, or a GPU and one core, is reserved, so that Ray begins nothing else there."""
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

    def _ready(self, timeout_s: float) -> None:
        """Wait until something is done, at most so long."""
        asked = [actor.running or actor.described for actor in self._actors]
        asked = [reference for reference in asked if reference is not None]
        if asked:
            self._ray.wait(asked, num_returns=1, timeout=timeout_s)
        else:
            time.sleep(timeout_s)

    def _is_done(self, reference: Any) -> bool:
        return bool(self._ray.wait([reference], num_returns=1, timeout=0)[0])

    def _hear_names(self) -> None:
        for actor in [actor for actor in self._actors if actor.described is not None]:
            if not self._is_done(actor.described):
                continue
            try:
                actor.device, actor.described = self._ray.get(actor.described), None
                self._seen[actor.device.place] = actor.device
            except self._ray.exceptions.RayError as error:
                self._remove(actor)
                if self._is_alive(actor.node):
                    self._unusable[actor.node] = f"node {self._words_of(actor.node)} is not used: {_reason(error)}"

    def _is_alive(self, name: str) -> bool:
        return any(node["NodeID"] == name and node["Alive"] for node in self._ray.nodes())

    def _words_of(self, name: str) -> str:
        return next((str(node["NodeManagerHostname"]) for node in self._ray.nodes() if node["NodeID"] == name), name)

    def _remove(self, actor: _Actor) -> None:
        """The actor is lost, or cannot be reached; it must not go on by itself."""
        self._ray.kill(actor.handle)
        self._actors.remove(actor)

    # ---- jobs ----------------------------------------------------------------------------------

    def _begin(self, jobs: Sequence[Asked], waiting: Mapping[DeviceKind, deque[int]]) -> Iterator[Outcome]:
        """Give each free device the first job of its kind; yields those whose files cannot be read."""
        for actor in self._actors:
            if actor.device is None or actor.job is not None:
                continue
            if not waiting.get(actor.device.kind):
                continue
            index = waiting[actor.device.kind].popleft()
            try:
                self._give(actor, index, jobs, missing=())
            except (UserError, OSError) as error:
                yield Outcome(index, None, str(error), None, time.time(), time.time())

    def _give(self, actor: _Actor, index: int, jobs: Sequence[Asked], missing: Sequence[str]) -> None:
        """missing: the paths whose files the node lacks; they are put into the store once, for all nodes."""
        job, _ = jobs[index]
        manifests = {path: manifest_of(path) for path in job.files}
        self._manifests |= manifests
        pieces = {}
        for path in missing:
            check_size(manifests[path])
            for one in manifests[path]:
                if one.sha256 not in self._sent:
                    self._sent[one.sha256] = [self._ray.put(piece) for piece in pieces_of(one)]
                pieces[one.sha256] = self._sent[one.sha256]
        kept = _text_of(job.record)
        actor.running = actor.handle.run.remote(job, manifests, kept, pieces)
        actor.job = index

    def _forget(self, paths: Iterator[str]) -> None:
        """What no job needs any more leaves the store."""
        for path in paths:
            for one in self._manifests.pop(path, ()):
                self._sent.pop(one.sha256, None)

    def _ended(
        self, jobs: Sequence[Asked], waiting: Mapping[DeviceKind, deque[int]], tries: Counter[int]
    ) -> Iterator[Outcome]:
        for actor in [actor for actor in self._actors if actor.running is not None]:
            if not self._is_done(actor.running):
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
                self._hear_one(actor, job.record, wait=True)
                self._remove(actor)
                tries[index] += 1
                if tries[index] < MOST_TRIES:
                    self._lost.append(f"{device.place} was lost while it ran a job, which began again")
                    waiting[device.kind].appendleft(index)
                    continue
                failed = (
                    f"the process that ran it was lost {MOST_TRIES} times, at last on {device.place}; see its memory"
                )
                yield Outcome(index, None, failed, device, time.time(), time.time())
                continue
            if answer.missing:
                try:
                    self._give(actor, index, jobs, answer.missing)
                    continue
                except (UserError, OSError, errors.RayError) as error:
                    answer = Answer(failed=_reason(error))
            self._hear_one(actor, job.record, wait=True)
            _append(job.record, answer.added)
            actor.job = actor.running = None
            yield Outcome(index, answer.answer, answer.failed, device, answer.started, answer.ended)

    def _hear_progress(self, jobs: Sequence[Asked]) -> None:
        for actor in self._actors:
            if actor.job is None:
                continue
            self._hear_one(actor, jobs[actor.job][0].record, wait=False)
            if actor.progress is None and time.monotonic() - actor.asked_at > _PROGRESS_S:
                actor.progress, actor.asked_at = actor.handle.progress.remote(), time.monotonic()

    def _hear_one(self, actor: _Actor, record: str | None, wait: bool) -> None:
        """Take the progress that was asked for, if it is there."""
        if actor.progress is None or not (wait or self._is_done(actor.progress)):
            return
        try:
            actor.event, added = self._ray.get(actor.progress, timeout=_CLOSE_S)
            _append(record, added)
        except self._ray.exceptions.RayError:  # the job's own answer says that the actor is lost
            return
        finally:
            actor.progress = None

    def _lacking(self, waiting: Mapping[DeviceKind, deque[int]]) -> list[DeviceKind]:
        """The kinds that jobs wait for and of which no device is left."""
        there = {actor.device.kind for actor in self._actors if actor.device is not None}
        return [kind for kind, left in waiting.items() if left and kind not in there]


def _given_up(index: int, kind: DeviceKind) -> Outcome:
    sentence = f"no device '{kind.words}' was left, and none came within {WAIT_LIMIT_S:,.0f} s; start a node and again"
    return Outcome(index, None, sentence, None, time.time(), time.time())


def _other_versions(devices: Sequence[Device]) -> list[str]:
    """A sentence for each device whose software is not that of the first."""
    sentences = []
    for device in devices[1:]:
        ours, theirs = devices[0].versions, device.versions
        names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        if names:
            words = ", ".join(
                f"{name} {theirs.get(name, 'none')} instead of {ours.get(name, 'none')}" for name in names
            )
            sentences.append(
                f"{device.place} has {words}, compared with {devices[0].place}; each run says its own versions"
            )
    return sentences


def _reason(error: BaseException) -> str:
    """The sentence of an error that Ray wraps."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, UserError):
        return str(cause)
    lines = str(cause or error).strip().splitlines()
    return shortened(lines[-1]) if lines else type(error).__name__


def _text_of(record: str | None) -> str:
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
