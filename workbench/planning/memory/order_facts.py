"""The result of the search for an execution order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OrderFacts:
    """The peak memory before and after the search, and a lower bound for any order; None if a size is unknown.

    unknown: the value whose size is not known, "" for none. states: sets of operators that the search visited.
    """

    before_bytes: int | None = None
    after_bytes: int | None = None
    bound_bytes: int | None = None
    states: int = 0
    unknown: str = ""

    @property
    def certified(self) -> bool:
        """Whether no order has a lower peak."""
        return self.after_bytes is not None and self.after_bytes == self.bound_bytes

    @property
    def sentence(self) -> str:
        if self.after_bytes is None or self.bound_bytes is None:
            return f"the order stays: the size of '{self.unknown}' is not known; bind dims"
        result = (
            f"the peak memory of this order is {self.after_bytes:,} bytes, if results overwrite operands,"
            " views share memory and a Concat copies"
        )
        if self.certified:
            return f"{result}; no order has a lower peak"
        gap = 1 - self.bound_bytes / self.after_bytes
        return f"{result}; the peak of every order is at least {self.bound_bytes:,}, a gap of {gap:.1%}"
