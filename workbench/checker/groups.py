"""Checks that the groups of a solution are those that the log's rewrites put into one call each."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.records import Fields, as_int, as_list


def checked_groups(record: Fields, chosen: frozenset[int], replaced: Iterable[frozenset[str]]) -> int:
    """The number of groups with several operators.

    A column of the program that is 1 says that two operators are in one group. replaced: the nodes that each rewrite of
    the step removed, by key. Raises DoesNotHold.
    """
    operators = record.texts("operators")
    group = list(range(len(operators)))

    def root(i: int) -> int:
        while group[i] != i:
            group[i] = group[group[i]]
            i = group[i]
        return i

    for number, pair in enumerate(record.items("together"), 1):
        where = f"{record.where}, pair {number:,}"
        parts = [as_int(part, where) for part in as_list(pair, where)]
        if len(parts) != 3 or not all(0 <= i < len(operators) for i in parts[1:]):
            raise Unreadable(f"the certificate's {where} must be a column and two operators of the list")
        if parts[0] in chosen:
            group[root(parts[1])] = root(parts[2])
    results: dict[int, set[str]] = {}
    for i, key in enumerate(operators):
        results.setdefault(root(i), set()).add(key)
    solution = {frozenset(keys) for keys in results.values() if len(keys) > 1}
    logged = set(replaced)
    if solution != logged:
        differing = min(min(keys) for keys in solution ^ logged)
        raise DoesNotHold(f"the groups of {record.where} are not those of the log: that of '{differing}' differs")
    return len(solution)
