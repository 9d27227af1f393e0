"""What a layout strategy found out beside its rewrites: what it proved of its result, and what operators took."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OperatorTime:
    """An operator of one shape, or a Transpose that was weighed, timed alone.

    nodes:     how many have that shape.
    us:        as it is written; spread_us: from the quickest run to the lower quartile.
    other_us:  in the other layout; None of a Transpose.
    converted: how many of the nodes run in the other layout; None of a Transpose.
    """

    operator: str
    operands: str
    nodes: int
    us: float
    spread_us: float
    other_us: float | None
    converted: int | None


@dataclass(frozen=True)
class LayoutFacts:
    """weigh:       what was weighed: "bytes", "count" (of transposes) or "time"; None where nothing was proved.
    over:        the class of choices that were searched, as a sentence says it.
    unknown:     transposes of which it is not known what they move; then nothing is proved.
    lower_bound: what no choice falls below: bytes, transposes or nanoseconds; None where it is not known.
    certified:   does the result reach it?
    gap:         the part of the cost that is not proved to be needed, where the search says it.
    device:      where operators were timed, "" where none was; times: what they took.
    """

    weigh: str | None = None
    over: str = ""
    unknown: int = 0
    lower_bound: int | None = None
    certified: bool | None = None
    gap: float | None = None
    device: str = ""
    times: tuple[OperatorTime, ...] = ()

    @property
    def sentence(self) -> str:
        """What was proved of the result, and over which choices; "" where nothing was.

        Where sizes are not known it says so: then nothing is proved.
        """
        if self.lower_bound is None and self.unknown:
            what = "1 transpose moves" if self.unknown == 1 else f"{self.unknown:,} transposes move"
            return f"not proven to be the least: what {what} is not known, for sizes do not follow from the inputs"
        if self.lower_bound is None:
            return ""
        reached = "exactly that" if self.certified else "more"
        if self.gap:
            reached += f"; {self.gap:.1%} of it is not proven to be needed"
        if self.weigh == "time":
            least = f"{self.lower_bound / 1e6:,.3f} ms, as operators were timed on {self.device}"
            return f"{self.over} takes less than {least}, and this takes {reached}"
        if self.weigh == "bytes":
            return f"{self.over} moves less than {self.lower_bound:,} bytes, and this moves {reached}"
        return f"{self.over} leaves fewer than {self.lower_bound:,} transposes, and this leaves {reached}"
