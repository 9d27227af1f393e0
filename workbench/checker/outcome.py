"""What a check ends with: statements that hold, the first that does not, or a file that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass


class DoesNotHold(Exception):
    """The message is the first statement of the certificate that does not hold, as one sentence."""


class Unreadable(Exception):
    """A file that is no certificate or no model; the message is one sentence: what is wrong, where."""


@dataclass(frozen=True)
class Statement:
    """proven: whether the checker has checked it itself; otherwise it is the word of the engine or of a solver."""

    sentence: str
    proven: bool = True
