"""What a precision strategy states about its result: Casts, the bound, and which operators stayed in float32."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.errors import counted

if TYPE_CHECKING:
    from workbench.analysis.metrics.transpose_cost import Counts
    from workbench.planning.layout.layout_facts import OperatorTime
    from workbench.planning.precision.fitting import Fitted

TRAFFIC = "traffic"  # bytes that Casts and Transposes read and write


@dataclass(frozen=True)
class KeptWide:
    """An operator on floats that stayed in float32, and a sentence that says why."""

    node: str
    why: str


@dataclass(frozen=True)
class PrecisionFacts:
    """strategy, type: as in the options: "optimal", "float16".

    casts, bytes_converted: of the result, between float32 and the type. transposes: of the result.
    choices:   the number of operators that may run in either type.
    weigh:     what was minimized, "bytes" or "count" of Casts, TRAFFIC, or "time"; None if nothing was.
    bound:     no choice of types for these operators costs less, with TRAFFIC no choice of types and orders of axes;
               None if that was not proved.
    certified: whether the result costs exactly that.
    inexact:     why no bound holds, as a clause; "" if there is no such reason.
    kept:        operators that stayed in float32. unrecorded: why no values of a run decided too; "" if they did.
    fitted:      what `max_error` asked for, and how it was reached; None if nothing was asked.
    held:        the nodes that run in one type only; a bound holds where these keep it. demanded: with TRAFFIC, the
                 operators whose layout the target demands.
    device:      where operators were timed; "" if none was. times: the results, "other" being the narrower type.
    """

    strategy: str
    type: str
    casts: int
    bytes_converted: int
    transposes: Counts
    choices: int = 0
    weigh: str | None = None
    bound: int | None = None
    certified: bool = False
    inexact: str = ""
    kept: tuple[KeptWide, ...] = ()
    unmatched: tuple[str, ...] = ()
    unrecorded: str = ""
    fitted: Fitted | None = None
    held: frozenset[str] = field(default=frozenset(), repr=False)
    demanded: tuple[str, ...] = ()
    device: str = ""
    times: tuple[OperatorTime, ...] = ()

    @property
    def sentence(self) -> str:
        """The Casts, and what was proved about them."""
        casts = f"{self.casts:,} Cast{'' if self.casts == 1 else 's'}"
        text = f"{casts} between float32 and {self.type}, {self.bytes_converted:,} bytes read and written"
        if self.weigh == TRAFFIC:
            transposes = f"{self.transposes.transposes:,} Transpose{'' if self.transposes.transposes == 1 else 's'}"
            text += f"; {transposes}, {2 * self.transposes.bytes_moved:,} bytes read and written"
        is_least = self.certified and self.bound == 0  # needs no words: nothing converts less than nothing
        if self.bound is not None and not is_least:
            operators = f"{self.choices:,} operator{'' if self.choices == 1 else 's'} that may run in either"
            reached = "exactly that" if self.certified else "more"
            by_bytes = f"converts less than {self.bound:,} bytes, and this converts {reached}"
            by_count = f"needs fewer than {self.bound:,} Casts, and this needs {reached}"
            by_traffic = (
                f"with their orders of axes reads and writes less than {self.bound:,} bytes, and this {reached}"
            )
            milliseconds = f"{self.bound / 1e6:,.3f} ms, as operators and Casts were timed on {self.device}"
            by_time = f"takes less than {milliseconds}, and this takes {reached}"
            claims = {"bytes": by_bytes, "count": by_count, TRAFFIC: by_traffic, "time": by_time}
            claim = claims[str(self.weigh)]
            text += f"; no choice for the {operators} {claim}"
        elif self.inexact:
            text += f"; not proven minimal: {self.inexact}"
        if self.fitted is not None:
            number = len(self.fitted.kept)
            kept = f"; {number:,} operator{'' if number == 1 else 's'} more in float32 for that" if number else ""
            if number and self.fitted.needed:
                kept += ", which cannot be left out" if number == 1 else ", none of which can be left out"
            if self.fitted.listed:
                kept = f"; {len(self.fitted.listed):,} that are listed for float32 stay in it{kept}"
            on = counted(self.fitted.inputs, "input")
            text += f"; outputs are off by {self.fitted.error:.1e} at most on {on}{kept}"
        if self.unmatched:
            patterns = " or ".join(f"'{pattern}'" for pattern in self.unmatched)
            text += f"; no node here is named {patterns}, so that keeps none in float32"
        return text + (f"; only constants were checked, since {self.unrecorded}" if self.unrecorded else "")
