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

    shape:   the shape of the result, channels last.
    offsets: (position, first channel) of each joined operand.
    run:     (buffer, positions of the operands that it contains already, operands) -> the result, which is the buffer.
    """

    shape: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    run: Callable[[Any, Collection[int], Sequence[Any]], Any]


@dataclass(frozen=True)
class Lowering:
    """The computation of a group.

    run:    (call, *operands) -> the results; the operands are those of the group at `positions`.
    by, how, kernels, bytes, compile_s, source: as in `workbench.backends.profiling.profile_result.Kernel`.
    packed_bytes: the bytes of weights that it stores in another order.
    into:   (buffer, offset, *operands) -> the result, computed into a part of a buffer [..., channels] that begins at
            channel `offset`; None if the lowering cannot do so.
    join:   if the group ends in a Concat of channels.
    """

    by: str
    how: str
    run: Callable[..., Any]
    positions: tuple[int, ...]
    kernels: int | None = None
    bytes: int | None = None
    compile_s: float = 0.0
    source: str = ""
    packed_bytes: int = 0
    into: Callable[..., Any] | None = None
    join: Join | None = None
