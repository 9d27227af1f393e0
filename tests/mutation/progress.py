"""What became of the mutants of a package so far: told every ten seconds, and each that survives without a reason."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from tests.mutation.mutations import Mutant
from tests.mutation.survivors import explained

SURVIVED, ENDED = "", "its process ended"  # in place of the test that fails
SECONDS = 10
_OUT = os.fdopen(os.dup(2), "w")  # in forks too, whose own stderr is silent


@dataclass
class Progress:
    package: str
    start: float = field(default_factory=time.monotonic)
    told: float = field(default_factory=time.monotonic)
    killed: int = 0
    survivors: list[Mutant] = field(default_factory=list)

    def add(self, mutant: Mutant, failed_test: str) -> None:
        if failed_test == SURVIVED:
            self.survivors.append(mutant)
            if mutant.key not in explained():
                self._print(f"{mutant.file}:{mutant.lines.start}: {mutant.words} survives")
        else:
            self.killed += 1
        if time.monotonic() - self.told > SECONDS:
            self.tell()

    def tell(self) -> None:
        self.told = time.monotonic()
        counts = f"{self.killed:,} mutants killed, {len(self.survivors):,} survived"
        self._print(f"{self.package}: {counts}, {self.told - self.start:.0f} s")

    def _print(self, line: str) -> None:
        print(line, file=_OUT, flush=True)

    @property
    def equivalent(self) -> int:
        return sum(mutant.key in explained() for mutant in self.survivors)
