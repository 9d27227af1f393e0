"""Launches on CUDA: a stream for each lane, and events where one waits for another.

Meant to be recorded as one CUDA graph, whose branches the streams then are
(https://docs.pytorch.org/docs/stable/notes/cuda.html, "Usage with multiple streams").
"""

from __future__ import annotations

from typing import Any

from workbench.run.torch.streams.launches import Launches, run_named


class StreamedRun:
    """Runs launches after the current stream, which goes on when all lanes have ended."""

    def __init__(self, launches: Launches) -> None:
        import torch

        self._launches = launches
        self._device = launches.arena.bytes.device
        self._streams = [torch.cuda.Stream(self._device) for _ in launches.schedule.lanes]
        self._awaited = {one for launch in launches.in_order for one in launch.waits}

    def run(self) -> tuple[Any, ...]:
        import torch

        current = torch.cuda.current_stream(self._device)
        for node, write in self._launches.first:
            run_named(node, write)
        for stream in self._streams:
            stream.wait_stream(current)
        ended: dict[int, Any] = {}
        for launch in self._launches.in_order:
            stream = self._streams[launch.lane]
            with torch.cuda.stream(stream):
                for one in launch.waits:
                    stream.wait_event(ended[one])
                launch.run()
                if launch.operator in self._awaited:
                    ended[launch.operator] = stream.record_event()
        for stream in self._streams:
            current.wait_stream(stream)
        return self._launches.arena.outputs
