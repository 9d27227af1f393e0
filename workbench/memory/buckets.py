"""Sizes of a dim for which memory is planned ahead, since a plan holds for the very sizes it was made for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workbench.errors import UserError

_MOST = 64  # plans


@dataclass(frozen=True)
class Buckets:
    """dim: a symbolic dim. sizes: ascending; an input of another size is padded to the next one."""

    dim: str
    sizes: tuple[int, ...]


def parse_buckets(text: str) -> Buckets:
    """ "S=16,64,256" lists sizes; "S=1..512" stands for both ends and the powers of two between them.

    Raises UserError for anything else.
    """
    dim, equals, listed = (part.strip() for part in text.partition("="))
    wanted = f"--range takes a dim with sizes, such as S=16,64,256 or S=1..512, not '{text}'"
    if not dim or not equals:
        raise UserError(wanted)
    ends = re.fullmatch(r"(\d{1,12})\s*\.\.\s*(\d{1,12})", listed)
    if ends:
        low, high = int(ends[1]), int(ends[2])
        powers = [1 << place for place in range(high.bit_length()) if low < 1 << place < high]
        sizes = [low, *powers, high]
    elif re.fullmatch(r"\d{1,12}(\s*,\s*\d{1,12})*", listed):
        sizes = [int(size) for size in listed.split(",")]
    else:
        raise UserError(wanted)
    if min(sizes) < 1 or (ends and sizes[0] > sizes[-1]) or len(sizes) > _MOST:
        raise UserError(f"{wanted}; sizes are at least 1, ascending, and at most {_MOST}")
    return Buckets(dim, tuple(sorted(set(sizes))))
