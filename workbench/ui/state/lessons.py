"""Lessons in a session: played once for each version of the file, with a view for each of their pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.fusion.opened_groups import OpenedGroups
from workbench.layout.profile import load_profile
from workbench.lessons import Lesson, Pipeline, PlayedStop, find_lesson, play
from workbench.ui.state.folders import check_may_open
from workbench.ui.state.graph_views import aimed
from workbench.ui.state.lru import Recent
from workbench.ui.widgets.graph_view import Seen, Shown
from workbench.view.inspection import inspect_element
from workbench.view.scene import View
from workbench.view.timeline import timeline_of

_KEY = "lessons_played"
_MOST = 4


@dataclass
class PlayedLesson:
    """A lesson with its stops, and a view for each pipeline. name: as the address has it."""

    name: str
    lesson: Lesson
    stops: Sequence[PlayedStop]
    views: dict[Pipeline, Shown] = field(default_factory=dict)
    shown: dict[Pipeline, int] = field(default_factory=dict)

    def pipeline_number(self, stop: PlayedStop) -> int:
        return list(dict.fromkeys(one.stop.pipeline for one in self.stops)).index(stop.stop.pipeline)


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
            played.views[wanted] = _view(stop)
    shown = played.views[wanted]
    if played.shown.get(wanted) != number:
        played.shown = {wanted: number}
        shown.go_to(stop.step, stop.rewrites, panes=2 if stop.step else 1)
        if stop.stop.node:
            shown.reveal({"id": stop.stop.node, "whole": True})
    return shown


def _view(stop: PlayedStop) -> Shown:
    history = stop.history
    target = aimed(history, load_profile(stop.stop.pipeline.profile))
    view = View(timeline_of(history, target), stop.model.stem, target.layout)

    def inspected(seen: Seen) -> Mapping[str, Any]:
        step, done = seen.moment or (stop.step, stop.rewrites)
        step = min(step, len(history) - 1)
        groups = OpenedGroups(history.at(step, done))
        members = view.members(seen.id)
        return inspect_element(history, step, done, seen.id, stop.passes, groups=groups, target=target, members=members)

    return Shown(view, inspected)
