"""The machine of a measurement: device, driver, clocks, threads, versions. Used in the worker only."""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from workbench.support.optional_torch import torch_is_available

_SMI_FIELDS = {
    "driver_version": "driver",
    "clocks.sm": "clock_mhz",
    "clocks.mem": "memory_clock_mhz",
    "temperature.gpu": "temperature_c",
    "power.draw": "power_w",
}
_SMI_TIMEOUT_S = 10
_NUMBER = re.compile(r"\d+(\.\d+)?")  # missing values are "[N/A]"


@dataclass(frozen=True)
class Machine:
    """A device with its threads and the versions of the software; None: unknown, as most fields are for a CPU.

    capability: the CUDA compute capability.
    driver, clocks, temperature, power: by nvidia-smi; of a CPU only the clock is known.
    tf32:       in old records only, from before TF32 was an element type of runs.
    afterwards: the fields that had other values when the measurement ended, by name.
    """

    device: str
    device_name: str
    threads: int
    versions: Mapping[str, str]
    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    driver: str | None = None
    capability: str | None = None
    tf32: bool | None = None
    afterwards: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The known fields as JSON."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def changed_to(self, after: Machine) -> Machine:
        """This machine, with the fields that differ in `after` in `afterwards`."""
        before = self.to_json()
        return replace(self, afterwards={key: v for key, v in after.to_json().items() if before.get(key) != v})


def machine(device: str) -> Machine:
    """The present state of the device."""
    if not device.startswith("cuda"):
        return Machine(device, cpu_name(), _threads(), versions(), **_cpu_clock())
    import torch

    properties = torch.cuda.get_device_properties(device)
    capability = f"{properties.major}.{properties.minor}"
    entries = {"capability": capability, **_smi(f"GPU-{properties.uuid}")}
    return Machine(device, properties.name, _threads(), versions(), **entries)


def _threads() -> int:
    """The threads of a run on the CPU: torch's, or without torch one per core, as ONNX Runtime uses."""
    import psutil

    if not torch_is_available():
        return psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    import torch

    return torch.get_num_threads()


def _cpu_clock() -> dict[str, Any]:
    import psutil

    result = psutil.cpu_freq()
    return {} if result is None or not result.current else {"clock_mhz": round(result.current)}


def _smi(uuid: str) -> dict[str, Any]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    query = [program, f"--id={uuid}", f"--query-gpu={','.join(_SMI_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(query, capture_output=True, text=True, timeout=_SMI_TIMEOUT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):  # present but not working: the record has fewer keys
        return {}
    values = dict(zip(_SMI_FIELDS.values(), (value.strip() for value in output.strip().split(",")), strict=False))
    driver = {"driver": values.pop("driver")} if "driver" in values else {}
    return {**driver, **{name: float(value) for name, value in values.items() if _NUMBER.fullmatch(value)}}


def versions() -> dict[str, str]:
    """Versions of all software that affects a measurement."""
    import onnxruntime as ort

    results = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "onnxruntime": ort.__version__,
        "numpy": np.__version__,
        "workbench": source_digest(),
    }
    if not torch_is_available():
        return results
    import torch

    results["torch"] = torch.__version__
    if not torch.version.cuda:
        return results
    return {**results, "cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}


@cache
def source_digest() -> str:
    """The first digits of the SHA-256 of this program's own files, the passes among them."""
    package = Path(__file__).resolve().parents[2]
    passes = package.parent / "passes"  # in the repository; an installed package contains them
    digest = hashlib.sha256()
    for path in sorted([*package.rglob("*.py"), *passes.rglob("*.py")]):
        digest.update(f"{path.relative_to(package.parent)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


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

    cpu = {
        "device": "cpu",
        "name": cpu_name(),
        "memory_bytes": psutil.virtual_memory().total,
        "threads": _threads(),
    }
    if not torch_is_available():
        return [cpu]
    import torch

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
