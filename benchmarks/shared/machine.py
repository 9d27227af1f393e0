"""The machine that measures, in words."""

from __future__ import annotations

import datetime
import os
import platform
from importlib.metadata import version
from pathlib import Path


def machine() -> str:
    """ "AMD EPYC, 2 cores, 24 GiB; Linux; Python 3.11.7" """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()}; Python {platform.python_version()}"
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB; {system}"


def versions() -> dict[str, str]:
    return {name: version(name) for name in ("onnx", "onnxruntime", "torch", "numpy")}


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
