"""The facts of a layout strategy besides its rewrites: what it proves about its result, and operators' times."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OperatorTime:
    """The time of an operator on operands of one shape, or of a Transpose, timed alone.

    nodes:     the number of such nodes.
    us:        the fastest run in the layout of the model, in microseconds.
    spread_us: from the fastest run to the lower quartile, in microseconds.
    other_us:  the time in the other layout; None for a Transpose.
    converted: how many of the nodes run in the other layout; None for a Transpose.
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
    """weigh:       the unit of cost: "bytes", "count" (of transposes) or "time"; None if nothing was proved.
    over:        the class of choices that were searched, as a subject that denies: "no choice between NCHW and NHWC".
                 `sentence` begins with it: "no choice between NCHW and NHWC moves less than 18 bytes, and ...".
    beyond:      choices of another class that may cost less, as a subject; "" if no strategy searches any.
    unknown:     the number of transposes of unknown size; if there are any, nothing is proved.
    inexact:     why no bound holds, as a clause; "" if there is no such reason.
    lower_bound: a lower bound over those choices, in bytes, transposes or nanoseconds; None if unknown.
    certified:   whether the result reaches the lower bound.
    gap:         the relative gap between cost and lower bound, if the search reports it.
    device:      where operators were timed; "" if none was. times: the results.
    demanded:    the operators whose layout the target demands, by name; a bound holds where these keep it.
    """

    weigh: str | None = None
    over: str = ""
    beyond: str = ""
    unknown: int = 0
    inexact: str = ""
    lower_bound: int | None = None
    certified: bool | None = None
    gap: float | None = None
    device: str = ""
    times: tuple[OperatorTime, ...] = ()
    demanded: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What was proved about the result, and over which choices; "" if nothing.

        If sizes are unknown, it says so.
        """
        if self.lower_bound is None and self.unknown:
            transposes = "1 transpose moves" if self.unknown == 1 else f"{self.unknown:,} transposes move"
            return f"not proven minimal: what {transposes} is unknown, since sizes do not follow from the inputs"
        if self.lower_bound is None:
            return f"not proven minimal: {self.inexact}" if self.inexact else ""
        reached = "exactly that" if self.certified else "more"
        if self.gap:
            reached += f"; the bound is {self.gap:.1%} below that"
        if self.beyond and self.lower_bound:
            costs_less = {"bytes": "move less", "count": "leave fewer", "time": "take less"}[str(self.weigh)]
            reached += f"; {self.beyond} may {costs_less}"
        if self.weigh == "time":
            bound = f"{self.lower_bound / 1e6:,.3f} ms, as operators were timed on {self.device}"
            return f"{self.over} takes less than {bound}, and this takes {reached}"
        if self.weigh == "bytes":
            return f"{self.over} moves less than {self.lower_bound:,} bytes, and this moves {reached}"
        return f"{self.over} leaves fewer than {self.lower_bound:,} transposes, and this leaves {reached}"
