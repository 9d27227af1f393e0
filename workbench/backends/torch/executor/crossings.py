"""What a run on a device copies from and to the host, operator by operator.

Each copy from the host, and each number that the host reads, makes the device wait and cannot be recorded in a CUDA
graph. A dispatch mode sees all of torch's calls
(https://docs.pytorch.org/docs/stable/notes/extending.html, "Extending all torch API with Modes").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.ir import Node

if TYPE_CHECKING:
    from workbench.backends.torch.executor.executor import TorchExecutor


@dataclass(frozen=True)
class Crossing:
    """What a node of the main graph exchanges with the host.

    what: "uploads" or "downloads" bytes, or "waits" for a result whose size or value the host must know. call: torch's
    name of what waits.
    """

    node: Node
    what: str
    bytes: int = 0
    call: str = ""

    @property
    def sentence(self) -> str:
        if self.what == "waits":
            return f"{self.node} waits for the device, in {self.call}"
        return f"{self.node} {self.what} {self.bytes:,} bytes"


def crossings_of(executor: TorchExecutor, tensors: Mapping[str, Any]) -> list[Crossing]:
    """The crossings of one run after a first one, which may copy what the later ones keep."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[tuple[str, int, str]] = []
    collected: list[Crossing] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.extend(_crossing(func, args, kwargs or {}))
            return func(*args, **kwargs or {})

    def observe(node: Node, results: Sequence[Any]) -> None:
        collected.extend(Crossing(node, *one) for one in seen)
        seen.clear()

    executor.run_tensors(tensors)
    with Watch():
        executor.run_tensors(tensors, observe)
    return collected


def _crossing(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, int, str]]:
    """(what, bytes, call) of one call of torch; none if it stays where it is."""
    import torch

    tensors = [value for value in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    places = [value.device.type for value in tensors]
    aten = torch.ops.aten
    if func is aten._to_copy.default and kwargs.get("device") is not None:
        return _copy(places[0], torch.device(kwargs["device"]).type, tensors[0].nbytes)
    if func is aten.copy_.default:
        return _copy(places[1], places[0], tensors[1].nbytes)
    reads = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
    if reads.intersection(func.tags) and any(place != "cpu" for place in places):
        return [("waits", 0, str(func))]
    return []


def _copy(origin: str, target: str, size: int) -> list[tuple[str, int, str]]:
    if origin == target:
        return []
    return [("uploads" if origin == "cpu" else "downloads", size, "")]
