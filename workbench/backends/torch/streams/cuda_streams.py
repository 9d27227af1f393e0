"""Runs launches on CUDA streams, with events where one stream waits for another.

The run is recorded as one CUDA graph, in which the streams are branches
(https://docs.pytorch.org/docs/stable/notes/cuda.html, "Usage with multiple streams").
"""

from __future__ import annotations

from typing import Any

from workbench.backends.torch.streams.launches import Launches, run_named


class StreamedRun:
    """Runs launches after the current stream, which continues when all streams have ended."""

    def __init__(self, launches: Launches) -> None:
        import torch

        self._launches = launches
        self._device = launches.arena.bytes.device
        self._streams = [torch.cuda.Stream(self._device) for _ in launches.schedule.streams]
        self._awaited = {operator for launch in launches.in_order for operator in launch.waits}

    def run(self) -> tuple[Any, ...]:
        import torch

        current = torch.cuda.current_stream(self._device)
        for node, write in self._launches.prologue:
            run_named(node, write)
        for stream in self._streams:
            stream.wait_stream(current)
        events: dict[int, Any] = {}
        for launch in self._launches.in_order:
            stream = self._streams[launch.stream]
            with torch.cuda.stream(stream):
                for operator in launch.waits:
                    stream.wait_event(events[operator])
                launch.run()
                if launch.operator in self._awaited:
                    events[launch.operator] = stream.record_event()
        for stream in self._streams:
            current.wait_stream(stream)
        return self._launches.arena.outputs
