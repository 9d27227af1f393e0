"""A model file, opened by ONNX Runtime: used inside the worker only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import onnx_ir

from workbench.backends.failures import BackendError, TaskError
from workbench.backends.file_format import at_readable_ir
from workbench.backends.nontensor_inputs import sequence_items
from workbench.backends.onnxruntime.output_bits import UNREADABLE, run_by_bits

LEVELS = {"disabled": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "all": "ORT_ENABLE_ALL"}


def provider_of(device: str) -> str:
    """The name of ONNX Runtime's execution provider for a device."""
    return "CUDAExecutionProvider" if device.startswith("cuda") else "CPUExecutionProvider"


def open_session(
    model: str | bytes,
    level: str,
    *,
    device: str = "cpu",
    memory_limit: int | None = None,
    profile_prefix: str | None = None,
    arena: bool = True,
    reuse: bool = True,
    entries: Mapping[str, str] | None = None,
) -> Any:
    """An onnxruntime.InferenceSession of a file, or of its bytes. Raises BackendError, or TaskError of stage "load".

    level: of ONNX Runtime's optimizations, a key of LEVELS. device: "cpu", "cuda" or one of several, "cuda:0".
    memory_limit: of its arena on a CUDA device, in bytes; None: no limit. Without effect on the CPU.
    profile_prefix: ONNX Runtime profiles, and the name of its file begins with this; None: it does not.
    arena: whether memory of the CPU is kept for later runs.
    reuse: whether values share memory; planning this takes time quadratic in the number of operators.
    entries: of the session's configuration.
    """
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
    options.enable_mem_reuse = reuse
    # Otherwise its threads spin after a run and slow down the next measurement (by a factor of 2).
    options.add_session_config_entry("session.force_spinning_stop", "1")
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    device_options: dict[str, Any] = {"device_id": int(device.partition(":")[2] or 0)}
    limit = {} if memory_limit is None else {"gpu_mem_limit": memory_limit}
    providers = [provider] if device == "cpu" else [(provider, device_options | limit), "CPUExecutionProvider"]
    readable = None if isinstance(model, bytes) else at_readable_ir(model)
    if readable is not None:  # the model is read from memory, external weights from its folder
        folder = os.path.dirname(os.path.abspath(str(model)))
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    try:
        session = ort.InferenceSession(model if readable is None else readable, options, providers=providers)
    except Exception as error:  # onnxruntime's own classes have no common base but Exception
        raise TaskError(error, "load") from error
    if provider not in session.get_providers():
        raise BackendError(f"ONNX Runtime could not start its {provider}; see that its CUDA and cuDNN are installed.")
    return session


def session_of(model: str, level: str) -> Any:
    """A session of the present file; the last session is cached, so that an original is opened once."""
    return _session(model, os.stat(model).st_mtime_ns, level)


@lru_cache(maxsize=1)
def _session(model: str, changed: int, level: str) -> Any:
    return open_session(model, level, arena=False)  # an arena would keep the peak memory


def fresh_session(model: str, level: str) -> Any:
    """A session of the file, for one run, for which it is not worth while to plan memory."""
    return open_session(model, level, arena=False, reuse=False)


def run_session(session: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs by name; a sequence `s` becomes `s[0]`, `s[1]`, ..."""
    names = [output.name for output in session.get_outputs()]
    fed = dict(_fed(session, inputs))
    is_readable = all(output.type not in UNREADABLE for output in session.get_outputs())
    results = session.run(None, fed) if is_readable else run_by_bits(session, fed)
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
    """The values by input: a sequence as a list, an omitted optional input as None."""
    for expected in session.get_inputs():
        if expected.type.startswith("seq("):
            yield expected.name, [_feedable(tensor) for tensor in sequence_items(expected.name, inputs)]
        elif expected.name in inputs:
            yield expected.name, _feedable(inputs[expected.name])
        elif expected.type.startswith("optional("):
            yield expected.name, None


def _feedable(value: np.ndarray) -> Any:
    """The value as ONNX Runtime accepts it; types that numpy lacks, such as bfloat16, are passed as bits."""
    if value.dtype.isbuiltin == 1 or value.dtype.kind in "USO":
        return value
    import onnxruntime as ort

    bits = value.view(f"u{value.dtype.itemsize}")
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, int(onnx_ir.DataType.from_numpy(value.dtype)))
