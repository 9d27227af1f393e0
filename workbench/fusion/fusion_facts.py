"""What a fusing pass finds besides its rewrites: the groups, why others are none, and the memory traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FusedGroup:
    """name: of the call that computes it, or of the operator if it is alone. members: names of the operators.
    kind: the fusion kind."""

    name: str
    members: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class Traffic:
    """Bytes that operators or groups read and write in one run, at the sizes to which symbolic dims are bound.

    unfused_bytes: of the operators alone.
    bytes:         of the groups; None, as the above, if a size is unknown.
    bound_bytes:   no grouping under the rules has less; None if nothing was proved.
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
        counted = f"{operators:,} operators in {len(self.groups):,} group{'s' if len(self.groups) > 1 else ''}"
        before, after = self.traffic.unfused_bytes, self.traffic.bytes
        if not before or after is None:
            return f"{counted}; the memory traffic is unknown, since sizes do not follow from the inputs"
        return (
            f"{counted}; they read and write {_size(after)} in one run, {after / before:.0%} of the {_size(before)} "
            f"of the operators alone{self._proved(after)}"
        )

    def _proved(self, reached: int) -> str:
        bound = self.traffic.bound_bytes
        if bound is None:
            return ""
        rules = f"under the {self.over} rules"
        if self.traffic.certified:
            return f"; no grouping {rules} has less"
        return f"; {_size(bound)} are needed by any grouping {rules}, so up to {1 - bound / reached:.1%} might be saved"


def _size(count: int) -> str:
    return f"{count / 1e6:,.2f} MB" if count >= 1e5 else f"{count:,} bytes"
