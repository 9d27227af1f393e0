"""The worker process, `python -m workbench.run.tasks`, used by `workbench.run.worker.client`.

Requests and answers are JSON objects, one per line: first `{"ready": true}`, then for
each request any number of `{"progress": ...}`, then `{"result": ...}` or
`{"error": sentence, "stage": ...}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.support.imports import import_onnx_ir

import_onnx_ir()

from workbench.backends.failures import sentence_of, stage_of  # noqa: E402
from workbench.backends.torch.executor.opening import check_device  # noqa: E402
from workbench.run.tasks.tasks import TASKS  # noqa: E402


def main() -> None:
    """Serve until the input ends."""
    requests: queue.Queue[dict[str, Any]] = queue.Queue()
    answer = _private_output()
    _be_killed_first()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    answer({"ready": True})
    while True:
        request = requests.get()
        limit: int | None = request["memory_limit_bytes"]
        try:
            _limit_device_memory(request["device"], limit)
            task = TASKS[request.pop("kind")]
            answer({"result": task(request, lambda event: answer({"progress": event}))})
        except Exception as error:  # every failure of a run becomes a sentence here
            answer({"error": sentence_of(error, request["device"], limit), "stage": stage_of(error)})


def _limit_device_memory(device: str, limit: int | None) -> None:
    """Limit the bytes that torch may allocate on a CUDA device (None: all); CPU memory is watched by the client."""
    if not device.startswith("cuda"):
        return
    check_device(device)
    import torch

    index = torch.device(device).index or 0
    total = torch.cuda.get_device_properties(index).total_memory
    torch.cuda.set_per_process_memory_fraction(1.0 if limit is None else min(1.0, limit / total), index)


def _private_output() -> Callable[[dict[str, Any]], None]:
    """Reserve standard output for answers; output of libraries goes to standard error."""
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    stream.write(b"\n")  # ends a line that may have been printed before

    def answer(message: dict[str, Any]) -> None:
        stream.write(json.dumps(message).encode() + b"\n")
        stream.flush()

    return answer


def _be_killed_first() -> None:
    """Ask the system to kill the worker, not the application, if memory runs out (proc(5), oom_score_adj)."""
    with contextlib.suppress(OSError):  # not Linux, or not permitted: the system chooses
        Path("/proc/self/oom_score_adj").write_text("1000")


def _read(requests: queue.Queue[dict[str, Any]]) -> None:
    """Read requests into the queue; exit when the application is gone, even during a run."""
    for line in sys.stdin.buffer:
        requests.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
