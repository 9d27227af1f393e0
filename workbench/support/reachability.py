"""What is reached from some places of a graph of any kind."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T", bound=Hashable)


def reachable(start: Iterable[_T], following: Callable[[_T], Iterable[_T]]) -> Iterator[_T]:
    """The places themselves and all that are reached from them, each once, the nearest first.

    following: those behind a place; asked once for each, after the place was yielded.
    """
    seen = dict.fromkeys(start)
    waiting = deque(seen)
    while waiting:
        place = waiting.popleft()
        yield place
        for other in following(place):
            if other not in seen:
                seen[other] = None
                waiting.append(other)
