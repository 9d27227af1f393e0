"""The facts of a fusing pass besides its rewrites: groups, refusals and memory traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.errors import counted


@dataclass(frozen=True)
class FusedGroup:
    """name: of the call that computes it, or of its only operator. members: names of the operators.
    kind: the fusion kind."""

    name: str
    members: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class Traffic:
    """Bytes that operators or groups read and write in one run, at the sizes to which symbolic dims are bound.

    unfused_bytes: the bytes that the operators alone read and write.
    bytes:         the bytes that the groups read and write. Both are None if a size is unknown.
    bound_bytes:   the fewest bytes of any grouping under the rules; None if nothing was proved.
    certified:     whether the groups reach the bound.
    """

    unfused_bytes: int | None
    bytes: int | None
    bound_bytes: int | None = None
    certified: bool | None = None


@dataclass(frozen=True)
class FusionFacts:
    """groups: every operator is in exactly one. refusals: operator -> why its group ends there. over: the name of the
    rules over which the bound holds, "" without a bound."""

    groups: tuple[FusedGroup, ...]
    traffic: Traffic
    refusals: Mapping[str, str] = field(default_factory=dict)
    over: str = ""

    @property
    def sentence(self) -> str:
        """The groups and their traffic beside that of the operators alone."""
        operators = sum(len(group.members) for group in self.groups)
        groups = f"{counted(operators, 'operator')} in {counted(len(self.groups), 'group')}"
        before, after = self.traffic.unfused_bytes, self.traffic.bytes
        if not before or after is None:
            return f"{groups}; the memory traffic is unknown, since sizes do not follow from the inputs"
        return (
            f"{groups}; they read and write {_size(after)} in one run, {after / before:.0%} of the {_size(before)} "
            f"of the operators alone{self._proved(after)}"
        )

    def _proved(self, reached: int) -> str:
        bound = self.traffic.bound_bytes
        if bound is None:
            return ""
        rules = f"under the {self.over} rules"
        if self.traffic.certified:
            return f"; no grouping {rules} has less"
        return f"; any grouping {rules} needs {_size(bound)}, so at most {1 - bound / reached:.1%} could be saved"


def _size(count: int) -> str:
    return f"{count / 1e6:,.2f} MB" if count >= 1e5 else f"{count:,} bytes"
