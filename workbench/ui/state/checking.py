"""The comparison with the original in the background: the last step first, then the shown one, then the others.

The user chooses (HOW) whether each step is compared, only the end, or nothing.
"""

from __future__ import annotations

import threading
import time

from workbench.errors import UserError
from workbench.rewrite import History
from workbench.run.worker.process import CancelledError
from workbench.ui.state.work import Stopped
from workbench.verification.verifier import Verifier, verify_end, verify_others

EACH, END, OFF = HOW = ("each", "end", "off")
AT_ONCE_S = 1.0  # the page waits this long for verdicts when it is first drawn


class Checking:
    """A thread that verifies one history: each step of it, or only the end.

    shown:  the step that the page shows; the page keeps it up to date.
    words:  its present activity, for the user.
    is_watched: whether it took so long that the page shows its progress.
    """

    def __init__(self, verifier: Verifier, history: History, shown: int, how: str) -> None:
        self.history, self.shown, self.how, self.words = history, shown, how, "waiting"
        self._before = self.compared
        self.started = time.monotonic()
        self.failure, self.is_watched = "", False
        self._verifier = verifier
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    @property
    def compared(self) -> int:
        return sum(step.verdict is not None for step in self.history.steps)

    @property
    def share(self) -> float | None:
        """Of the steps to compare, those that are; None where it is the end alone."""
        if self.how == END:
            return None
        return (self.compared - self._before) / max(len(self.history) - self._before, 1)

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)

    def stop(self) -> None:
        """Stop it, running or waiting; verdicts found so far are kept."""
        self._stopped.set()
        self._verifier.worker.cancel(self._thread)
        self._thread.join()

    def _run(self) -> None:
        try:
            if self.history[-1].verdict is None:
                verify_end(self._verifier, self.history, self._hear)
            if self.how == EACH and self.history.failed is None:
                verify_others(self._verifier, self.history, lambda: self.shown, self._hear)
        except (Stopped, CancelledError):
            return
        except UserError as error:  # shown on the page
            self.failure = str(error)

    def _hear(self, words: str) -> None:
        if self._stopped.is_set():
            raise Stopped
        self.words = words


def is_compared(history: History, how: str) -> bool:
    """Whether every step that is to be compared has a verdict, or the step that fails is known."""
    if how == OFF:
        return True
    if how == END:
        return history[-1].verdict is not None
    return history.failed is not None or all(step.verdict is not None for step in history.steps)
