"""The page Lessons: the list of lessons, or a stop of one: its key sentence, its picture, its question and answer."""

from __future__ import annotations

import html
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st
from streamlit.navigation.page import Page

from workbench.errors import UserError, counted
from workbench.formats.io.dims import parse_dims
from workbench.formats.io.samples import Shows
from workbench.interfaces.lessons import Lesson, PlayedStop, shipped_lessons
from workbench.interfaces.lessons.exporting import inline_html, lesson_html, lessons_zip
from workbench.interfaces.lessons.pictures import Picture
from workbench.interfaces.lessons.player_keys import PLAYER_KEYS
from workbench.interfaces.lessons.shipped import lesson_after
from workbench.interfaces.lessons.stop_text import NODES
from workbench.interfaces.lessons.text_html import expressions_html, nodes_html
from workbench.interfaces.ui.state.address import address_of
from workbench.interfaces.ui.state.lessons import PlayedLesson, picture_in_list, played_lesson, shown_stop
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.model_inputs import declare_layouts
from workbench.interfaces.ui.state.session import open_model, opened_if_any
from workbench.interfaces.ui.widgets.controls import begin_from_link, forget_samples_settings
from workbench.interfaces.ui.widgets.graph_view import graph_view
from workbench.interfaces.ui.widgets.lesson_player import (
    PICTURE_WIDTH,
    PRESENTER,
    READER,
    list_style,
    player_keys,
    player_style,
    svg_address,
)
from workbench.interfaces.ui.widgets.parts import growing, opening, pane, show_error
from workbench.interfaces.ui.widgets.steps import look_from_link
from workbench.pipeline.command_text import command_text
from workbench.planning.layout.declared import parse_layouts
from workbench.rewrite import DEFAULT_MODE

_LESSON, _STOP, _PRESENTS = "lesson", "stop", "present"  # keys in the URL
_NOTES_HIDDEN = "lesson_notes_hidden"
_STOP_CHANGE = "lesson_turned"
_PICTURE_TITLE_PX = 36  # the line above a picture, and the gap below it
_LATE_S = 1.0  # after a change of stops, in which the URL may still be the previous one


@dataclass(frozen=True)
class _StopChange:
    """The last change to another stop. left: the previous lesson and stop. at: when, by time.monotonic()."""

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
    requested = _requested_stop(name)
    number = min(max(int(requested) if requested.isdecimal() and len(requested) < 10 else 1, 1), len(played.stops))
    _stop(played, number, optimize)


def _requested_stop(name: str) -> str:
    """The stop in the URL, or of a change that is so recent that the URL may still be the previous one.

    A run of the page that was requested before the browser has received a change comes with the previous URL.
    """
    stop = st.query_params.get(_STOP, "1")
    change: _StopChange | None = st.session_state.get(_STOP_CHANGE)
    if change is None or (name, stop) != change.left or time.monotonic() - change.at >= _LATE_S:
        return stop
    return change.stop


def _list() -> None:
    st.markdown(
        "A **lesson** shows one idea on a small graph, stop by stop. Each stop has a sentence, a picture, and a "
        "question that the picture answers."
    )
    list_style()
    lessons, places = shipped_lessons(), []
    for number, lesson in enumerate(lessons):
        if number % 2 == 0:
            row = st.columns(2, gap="medium")
        places.append(_card(row[number % 2], f"{number + 1}.", lesson))
    for lesson, place in zip(lessons, places, strict=True):  # the texts come first
        place.html(f'<img class="wb-picture" alt="" src="{svg_address(picture_in_list(lesson.name))}">')
    st.download_button(
        "All lessons as HTML files (ZIP)",
        lessons_zip,
        "lessons.zip",
        "application/zip",
        key="lessons_zip",
        on_click="ignore",
        help="For a lecture without a network or this app: each file leads to the next.",
    )
    st.caption(
        "A lesson is a text file; docs/lessons.md says how to write one. Check it with "
        f"`{command_text('lesson', 'check', 'FILE')}` and open it here with `?lesson=FILE` in the address."
    )


def _card(column: Any, number: str, lesson: Lesson) -> Any:
    """Draw a lesson of the list, and return the place of its picture."""
    with column, st.container(border=True, horizontal=True, vertical_alignment="center", key=f"card_{lesson.name}"):
        place = st.container(key=f"picture_{lesson.name}", width=PICTURE_WIDTH)
        with st.container(key=f"text_{lesson.name}", width="stretch", gap="small"):
            size = f"{counted(len(lesson.stops), 'stop')}, about {counted(lesson.minutes, 'minute')}"
            about = f"{markdown_escaped(lesson.about)}  \n:gray[{size}]"
            st.markdown(f"**{number} {markdown_escaped(lesson.title)}**  \n:small[{about}]")
            st.button("Begin", key=f"begin_{lesson.name}", on_click=_go, args=(lesson.name, 1))
    return place


def _go(name: str, number: int) -> None:
    left = st.query_params.get(_LESSON, ""), st.query_params.get(_STOP, "1")
    st.session_state[_STOP_CHANGE] = _StopChange(left, str(number), time.monotonic()) if left[0] == name else None
    presents = {_PRESENTS: "1"} if _PRESENTS in st.query_params else {}
    st.query_params.from_dict({_LESSON: name, _STOP: str(number), **presents} if name else {})


def _stop(played: PlayedLesson, number: int, optimize: Page | None) -> None:
    """Draw the stop: its sentence, its picture, and below these its text, its question and the way on."""
    stop, presents = played.stops[number - 1], _PRESENTS in st.query_params
    look = PRESENTER if presents else READER
    about, question = _about(played.lesson, stop, number, presents), [stop.stop.question, f"\u2713 {stop.stop.answer}"]
    foot = look.foot_height(about, question)
    player_style(look, foot)
    st.html(f'<div class="wb-key">{inline_html(stop.stop.sentence)}</div>')
    rows = 0 if stop.text is None else stop.text.equation_rows
    if stop.text is not None and rows:
        st.html(expressions_html(stop.text))
    height = look.graph_height(stop.stop.sentence, rows, foot)
    with st.container(key="lesson_body"):  # always two columns, so that the graph keeps its element from stop to stop
        beside, graph = st.columns(_widths(stop), gap="small")
        if stop.picture is not None:
            _picture(beside, stop.picture, height)
        elif stop.text is not None and stop.text.kind == NODES:
            beside.html(nodes_html(stop.text))
        with graph:
            graph_view(played.key_of(stop), shown_stop(played, stop, number), height)
    with st.container(key="lesson_foot"):
        left, middle, ways = st.columns([5, 7, 6] if presents else [4, 6, 5], gap="medium")
    with left.container(key="lesson_about"):
        if not (presents and st.session_state.get(_NOTES_HIDDEN)):
            st.markdown("\n\n".join(about))
    with middle.container(key="lesson_question"):
        _question(played.lesson, stop, number)
    with ways.container(key="lesson_nav"):
        _ways(played, number, optimize, presents)
    player_keys(f"{played.name} {number}", presents)


def _widths(stop: PlayedStop) -> list[int]:
    """The widths of what stands beside the graph, if anything does, and of the graph."""
    if stop.picture is not None:
        return [11, 9]
    return [1, 3]


def _picture(column: Any, picture: Picture, height: int) -> None:
    title = html.escape(picture.title)
    lines = "".join(f"<div>{html.escape(line)}</div>" for line in picture.lines)
    room = f"max-height: calc({growing(height)} - {_PICTURE_TITLE_PX}px)"
    with column, pane("lesson_beside", height, border=False):
        st.html(
            f'<div class="wb-lines">{title}</div><img alt="{title}" style="{room}" src="{svg_address(picture.svg)}">'
            f'<div class="wb-lines">{lines}</div>'
        )


def _about(lesson: Lesson, stop: PlayedStop, number: int, presents: bool) -> list[str]:
    """The paragraphs of the lesson and the stop; for a presenter also the notes. N hides all of them."""
    notes = f"**Notes.** {stop.stop.notes}" if presents and stop.stop.notes else ""
    texts = [lesson.text if number == 1 else "", stop.stop.text, notes]
    return [paragraph for text in texts for paragraph in text.split("\n\n") if paragraph]


def _question(lesson: Lesson, stop: PlayedStop, number: int) -> None:
    st.markdown(stop.stop.question)
    if st.session_state.get(_answer_key(lesson, number)):
        st.markdown(f":material/check: {stop.stop.answer}")


def _answer_key(lesson: Lesson, number: int) -> str:
    """The key in the session that says whether the answer of the stop is shown."""
    return f"answer_{lesson.name}_{number}"


def _toggle(key: str) -> None:
    st.session_state[key] = not st.session_state.get(key)


def _ways(played: PlayedLesson, number: int, optimize: Page | None, presents: bool) -> None:
    """Draw where one is, and the ways to other stops, other lessons and other views."""
    name, last = played.name, len(played.stops)
    clock = '&ensp;·&ensp;<span class="wb-clock" role="timer">0:00</span>' if presents else ""
    place = f"{html.escape(played.stops[number - 1].stop.title)}&ensp;·&ensp;stop {number} of {last}{clock}"
    st.html(f'<div class="wb-place"><b>{html.escape(played.lesson.title)}</b><br>{place}</div>')
    with st.container(horizontal=True, key="lesson_turn"):
        key = _answer_key(played.lesson, number)
        label = "Hide the answer" if st.session_state.get(key) else "Show the answer"
        st.button(label, key="lesson_answer", shortcut="a", on_click=_toggle, args=(key,))
        st.button(
            "Previous",
            key="lesson_back",
            shortcut="PageUp",
            disabled=number == 1,
            on_click=_go,
            args=(name, number - 1),
        )
        following = lesson_after(name)
        if number < last:
            label, target = "Next", (name, number + 1)
        else:
            label, target = ("Next lesson", (following.name, 1)) if following else ("All lessons", ("", 1))
        st.button(label, key="lesson_next", type="primary", shortcut="PageDown", on_click=_go, args=target)
    with st.container(horizontal=True, key="lesson_more"):
        if optimize is not None and st.button("Open in Optimize", key="lesson_try", type="tertiary"):
            _open(played.stops[number - 1], optimize)
        if presents:
            label = "Show the notes" if st.session_state.get(_NOTES_HIDDEN) else "Hide the notes"
            st.button(label, key="lesson_notes", type="tertiary", shortcut="n", on_click=_toggle, args=(_NOTES_HIDDEN,))
            st.button("Leave", key="lesson_leave", type="tertiary", on_click=_present, args=(False,))
            _help()
            return
        st.button("Present", key="lesson_present", type="tertiary", shortcut="p", on_click=_present, args=(True,))
        st.download_button(
            "One HTML file",
            partial(lesson_html, played.lesson, played.stops),
            f"{played.lesson.name}.html",
            "text/html",
            key="lesson_file",
            type="tertiary",
            on_click="ignore",
        )
        st.button("All lessons", key="lesson_list", type="tertiary", on_click=_go, args=("", 1))
        _help()


def _help() -> None:
    if st.button("Keys", key="lesson_help", type="tertiary"):
        _show_keys()


@st.dialog("Keys")
def _show_keys() -> None:
    st.markdown("\n".join(["| | |", "|---|---|", *(f"| **{key}** | {does} |" for key, does in PLAYER_KEYS)]))


def _present(on: bool) -> None:
    if on:
        st.query_params[_PRESENTS] = "1"
    else:
        st.query_params.pop(_PRESENTS, None)


def _open(played: PlayedStop, optimize: Page) -> None:
    """Open the model on Optimize, with the stop's pipeline and at its moment."""
    requested = played.stop.pipeline
    shows = Shows(
        [pass_.name for pass_ in played.passes],
        played.step,
        played.rewrites,
        "" if requested.mode == DEFAULT_MODE else requested.mode,
        requested.profile,
        requested.preset or "none",
        played.stop.node,
    )
    forget_samples_settings()
    title, dims = played.model.stem, parse_dims(requested.dims)
    if not opening(partial(open_model, str(played.model), title, dims, opened_with=shows)):
        return
    opened = opened_if_any()
    if opened is not None and requested.layouts:
        declare_layouts(opened, parse_layouts(requested.layouts))
    begin_from_link()
    look_from_link()
    st.switch_page(optimize, query_params=address_of(shows))
