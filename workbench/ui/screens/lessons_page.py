"""Lessons: the list of lessons; or a stop of one: its key sentence over the picture, its question with the answer."""

from __future__ import annotations

import html
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st
from streamlit.navigation.page import Page

from workbench.api import DEFAULT_TARGET
from workbench.errors import UserError, counted
from workbench.io.dims import parse_dims
from workbench.io.samples import Shows
from workbench.layout.declared import parse_layouts
from workbench.lessons import Lesson, PlayedStop, shipped_lessons
from workbench.lessons.exporting import inline_html, lesson_html
from workbench.lessons.pictures import Picture
from workbench.pipeline.command_text import command_text
from workbench.rewrite import DEFAULT_MODE
from workbench.ui.state.address import address_of
from workbench.ui.state.lessons import PlayedLesson, played_lesson, shown_stop
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.model_inputs import declare_layouts
from workbench.ui.state.session import open_model, opened_if_any
from workbench.ui.widgets.controls import begin_from_link, forget_samples_settings
from workbench.ui.widgets.graph_view import graph_view
from workbench.ui.widgets.parts import opening, show_error
from workbench.ui.widgets.steps import look_from_link

_LESSON, _STOP = "lesson", "stop"  # in the address
_TURNED = "lesson_turned"
_LATE_S = 1.0  # in which the browser's Back is not pressed yet
_GRAPH, _GRAPH_BELOW = 560, 340  # pixels of height, without and with a picture above


@dataclass(frozen=True)
class _Turned:
    """The last turn to another stop. left: lesson and stop before it. at: by time.monotonic()."""

    left: tuple[str, str]
    stop: str
    at: float


def lessons_page(optimize: Page | None = None) -> None:
    """Draw the page. optimize: the page on which a stop's model opens; None to offer no such button."""
    name = st.query_params.get(_LESSON, "")
    if not name:
        _list()
        return
    try:
        with st.spinner("Playing the lesson"):
            played = played_lesson(name)
    except UserError as error:
        show_error(error)
        _list()
        return
    wanted = _wanted_stop(name)
    number = min(max(int(wanted) if wanted.isdecimal() and len(wanted) < 10 else 1, 1), len(played.stops))
    _stop(played, number, optimize)


def _wanted_stop(name: str) -> str:
    """The stop in the address.

    A run of the page that is asked for before the browser has heard of a turn comes with the address from before.
    """
    stop = st.query_params.get(_STOP, "1")
    transposed: _Turned | None = st.session_state.get(_TURNED)
    if transposed is None or (name, stop) != transposed.left or time.monotonic() - transposed.at >= _LATE_S:
        return stop
    return transposed.stop


def _list() -> None:
    st.markdown(
        "**Lessons** show one idea each on a small graph, stop by stop: the sentence, the picture at that moment, "
        "and a question that the picture answers."
    )
    columns = st.columns(2, gap="medium")
    for number, lesson in enumerate(shipped_lessons()):
        with columns[number % 2], st.container(border=True, key=f"card_lesson_{lesson.name}"):
            words, button = st.columns([5, 1], vertical_alignment="center")
            about = markdown_escaped(lesson.about)
            stops = counted(len(lesson.stops), "stop")
            words.markdown(f"**{number + 1}. {markdown_escaped(lesson.title)}**  \n:small[{about} {stops}.]")
            button.button("Begin", key=f"begin_{lesson.name}", width="stretch", on_click=_go, args=(lesson.name, 1))
    st.caption(
        "A lesson is a text file; docs/lessons.md says how to write one. Check it with "
        f"`{command_text('lesson', 'check', 'FILE')}` and open it here with `?lesson=FILE` in the address."
    )


def _go(name: str, number: int) -> None:
    left = st.query_params.get(_LESSON, ""), st.query_params.get(_STOP, "1")
    st.session_state[_TURNED] = _Turned(left, str(number), time.monotonic()) if left[0] == name else None
    st.query_params.from_dict({_LESSON: name, _STOP: str(number)} if name else {})


def _stop(played: PlayedLesson, number: int, optimize: Page | None) -> None:
    lesson, stop = played.lesson, played.stops[number - 1]
    _bar(played, number, optimize)
    st.html(f'<div class="wb-key">{inline_html(stop.stop.sentence)}</div>')
    with st.container(key="lesson_body"):  # the style sheet puts its columns below each other on a narrow screen
        words, picture = st.columns([2, 5], gap="medium")
    with words:
        _words(lesson, stop, number)
    with picture:
        if stop.picture is not None:
            _picture(stop.picture)
        height = _GRAPH if stop.picture is None else _GRAPH_BELOW
        graph_view(played.key_of(stop), shown_stop(played, stop, number), height)


def _picture(picture: Picture) -> None:
    drawn, lines = st.columns([3, 2]) if picture.lines else (st.container(), st.container())
    with drawn:
        st.caption(markdown_escaped(picture.title))
        st.image(picture.svg)
    with lines:
        words = "<br>".join(map(html.escape, picture.lines))
        st.html(f'<div class="wb-lines">{words}</div>')


def _bar(played: PlayedLesson, number: int, optimize: Page | None) -> None:
    """The lesson's title, where one is, and where one can go."""
    name, last = played.name, len(played.stops)
    with st.container(horizontal=True, vertical_alignment="center", key="lesson_bar"):
        st.markdown(f"**{markdown_escaped(played.lesson.title)}**&ensp;·&ensp;stop {number} of {last}")
        _turn_button("Previous", "PageUp", "lesson_back", number == 1, (name, number - 1))
        _turn_button("Next", "PageDown", "lesson_next", number == last, (name, number + 1))
        if optimize is not None and st.button("Try it in 2 Optimize", key="lesson_try"):
            _open(played.stops[number - 1], optimize)
        st.download_button(
            "As one HTML file",
            partial(lesson_html, played.lesson, played.stops),
            f"{played.lesson.name}.html",
            "text/html",
            key="lesson_file",
            on_click="ignore",
        )
        st.button("All lessons", key="lesson_list", on_click=_go, args=("", 1))


def _turn_button(label: str, shortcut: str, key: str, disabled: bool, to: tuple[str, int]) -> None:
    kind: Any = "primary" if label == "Next" else "secondary"
    st.button(label, key=key, type=kind, shortcut=shortcut, disabled=disabled, on_click=_go, args=to)


def _words(lesson: Lesson, stop: PlayedStop, number: int) -> None:
    """What the stop says, asks and answers."""
    st.markdown(f"**{markdown_escaped(stop.stop.title)}**")
    if number == 1 and lesson.text:
        st.markdown(lesson.text)
    if stop.stop.text:
        st.markdown(stop.stop.text)
    with st.container(border=True):
        st.markdown(f":material/help: {stop.stop.question}")
        key = f"answer_{lesson.name}_{number}"
        if st.session_state.get(key):
            st.markdown(f":material/check: {stop.stop.answer}")
        st.button(
            "Hide the answer" if st.session_state.get(key) else "Show the answer",
            key="lesson_answer",
            shortcut="a",
            on_click=_turn,
            args=(key,),
        )
    st.caption("Page Down and Page Up go to the next and the previous stop, A opens the answer.")


def _turn(key: str) -> None:
    st.session_state[key] = not st.session_state.get(key)


def _open(played: PlayedStop, optimize: Page) -> None:
    """Open the model on Optimize, with the stop's pipeline, at its moment."""
    wanted = played.stop.pipeline
    shows = Shows(
        [pass_.name for pass_ in played.passes],
        played.step,
        played.rewrites,
        "" if wanted.mode == DEFAULT_MODE else wanted.mode,
        "" if wanted.profile == DEFAULT_TARGET else wanted.profile,
        wanted.preset or "none",
        played.stop.node,
    )
    forget_samples_settings()
    title, dims = played.model.stem, parse_dims(wanted.dims)
    if not opening(partial(open_model, str(played.model), title, dims, came_with=shows)):
        return
    opened = opened_if_any()
    if opened is not None and wanted.layouts:
        declare_layouts(opened, parse_layouts(wanted.layouts))
    begin_from_link()
    look_from_link()
    st.switch_page(optimize, query_params=address_of(shows))
