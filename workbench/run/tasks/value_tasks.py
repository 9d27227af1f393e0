"""Tasks of the worker that compare two models by the values inside of them, on several inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.backends.failures import TaskError, in_stage
from workbench.backends.onnxruntime.sessions import run_session
from workbench.backends.tensors import load_tensors, save_tensors
from workbench.run.inner_values.matching import ValueMatch, ValueMatcher, is_partly_equal
from workbench.run.inner_values.recording import Movements, message_of, session_with_values
from workbench.run.inner_values.rounding import Values, holds_floats
from workbench.run.inner_values.structure import CommonNodes, ModelStructure, unseen_branches
from workbench.run.tolerances import Tolerance

_Report = Callable[[dict[str, Any]], None]


# ---- the original --------------------------------------------------------------------


def record_values(request: Mapping[str, Any], report: _Report) -> dict[str, Any]:
    """Run `model` on each of `inputs` and write its outputs and `values` to the files in `outputs` and `recorded`.

    The first run must succeed. Of the others those up to `usual` are kept, unless numbers become infinite that are
    not in the first; then those that make a channel live that was not (`channels`: the axis of each value that has
    them), until none is left.
    No run but the first begins after `seconds`. The first `known` ran before.

    Returns `kept`, the places of the inputs that are kept, and `alive` and `channels`, their numbers.
    """
    start, session = time.monotonic(), _open(request["model"], request["values"])
    channels, kept, is_usually_finite = Channels(request["channels"]), list[int](), True
    for number, path in enumerate(request["inputs"]):
        is_late = time.monotonic() - start > request["seconds"]
        if kept and (is_late or (number >= request["usual"] and not channels.dead)):
            break
        if number < request["known"]:
            channels.update(load_tensors(request["recorded"][number]))
            is_usually_finite = _is_finite(load_tensors(request["outputs"][number]))
            kept.append(number)
            continue
        try:
            tensors = _run(session, load_tensors(path))
        except TaskError:
            if not kept:
                raise
            continue  # the model does not take this input
        outputs = _without(tensors, request["values"])
        if kept and is_usually_finite and not _is_finite(outputs):
            continue
        is_usually_finite = is_usually_finite and _is_finite(outputs)
        if channels.update(tensors) or number < request["usual"]:
            save_tensors(request["outputs"][number], outputs)
            save_tensors(request["recorded"][number], tensors)
            kept.append(number)
    return {"kept": kept, "alive": channels.alive, "channels": channels.count}


class Channels:
    """Which channels of a model's values were alive: not one number everywhere, over all runs so far.

    axes: by value, the axis of its channels.
    """

    def __init__(self, axes: Mapping[str, int]) -> None:
        self._axes = axes
        self._ends: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # the least and the largest number of each channel

    def update(self, tensors: Values) -> bool:
        """Whether one more channel is alive since this run."""
        before = self.alive
        for value, axis in self._axes.items():
            array = tensors.get(value)
            if array is None or not array.size or array.ndim <= axis:
                continue
            others = tuple(other for other in range(array.ndim) if other != axis)
            least, most = array.min(axis=others), array.max(axis=others)
            if value in self._ends and self._ends[value][0].shape == least.shape:
                least, most = np.minimum(self._ends[value][0], least), np.maximum(self._ends[value][1], most)
            self._ends[value] = least, most
        return self.alive > before

    @property
    def count(self) -> int:
        return sum(least.size for least, _ in self._ends.values())

    @property
    def alive(self) -> int:
        return sum(int(np.count_nonzero(least != most)) for least, most in self._ends.values())

    @property
    def dead(self) -> int:
        return self.count - self.alive


# ---- another graph ---------------------------------------------------------------------


def compare_values(request: Mapping[str, Any], report: _Report) -> dict[str, Any]:
    """Run `model` on each of `inputs`, write its outputs to `outputs`, and compare its values with the recorded ones.

    values:   of the file, besides its outputs.
    order:    values and outputs to compare, in topological order. Comparison ends at the first that differs.
    must:     the tolerances of outputs, which must be the original's of their names.
    known:    inputs that both have.
    narrowed: tolerances of the original's values that were narrowed on purpose.
    numbers_only: whether elements do not count that are infinite or NaN in the original.
    original: `model`, `values`, the sizes of further ones of float32 that are too `large` to be recorded, those of all
              that are `unrecorded`, and the files `inputs` and `recorded` of its runs.

    Returns `equal`, how many values besides outputs are equal to one of the original, `explained`, those of `must`
    whose differences rounding explains, and `first`, the first value that differs, the `name` that it has in the
    original, `how`, and in which `run`; `unseen`, branches that no run took and that are not the original's.
    """
    original = request["original"]
    structures = [ModelStructure(message_of(file), file) for file in (original["model"], request["model"])]
    session = _open(request["model"], request["values"])
    runs, fed = [], []
    for source, target in zip(request["inputs"], request["outputs"], strict=True):
        fed.append(load_tensors(source))
        tensors = _run(session, fed[-1])
        save_tensors(target, _without(tensors, request["values"]))
        runs.append(tensors)
    right = [load_tensors(path) for path in original["recorded"]]
    inputs = [load_tensors(path) for path in original["inputs"]]
    movements = Movements(original["model"], original["values"], original["large"], inputs, right)
    narrowed = {name: Tolerance(**fields) for name, fields in request["narrowed"].items()}
    matcher = ValueMatcher(right, movements.of, narrowed, request["numbers_only"], original["unrecorded"])
    found = _first_difference(request, structures[1], CommonNodes(*structures), matcher, runs)
    unseen = unseen_branches(
        structures[0], structures[1], [{**given, **run} for given, run in zip(fed, runs, strict=True)]
    )
    return {**found, "unseen": unseen}


def _first_difference(
    request: Mapping[str, Any],
    second: ModelStructure,
    common: CommonNodes,
    matcher: ValueMatcher,
    runs: Sequence[Values],
) -> dict[str, Any]:
    must = {value: Tolerance(**fields) for value, fields in request["must"].items()}
    known = {value: value for value in request["known"]}  # values that are equal to one of the original, by name
    # Values that may stand for something else under the name: a scale or a shift was moved behind them, say.
    others: dict[str, ValueMatch] = {}
    explained: list[str] = []
    equal, parameter = 0, None

    def result(first: dict[str, Any] | None) -> dict[str, Any]:
        return {"equal": equal, "explained": explained, "first": first}

    for value in request["order"]:
        is_same = common.is_same(value, known)
        if is_same:
            known[value], equal = value, equal + (value not in must)
        if (is_same and value not in must) or any(value not in run for run in runs):
            continue
        tolerance = must.get(value) if is_same else None  # of the same call only its operands can be off
        match = matcher.by_name(runs, value, tolerance) if value in must else matcher.match(runs, value)
        if match.name == value and match.wrong and (is_same or is_partly_equal(match) or value in must):
            match = ValueMatch(value) if matcher.is_explained(runs, value, match) else match
        if match.name == value and not match.wrong and value in must:
            explained.append(value)
        if is_same or (match.wrong and not _is_judged(runs[0][value]) and value not in must):
            continue
        is_known = match.name and (not match.wrong or is_partly_equal(match))
        if not is_known and value in second.weighted:
            match = matcher.mostly_equal(runs, value) or match
            if match.wrong and is_partly_equal(match) and matcher.is_explained(runs, value, match):
                match = ValueMatch(match.name)
        is_twin = match.name == value and common.is_twin(value, known)
        if match.name and not match.wrong:
            known[value], equal = match.name, equal + (value not in must)
            words = common.other_parameter(value) if is_twin and parameter is None else ""
            parameter = {"value": value, "name": value, "how": words, "run": 0} if words else parameter
        elif match.wrong and value not in must and _is_moved(value, match, is_twin, common):
            others[value] = match
        elif match.wrong and (is_partly_equal(match) or value in must):
            cause = next((other for other in others if second.leads_to(other, value, known)), value)
            return result(_as_json(cause, others.get(cause, match)))
        elif is_twin:
            others[value] = match
    swallowed = next((value for value in others if _is_swallowed(value, second, common, known)), None)
    return result(parameter if swallowed is None else _as_json(swallowed, others[swallowed]))


def _is_moved(value: str, match: ValueMatch, is_twin: bool, common: CommonNodes) -> bool:
    """Whether a scale or a shift was moved behind the value."""
    return match.is_rescaled and not (is_twin and common.other_parameter(value))


def _is_swallowed(value: str, second: ModelStructure, common: CommonNodes, known: Mapping[str, str]) -> bool:
    """Whether a node that is the original's takes no notice of the difference: no other node makes up for it."""
    return any(common.is_same_but_for_one(result, known) for result in second.ends_of(value, known))


def _as_json(value: str, match: ValueMatch) -> dict[str, Any]:
    return {"value": value, "name": match.name, "how": match.example, "run": match.run}


def _is_judged(array: np.ndarray) -> bool:
    """Floats and 8-bit integers; a comparison or an index may fall either way where floats round differently."""
    return holds_floats(array) or array.dtype in (np.uint8, np.int8)


# ---- runs ------------------------------------------------------------------------------


def _open(model: str, values: Sequence[str]) -> Any:
    return in_stage("load", lambda: session_with_values(model, values))


def _run(session: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return in_stage("run", lambda: run_session(session, inputs))


def _without(tensors: Values, values: Sequence[str]) -> dict[str, np.ndarray]:
    """The tensors of a run that are of no such value; those of a sequence `s` are `s[0]`, `s[1]`, ..."""
    excluded = {*values}
    return {k: array for k, array in tensors.items() if k not in excluded and k.rpartition("[")[0] not in excluded}


def _is_finite(tensors: Values) -> bool:
    return all(bool(np.isfinite(array).all()) for array in tensors.values() if holds_floats(array))
