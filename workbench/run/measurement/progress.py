"""The type of progress callbacks of measurements."""

from collections.abc import Callable

OnShare = Callable[[str, float], None]  # called with the progress, in words and from 0 to 1; may raise to stop
OnStage = Callable[[str], None]  # what is being done, in words
