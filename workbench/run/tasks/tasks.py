"""The tasks of the worker, by the kind of the request."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from workbench.backends.failures import EVALUATOR, BackendError, TaskError, in_stage, reason_of
from workbench.backends.onnxruntime.placement import assigned_providers
from workbench.backends.onnxruntime.sessions import fresh_session, run_session, session_of
from workbench.backends.tensors import load_tensors, save_tensors
from workbench.backends.torch.executor.opening import check_device, open_executor
from workbench.backends.torch.packaging import write_package
from workbench.run.measurement.isolated import isolated_task
from workbench.run.measurement.operator_times import operator_times
from workbench.run.measurement.timing import measure_variants
from workbench.run.tasks.onnx_reference import reason_for_reference_evaluator, run_by_reference
from workbench.run.tasks.tool_tasks import convert_by_tool, same_values
from workbench.run.tasks.value_tasks import compare_values, record_values
from workbench.run.worker.machine import devices, versions

_Report = Callable[[dict[str, Any]], None]
_Tensors = dict[str, np.ndarray]


def _outputs(request: Mapping[str, Any], report: _Report) -> dict[str, Any]:
    """Run `model` on the tensors in `inputs`, write the results to `outputs`."""
    inputs = load_tensors(request["inputs"])
    fallbacks: dict[str, str] = {}
    by = ""
    check_device(request["device"])
    if request["backend"] == "torch":
        executor = open_executor(request["model"], request["device"], request["dtype"])
        run, fallbacks = executor.run, executor.fallbacks
    else:
        open_one = fresh_session if request["anew"] else session_of
        run, by = _opened(request["model"], partial(open_one, request["model"], request["level"]))
    start = time.perf_counter()
    results = in_stage("run", partial(run, inputs))
    seconds = time.perf_counter() - start
    save_tensors(request["outputs"], results)
    return {"seconds": seconds, "fallbacks": dict(fallbacks), "by": by}


def _parts(request: Mapping[str, Any], report: _Report) -> dict[str, Any]:
    """Run the models of `parts` in order, each on the tensors in `inputs` and on results of those before it.

    The tensors of a sequence `s` are `s[0]`, `s[1]`, ...
    Write `results` to `outputs`. Reports the number of parts that have run, with the text `stage`.
    """
    values = load_tensors(request["inputs"])
    parts = request["parts"]
    for number, part in enumerate(parts):
        report({"stage": request["stage"], "done": number, "total": len(parts)})
        run, _ = _opened(part["model"], partial(fresh_session, part["model"], "disabled"))
        read = set(part["read"])
        inputs = {name: values[name] for name in values if name in read or name.rpartition("[")[0] in read}
        values |= in_stage("run", partial(run, inputs))
        for name in part["spent"]:
            values.pop(name, None)
    save_tensors(request["outputs"], {name: values[name] for name in request["results"]})
    return {}


def _opened(model: str, open_session: Callable[[], Any]) -> tuple[Callable[[_Tensors], _Tensors], str]:
    """A function that runs the model, and what runs it in place of ONNX Runtime; "" if that does."""
    try:
        session = open_session()
        return (lambda tensors: run_session(session, tensors)), ""
    except TaskError as error:
        by = reason_for_reference_evaluator(error) or ""
        if not by:
            raise
        return partial(_by_reference, model, by), by


def _by_reference(model: str, by: str, tensors: _Tensors) -> _Tensors:
    try:
        return run_by_reference(model, tensors)
    except Exception as error:
        raise TaskError(BackendError(f"The run failed in {by}: {reason_of(error)}."), EVALUATOR) from error


def _devices(request: Mapping[str, Any], report: _Report) -> dict[str, Any]:
    return {"devices": devices(), "versions": versions()}


TASKS: Mapping[str, Callable[[Mapping[str, Any], _Report], dict[str, Any]]] = {
    "outputs": _outputs,
    "parts": _parts,
    "measure": measure_variants,
    "operator_times": operator_times,
    "devices": _devices,
    "apart": isolated_task(),
    "package": write_package,
    "placement": assigned_providers,
    "tool": convert_by_tool,
    "same_values": same_values,
    "record_values": record_values,
    "compare_values": compare_values,
}
