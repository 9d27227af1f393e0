"""Buffers in an arena; the blocks of a buffer are in use at different times."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from workbench.planning.memory.blocks.packing import Packing


def offsets_of_buffers(packing: Packing, labels: Sequence[int]) -> tuple[int, ...]:
    """The offset of each block, if blocks of one label share a buffer as large as the largest of them."""
    sizes = [0] * (max(labels, default=-1) + 1)
    for block, label in zip(packing.blocks, labels, strict=True):
        sizes[label] = max(sizes[label], block.bytes)
    begins = list(accumulate(sizes, initial=0))
    return tuple(begins[label] for label in labels)
