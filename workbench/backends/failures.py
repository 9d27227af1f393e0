"""Failures of a run, as one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from workbench.backends.memory import available_bytes, in_gigabytes
from workbench.errors import UserError

# Messages of torch, ONNX Runtime and C++ for out of memory.
_OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|not enough memory|Failed to allocate|bad_alloc|bad allocation"
    r"|Unable to allocate|cudaErrorMemoryAllocation|is smaller than requested bytes",
    re.IGNORECASE,
)
_NOISE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : |\x1b\[[0-9;]*m")
_SOURCE_PLACE = re.compile(r"/\S+\.(?:cc|cpp|h):\d+ ")
# ONNX Runtime's message for a failing node: the node, perhaps a C++ function and condition, the reason.
_NODE = re.compile(r"Non-zero status code returned while running (\S+) node\. Name:'(.*?)' Status Message: (.*)", re.S)
_CONDITION = re.compile(r"^\S+::\S+\(.*?\) .*? was false\. ", re.S)
_OTHER_SIZE = re.compile(
    r"Got invalid dimensions for input: (.+?) for the following indices\s+index: (\d+) Got: (\d+) Expected: (\d+)"
)
_NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)\((\d+)\) node with name '(.*?)'")
_NEW_OPSET = re.compile(r"Opset (\d+) is under development.* domain (\S+) is till opset (\d+)", re.S)

_T = TypeVar("_T")

EVALUATOR = "evaluator"  # the stage of a failure in ONNX's own evaluator, which may be the evaluator's
NODE_FAILED = " does not run: "  # between a node and the reason, if a run failed in it


class TaskError(Exception):
    """A failure with its stage: "load", "run" or EVALUATOR."""

    def __init__(self, cause: BaseException, stage: str) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.stage = stage


def in_stage(stage: str, function: Callable[[], _T]) -> _T:
    """The function's result. Raises TaskError of that stage for any error but a TaskError, which passes."""
    try:
        return function()
    except TaskError:
        raise
    except Exception as error:
        raise TaskError(error, stage) from error


def stage_of(error: BaseException) -> str:
    return error.stage if isinstance(error, TaskError) else "run"


def sentence_of(error: BaseException, device: str = "cpu", memory_limit: int | None = None) -> str:
    """One sentence for any exception of a run.

    memory_limit: bytes that the run may take on a CUDA device; named if that limit was exceeded.
    """
    cause = error.cause if isinstance(error, TaskError) else error
    text = _NOISE.sub("", str(cause)).strip()
    on_gpu = device.startswith("cuda")
    is_full = _is_out_of_memory(cause)
    if is_full and on_gpu and memory_limit is not None and not _is_of_the_host(cause):
        return (
            f"The run needs more of the memory of {device} than its limit of {in_gigabytes(memory_limit)} "
            f"({shortened(text, 200)}); bind smaller dimensions or allow more memory."
        )
    if isinstance(cause, UserError):
        return str(cause)
    if is_full:
        free = "" if on_gpu and not _is_of_the_host(cause) else f"{in_gigabytes(available_bytes())} are free"
        details = "; ".join(filter(None, (free, _brief(text)))) or "no more is known"
        return f"The run is out of memory ({details}); bind smaller dimensions or close other programs."
    failure = "The model could not be loaded" if stage_of(error) == "load" else "The run failed"
    return f"{failure}: {_brief(text) or type(cause).__name__}."


def _is_out_of_memory(cause: BaseException) -> bool:
    """Searches only the reason, since the rest of the message contains names from the model."""
    if isinstance(cause, UserError):
        return cause.__cause__ is not None and _is_out_of_memory(cause.__cause__)
    return isinstance(cause, MemoryError) or _OUT_OF_MEMORY.search(str(cause)) is not None


def _is_of_the_host(cause: BaseException | None) -> bool:
    """Python and numpy raise MemoryError, GPU allocators never do."""
    return isinstance(cause, MemoryError) or (isinstance(cause, UserError) and _is_of_the_host(cause.__cause__))


def reason_of(error: BaseException) -> str:
    """A library's error message on one line, without codes and source locations; the class name if it is empty."""
    return _brief(_NOISE.sub("", str(error)).strip()) or type(error).__name__


def first_line(error: BaseException) -> str:
    """The first line of a message, without its full stop; the class name if there is no message."""
    lines = str(error).strip().splitlines()
    return shortened(lines[0]) if lines else type(error).__name__


def shortened(text: str, max_length: int = 300) -> str:
    """The text on one line without its full stop, cut between two words if longer than `most` characters."""
    line = " ".join(text.split())
    if len(line) <= max_length:
        return line.rstrip(". ")
    return f"{line[:max_length].rpartition(' ')[0] or line[:max_length]} ..."


def _brief(text: str) -> str:
    """A library's message without source locations, at most 400 characters."""
    size, node = _OTHER_SIZE.search(text), _NODE.search(text)
    if size is not None:
        return _other_size(*size.groups())
    if (opset := _NEW_OPSET.search(text)) is not None:
        return _too_new(*opset.groups())
    if (missing := _NO_KERNEL.search(text)) is not None:
        return _without_kernel(*missing.groups())
    if node is not None:
        op, name, reason = node.groups()
        reason = _CONDITION.sub("", _SOURCE_PLACE.sub("", reason))
        return f"{f'{op} {name!r}' if name else op}{NODE_FAILED}{shortened(reason, 400).replace('. ', '; ')}"
    return shortened(_SOURCE_PLACE.sub("", text), 400)


def _other_size(name: str, axis: str, got: str, expected: str) -> str:
    return f"axis {axis} of input '{name}' is {got} long, and the file fixes it to {expected}"


def _without_kernel(op: str, opset: str, name: str) -> str:
    node = f"{op} {name!r}" if name else op
    return f"ONNX Runtime has no kernel for {node} of opset {opset} in its element types on this device"


def _too_new(opset: str, domain: str, newest: str) -> str:
    advice = f"write it with opset {newest}, or install a newer ONNX Runtime"
    return f"the model has opset {opset} of {domain}, and this ONNX Runtime runs at most {newest}; {advice}"


class BackendError(UserError):
    """The machine or the backend does not support the request."""
