"""Opening one of our files on a device."""

from __future__ import annotations

from typing import Any

from workbench.backends.failures import BackendError, TaskError
from workbench.ir.from_proto import from_file
from workbench.support.optional_torch import need_torch


def open_executor(model: str, device: str, dtype: str | None) -> Any:
    """Our executor on the file, which must be one of our exports. Raises TaskError of stage "load"."""
    check_device(device)
    need_torch("Our executor", BackendError)
    from workbench.backends.torch.executor.executor import TorchExecutor

    try:
        graph = from_file(model)
        return TorchExecutor(graph, device=device, dtype=dtype)
    except Exception as error:
        raise TaskError(error, "load") from error


def check_device(device: str) -> None:
    """Raise BackendError where the machine has no such device."""
    if device == "cpu":
        return
    need_torch(f"The device '{device}'", BackendError)
    import torch

    kind, _, number = device.partition(":")
    if kind != "cuda":
        raise BackendError(f"There is no device '{device}'; use cpu or cuda.")
    count = torch.cuda.device_count()
    if count == 0:
        built = "this machine has no CUDA device" if torch.version.cuda else "the installed torch is built without CUDA"
        raise BackendError(f"Device '{device}' cannot be used: {built}; use --device cpu.")
    if number and (not number.isdigit() or int(number) >= count):
        raise BackendError(f"There is no device '{device}'; this machine has cuda:0 to cuda:{count - 1}.")
