"""The fewest chains that hold every operator.

By Dilworth's theorem there are as many as operators of which none must run before another, if chains may skip
operators: a minimum path cover of the transitive closure. On the edges alone it gives more. The closure is not built: a
path of a flow may pass operators that other chains hold (Ford and Fulkerson, "Flows in Networks", 1962, section II.9).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


def fewest_chains(after: Sequence[Sequence[int]]) -> list[list[int]]:
    """Chains of operators, each in topological order, and each operator in one of them.

    after: for each operator those before it, with lower numbers.
    """
    count = len(after)
    flow = _Flow(after)
    for begin in range(count):
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
    """Units of flow from an operator (its left copy) to the next of its chain (a right copy), along edges of the graph
    and through operators in between."""

    def __init__(self, after: Sequence[Sequence[int]]) -> None:
        count = len(after)
        self.count = count
        self.users: list[list[int]] = [[] for _ in range(count)]
        for number, earlier in enumerate(after):
            for one in earlier:
                self.users[one].append(number)
        self.after = after
        self.along: dict[tuple[int, int], int] = {}  # units on an edge
        self.through = [0] * count  # units that pass an operator
        self.ends = [False] * count  # whether a unit ends at an operator

    def augment(self, begin: int) -> bool:
        """One more unit that begins at this operator, by a shortest way in the residual graph.

        Places are left copies (number) and right copies (count + number).
        """
        came: dict[int, int] = {begin: -1}
        waiting = deque([begin])
        while waiting:
            place = waiting.popleft()
            number = place % self.count
            if place >= self.count and not self.ends[number]:
                self._take(came, place)
                return True
            for further in self._residual(place, number):
                if further not in came:
                    came[further] = place
                    waiting.append(further)
        return False

    def _residual(self, place: int, number: int) -> list[int]:
        if place < self.count:
            back = [self.count + number] if self.through[number] else []
            return [*(self.count + user for user in self.users[number]), *back]
        earlier = [one for one in self.after[number] if self.along.get((one, number))]
        return [number, *earlier]

    def _take(self, came: dict[int, int], place: int) -> None:
        self.ends[place % self.count] = True
        while came[place] != -1:
            before = came[place]
            first, second = before % self.count, place % self.count
            if before < self.count <= place and first == second:
                self.through[first] -= 1
            elif before < self.count <= place:
                self.along[first, second] = self.along.get((first, second), 0) + 1
            elif first == second:
                self.through[first] += 1
            else:
                self.along[second, first] -= 1
            place = before

    def following(self) -> dict[int, int]:
        """For each operator the next of its chain."""
        found: dict[int, int] = {}
        along, through, ends = dict(self.along), list(self.through), list(self.ends)
        leaving = {
            number: sum(along.get((number, user), 0) for user in self.users[number]) for number in range(self.count)
        }
        for begin in range(self.count):
            if leaving[begin] - through[begin] <= 0:  # its own unit, besides those that pass
                continue
            place = begin
            while True:
                user = next(one for one in self.users[place] if along.get((place, one)))
                along[place, user] -= 1
                leaving[place] -= 1
                if ends[user]:
                    ends[user] = False
                    found[begin] = user
                    break
                through[user] -= 1
                place = user
        return found
