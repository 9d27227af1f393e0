"""The comparison with the original in the background: first the last step, then the shown one, then the others.

The user chooses which steps are compared (HOW): each, only the end, or none.
"""

from __future__ import annotations

import threading
import time

from workbench.errors import UserError
from workbench.evidence.verification.steps import verify_end, verify_others
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.ui.state.work import Stopped
from workbench.rewrite import History
from workbench.run.worker.process import CancelledError

EACH, END, OFF = HOW = ("each", "end", "off")
AT_ONCE_S = 0.2  # how long a page waits for verdicts when it is first drawn


class Checking:
    """A thread that verifies one history: each step, or only the end.

    shown:    the step that the page shows, which the page updates.
    activity: what the thread does, for the user.
    shows_progress: whether it took so long that the page shows its progress.
    """

    def __init__(self, verifier: Verifier, history: History, shown: int, how: str) -> None:
        self.history, self.shown, self.how, self.activity = history, shown, how, "waiting"
        self._compared_at_start = self.compared
        self.started = time.monotonic()
        self.failure, self.shows_progress = "", False
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
        """The share of the steps to compare that have a verdict; None if only the end is compared."""
        if self.how == END:
            return None
        return (self.compared - self._compared_at_start) / max(len(self.history) - self._compared_at_start, 1)

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)

    def stop(self) -> None:
        """Stop the thread, running or waiting; the verdicts so far are kept."""
        self._stopped.set()
        self._verifier.worker.cancel(self._thread)
        self._thread.join()

    def _run(self) -> None:
        try:
            if self.history[-1].verdict is None:
                verify_end(self._verifier, self.history, self._on_check)
            if self.how == EACH and self.history.failed is None:
                verify_others(self._verifier, self.history, lambda: self.shown, self._on_check)
        except (Stopped, CancelledError):
            return
        except UserError as error:  # shown on the page
            self.failure = str(error)

    def _on_check(self, activity: str) -> None:
        if self._stopped.is_set():
            raise Stopped
        self.activity = activity


def is_compared(history: History, how: str) -> bool:
    """Whether every step to compare has a verdict, or a failed step is known. how: of HOW."""
    if how == OFF:
        return True
    if how == END:
        return history[-1].verdict is not None
    return history.failed is not None or all(step.verdict is not None for step in history.steps)
