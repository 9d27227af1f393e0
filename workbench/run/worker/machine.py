"""The machine of a measurement: device, driver, clocks, threads, versions. Used in the worker only."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import numpy as np

_SMI_FIELDS = {
    "driver_version": "driver",
    "clocks.sm": "clock_mhz",
    "clocks.mem": "memory_clock_mhz",
    "temperature.gpu": "temperature_c",
    "power.draw": "power_w",
}
_SMI_TIMEOUT_S = 10
_NUMBER = re.compile(r"\d+(\.\d+)?")  # missing values are "[N/A]"


def machine(device: str) -> dict[str, Any]:
    """The device now: `device`, `device_name`, `threads`, `versions`, and more:

    A CPU: `clock_mhz`. A CUDA device: `capability`, `driver`, clocks, temperature, power (by nvidia-smi).
    """
    import torch

    common = {"device": device, "threads": torch.get_num_threads(), "versions": versions()}
    if not device.startswith("cuda"):
        return {**common, "device_name": cpu_name(), **_cpu_clock()}
    properties = torch.cuda.get_device_properties(device)
    capability = f"{properties.major}.{properties.minor}"
    told = {"capability": capability, "tf32": torch.backends.cudnn.allow_tf32, **_smi(f"GPU-{properties.uuid}")}
    return {**common, "device_name": properties.name, **told}


def _cpu_clock() -> dict[str, float]:
    import psutil

    found = psutil.cpu_freq()
    return {} if found is None or not found.current else {"clock_mhz": round(found.current)}


def _smi(uuid: str) -> dict[str, Any]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    query = [program, f"--id={uuid}", f"--query-gpu={','.join(_SMI_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=_SMI_TIMEOUT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):  # present but not working: the record has fewer keys
        return {}
    values = dict(zip(_SMI_FIELDS.values(), (value.strip() for value in answer.strip().split(",")), strict=False))
    driver = {"driver": values.pop("driver")} if "driver" in values else {}
    return {**driver, **{name: float(value) for name, value in values.items() if _NUMBER.fullmatch(value)}}


def versions() -> dict[str, str]:
    """Versions of all software that affects a measurement."""
    import onnxruntime as ort
    import torch

    found = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": torch.__version__,
        "onnxruntime": ort.__version__,
        "numpy": np.__version__,
    }
    if not torch.version.cuda:
        return found
    return {**found, "cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}


def cpu_name() -> str:
    """The system's name of the processor."""
    try:
        with open("/proc/cpuinfo") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:  # not Linux
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def devices() -> Sequence[dict[str, Any]]:
    """Available devices: the CPU, then each CUDA device."""
    import psutil
    import torch

    cpu = {
        "device": "cpu",
        "name": cpu_name(),
        "memory_bytes": psutil.virtual_memory().total,
        "threads": torch.get_num_threads(),
    }
    gpus = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        gpus.append(
            {
                "device": f"cuda:{index}",
                "name": properties.name,
                "memory_bytes": properties.total_memory,
                "capability": f"{properties.major}.{properties.minor}",
            }
        )
    return [cpu, *gpus]
