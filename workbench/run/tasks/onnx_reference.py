"""Runs a model by ONNX's reference evaluator, slowly, if ONNX Runtime lacks a kernel, such as for bfloat16."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.backends.failures import TaskError
from workbench.backends.nontensor_inputs import sequence_items

_NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)")


def reason_for_reference_evaluator(error: TaskError) -> str | None:
    """Why ONNX's evaluator runs the model, for the user; None if it failed to load for another reason."""
    match = _NO_KERNEL.search(str(error.cause))
    return None if match is None else f"onnx.reference, since ONNX Runtime has no kernel for this {match[1]}"


def run_by_reference(model: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of the file by name; a sequence `s` becomes `s[0]`, `s[1]`, ..."""
    from onnx.reference import ReferenceEvaluator

    session = ReferenceEvaluator(model)
    fed = {name: inputs[name] if name in inputs else sequence_items(name, inputs) for name in session.input_names}
    outputs: dict[str, np.ndarray] = {}
    results: Any = session.run(None, fed)
    for name, result in zip(session.output_names, results, strict=True):
        items = enumerate(result) if isinstance(result, list) else ()
        outputs |= {f"{name}[{index}]": np.asarray(item) for index, item in items}
        if not isinstance(result, list):
            outputs[name] = np.asarray(result)
    return outputs
