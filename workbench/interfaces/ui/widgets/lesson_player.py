"""The look of a lesson's stop, its keys, and the clock of whoever presents it."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from workbench.interfaces.lessons.text_html import TEXT_STYLE

_PARAGRAPH_GAP = 6  # pixels
_BUTTONS_HEIGHT, _BELOW = 108, 8  # pixels of the buttons below the graph, and below these
_SCREEN_HEIGHT = 768  # pixels for which a stop is laid out; its graph grows on a higher screen

_STYLE = """<style>
.stMainBlockContainer {padding-top: 2.9rem;}
.wb-key {font-size: %(key)dpx; line-height: 1.25; font-weight: 600; margin: 0;}
.st-key-lesson_about p, .st-key-lesson_about li {font-size: %(about)dpx; line-height: 1.35;}
.st-key-lesson_question p, .st-key-lesson_question li {font-size: %(question)dpx; line-height: 1.3;}
:is(.st-key-lesson_about, .st-key-lesson_question) [data-testid="stMarkdownContainer"] {margin-bottom: 0;}
:is(.st-key-lesson_about, .st-key-lesson_question) p {margin-bottom: %(gap)dpx;}
:is(.st-key-lesson_about, .st-key-lesson_question) p:last-child {margin-bottom: 0;}
.st-key-lesson_about, .st-key-lesson_question {max-height: %(foot)dpx; overflow-y: auto;}
.st-key-lesson_nav {gap: 0.2rem;}
.st-key-lesson_turn {gap: 0.5rem;}
.st-key-lesson_turn button {min-height: 2.1rem; padding: 0 0.6rem;}
.wb-place {font-size: %(about)dpx; line-height: 1.3;}
.st-key-lesson_nav [data-testid="stHorizontalBlock"], .st-key-lesson_nav .stHorizontalBlock {gap: 0.3rem 0.9rem;}
.st-key-lesson_more button {min-height: 1.4rem; padding: 0;}
.st-key-lesson_more p {font-size: 14px;}
.st-key-lesson_beside img {width: 100%%; object-fit: contain; object-position: left top;}
.st-key-lesson_beside .wb-lines {font-size: 14px;}
.st-key-lesson_body:not(:has(.wb-lines, .wb-nodes)) [data-testid="stColumn"]:first-child {display: none;}
[class*="st-key-lesson_keys"] {position: absolute;}
@media (max-width: 1000px) {
  :is(.st-key-lesson_body, .st-key-lesson_foot) [data-testid="stHorizontalBlock"] {flex-wrap: wrap;}
  :is(.st-key-lesson_body, .st-key-lesson_foot) [data-testid="stColumn"] {min-width: 100%%;}
  .st-key-lesson_about, .st-key-lesson_question {max-height: none;}
  .st-key-lesson_beside {height: auto !important;}
}
%(text)s
</style>"""
_PRESENTER_STYLE = """<style>
[data-testid="stHeader"], .st-key-way_next, .st-key-part_links {display: none;}
.stMainBlockContainer {padding-top: 0.5rem;}
.wb-expressions {font-size: 22px;}
</style>"""

PICTURE_WIDTH = 220  # pixels, of a lesson's picture in the list
_LIST_STYLE = f"""<style>
.wb-picture {{display: block; width: {PICTURE_WIDTH}px; height: 124px; object-fit: cover; object-position: left;}}
[class*="st-key-picture_"] {{min-height: 124px; overflow: hidden;}}
[class*="st-key-text_"] {{min-width: 8rem;}}
</style>"""

_SCRIPT = """
const STARTED = "graph-workbench-lesson-clock"; // of this tab, so that a reload keeps it
const BUTTONS = { ArrowLeft: "lesson_back", ArrowRight: "lesson_next", Escape: "lesson_leave", "?": "lesson_help" };
const NEEDS_ARROWS = "input, textarea, select, [role=tab], [role=radio], [role=slider], [role=menu] *, [role=dialog] *";
const TURNS = { ArrowLeft: "ArrowLeft", PageUp: "ArrowLeft", ArrowRight: "ArrowRight", PageDown: "ArrowRight" };
const LOST_MS = 3000; // after which a turn that brought no other stop is given up
const ticking = new WeakMap(); // by element, its timer
let turns = []; // pressed, and not asked for yet: a page that is drawn takes one click only
let stop = "", askedAt = 0; // the stop on screen, and when another was asked for; 0: none is

function text() {
  const seconds = Math.floor((Date.now() - Number(sessionStorage.getItem(STARTED))) / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

function press(event) {
  const [target] = event.composedPath();
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches?.(NEEDS_ARROWS)) return;
  if (event.shiftKey && event.key !== "?") return;
  const turn = TURNS[event.key], button = buttonOf(turn ?? event.key);
  if (!button || (button.disabled && !askedAt)) return;
  event.preventDefault();
  event.stopImmediatePropagation(); // the buttons' own keys are these too
  if (!turn) {
    button.click();
    return;
  }
  turns.push(turn);
  goOn();
}

function buttonOf(key) {
  return document.querySelector(`.st-key-${BUTTONS[key]} button`);
}

function goOn() {
  if (!turns.length || (askedAt && Date.now() - askedAt < LOST_MS)) return;
  const button = buttonOf(turns.shift());
  if (!button || button.disabled) {
    turns = [];
    return;
  }
  askedAt = Date.now();
  button.click();
}

export default ({ data, parentElement }) => {
  window.removeEventListener("keydown", window.graphWorkbenchLessonKeys, true);
  window.graphWorkbenchLessonKeys = press;
  window.addEventListener("keydown", press, true);
  if (data.stop !== stop) {
    stop = data.stop;
    askedAt = 0;
    goOn();
  }
  clearInterval(ticking.get(parentElement));
  if (!data.presents) sessionStorage.removeItem(STARTED);
  else {
    if (!sessionStorage.getItem(STARTED)) sessionStorage.setItem(STARTED, String(Date.now()));
    const show = () => {
      const clock = document.querySelector(".wb-clock");
      if (clock) clock.textContent = text();
    };
    show();
    ticking.set(parentElement, setInterval(show, 500));
  }
  return () => {
    clearInterval(ticking.get(parentElement));
    window.removeEventListener("keydown", press, true);
  };
};
"""


@dataclass(frozen=True)
class TextSize:
    """The height of letters in pixels, of a line as a multiple of it, and how many letters fit on a line."""

    letter: int
    line: float
    letters: int

    def height(self, *paragraphs: str) -> float:
        """The height of the paragraphs that are not empty, on a screen for which a stop is laid out."""
        lines = [1 + (len(text) - 1) // self.letters for text in paragraphs if text]
        return sum(lines) * self.letter * self.line + _PARAGRAPH_GAP * max(len(lines) - 1, 0)


@dataclass(frozen=True)
class PlayerLook:
    """Sizes of a stop, in pixels. above: of what stands above the sentence. expression: of a row of expressions."""

    above: int
    expression: int
    key: TextSize
    about: TextSize
    question: TextSize

    def foot_height(self, about: Sequence[str], question: Sequence[str]) -> int:
        """The height below the graph, for these paragraphs beside the buttons."""
        return math.ceil(max(_BUTTONS_HEIGHT, self.about.height(*about), self.question.height(*question)) + _BELOW)

    def graph_height(self, sentence: str, equations: int, foot: int) -> int:
        """The height for the graph, below the key sentence and that many rows of expressions."""
        return round(_SCREEN_HEIGHT - self.above - self.key.height(sentence) - equations * self.expression - foot)


READER = PlayerLook(76, 32, TextSize(28, 1.25, 112), TextSize(15, 1.35, 44), TextSize(17, 1.3, 60))
PRESENTER = PlayerLook(36, 38, TextSize(34, 1.25, 85), TextSize(15, 1.35, 49), TextSize(20, 1.3, 51))


def list_style() -> None:
    """Apply the style sheet of the list of lessons."""
    st.html(_LIST_STYLE)


def svg_address(svg: str) -> str:
    """The drawing as an address for an image."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def player_style(look: PlayerLook, foot: int) -> None:
    """Apply the style sheet of a stop. foot: the height below the graph, in pixels."""
    sizes = {
        "key": look.key.letter,
        "about": look.about.letter,
        "question": look.question.letter,
        "gap": _PARAGRAPH_GAP,
        "foot": foot,
        "text": TEXT_STYLE,
    }
    st.html(_STYLE % sizes)
    if look == PRESENTER:
        st.html(_PRESENTER_STYLE)


def player_keys(stop: str, presents: bool) -> None:
    """Have the arrow keys turn the stops, Escape leave, ? list the keys; run the clock of the element `.wb-clock`.

    stop: the lesson and the number of the stop that is drawn above.
    """
    st.components.v2.component("graph_workbench_lesson_keys", js=_SCRIPT)(
        data={"stop": stop, "presents": presents}, key="lesson_keys", height=0
    )
