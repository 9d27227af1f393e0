"""The graph view of a lesson's stop: two moments of its history, placed without the room for others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from workbench.interfaces.lessons.equation_view import equation_timeline
from workbench.interfaces.lessons.playing import PlayedStop
from workbench.interfaces.lessons.tightening import tightened
from workbench.planning.layout.profile import Profile
from workbench.presentation.view.boxes import Boxes
from workbench.presentation.view.scene import View
from workbench.presentation.view.timeline import timeline_of


@dataclass
class LessonView(View):
    """The view of a pipeline's history. moments: those that the present stop compares."""

    moments: tuple[int, ...] = (0,)
    fills_pane: ClassVar[bool] = False

    def show(self, played: PlayedStop) -> None:
        """Take over the stop's moments, and open the groups that hide what it frames."""
        span = self.timeline.step_spans[played.step]
        end = span.first + (span.rewrites if played.rewrites is None else played.rewrites)
        start = span.first if played.rewrites is None else max(end - 1, 0)
        self.moments = (start, end)
        self.reveal(played.stop.node, *played.stop.frame)

    def scene(self, boxes: Boxes | None = None) -> dict[str, Any]:
        return tightened(super().scene(boxes), self.moments)


def lesson_view(played: PlayedStop, target: Profile) -> LessonView:
    """The view of the stop's history; `show` takes over a stop."""
    timeline = equation_timeline if played.has_equations else timeline_of
    return LessonView(timeline(played.history, target), played.model.stem, target.layout)
