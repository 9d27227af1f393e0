"""One run of our executor, watched operator by operator: time, and bytes that live."""

from __future__ import annotations

import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.ir import Node


@dataclass(frozen=True)
class Profile:
    """operators: `name`, `op`, `time_ms`. timeline: `name`, `op`, `live_bytes` after it, `peak_bytes` while it ran.

    Bytes are those of inputs and computed values, weights apart.
    """

    operators: list[dict[str, Any]]
    timeline: list[dict[str, Any]]


@dataclass
class Ledger:
    """Bytes of the storages that living tensors hold; views of one storage count once.

    free: storages that do not count, those of the weights.
    """

    free: frozenset[int]
    live_bytes: int = 0
    _holders: dict[int, int] = field(default_factory=dict)  # storage -> tensors that live on it
    _seen: set[int] = field(default_factory=set)  # ids of those tensors

    def enter(self, value: Any) -> int:
        """Take note of a result (a tensor, a list of them, or nothing); the bytes that it added."""
        if isinstance(value, list):
            return sum(self.enter(item) for item in value)
        if not hasattr(value, "untyped_storage") or id(value) in self._seen:
            return 0
        storage = value.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        if place == 0 or place in self.free:
            return 0
        new = place not in self._holders
        self._holders[place] = self._holders.get(place, 0) + 1
        self._seen.add(id(value))
        weakref.finalize(value, self._leave, id(value), place, size).atexit = False
        self.live_bytes += size if new else 0
        return size if new else 0

    def _leave(self, tensor: int, place: int, size: int) -> None:
        self._seen.discard(tensor)
        self._holders[place] -= 1
        if self._holders[place] == 0:
            del self._holders[place]
            self.live_bytes -= size


def profile(executor: Any, tensors: Mapping[str, Any], gpu: str | None = None) -> Profile:
    """Run a `TorchExecutor` once on uploaded inputs and watch it. On a GPU each operator is waited for."""
    operators: list[dict[str, Any]] = []
    timeline: list[dict[str, Any]] = []
    ledger = Ledger(frozenset(weight.untyped_storage().data_ptr() for weight in executor.weights))
    for value in tensors.values():
        ledger.enter(value)
    before, clock = ledger.live_bytes, time.perf_counter()

    def observe(node: Node, results: tuple[Any, ...]) -> None:
        nonlocal before, clock
        _wait_for(gpu)
        seconds = time.perf_counter() - clock
        added = sum(ledger.enter(value) for value in results)
        # What the node freed is gone already; while it ran, it was there beside the results.
        operators.append({"name": node.name, "op": node.op, "time_ms": seconds * 1e3})
        timeline.append(
            {"name": node.name, "op": node.op, "live_bytes": ledger.live_bytes, "peak_bytes": before + added}
        )
        before, clock = ledger.live_bytes, time.perf_counter()

    _wait_for(gpu)
    clock = time.perf_counter()
    executor.run_tensors(tensors, observe)
    return Profile(operators, timeline)


def _wait_for(gpu: str | None) -> None:
    if gpu is None:
        return
    import torch

    torch.cuda.synchronize(gpu)
