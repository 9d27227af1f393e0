"""The cheapest Transposes and Casts that give a value in several orders and types.

A Cast reads and writes one element in both types, whatever the order; a Transpose reads and writes it twice in one
type. So a Transpose costs 8 bytes for each element in float32 and 4 in a narrower type, a Cast 6: what is read in
another order and in the narrower type is cast first, and what is read so in float32 is transposed first.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from workbench.ir import DataType
from workbench.ir.permutation import Permutation
from workbench.planning.precision.element_types import WIDE


@dataclass(frozen=True)
class ConversionPlan:
    """Orders, as in memory, in which conversions give a value.

    before: by a Transpose in the type of the root. cast: by a Cast of the root or of one of those.
    after:  by a Transpose of the first Cast, in the other type.
    """

    before: tuple[Permutation, ...]
    cast: tuple[Permutation, ...]
    after: tuple[Permutation, ...]

    @property
    def conversions(self) -> int:
        return len(self.before) + len(self.cast) + len(self.after)

    def bytes(self, dtype: DataType, other: DataType) -> int:
        """Read and written for each element of a value whose root has the type `dtype`."""
        transposes = len(self.before) * transpose_bytes(dtype) + len(self.after) * transpose_bytes(other)
        return transposes + len(self.cast) * cast_bytes(dtype, other)


def transpose_bytes(dtype: DataType) -> int:
    """The bytes that a Transpose reads and writes for each element."""
    return 2 * int(dtype.itemsize)


def cast_bytes(dtype: DataType, other: DataType) -> int:
    """The bytes that a Cast reads and writes for each element."""
    return int(dtype.itemsize + other.itemsize)


def cheapest_plan(
    given: Permutation,
    same: Collection[Permutation],
    other: Collection[Permutation],
    narrow: DataType,
    dtype: DataType,
    transposes_cost: bool = True,
) -> ConversionPlan:
    """The plan for a root in the order `given` and the type `dtype`.

    same, other: the orders, as in memory, in which it is read in that type and in the other of the two.
    transposes_cost: whether Transposes of the value count.
    """
    second = narrow if dtype == WIDE else WIDE
    before = [order for order in same if order != given]
    at_hand = {given, *before}
    after_costs_less = not transposes_cost or transpose_bytes(second) < cast_bytes(dtype, second)
    cast = [order for order in other if order in at_hand]
    after = [order for order in other if order not in at_hand]
    if after_costs_less and cast:
        first = given if given in cast else cast[0]
        cast, after = [first], [order for order in other if order != first]
    if not after or cast:
        return ConversionPlan(tuple(before), tuple(cast), tuple(after))
    if transposes_cost and transpose_bytes(dtype) < transpose_bytes(second):  # in the narrower type first
        return ConversionPlan((*before, after[0]), (after[0],), tuple(after[1:]))
    return ConversionPlan(tuple(before), (given,), tuple(after))
