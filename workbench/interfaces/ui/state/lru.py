"""A cache of the most recently used results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Recent(Generic[_T]):
    """At most `max_entries` results by key; the least recently used one is evicted first."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[Hashable, _T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """The result of that key, computed by `make` if it is not cached."""
        if key not in self._entries:
            self._entries[key] = make()
            if len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        return self._entries[key]

    def __iter__(self) -> Iterator[_T]:
        """The cached results, the least recently used one first."""
        return iter(self._entries.values())

    def clear(self) -> None:
        self._entries.clear()
