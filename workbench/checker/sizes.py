"""Sizes of values that a certificate states, beside what a model declares."""

from __future__ import annotations

import math
from typing import Any

from workbench.checker.outcome import DoesNotHold
from workbench.checker.plain import PlainModel
from workbench.checker.records import as_whole

# Bits of an element by its number in ONNX's TensorProto.DataType; a text has no fixed size.
ELEMENT_BITS = {
    **dict.fromkeys((2, 3, 9, 17, 18, 19, 20, 24), 8),
    **dict.fromkeys((4, 5, 10, 16), 16),
    **dict.fromkeys((1, 6, 12), 32),
    **dict.fromkeys((7, 11, 13, 14), 64),
    15: 128,
    **dict.fromkeys((21, 22, 23), 4),
}


def compared_size(told: Any, value: str, where: str, written: PlainModel, last: bool) -> tuple[int, bool]:
    """The stated bytes, and whether type and sizes of the value in the output are the same.

    last: whether the output is of the same graph, so that what it declares must be the same. Raises DoesNotHold.
    """
    size = as_whole(told, where)
    if size < 0:
        raise DoesNotHold(f"the certificate's {where} is negative")
    declared = written.inner_types.get(value)
    if declared is None or len(declared) != 2 or declared[1] is None or declared[0] not in ELEMENT_BITS:
        return size, False
    if not all(isinstance(dim, int) for dim in declared[1]):
        return size, False
    real = (math.prod(declared[1]) * ELEMENT_BITS[declared[0]] + 7) // 8
    if real != size and last:
        raise DoesNotHold(f"the certificate's {where} is {size:,} bytes; as the output declares it, it has {real:,}")
    return size, real == size
