"""How a group of operators is computed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any


class NoLowering(Exception):
    """The group has no such lowering; the message is a phrase that says why."""


@dataclass(frozen=True)
class Join:
    """How a group that ends in a Concat of channels writes its result.

    shape: of the result, channels last. offsets: of the operands that are joined, place and first channel of each.
    run:   (buffer, places of the operands that are in it already, operands) -> the result, which is the buffer.
    """

    shape: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    run: Callable[[Any, Collection[int], Sequence[Any]], Any]


@dataclass(frozen=True)
class Lowering:
    """What computes a group.

    run:    (call, *operands) -> the results; the operands are those at `places` of the group's.
    by, how, kernels, bytes, compile_s, source: as in `workbench.run.profiling.profiled.Kernel`.
    packed_bytes: of the weights that it holds in another order.
    into:   (buffer, offset, *operands) -> the result, if it can be computed as a part of a buffer [..., channels], the
            one that begins at that channel. join: if it joins channels.
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
    into: Callable[..., Any] | None = None
    join: Join | None = None
