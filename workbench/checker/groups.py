"""Groups of operators: those of a solution are those that the log's rewrites put into one call each."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.records import Fields, as_list, as_whole


def checked_groups(record: Fields, chosen: frozenset[int], replaced: Iterable[frozenset[str]]) -> int:
    """The number of groups with several operators.

    A column of the program that is 1 says that two operators are in one group. replaced: the nodes that each rewrite of
    the step removed, by key. Raises DoesNotHold.
    """
    operators = record.texts("operators")
    group = list(range(len(operators)))

    def first(i: int) -> int:
        while group[i] != i:
            group[i] = group[group[i]]
            i = group[i]
        return i

    for number, message in enumerate(record.items("together"), 1):
        where = f"{record.where}, pair {number:,}"
        parts = [as_whole(part, where) for part in as_list(message, where)]
        if len(parts) != 3 or not all(0 <= i < len(operators) for i in parts[1:]):
            raise Unreadable(f"the certificate's {where} must be a column and two operators of the list")
        if parts[0] in chosen:
            group[first(parts[1])] = first(parts[2])
    results: dict[int, set[str]] = {}
    for i, key in enumerate(operators):
        results.setdefault(first(i), set()).add(key)
    solution = {frozenset(keys) for keys in results.values() if len(keys) > 1}
    made = set(replaced)
    if solution != made:
        odd = min(min(keys) for keys in solution ^ made)
        raise DoesNotHold(f"the groups of {record.where} are not those of the log: that of '{odd}' differs")
    return len(solution)
