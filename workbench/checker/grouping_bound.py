"""What groups of operators read and write at least, by a best-first search over conflicts.

A grouping is known by the pairs of neighbours that are in different groups; the fewer, the less it reads and writes. So
the search begins with all neighbours in one group. As long as two operators are in one group that cannot be, one of the
pairs on a path between them must be in different groups, and each is tried. The first state without such a conflict
that comes off a queue is a minimum, and before that the cost of the first in the queue is a lower bound (A*, Hart,
Nilsson and Raphael 1968). What a state costs at least is what its groups read and write, and for conflicts of different
values the cheapest way out of each.

Which operators may be neighbours splits a graph into parts, each of which is searched alone.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from workbench.checker.grouping_problem import GroupingProblem, Stored
from workbench.checker.outcome import NotFinished

_MAX_OPERATORS = 20_000
_MAX_VISITS = 2_000_000  # of operators and pairs of neighbours in all states together
_MAX_CONFLICTS = 32  # of a state that are looked at
_Pair = tuple[int, int]  # two operators, the earlier first


@dataclass(frozen=True)
class GroupingBound:
    """least: bytes that groups read and write at least. finished: whether the search was not stopped."""

    least: int
    finished: bool


def bytes_of_groups(problem: GroupingProblem, group: Sequence[int]) -> int:
    """The bytes that groups read and write: each reads a value of others once. group: by operator, a number."""
    total = 0
    for value in problem.stored:
        own = None if value.producer is None else group[value.producer]
        readers = {group[user] for user in value.users} - {own}
        total += (value.bytes or 0) * (len(readers) + (own is not None and bool(readers or value.leaves)))
    return total


def grouping_bound(problem: GroupingProblem, group: Sequence[int], multi_output: bool) -> GroupingBound:
    """The bound.

    group: by operator, a number, as in `bytes_of_groups`; a part in which no grouping can be cheaper than this one is
    searched no further. multi_output: whether results of any operator of a group may leave it. Raises NotFinished.
    """
    if len(problem.users) > _MAX_OPERATORS:
        raise NotFinished(f"it has more than {_MAX_OPERATORS:,} operators")
    reached = [0] * len(problem.users)  # bit b of a: there is a path from a to b
    for number in reversed(range(len(problem.users))):
        for user in problem.users[number]:
            reached[number] |= reached[user] | 1 << user
    together = _pairs_in_one_group(problem)
    left, least, finished = _MAX_VISITS, 0, True
    for part in sorted(_parts(problem), key=len):
        search = _Search(problem, part, reached, multi_output)
        most = left // search.size
        cost, states = search.least(most, together, search.cost_of(group))
        finished = finished and states <= most
        left, least = max(left - states * search.size, 0), least + cost
    return GroupingBound(least, finished)


def _parts(problem: GroupingProblem) -> list[list[int]]:
    neighbours: dict[int, list[int]] = defaultdict(list)
    for a, b in problem.joined:
        neighbours[a].append(b)
        neighbours[b].append(a)
    seen: set[int] = set()
    parts = []
    for start in range(len(problem.users)):
        if start not in seen:
            part, waiting = [], [start]
            seen.add(start)
            while waiting:
                part.append(waiting.pop())
                fresh = set(neighbours[part[-1]]) - seen
                seen |= fresh
                waiting += fresh
            parts.append(sorted(part))
    return parts


def _pairs_in_one_group(problem: GroupingProblem) -> frozenset[_Pair]:
    """Pairs that some cheapest grouping has in one group: all pairs of a chain but the one with the smallest value.

    Where a chain is cut changes nothing else: its operators read nothing besides that others read.
    """
    before: list[set[int]] = [set() for _ in problem.users]
    for number, users in enumerate(problem.users):
        for user in users:
            before[user].add(number)
    size = [0] * len(problem.users)
    shared: set[int] = set()  # those that read more than the one value, which others read too
    views = set(range(len(problem.users)))
    for value in problem.stored:
        if value.producer is not None:
            size[value.producer] += value.bytes or 0
            views.discard(value.producer)
        if len(value.users) > 1:
            shared.update(user for user in value.users if value.producer not in before[user])
    for number in sorted(views):  # in the memory of what they are of
        size[number] = max((size[producer] for producer in before[number]), default=0)
    next_: dict[int, int] = {}  # of operators with one user, which may be in their group
    for number, users in enumerate(problem.users):
        if len(users) == 1 and not problem.leaves[number] and len(problem.results[number]) == 1:
            (user,) = users
            may_join = (number, user) in problem.joined and (user not in views or len(before[user]) == 1)
            next_ |= {number: user} if may_join else {}
    inner = {  # operators in the middle of a chain
        number
        for number in next_
        if len(before[number]) == 1
        and next_.get(*before[number]) == number
        and number not in shared
        and not problem.products[number]
    }
    result: set[_Pair] = set()
    for start in next_.keys() - inner:
        chain = [start]
        while next_[chain[-1]] in inner:
            chain.append(next_[chain[-1]])
        cheapest = min(chain, key=size.__getitem__)
        result.update((number, next_[number]) for number in chain if number != cheapest)
    return frozenset(result)


class _Search:
    """The search in one part."""

    def __init__(self, problem: GroupingProblem, part: list[int], reached: list[int], multi_output: bool) -> None:
        self.problem, self.part, self.reached, self.multi_output = problem, part, reached, multi_output
        self.inside = set(part)
        self.neighbours: dict[int, list[int]] = defaultdict(list)
        for a, b in sorted(problem.joined):
            if a in self.inside:
                self.neighbours[a].append(b)
                self.neighbours[b].append(a)
        self.stored = [v for v in problem.stored if v.producer in self.inside or v.users & self.inside]
        self.computed: dict[int, list[Stored]] = defaultdict(list)  # by operator
        for value in self.stored:
            if value.producer is not None:
                self.computed[value.producer].append(value)
        self.size = len(part) + sum(map(len, self.neighbours.values()))

    def cost_of(self, group: Sequence[int]) -> int | None:
        """What a grouping costs in this part; None if it has operators in one group that cannot be."""
        apart = {_pair(i, j) for i in self.part for j in self.neighbours[i] if group[i] != group[j]}
        own = self._groups(apart)
        return None if next(self._conflicts(own, apart), None) else self._cost(own)

    def least(self, most: int, together: frozenset[_Pair], enough: int | None) -> tuple[int, int]:
        """The least cost, or `enough` if it is not less, and the number of states that it took; a lower bound if these
        are more than `most`."""
        order = itertools.count()
        waiting: list[tuple[int, int, list[_Pair], frozenset[_Pair], frozenset[_Pair]]] = []

        def add(cost: int, apart: frozenset[_Pair], together: frozenset[_Pair]) -> None:
            found = self._bound(apart, together)
            if found is not None:
                heapq.heappush(waiting, (max(cost, found[0]), next(order), found[1], apart, together))

        add(0, frozenset(), together)
        for states in itertools.count(1):
            cost, _, path, apart, together = heapq.heappop(waiting)
            if enough is not None and cost >= enough:
                return enough, states
            if not path or states > most:
                return cost, states
            for pair in path:
                add(cost, apart | {pair}, together)
                together |= {pair}
        raise AssertionError

    def _bound(self, apart: Collection[_Pair], together: Collection[_Pair]) -> tuple[int, list[_Pair]] | None:
        """What groups cost at least in which these pairs are apart and those together, and the pairs of which one more
        must be apart, none if the groups can be; None if there are no such groups."""
        group = self._groups(apart)
        shortest: list[_Pair] = []
        exits = []
        for conflict in itertools.islice(self._conflicts(group, apart), _MAX_CONFLICTS):
            path = [pair for pair in self._path(*conflict, apart) if pair not in together]
            if not path:
                return None
            shortest = path if not shortest or len(path) < len(shortest) else shortest
            exits.append((min(self._cost_apart(*pair, group) for pair in path), path))
        cost, paid = self._cost(group), set[int]()
        for extra, path in sorted(exits, key=lambda entry: -entry[0]):
            values = {id(value) for a, b in path for value in self.computed[a] if b in value.users}
            if paid.isdisjoint(values):
                paid |= values
                cost += extra
        return cost, shortest

    def _groups(self, apart: Collection[_Pair]) -> dict[int, int]:
        """By operator, the first of those that it is connected with."""
        result: dict[int, int] = {}
        for start in self.part:
            waiting = [] if start in result else [start]
            result.setdefault(start, start)
            while waiting:
                i = waiting.pop()
                for other in self.neighbours[i]:
                    if other not in result and _pair(i, other) not in apart:
                        result[other] = start
                        waiting.append(other)
        return result

    def _cost(self, group: dict[int, int]) -> int:
        return sum((value.bytes or 0) * self._moves(value, group) for value in self.stored)

    def _moves(self, value: Stored, group: dict[int, int]) -> int:
        """How often the groups of this part read or write a value."""
        readers = {group[user] for user in value.users if user in group}
        if value.producer not in group:
            return len(readers)
        assert value.producer is not None
        readers.discard(group[value.producer])
        return len(readers) + self._is_written(value, group)

    def _is_written(self, value: Stored, group: dict[int, int]) -> bool:
        """Whether a value that is computed in this part leaves its group."""
        assert value.producer is not None
        own = group[value.producer]
        return value.leaves or any(group.get(user) != own for user in value.users)

    def _cost_apart(self, a: int, b: int, group: dict[int, int]) -> int:
        """What it costs in addition if two neighbours of one group are in different ones."""
        values = (value for value in self.computed[a] if b in value.users)
        return sum((value.bytes or 0) * (2 - self._is_written(value, group)) for value in values)

    def _conflicts(self, group: dict[int, int], apart: Collection[_Pair]) -> Iterator[_Pair]:
        """Pairs of operators that cannot be in one group and are."""
        yield from (pair for pair in apart if group[pair[0]] == group[pair[1]])
        members: dict[int, list[int]] = defaultdict(list)
        for i, number in group.items():
            members[number].append(i)
        for inside in members.values():
            if len(inside) > 1:
                yield from self._conflicts_of(inside)

    def _conflicts_of(self, inside: list[int]) -> Iterator[_Pair]:
        """Pairs of operators of a group that cannot be in one."""
        own = set(inside)
        mask = sum(1 << i for i in inside)
        yield from itertools.combinations([i for i in inside if self.problem.products[i]], 2)
        last = []
        for i in inside:
            outside = self.problem.users[i] - own
            for user in outside:  # a path that leaves the group and comes back
                back = self.reached[user] & mask
                if back:
                    yield i, back.bit_length() - 1
            yield from ((i, user) for user in self.problem.users[i] & own if (i, user) not in self.problem.joined)
            if outside or self.problem.leaves[i] or not self.problem.users[i]:
                last.append(i)
        if not self.multi_output:
            yield from ((last[0], other) for other in last[1:])

    def _path(self, start: int, end: int, apart: Collection[_Pair]) -> list[_Pair]:
        """A shortest path between two operators of one group, as pairs of neighbours."""
        previous = {start: start}
        waiting = deque([start])
        while end not in previous:
            i = waiting.popleft()
            for other in self.neighbours[i]:
                if other not in previous and _pair(i, other) not in apart:
                    previous[other] = i
                    waiting.append(other)
        path = []
        while end != start:
            path.append(_pair(previous[end], end))
            end = previous[end]
        return path


def _pair(a: int, b: int) -> _Pair:
    return (a, b) if a < b else (b, a)
