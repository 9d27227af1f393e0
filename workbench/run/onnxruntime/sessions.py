"""A model file, opened by ONNX Runtime or by our own executor: used inside the worker only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import onnx_ir

from workbench.run.held_inputs import sequence_items
from workbench.run.worker.failures import BackendError, TaskError
from workbench.run.worker.file_format import at_readable_ir

LEVELS = {"disabled": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "all": "ORT_ENABLE_ALL"}


def provider_of(device: str) -> str:
    """ONNX Runtime's name for what runs on a device."""
    return "CUDAExecutionProvider" if device.startswith("cuda") else "CPUExecutionProvider"


def open_session(
    model: str | bytes,
    level: str,
    *,
    device: str = "cpu",
    memory_limit: int | None = None,
    profile_prefix: str | None = None,
    arena: bool = True,
) -> Any:
    """An onnxruntime.InferenceSession of a file, or of its bytes. Raises BackendError, or TaskError of stage "load"."""
    import onnxruntime as ort

    provider = provider_of(device)
    if provider not in ort.get_available_providers():
        raise BackendError(
            f"The installed ONNX Runtime has no {provider}; install onnxruntime-gpu, or measure it with --device cpu."
        )

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    options.log_severity_level = 4  # errors come as exceptions
    options.enable_cpu_mem_arena = arena
    # Its threads would go on spinning after a run, and slow down whatever is measured next (factor 2 was seen).
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    number: dict[str, Any] = {"device_id": int(device.partition(":")[2] or 0)}
    limit = {} if memory_limit is None else {"gpu_mem_limit": memory_limit}
    providers = [provider] if device == "cpu" else [(provider, number | limit), "CPUExecutionProvider"]
    older = None if isinstance(model, bytes) else at_readable_ir(model)
    if older is not None:  # its bytes are read from memory, its weights from where they lie
        folder = os.path.dirname(os.path.abspath(str(model)))
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    try:
        session = ort.InferenceSession(model if older is None else older, options, providers=providers)
    except Exception as error:  # onnxruntime's own classes have no common base but Exception
        raise TaskError(error, "load") from error
    if provider not in session.get_providers():
        raise BackendError(f"ONNX Runtime could not start its {provider}; see that its CUDA and cuDNN are installed.")
    return session


def session_of(model: str, level: str) -> Any:
    """A session of the file as it is now; the last one is kept, so that an original is opened once."""
    return _session(model, os.stat(model).st_mtime_ns, level)


@lru_cache(maxsize=1)
def _session(model: str, changed: int, level: str) -> Any:
    return opened_anew(model, level)


def opened_anew(model: str, level: str) -> Any:
    """A session of the file, for one run."""
    return open_session(model, level, arena=False)  # an arena would keep the peak for ever


def run_session(session: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs by name; a sequence `s` becomes `s[0]`, `s[1]`, ..."""
    names = [output.name for output in session.get_outputs()]
    results = session.run(None, dict(_fed(session, inputs)))
    outputs: dict[str, np.ndarray] = {}
    for name, result in zip(names, results, strict=True):
        if result is None:  # an optional output without a value
            continue
        items = {f"{name}[{i}]": item for i, item in enumerate(result)} if isinstance(result, list) else {name: result}
        for key, item in items.items():
            if not isinstance(item, np.ndarray | np.generic):
                raise BackendError(f"Output '{name}' is a {type(item).__name__}, not a tensor; it cannot be compared.")
            outputs[key] = np.asarray(item)
    return outputs


def _fed(session: Any, inputs: Mapping[str, np.ndarray]) -> Iterator[tuple[str, Any]]:
    """The tensors by input: those of a sequence as a list; an optional input without one is None."""
    for wanted in session.get_inputs():
        if wanted.type.startswith("seq("):
            yield wanted.name, [_feedable(tensor) for tensor in sequence_items(wanted.name, inputs)]
        elif wanted.name in inputs:
            yield wanted.name, _feedable(inputs[wanted.name])
        elif wanted.type.startswith("optional("):
            yield wanted.name, None


def _feedable(value: np.ndarray) -> Any:
    """numpy's own types go in as they are; bfloat16 and the like by their bits."""
    if value.dtype.isbuiltin or value.dtype.kind in "USO":
        return value
    import onnxruntime as ort

    plain = value.view(f"u{value.dtype.itemsize}")
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(plain, int(onnx_ir.DataType.from_numpy(value.dtype)))
