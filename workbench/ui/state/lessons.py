"""Lessons in a session: played once for each version of the file, with a view for each of their pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.fusion.opened_groups import OpenedGroups
from workbench.layout.profile import load_profile
from workbench.lessons import Lesson, LessonPipeline, PlayedStop, find_lesson, play
from workbench.ui.state.folders import check_may_open
from workbench.ui.state.graph_views import aimed
from workbench.ui.state.lru import Recent
from workbench.ui.state.overlay import Overlay
from workbench.ui.state.shown_view import Seen, Shown, seen_in
from workbench.view.inspection import inspect_element
from workbench.view.scene import View
from workbench.view.timeline import timeline_of

_KEY = "lessons_played"
_MOST = 4


@dataclass
class PlayedLesson:
    """A lesson with its stops, and a view for each pipeline. name: as the address has it.

    shown: the number of the stop that was last sent to the browser, by its pipeline.
    asked: what the browser showed when that stop was sent, until it reports something else; and the stop.
    """

    name: str
    lesson: Lesson
    stops: Sequence[PlayedStop]
    views: dict[LessonPipeline, Shown] = field(default_factory=dict)
    shown: dict[LessonPipeline, int] = field(default_factory=dict)
    asked: tuple[Seen, PlayedStop] | None = None

    def key_of(self, stop: PlayedStop) -> str:
        """The key of the graph view in which the stop is shown."""
        number = list(dict.fromkeys(one.stop.pipeline for one in self.stops)).index(stop.stop.pipeline)
        return f"lesson_{self.lesson.name}_{number}"

    def seen_after_asking(self, seen: Seen) -> Seen:
        """What the browser shows or is about to show."""
        if self.asked is None or seen != self.asked[0]:
            self.asked = None
            return seen
        stop = self.asked[1]
        return Seen(stop.stop.node or seen.id, (stop.step, stop.rewrites))


def played_lesson(name: str) -> PlayedLesson:
    """The lesson of that name or file. Raises UserError, for a file outside the folders that may be opened too."""
    if name.endswith(".md"):
        check_may_open(name)
    lesson = find_lesson(name)
    kept: Recent[PlayedLesson] = st.session_state.setdefault(_KEY, Recent(_MOST))
    try:
        changed = lesson.file.stat().st_mtime_ns
    except OSError as error:
        raise UserError(f"the lesson '{name}' cannot be read: {error.strerror or error}") from None
    return kept.get((name, changed), lambda: PlayedLesson(name, lesson, play(lesson, check_may_open)))


def shown_stop(played: PlayedLesson, stop: PlayedStop, number: int) -> Shown:
    """The view of the stop's history, sent to its moment and node when another stop was shown before."""
    wanted = stop.stop.pipeline
    if wanted not in played.views:
        with st.spinner("Placing the graph"):
            played.views[wanted] = _view(played, stop)
    shown = played.views[wanted]
    if played.shown.get(wanted) != number:
        played.shown = {wanted: number}
        played.asked = seen_in(played.key_of(stop)), stop
        shown.go_to(stop.step, stop.rewrites, stop.panes)
        if stop.stop.node:
            shown.reveal({"id": stop.stop.node, "whole": True})
    return shown


def _view(played: PlayedLesson, stop: PlayedStop) -> Shown:
    history = stop.history
    target = aimed(history, load_profile(stop.stop.pipeline.profile))
    view = View(timeline_of(history, target), stop.model.stem, target.layout)

    def inspected(seen: Seen) -> Mapping[str, Any]:
        seen = played.seen_after_asking(seen)
        step, done = seen.moment or (stop.step, stop.rewrites)
        step = min(step, len(history) - 1)
        groups = OpenedGroups(history.at(step, done))
        members = view.members(seen.id)
        return inspect_element(history, step, done, seen.id, stop.passes, groups=groups, target=target, members=members)

    return Shown(view, inspected, Overlay())
