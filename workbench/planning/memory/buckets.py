"""Shape buckets: the sizes of a symbolic dim for which memory plans are made in advance."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workbench.errors import UserError

_MAX_SIZES = 64  # each needs a plan


@dataclass(frozen=True)
class Buckets:
    """dim: a symbolic dim. sizes: ascending; an input of another size is padded to the next one."""

    dim: str
    sizes: tuple[int, ...]


def parse_buckets(text: str) -> Buckets:
    """ "S=16,64,256" lists sizes; "S=1..512" stands for both ends and the powers of two between them.

    Raises UserError for anything else.
    """
    dim, equals, sizes_text = (part.strip() for part in text.partition("="))
    usage = f"--range takes a dim with sizes, such as S=16,64,256 or S=1..512, not '{text}'"
    if not dim or not equals:
        raise UserError(usage)
    ends = re.fullmatch(r"(\d{1,12})\s*\.\.\s*(\d{1,12})", sizes_text)
    if ends:
        low, high = int(ends[1]), int(ends[2])
        powers = [1 << exponent for exponent in range(high.bit_length()) if low < 1 << exponent < high]
        sizes = [low, *powers, high]
    elif re.fullmatch(r"\d{1,12}(\s*,\s*\d{1,12})*", sizes_text):
        sizes = [int(size) for size in sizes_text.split(",")]
    else:
        raise UserError(usage)
    if min(sizes) < 1 or (ends and sizes[0] > sizes[-1]) or len(sizes) > _MAX_SIZES:
        raise UserError(f"{usage}; sizes are at least 1, ascending, and at most {_MAX_SIZES}")
    return Buckets(dim, tuple(sorted(set(sizes))))
