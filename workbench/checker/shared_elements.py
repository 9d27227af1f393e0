"""What the values of a file take at least at one step, however they share memory.

A view has the elements of its operand, and a part of a Concat has its elements in the result. Bytes that hold different
elements are different, unless a result is written over an operand in the step that computes it. So the different
elements of all values in use, less one such result, are a lower bound for every plan.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator

from workbench.checker.lifetimes import FileLifetimes
from workbench.checker.output import Output
from workbench.checker.sharing import MemorySharing


class SharedElements:
    """needless: values that need no memory. Values of unknown size are left out too."""

    def __init__(
        self, output: Output, lifetimes: FileLifetimes, sharing: MemorySharing, needless: Collection[str]
    ) -> None:
        self.lifetimes, self.sharing = lifetimes, sharing
        sizes = ((name, output.inferred.bytes(name)) for name in lifetimes.born if name not in needless)
        self.size = {name: size for name, size in sizes if size is not None}
        self.contained: dict[str, list[tuple[str, int]]] = defaultdict(list)  # both ways, with the byte of its begin
        for call in output.model.graph.nodes.values():
            for part, begin in sharing.pieces(call):
                self._relate(part, call.inputs[0], begin)
            for part, begin in sharing.parts(call):
                self._relate(part, call.key, begin)

    def least(self) -> int:
        """The most bytes at one step."""
        in_use = [0] * (len(self.lifetimes.steps) + 1)
        for together in self._related():
            before = 0
            for step, size in self._different_bytes(together):
                in_use[step] += size - before
                before = size
        peak = current = 0
        for step, change in enumerate(in_use[:-1]):
            current += change
            peak = max(peak, current - self._overwritten(step))
        return peak

    def _relate(self, part: str, whole: str, begin: int) -> None:
        if part in self.size and whole in self.size:
            self.contained[part].append((whole, -begin))
            self.contained[whole].append((part, begin))

    def _related(self) -> Iterator[dict[str, int | None]]:
        """Values that have elements in common, directly or through others, each with its first byte among their bytes.
        It is None if there is no place for each that fits all relations."""
        seen: set[str] = set()
        for start in self.size:
            if start in seen:
                continue
            first: dict[str, int] = {start: 0}
            waiting, fits = deque([start]), True
            while waiting:
                name = waiting.popleft()
                for other, begin in self.contained[name]:
                    if other not in first:
                        first[other] = first[name] + begin
                        waiting.append(other)
                    fits = fits and first[other] == first[name] + begin
            seen |= first.keys()
            yield {name: byte if fits else None for name, byte in first.items()}

    def _different_bytes(self, together: dict[str, int | None]) -> Iterator[tuple[int, int]]:
        """The steps at which one of them begins or ends, with the bytes of different elements from then on."""
        starting, ending = defaultdict(list), defaultdict(list)
        for name in together:
            born, dies = self.lifetimes.of(name)
            starting[born].append(name)
            ending[dies].append(name)
        living: dict[str, int | None] = {}
        for step in sorted({*starting, *ending}):
            for name in ending[step]:
                del living[name]
            living |= {name: together[name] for name in starting[step]}
            yield step, self._union(living)

    def _union(self, living: dict[str, int | None]) -> int:
        spans = [(first, first + self.size[name]) for name, first in living.items() if first is not None]
        if len(spans) < len(living):  # then the largest alone is certain
            return max(self.size[name] for name in living)
        covered, last = 0, min((first for first, _ in spans), default=0)
        for first, end in sorted(spans):
            covered += max(0, end - max(first, last))
            last = max(last, end)
        return covered

    def _overwritten(self, step: int) -> int:
        """The bytes of the result that the step may write over an operand."""
        call = self.lifetimes.steps[step]
        over = [value for value in self.sharing.overwritable(call) if value in self.size] if call.key else []
        last = any(self.lifetimes.is_last_read(value, step) for value in over)
        return self.size.get(call.key, 0) if last else 0
