"""The fewest chains that hold every operator.

By Dilworth's theorem there are as many as operators of which none must run before another, if chains may skip
operators: a minimum path cover of the transitive closure. On the edges alone it gives more. The closure is not built: a
path of a flow may pass operators that other chains hold (Ford and Fulkerson, "Flows in Networks", 1962, section II.9).
Chains follow edges where they can, for an operator that comes after the one that it needs waits for no other chain:
each place where a chain skips operators costs 1, and units of flow go the cheapest way.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence


def fewest_chains(after: Sequence[Sequence[int]]) -> list[list[int]]:
    """Chains of operators, each in topological order, and each operator in one of them.

    after: for each operator those before it, with lower numbers.
    """
    count = len(after)
    flow = _Flow(after)
    alone = [begin for begin in range(count) if not flow.augment_along_edges(begin)]
    for begin in alone:
        flow.augment(begin)
    following = flow.following()
    heads = set(range(count)) - set(following.values())
    chains = []
    for head in sorted(heads):
        chain = [head]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        chains.append(chain)
    return chains


class _Flow:
    """Units of flow, each from an operator to the next of its chain.

    Three places stand for an operator: where its own unit begins (its number), where a unit passes it (count + number),
    and where a unit ends (2 * count + number), which one may do. A unit goes along one edge, at no cost, or enters the
    operators that are passed, at a cost of 1, and goes along edges from there.
    """

    def __init__(self, after: Sequence[Sequence[int]]) -> None:
        self.count = len(after)
        self.after = after
        self.users: list[list[int]] = [[] for _ in after]
        for number, earlier in enumerate(after):
            for one in earlier:
                self.users[one].append(number)
        self.units: dict[tuple[int, int], int] = defaultdict(int)  # from place to place
        self.ended = [False] * self.count

    def augment_along_edges(self, begin: int) -> bool:
        """One more unit that begins at this operator, if all can go along one edge each."""
        came, waiting = {begin: -1}, deque([begin])
        while waiting:
            place = waiting.popleft()
            if place >= self.count and not self.ended[place - 2 * self.count]:
                self._take(came, place)
                return True
            for further in self._along_edges(place):
                if further not in came:
                    came[further] = place
                    waiting.append(further)
        return False

    def _along_edges(self, place: int) -> Iterator[int]:
        if place < self.count:
            yield from (2 * self.count + user for user in self.users[place])
        else:
            yield from (one for one in self.after[place - 2 * self.count] if self.units.get((one, place)))

    def augment(self, begin: int) -> None:
        """One more unit that begins at this operator, by a cheapest way in the residual graph, if there is one."""
        came, cost, waiting = {begin: -1}, {begin: 0}, deque([begin])
        queued = {begin}
        while waiting:
            place = waiting.popleft()
            queued.discard(place)
            for further, price in self._residual(place):
                if cost[place] + price < cost.get(further, self.count + 1):
                    came[further], cost[further] = place, cost[place] + price
                    if further not in queued:
                        queued.add(further)
                        waiting.append(further)
        ends = [place for place in cost if place >= 2 * self.count and not self.ended[place - 2 * self.count]]
        if ends:
            self._take(came, min(ends, key=lambda place: (cost[place], place)))

    def _residual(self, place: int) -> Iterator[tuple[int, int]]:
        """Where a unit, or one that is taken back, can go from a place, and what that costs."""
        count, number = self.count, place % self.count
        begins, passes, ends = number, count + number, 2 * count + number
        if place == begins:
            yield passes, 1
            yield from ((2 * count + user, 0) for user in self.users[number])
        elif place == passes:
            if self.units.get((begins, passes)):
                yield begins, -1
            for user in self.users[number]:
                yield count + user, 0
                yield 2 * count + user, 0
            yield from ((count + one, 0) for one in self.after[number] if self.units.get((count + one, passes)))
        else:
            for one in self.after[number]:
                if self.units.get((one, ends)):
                    yield one, 0
                if self.units.get((count + one, ends)):
                    yield count + one, 0

    def _take(self, came: dict[int, int], place: int) -> None:
        self.ended[place % self.count] = True
        while (before := came[place]) != -1:
            if self.units.get((place, before)):
                self.units[place, before] -= 1
            else:
                self.units[before, place] += 1
            place = before

    def following(self) -> dict[int, int]:
        """For each operator the next of its chain."""
        left: dict[int, list[int]] = defaultdict(list)
        for (begin, end), units in self.units.items():
            left[begin] += [end] * units
        results: dict[int, int] = {}
        for begin in range(self.count):
            if not left[begin]:
                continue
            place = begin
            while place < 2 * self.count:
                place = left[place].pop()
            results[begin] = place - 2 * self.count
        return results
