"""The types of progress callbacks of measurements, and the progress of a part of the work."""

from collections.abc import Callable

OnShare = Callable[[str, float], None]  # called with the progress, in words and from 0 to 1; may raise to stop
OnStage = Callable[[str], None]  # what is being done, in words


def of_part(on_share: OnShare | None, name: str, share: float) -> OnShare:
    """Reports the progress of the part `name` as that of the whole, of which `share` is done."""

    def report(words: str, _: float) -> None:
        if on_share is not None:
            on_share(f"{name}, {words}" if words else name, share)

    return report
