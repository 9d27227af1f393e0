"""The types of progress callbacks of measurements, and the progress of a part of the work."""

from collections.abc import Callable

# Called with the progress, a text and the fraction done, from 0 to 1; may raise to stop.
ProgressCallback = Callable[[str, float], None]
StageCallback = Callable[[str], None]  # called with the present stage, a text


def part_progress(on_progress: ProgressCallback | None, name: str, share: float) -> ProgressCallback:
    """A callback for the part `name` of the work, before which the fraction `share` of the whole was done.

    It reports `share` throughout; the part's own fraction is ignored.
    """

    def report(text: str, _: float) -> None:
        if on_progress is not None:
            on_progress(f"{name}, {text}" if text else name, share)

    return report
