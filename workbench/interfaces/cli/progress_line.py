"""A progress line on a terminal. Elsewhere only what takes long is said, once, in a line of its own."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING

from workbench.errors import printable
from workbench.pipeline.running import Progress

if TYPE_CHECKING:
    from workbench.evidence.reduction.reduce import ReductionProgress

SHOW_EVERY_S = 0.1
AWAITED_S = 10.0


class ProgressLine:
    """The last line of standard error, rewritten with each report of progress and removed at the end."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._started = time.monotonic()
        self._written = 0.0
        self._timer: threading.Timer | None = None

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove the line."""
        self._stop_timer()
        if self._is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def passing(self, progress: Progress) -> None:
        """Show the number of the running pass, what it does, and how much is done."""
        self._show(progress.text, not progress.rewrites)

    def comparing(self, stage: str) -> None:
        """Show what is done now, or say after AWAITED_S that it still goes on."""
        self._show(stage, True)
        self._stop_timer()
        if not self._is_shown:
            self._timer = threading.Timer(AWAITED_S, _say_awaited, [stage])
            self._timer.daemon = True
            self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def share(self, stage: str, share: float) -> None:
        """Show what is done now, and the share of the work that is done, from 0 to 1."""
        self._show(f"{share:4.0%} {stage}", False)

    def reducing(self, progress: ReductionProgress) -> None:
        """Show the size of the smallest candidate, what is tried, and about how long that takes."""
        rest = f"{progress.stage}, about {progress.left:,} more in {progress.seconds_left:,.0f} s"
        self._show(f"nodes left: {progress.nodes:,}; candidates checked: {progress.checked:,}; {rest}", False)

    def _show(self, text: str, at_once: bool) -> None:
        """Show the text, at once or at most every SHOW_EVERY_S."""
        now = time.monotonic()
        if not self._is_shown or not (at_once or now - self._written >= SHOW_EVERY_S):
            return
        self._written = now
        columns = shutil.get_terminal_size().columns  # a line that wraps could not be overwritten
        line = printable(f"{text} ({now - self._started:,.0f} s)")
        print(f"\r\033[K{line[: columns - 1]}", end="", file=sys.stderr, flush=True)


def _say_awaited(stage: str) -> None:
    print(printable(f"still {stage}, after {AWAITED_S:.0f} s"), file=sys.stderr, flush=True)
