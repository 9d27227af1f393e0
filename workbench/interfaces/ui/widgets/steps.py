"""The steps of a history in a list and in a table, and the choice of the moment to show."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench.analysis.metrics import step_metrics
from workbench.interfaces.ui.state.address import Moment as At
from workbench.interfaces.ui.state.address import moment_in_address
from workbench.interfaces.ui.state.gains import gain_here
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened, refusal, refuse
from workbench.interfaces.ui.state.shown_view import Seen, Shown
from workbench.interfaces.ui.widgets.tables import table
from workbench.rewrite import AppliedRewrite, History, Step
from workbench.run.verdict_words import error_text, verdict_word

STEP = "step"  # key in the session: the chosen step's number
VIEW = "view"  # key in the session: which view of a step is drawn
_STEPS_OF = "steps_of"  # key in the session: the model and the pipeline whose step is chosen
WHOLE = "whole"  # key in the session: whether the original and the result are shown instead of a step
_LIST = "step_list"  # key in the session: the step that is chosen in the list
_MOMENT = "moment_"  # prefix of the keys of sliders
_REPORTED = "moment_told"  # key in the session: the moment that the browser last reported or was asked to show
_STEPPING = "is_stepping"  # key in the session: whether a run began to choose the browser's moment and did not finish
_REWRITE = "rewrite_to_show"  # key in the session: a step, the number of its done rewrites, and a node to select
_FRAMED = "*"  # in place of a node: the rewrite's nodes fill the pane, and none is selected
_QUERY = "query_to_show"  # key in the session: see `show_query`
_FIRST = ("#", "step", "rewrites", "nodes", "elements moved", "verdict")  # columns

_COLUMNS = {
    "#": st.column_config.TextColumn(
        width=40,
        help="Steps that changed nothing have numbers too, and are not listed. The eye above the right end of the "
        "table shows all columns.",
    ),
    "step": st.column_config.TextColumn(width=240),
    "rewrites": st.column_config.TextColumn(width=64, alignment="right"),
    **{
        metric.title: st.column_config.NumberColumn(width=90, format="localized", help=metric.help)
        for metric in step_metrics()
    },
    "error": st.column_config.TextColumn(
        "max relative error", help="Relative to ONNX Runtime on the original file, on the same inputs."
    ),
    "verdict": st.column_config.TextColumn(
        width=80, help="Whether the graph still computes what the original computes."
    ),
    "seconds": st.column_config.NumberColumn("time (s)", format="%.2f", help="Time that the pass took."),
}


def is_whole() -> bool:
    """Whether the original and the result are shown; in a new session, unless the link has a moment."""
    result: bool = st.session_state.setdefault(WHOLE, moment_in_address() is None)
    return result


def choose_default_step(opened: Opened, history: History) -> None:
    """Choose the last notable step if the list of steps is new."""
    if st.session_state.get(_STEPS_OF) != (opened.number, opened.spec) or st.session_state.get(STEP) is None:
        st.session_state[STEP] = max(i for i, step in enumerate(history.steps) if _is_notable(step) or not i)
        for key in [key for key in st.session_state if str(key).startswith(_MOMENT)]:
            del st.session_state[key]  # a new list is shown with all rewrites done
        st.session_state[_STEPS_OF] = (opened.number, opened.spec)  # last: see `stepped_to`


def step_list(opened: Opened, history: History) -> None:
    """Draw the notable steps, each with its change of the number of nodes.

    The control of the view can choose any step.
    """
    shown = [index for index in shown_steps(history, st.session_state[STEP]) if index or not is_whole()]
    st.session_state[_LIST] = None if is_whole() else st.session_state[STEP]

    def choose() -> None:
        st.session_state[WHOLE] = False
        st.session_state[STEP] = st.session_state[_LIST]

    st.radio(
        "Steps",
        shown,
        index=None,
        key=_LIST,
        label_visibility="collapsed",
        format_func=lambda index: markdown_escaped(_step_text(index, history)),
        on_change=choose,
    )


def _step_text(index: int, history: History) -> str:
    """The text of a step, such as "Fold constants -19"; it says if the step is not equal."""
    step = history[index]
    failure = "" if step.verdict is None or step.verdict.ok is not False else " NOT EQUAL"
    if not index:
        return f"As loaded {step.after.text('nodes')}{failure}"
    nodes = (step.after["nodes"] or 0) - (step.before["nodes"] or 0)
    changes = f" {nodes:+,}" if nodes else ("" if step.changed else " (no changes)")
    return f"{step.title}{changes}{failure}"


def step_table(opened: Opened, history: History, height: int) -> None:
    """Draw the steps with their counts, verdicts and times; a click chooses one."""
    shown = shown_steps(history, st.session_state[STEP])

    def choose(row: int) -> None:
        st.session_state[STEP] = shown[row]

    rows = [_row(index, history[index], index == st.session_state[STEP]) for index in shown]
    table(rows, _COLUMNS, first=_FIRST, on_click=choose, height=height, key=f"steps_{opened.number}")


def shown_steps(history: History, chosen: int) -> list[int]:
    """The numbers of the steps to show: notable ones, failed ones, and the chosen one."""
    entries = {0, chosen, *(i for i, step in enumerate(history.steps) if _is_notable(step) or step is history.failed)}
    return sorted(entries)


def _is_notable(step: Step) -> bool:
    """Whether the step changed something or has facts to show, such as a proof or operators' times."""
    return step.changed or step.facts is not None


def _row(index: int, step: Step, chosen: bool) -> dict[str, Any]:
    verdict = step.verdict
    return {
        "#": f"> {index}" if chosen else f"{index}",
        "step": step.title + ("" if step.changed or not index else " (no changes)"),
        "rewrites": f"{len(step.rewrites):,}" if index else "-",
        **{metric.title: step.after[metric.name] for metric in step_metrics()},
        "error": "-" if verdict is None else error_text(verdict),
        "verdict": "-" if verdict is None else verdict_word(verdict),
        "seconds": step.seconds,
    }


def stepped_to(opened: Opened, history: History, seen: Seen) -> None:
    """Choose the moment to which the user stepped in the browser, or in a new session the link's.

    Streamlit may end a run at any access to the session, when a newer run is asked for. The newer run then chooses
    again, since what is half chosen looks like a choice on the page.
    """
    reported = st.session_state.get(_REPORTED)
    moment = moment_in_address() if reported is None else seen.moment
    is_chosen_on_page = reported is not None and reported != chosen_moment(opened, history)
    if moment is None or (not st.session_state.get(_STEPPING) and (moment == reported or is_chosen_on_page)):
        return  # the browser shows nothing new, or the choice on the page is newer
    st.session_state[_STEPPING] = True
    index, rewrites = min(moment[0], len(history) - 1), moment[1]
    if reported is None:  # else `choose_default_step` would replace the link's moment
        st.session_state[_STEPS_OF] = (opened.number, opened.spec)
    total = len(history[index].rewrites)
    _set(opened, index, total if rewrites is None else min(rewrites, total))
    st.session_state[_REPORTED] = chosen_moment(opened, history)
    st.session_state[_STEPPING] = False
    if reported is None and moment[0] > index:
        beyond = f"The link names step {moment[0]:,}, but the last one is {index:,}, which is shown."
        refuse(" ".join(filter(None, (refusal(), beyond))))
        st.rerun()  # so that the page says it at its top, where it stays


def look_from_link() -> None:
    """Let the next run choose the link's moment, as in a new session."""
    st.session_state.pop(_REPORTED, None)
    st.session_state.pop(WHOLE, None)


def show_chosen_moment(opened: Opened, history: History, shown: Shown) -> None:
    """Ask the browser to show the chosen moment, unless it already does."""
    moment = chosen_moment(opened, history)
    requested = st.session_state.pop(_REWRITE, None)
    if requested is not None:
        index, rewrites, node = requested
        st.session_state[_REPORTED] = moment
        shown.go_to(index, rewrites)
        if node == _FRAMED:
            rewrite = history[index].rewrites[rewrites - 1]
            shown.show_framed([*rewrite.nodes, *(inserted.name for inserted in rewrite.edit.insert)])
        else:
            shown.reveal({"id": node or _node_of(history[index].rewrites[rewrites - 1])})
        return
    if moment is None or (st.session_state.get(_REPORTED) == moment and shown.at):
        return
    st.session_state[_REPORTED] = moment
    shown.go_to(*moment)


def show_places(opened: Opened, history: History, shown: Shown) -> None:
    """Let the small picture in the corner mark all places of the kind of the rewrite that is shown."""
    shown.places = ()
    done = None if is_whole() else rewrites_done(opened, history)
    kind = None if done is None else gain_here(opened, history).digest.kind_at(done[0], done[1] - 1)
    if kind is not None:
        spans = shown.view.timeline.step_spans
        shown.places = [spans[place.step].first + place.rewrite for place in kind.places]


def _node_of(rewrite: AppliedRewrite) -> str:
    """A node of the rewrite: one that it inserted, else one that it matched, or ""."""
    return next((node.name for node in rewrite.edit.insert), next(iter(rewrite.nodes), ""))


def chosen_moment(opened: Opened, history: History) -> At | None:
    """The moment chosen on the page; None without one."""
    at = st.session_state.get(STEP)
    if at is None or at >= len(history):
        return None
    total = len(history[at].rewrites)
    done = min(st.session_state.get(_moment_key(opened, at), total), total)
    return at, None if done == total else done


def rewrites_done(opened: Opened, history: History) -> tuple[int, int] | None:
    """The chosen step, and how many of its rewrites are done; None without a choice."""
    moment = chosen_moment(opened, history)
    if moment is None:
        return None
    step, done = moment
    return step, len(history[step].rewrites) if done is None else done


def choose_step(opened: Opened, history: History) -> int:
    """Draw the field for the step, with those that changed nothing, which the list of steps leaves out."""
    options: Any = {"key": STEP, "label_visibility": "collapsed", "width": 320, "persist_state": "session"}
    names = {index: f"{index}: {_step_text(index, history)}" for index in range(len(history))}
    return int(st.selectbox("Step shown", names, format_func=names.__getitem__, **options))


def choose_moment(opened: Opened, index: int, total: int) -> int:
    """Draw the slider over the step's rewrites; returns the number that is shown as done."""
    if total < 2:
        return total
    key = _moment_key(opened, index)
    st.session_state.setdefault(key, total)
    st.session_state[key] = min(st.session_state[key], total)
    return st.slider(f"Rewrites done, of {total:,}", 0, total, key=key)


def _moment_key(opened: Opened, index: int) -> str:
    return f"{_MOMENT}{opened.number}_{index}"


def go_to(opened: Opened, index: int, rewrites: int) -> None:
    """Show the graph after the first `rewrites` rewrites of a step, with a node of the last one selected."""
    _set(opened, index, rewrites)
    st.session_state[VIEW] = "Graph"
    st.session_state[_REWRITE] = (index, rewrites, "")


def show_place(opened: Opened, index: int, rewrites: int) -> None:
    """Show the graph after the first `rewrites` rewrites of a step, with what the last one changed in the pane."""
    go_to(opened, index, rewrites)
    st.session_state[_REWRITE] = (index, rewrites, _FRAMED)


def show_query(query: str) -> None:
    """Show the original and the result, with the hits of a query coloured."""
    st.session_state[WHOLE] = True
    st.session_state[_QUERY] = query


def ask_chosen_query(shown: Shown) -> None:
    """Ask the browser for the query that `show_query` chose, once."""
    query = st.session_state.pop(_QUERY, None)
    if query is not None:
        shown.ask_for(query)


def go_to_node(opened: Opened, history: History, index: int, node: str) -> None:
    """Show a node in the graph after a step."""
    _set(opened, index, len(history[index].rewrites))
    st.session_state[VIEW] = "Graph"
    st.session_state[_REWRITE] = (index, None, node)


def _set(opened: Opened, index: int, rewrites: int) -> None:
    st.session_state[WHOLE] = False
    st.session_state[STEP] = index
    st.session_state[_STEPS_OF] = (opened.number, opened.spec)  # also if Optimize was not drawn yet
    st.session_state[_moment_key(opened, index)] = rewrites
