"""Which rewrite of a step, whatever its sentence says: for leaving it out in the next run."""

from __future__ import annotations

import re
from typing import NamedTuple

ANY_ORDINAL = -1
_ORDINAL = re.compile("[0-9]{1,9}")


class RewriteId(NamedTuple):
    """One rewrite of one step.

    rule:    the rule that proposed it, "" for a procedure; after the pass's name and a dot in a fixpoint's rounds.
    node:    the node at which the rule matched, or the first that a procedure named; "loop/body/add" in a body.
    ordinal: how many rewrites of the step by that rule at that node came before it; ANY_ORDINAL for all of them.
    """

    rule: str
    node: str
    ordinal: int

    def __str__(self) -> str:
        """ "cancel_bn@Conv_3#0": what links hold; `read_rewrite_id` reads it."""
        return f"{self.rule}@{self.node}#{self.ordinal}"


def read_rewrite_id(text: str) -> RewriteId | None:
    """The identity that `str` wrote; None for any other text."""
    rule, at, rest = text.partition("@")
    node, number, ordinal = rest.rpartition("#")
    return RewriteId(rule, node, int(ordinal)) if at and number and _ORDINAL.fullmatch(ordinal) else None
