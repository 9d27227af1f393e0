"""How a group of operators is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class NoLowering(Exception):
    """The group has no such lowering; the message is a phrase that says why."""


@dataclass(frozen=True)
class Lowering:
    """What computes a group.

    run:    (call, *operands) -> the results; the operands are those at `places` of the group's.
    by, how, kernels, bytes, compile_s, source: as in `workbench.run.measurement.profiled.Kernel`.
    packed_bytes: of the weights that it holds in another order.
    """

    by: str
    how: str
    run: Callable[..., Any]
    places: tuple[int, ...]
    kernels: int | None = None
    bytes: int | None = None
    compile_s: float = 0.0
    source: str = ""
    packed_bytes: int = 0
