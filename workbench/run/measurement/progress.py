"""Who hears how far a measurement is."""

from collections.abc import Callable

OnShare = Callable[[str, float], None]  # what goes on, in words, and how much is done, from 0 to 1; may raise to stop
