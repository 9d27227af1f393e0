"""The shape operand of a Reshape that replaces a Transpose."""

from __future__ import annotations

import numpy as np

from workbench.ir.types import Dim


def reshape_to(shape: tuple[Dim, ...]) -> np.ndarray | None:
    """The constant operand of a Reshape to that shape; None if more than one dim is symbolic or unknown.

    None also for a dim of 0, which to Reshape means "copy the dim".
    """
    free = [axis for axis, dim in enumerate(shape) if not isinstance(dim, int)]
    if len(free) > 1 or 0 in shape:
        return None
    return np.array([dim if isinstance(dim, int) else -1 for dim in shape], np.int64)
