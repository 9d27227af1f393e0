"""The table of steps, and the choice of the moment of the history to show."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench.rewrite import AppliedRewrite, History, Step
from workbench.run.verdict_words import error_text, verdict_word
from workbench.ui.state.address import Moment as At
from workbench.ui.state.address import moment_in_address
from workbench.ui.state.session import Opened
from workbench.ui.state.shown_view import Seen, Shown
from workbench.ui.widgets.tables import table, table_height

STEP = "step"  # the chosen step's number, in the session
_MOMENT = "moment_"  # prefix of the keys of sliders
_TOLD = "moment_told"  # the moment that the browser last reported or was asked to show
_REWRITE = "rewrite_to_show"  # a step, its rewrites that are done, and a node, until the browser was asked to show them
_ROW, _MOST_ROWS = 24, 7  # pixels of a row; a longer table scrolls
_FIRST = ("#", "step", "rewrites", "nodes", "moved", "verdict")  # columns

_COLUMNS = {
    "#": st.column_config.TextColumn(width=40, help="The eye above the right end of the table shows all columns."),
    "step": st.column_config.TextColumn(width=240),
    "rewrites": st.column_config.TextColumn(width=64, alignment="right"),
    "nodes": st.column_config.NumberColumn(width=60, format="localized"),
    "transposes": st.column_config.NumberColumn(width=80, format="localized"),
    "moved": st.column_config.NumberColumn(
        "elements moved", width=100, format="localized", help="Elements that transposes move in one run."
    ),
    "error": st.column_config.TextColumn(
        "max relative error", help="Relative to ONNX Runtime on the original file, on the same inputs."
    ),
    "verdict": st.column_config.TextColumn(
        width=80, help="Whether the graph still computes what the original computes."
    ),
    "seconds": st.column_config.NumberColumn("time (s)", format="%.2f", help="Time that the pass took."),
}


def step_table(opened: Opened, history: History) -> None:
    """The steps with their counts and verdicts; a click chooses one. Of a new list the last notable step is chosen.

    Other steps have no row unless chosen or not equal; the control below can choose any.
    """
    if st.session_state.get("steps_of") != (opened.number, opened.spec) or st.session_state.get(STEP) is None:
        st.session_state["steps_of"] = (opened.number, opened.spec)
        st.session_state[STEP] = max(i for i, step in enumerate(history.steps) if _tells(step) or not i)
        for key in [key for key in st.session_state if str(key).startswith(_MOMENT)]:
            del st.session_state[key]  # a new list is shown with all rewrites done
    shown = shown_steps(history, st.session_state[STEP])

    def choose(row: int) -> None:
        st.session_state[STEP] = shown[row]

    rows = [_row(index, history[index], index == st.session_state[STEP]) for index in shown]
    words: dict[str, Any] = {
        "most": _MOST_ROWS,
        "row_height": _ROW,
        "says_more": False,
        "key": f"steps_{opened.number}",
    }
    table(rows, _COLUMNS, first=_FIRST, on_click=choose, **words)


def shown_steps(history: History, chosen: int) -> list[int]:
    """The numbers of the steps that have a row."""
    entries = {0, chosen, *(i for i, step in enumerate(history.steps) if _tells(step) or step is history.failed)}
    return sorted(entries)


def _tells(step: Step) -> bool:
    """Whether the step is notable: it changed something or has facts to show (a proof, operators' times)."""
    return step.changed or step.facts is not None


def height_of_steps(history: History) -> int:
    """The height in pixels of the table of steps."""
    return table_height(len(shown_steps(history, st.session_state[STEP])), _MOST_ROWS, _ROW)


def _row(index: int, step: Step, chosen: bool) -> dict[str, Any]:
    verdict = step.verdict
    return {
        "#": f"> {index}" if chosen else f"{index}",
        "step": step.title + ("" if step.changed or not index else " (no changes)"),
        "rewrites": f"{len(step.rewrites):,}" if index else "-",
        "nodes": step.after["nodes"],
        "transposes": step.after["transposes"],
        "moved": step.after["elements_moved"],
        "error": "-" if verdict is None else error_text(verdict),
        "verdict": "-" if verdict is None else verdict_word(verdict.ok),
        "seconds": step.seconds,
    }


def stepped_to(opened: Opened, history: History, seen: Seen) -> None:
    """Choose the moment to which the user stepped in the browser, or at first the link's."""
    message = st.session_state.get(_TOLD)
    moment = moment_in_address() if message is None else seen.moment
    if moment is None or moment == message or (message is not None and message != chosen_moment(opened, history)):
        return  # nothing new in the browser, or a newer choice on the page
    index, rewrites = min(moment[0], len(history) - 1), moment[1]
    if message is None:  # keep the link's moment: without this, step_table would take the list for a new one
        st.session_state["steps_of"] = (opened.number, opened.spec)
    total = len(history[index].rewrites)
    _set(opened, index, total if rewrites is None else min(rewrites, total))
    st.session_state[_TOLD] = chosen_moment(opened, history)


def look_from_link() -> None:
    """Choose the link's moment at the next run, as in a new session."""
    st.session_state.pop(_TOLD, None)


def show_chosen_moment(opened: Opened, history: History, shown: Shown) -> None:
    """Make the browser show the chosen moment, unless it already does."""
    moment = chosen_moment(opened, history)
    wanted = st.session_state.pop(_REWRITE, None)
    if wanted is not None:
        index, rewrites, node = wanted
        st.session_state[_TOLD] = moment
        shown.go_to(index, rewrites)
        shown.reveal({"id": node or _node_of(history[index].rewrites[rewrites - 1])})
        return
    if moment is None or (st.session_state.get(_TOLD) == moment and shown.at):
        return
    st.session_state[_TOLD] = moment
    shown.go_to(*moment)


def _node_of(rewrite: AppliedRewrite) -> str:
    """A node that shows what the rewrite did: one that it made, else one that it matched."""
    return next((node.name for node in rewrite.edit.insert), next(iter(rewrite.nodes), ""))


def chosen_moment(opened: Opened, history: History) -> At | None:
    """The moment chosen on the page, None if there is none."""
    at = st.session_state.get(STEP)
    if at is None or at >= len(history):
        return None
    total = len(history[at].rewrites)
    done = min(st.session_state.get(_moment_key(opened, at), total), total)
    return at, None if done == total else done


def choose_step(opened: Opened, history: History) -> int:
    words: Any = {"key": STEP, "required": True, "wrap": False, "persist_state": "session"}
    return int(st.segmented_control("Step shown", range(len(history)), **words))


def choose_moment(opened: Opened, index: int, total: int) -> int:
    """Draw the slider over the step's rewrites; returns how many are shown as done."""
    if total < 2:
        return total
    key = _moment_key(opened, index)
    st.session_state.setdefault(key, total)
    st.session_state[key] = min(st.session_state[key], total)
    return st.slider(f"Rewrites done, of {total:,}", 0, total, key=key)


def _moment_key(opened: Opened, index: int) -> str:
    return f"{_MOMENT}{opened.number}_{index}"


def go_to(opened: Opened, index: int, rewrites: int) -> None:
    """Show what the last of the first `rewrites` rewrites of a step did, with a node of it selected."""
    _set(opened, index, rewrites)
    st.session_state["view"] = "Graph"
    st.session_state[_REWRITE] = (index, rewrites, "")


def go_to_node(opened: Opened, history: History, index: int, node: str) -> None:
    """Show a node in the graph that a step left behind."""
    _set(opened, index, len(history[index].rewrites))
    st.session_state["view"] = "Graph"
    st.session_state[_REWRITE] = (index, None, node)


def _set(opened: Opened, index: int, rewrites: int) -> None:
    st.session_state[STEP] = index
    st.session_state[_moment_key(opened, index)] = rewrites
