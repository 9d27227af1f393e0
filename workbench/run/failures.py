"""What went wrong in a run, as one sentence."""

from __future__ import annotations

import re

from workbench.errors import UserError
from workbench.run.memory import available_bytes, in_gigabytes

# How torch, ONNX Runtime and C++ say that memory is out.
_OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|not enough memory|Failed to allocate|bad_alloc|bad allocation"
    r"|Unable to allocate|cudaErrorMemoryAllocation",
    re.IGNORECASE,
)
_NOISE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : |\x1b\[[0-9;]*m")
_SOURCE_PLACE = re.compile(r"/\S+\.(?:cc|cpp|h):\d+ ")


class TaskError(Exception):
    """A failure with its stage: "load" or "run"."""

    def __init__(self, cause: BaseException, stage: str) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.stage = stage


def stage_of(error: BaseException) -> str:
    return error.stage if isinstance(error, TaskError) else "run"


def sentence_of(error: BaseException) -> str:
    """One sentence for any exception of a run."""
    cause = error.cause if isinstance(error, TaskError) else error
    if isinstance(cause, UserError):
        return str(cause)
    text = _NOISE.sub("", str(cause)).strip()
    if isinstance(cause, MemoryError) or _OUT_OF_MEMORY.search(text):
        return (
            f"The run is out of memory ({in_gigabytes(available_bytes())} are free; {_brief(text)}); "
            "bind smaller dimensions or close other programs."
        )
    what = "The model could not be loaded" if stage_of(error) == "load" else "The run failed"
    return f"{what}: {_brief(text) or type(cause).__name__}."


def _brief(text: str) -> str:
    """The first lines of a message without the places in somebody's source, at most 400 characters."""
    words = " ".join(_SOURCE_PLACE.sub("", text).split())
    return (words[:400] + " ...") if len(words) > 400 else words.rstrip(".")
