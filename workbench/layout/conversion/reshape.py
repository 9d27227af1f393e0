"""The shape operand of a Reshape that takes a Transpose's place."""

from __future__ import annotations

import numpy as np

from workbench.ir.types import Dim


def reshape_to(shape: tuple[Dim, ...]) -> np.ndarray | None:
    """The shape for a Reshape to that shape, None where there is none: at most one dim may be left to it.

    Nor is there one with a dim of 0, which a Reshape takes for "as it was".
    """
    free = [axis for axis, dim in enumerate(shape) if not isinstance(dim, int)]
    if len(free) > 1 or 0 in shape:
        return None
    return np.array([dim if isinstance(dim, int) else -1 for dim in shape], np.int64)
