"""The worker's tasks for tools: run a tool's `convert`, and compare the values of two models."""

from __future__ import annotations

import importlib
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ValueInfoProto

from workbench.backends.failures import TaskError, reason_of, shortened
from workbench.backends.onnxruntime.sessions import open_session
from workbench.backends.process_memory import peak
from workbench.backends.tensors import load_tensors
from workbench.errors import UserError
from workbench.run.compare import compare
from workbench.run.tolerances import Tolerance

_FEW = 16  # elements that are compared first
_KILOBYTE = 1 if sys.platform == "darwin" else 1024  # the unit of ru_maxrss
_Report = Callable[[dict[str, Any]], None]


class ConversionError(UserError):
    """The tool raised an error, or wrote nothing."""


def convert_by_tool(request: Mapping[str, Any], report: _Report) -> dict[str, Any]:
    """Run the tool on the file `source`; it writes `target`. Returns its time, peak memory and message."""
    target = Path(request["target"])
    started = time.perf_counter()
    try:
        tool = getattr(importlib.import_module(request["module"]), request["factory"])(**request["fields"])
        message = tool.convert(Path(request["source"]), target)
    except (MemoryError, UserError):
        raise
    except Exception as error:  # tools raise exceptions of any class
        raise ConversionError(f"it ended with {type(error).__name__}: {reason_of(error)}") from error
    if not target.is_file():
        raise ConversionError("it wrote no model")
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "peak_bytes": max(peak(), _peak_of_children()), "log": message or ""}


def _peak_of_children() -> int:
    """The largest resident memory of a command that the tool ran, in bytes."""
    if sys.platform == "win32":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _KILOBYTE


def same_values(request: Mapping[str, Any], report: _Report) -> dict[str, Any]:
    """Match the second model's `values` with equal ones of the first; both run once in ONNX Runtime, unoptimized.

    Returns `same`: name in the second model -> name in the first. Values of one name are compared first, then the
    others of equal type and shape.
    """
    inputs = load_tensors(request["inputs"])
    allowed = {name: Tolerance(**fields) for name, fields in request["tolerances"].items()}
    (first, second), (first_names, second_names) = request["models"], request["values"]
    before = values_of(Path(first), inputs, first_names)
    try:
        after = values_of(Path(second), inputs, second_names)
    except Exception as error:  # onnxruntime's own classes have no common base but Exception
        sentence = f"ONNX Runtime does not run what the tool wrote ({shortened(str(error), 200)})"
        raise TaskError(ConversionError(sentence), "load") from error
    same = {name: name for name in after if name in before and _is_same(before[name], after[name], allowed[name])}
    unmatched = defaultdict(list)
    for name, array in before.items():
        if name not in same and _is_distinctive(array):
            unmatched[array.dtype, array.shape].append(name)
    for name, array in after.items():
        candidates = unmatched.get((array.dtype, array.shape), []) if name not in same else []
        result = next((other for other in candidates if _is_same(before[other], array, allowed[other])), None)
        if result is not None:
            same[name] = result
            candidates.remove(result)
    return {"same": same}


def _is_same(a: np.ndarray, b: np.ndarray, tolerance: Tolerance) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    head, other_head = ({"": array.reshape(-1)[:_FEW]} for array in (a, b))  # arrays that differ mostly differ there
    return compare(head, other_head, tolerance).ok and compare({"": a}, {"": b}, tolerance).ok


def _is_distinctive(array: np.ndarray) -> bool:
    """Whether equal numbers identify a value; those of a mask, a size or a constant do not."""
    return array.dtype.kind == "f" and array.size >= _FEW and bool((array != array.reshape(-1)[0]).any())


def values_of(file: Path, inputs: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[str, np.ndarray]:
    """The tensors of these names, constants included, in one run of the model; names that it lacks are left out."""
    model = onnx.load(file, load_external_data=False)
    computed = {value for node in model.graph.node for value in node.output} | {t.name for t in model.graph.initializer}
    outputs = {output.name for output in model.graph.output}
    model.graph.output.extend(ValueInfoProto(name=name) for name in names if name in computed - outputs)
    copy = file.with_name(f"values-{file.name}")  # external data stays where it is
    onnx.save(model, copy)
    session = open_session(str(copy), "disabled", arena=False)
    feeds = {read.name: inputs[read.name] for read in session.get_inputs()}
    output_names = [output.name for output in session.get_outputs() if output.name in {*names}]
    return dict(zip(output_names, session.run(output_names, feeds), strict=True))
