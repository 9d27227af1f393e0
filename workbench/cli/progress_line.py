"""A progress line on a terminal; nothing if the output is no terminal."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING

from workbench.errors import printable
from workbench.pipeline.running import Progress

if TYPE_CHECKING:
    from workbench.reduction.reduce import ReductionProgress

SHOW_EVERY_S = 0.1


class ProgressLine:
    """The last line of standard error, rewritten with each progress and removed at the end."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._started = time.monotonic()
        self._written = 0.0

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        if self._is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def passing(self, progress: Progress) -> None:
        """The number of the running pass, what it does, and how much is done."""
        self._show(progress.words, not progress.rewrites)

    def comparing(self, words: str) -> None:
        self._show(words, True)

    def share(self, words: str, share: float) -> None:
        """share: how much is done, from 0 to 1."""
        self._show(f"{share:4.0%} {words}", False)

    def reducing(self, progress: ReductionProgress) -> None:
        """How small the model is already, what is tried, and about how long that takes."""
        rest = f"{progress.stage}, about {progress.left:,} more in {progress.seconds_left:,.0f} s"
        self._show(f"nodes left: {progress.nodes:,}; candidates asked: {progress.asked:,}; {rest}", False)

    def _show(self, words: str, at_once: bool) -> None:
        now = time.monotonic()
        if not self._is_shown or not (at_once or now - self._written >= SHOW_EVERY_S):
            return
        self._written = now
        columns = shutil.get_terminal_size().columns  # a longer line could not be overwritten
        line = printable(f"{words} ({now - self._started:,.0f} s)")
        print(f"\r\033[K{line[: columns - 1]}", end="", file=sys.stderr, flush=True)
