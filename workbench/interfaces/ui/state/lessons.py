"""The lessons of a session: each version of a file is played once, with a view for each of its pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.lessons import Lesson, LessonPipeline, PlayedStop, find_lesson, play
from workbench.interfaces.lessons.lesson_view import LessonView, lesson_view
from workbench.interfaces.lessons.list_picture import list_picture
from workbench.interfaces.ui.state.folders import check_may_open
from workbench.interfaces.ui.state.graph_views import effective_profile
from workbench.interfaces.ui.state.lru import Recent
from workbench.interfaces.ui.state.overlay import Overlay
from workbench.interfaces.ui.state.shown_view import Seen, Shown
from workbench.planning.layout.profile import load_profile

_KEY = "lessons_played"
_MAX_LESSONS = 4


@dataclass
class PlayedLesson:
    """A lesson with its stops, and a view for each pipeline. name: as in the URL.

    shown: the pipeline and the number of the stop that were last sent to the browser.
    """

    name: str
    lesson: Lesson
    stops: Sequence[PlayedStop]
    views: dict[LessonPipeline, tuple[LessonView, Shown]] = field(default_factory=dict)
    shown: tuple[LessonPipeline, int] | None = None

    def key_of(self, stop: PlayedStop) -> str:
        """The key of the graph view in which the stop is shown."""
        number = list(dict.fromkeys(one.stop.pipeline for one in self.stops)).index(stop.stop.pipeline)
        return f"lesson_{self.lesson.name}_{number}"


@cache
def picture_in_list(name: str) -> str:
    """The small picture of a shipped lesson, as SVG; drawn once, for all sessions."""
    return list_picture(find_lesson(name))


def played_lesson(name: str) -> PlayedLesson:
    """The lesson of that name or path. Raises UserError, also for a file that may not be opened."""
    if name.endswith(".md"):
        check_may_open(name)
    lesson = find_lesson(name)
    cache: Recent[PlayedLesson] = st.session_state.setdefault(_KEY, Recent(_MAX_LESSONS))
    try:
        changed = lesson.file.stat().st_mtime_ns
    except OSError as error:
        raise UserError(f"the lesson '{name}' cannot be read: {error.strerror or error}") from None
    return cache.get((name, changed), lambda: PlayedLesson(name, lesson, play(lesson, check_may_open)))


def shown_stop(played: PlayedLesson, stop: PlayedStop, number: int) -> Shown:
    """The view of the stop's history; if another stop was shown before, it goes to this stop's moment and frames it."""
    pipeline = stop.stop.pipeline
    if pipeline not in played.views:
        with st.spinner("Placing the graph"):
            played.views[pipeline] = _view(stop)
    view, shown = played.views[pipeline]
    if played.shown != (pipeline, number):
        played.shown = pipeline, number
        view.show(stop)
        shown.go_to(stop.step, stop.rewrites, stop.panes)
        shown.frame(stop.stop.node, stop.stop.frame)
    return shown


def _view(stop: PlayedStop) -> tuple[LessonView, Shown]:
    view = lesson_view(stop, effective_profile(stop.history, load_profile(stop.stop.pipeline.profile)))
    return view, Shown(view, _nothing_inspected, Overlay(), is_player=True)


def _nothing_inspected(seen: Seen) -> Mapping[str, Any]:
    """A lesson shows no inspector."""
    return {"id": seen.id, "sections": []}
