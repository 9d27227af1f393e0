"""The page Workshop: a pass is written, its example drawn, its claims tested, and it is tried on the open model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

import streamlit as st

from workbench.errors import UserError, counted
from workbench.evidence.verification.pass_files.checks import PassCheck
from workbench.evidence.verification.pass_files.example_graphs import typed
from workbench.evidence.verification.pass_files.pass_template import new_pass_text
from workbench.interfaces.ui.state.graph_views import shown_pair
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened, worker
from workbench.interfaces.ui.state.snapshots import Snapshot
from workbench.interfaces.ui.state.work import Job, forget_cancel, was_cancelled
from workbench.interfaces.ui.state.workshop import (
    PassDraft,
    Tried,
    draft_file,
    offered_file,
    own_files,
    run_checks,
    run_draft,
    save_own,
    text_of_own,
    try_pass,
    why_no_workshop,
)
from workbench.interfaces.ui.widgets.graph_view import graph_view
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.parts import header, show_error
from workbench.interfaces.ui.widgets.pass_list import switch_on
from workbench.interfaces.ui.widgets.progress import result_if_any, run_with_progress
from workbench.interfaces.ui.widgets.tables import table
from workbench.rewrite import DEFAULT_MODE
from workbench.rewrite.core.own_passes import own_passes_folder

_FILE, _NAME, _TEXT = "workshop_file", "workshop_name", "workshop_text"
_ON_DISK = "workshop_on_disk"  # the text of the file as it was last read or written
_NOTE, _FAULT, _DROPS = "workshop_note", "workshop_fault", "workshop_drops"
_SHOWN_FILE = "workshop_shown_file"  # the text of the file that was dropped last
_CHECKED, _TRIED = "workshop_checked", "workshop_tried"
_DRAFT, _DRAFT_JOB, _ASKED = "workshop_draft", "workshop_run", "workshop_asked"
_TEST_JOB, _TRY_JOB = "workshop_test", "workshop_try"
_NEW, _FIRST_NAME = "a new pass", "my_pass"
_POLL_INTERVAL_S = 1.0  # at the file on disk
_TEXT_HEIGHT, _GRAPH_HEIGHT, _TABLE_HEIGHT = 370, 200, 140  # pixels on a screen of 768 pixels
_TESTS, _MODEL, _WORDS = "Tests", "On the open model", "In words"
_MARKS = {True: "passed", False: "FAILED", None: "open"}
_MAX_SENTENCES = 5  # of rewrites


def workshop_page(optimize: Any) -> None:
    """Draw the page. optimize: the page on which a pass that was saved is used."""
    opened = optimized_here()
    if opened is None:
        return
    header(opened)
    closed = why_no_workshop()
    if closed:
        st.info(markdown_escaped(closed), icon=":material/lock:")
        return
    _begin()
    left, right = st.columns([2, 3], gap="medium")
    with left:
        buttons = _editor()
    with right:
        with st.container():  # always, so that the graph below keeps its element
            draft = _draft(opened)
        _buttons(buttons, draft, optimize)
        _results(opened, draft)


# ---- the file ------------------------------------------------------------------------


def _begin() -> None:
    """Set the fields in a new session, and take the text of a file that another editor has changed."""
    state = st.session_state
    if _TEXT not in state:
        state[_FILE], state[_NAME], state[_TEXT], state[_ON_DISK] = _NEW, _FIRST_NAME, new_pass_text(_FIRST_NAME), ""
    offered = offered_file()
    if offered is not None:
        _show_file(*offered)
    if state[_FILE] not in (_NEW, *own_files()):
        state[_NOTE] = f"The file of '{state[_FILE]}' is gone; its text is still here."
        state[_FILE], state[_ON_DISK] = _NEW, ""
    on_disk = _text_on_disk()
    if on_disk == state[_ON_DISK]:
        return
    if state[_TEXT] == state[_ON_DISK]:
        state[_TEXT], state[_NOTE] = on_disk, "The file changed on disk and was read again."
    else:
        state[_NOTE] = "The file changed on disk; the text here is yours, and saving it replaces the file's."
    state[_ON_DISK] = on_disk


def _text_on_disk() -> str:
    """The text of the chosen file; "" for a new pass."""
    name = st.session_state[_FILE]
    return "" if name == _NEW else text_of_own(name) or ""


@st.fragment(run_every=_POLL_INTERVAL_S)
def _watch_file() -> None:
    if _text_on_disk() != st.session_state[_ON_DISK]:
        st.rerun()


def _choose_file() -> None:
    name = st.session_state[_FILE]
    text = new_pass_text(_FIRST_NAME) if name == _NEW else text_of_own(name) or ""
    st.session_state[_NAME] = _FIRST_NAME if name == _NEW else name
    st.session_state[_TEXT], st.session_state[_ON_DISK] = text, "" if name == _NEW else text


def _take_dropped(key: str) -> None:
    """Show the text of the file in the field of that key."""
    file = st.session_state[key]
    if file is not None:
        _show_file(file.name, file.getvalue())
    st.session_state[_DROPS] = st.session_state.get(_DROPS, 0) + 1  # empties the field


def _show_file(name: str, content: bytes) -> None:
    """Show the text of a file as a new pass of its name, unless the text that stands there would be lost."""
    state = st.session_state
    if state[_TEXT] not in (state[_ON_DISK], new_pass_text(_FIRST_NAME), state.get(_SHOWN_FILE)):
        state[_FAULT] = f"'{name}' is not shown, since the text here is not saved; save it, then drop the file again"
        return
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        state[_FAULT] = f"'{name}' is not text in UTF-8; save it as such"
        return
    state[_FILE], state[_NAME], state[_TEXT], state[_ON_DISK] = _NEW, Path(name).stem, text, ""
    state[_SHOWN_FILE] = text


def _editor() -> Any:
    """Draw the choice of the file and its text; returns the place of its buttons."""
    st.caption("A pass is code: it runs as you, on this machine, as soon as you leave the text.")
    drop_key = f"workshop_drop_{st.session_state.get(_DROPS, 0)}"
    choose, name_of_file = st.columns(2)
    choose.selectbox("My passes", [_NEW, *own_files()], key=_FILE, on_change=_choose_file, persist_state="session")
    name_of_file.text_input("Name", key=_NAME, persist_state="session", help="The file's name without .py.")
    st.html(f"<style>.st-key-{_TEXT} textarea {{font-family: monospace; font-size: 0.78rem;}}</style>")
    st.text_area("Text", key=_TEXT, height=_TEXT_HEIGHT, label_visibility="collapsed", persist_state="session")
    buttons = st.container()
    for key, show in ((_FAULT, show_error), (_NOTE, lambda note: st.caption(markdown_escaped(note)))):
        if st.session_state.get(key):
            show(st.session_state.pop(key))
    st.file_uploader(
        "Or drop a file of a pass here", type=["py"], key=drop_key, on_change=_take_dropped, args=(drop_key,)
    )
    _watch_file()
    return buttons


def _buttons(place: Any, draft: PassDraft, optimize: Any) -> None:
    """Draw the buttons that save the draft and use it."""
    name, text = draft.key
    saved = st.session_state[_FILE] == name and st.session_state[_ON_DISK] == text
    can_save = draft.ran and not saved
    save, use = place.columns(2)
    where = f"Writes {own_passes_folder() / name}.py"
    save.button(
        "Save to my passes",
        type="primary" if can_save else "secondary",
        disabled=not can_save,
        width="stretch",
        key="save_pass",
        on_click=_save,
        help=markdown_escaped(
            where if draft.ran else "The app itself runs the files of my passes; this one would end it."
        ),
    )
    if use.button("Use it on Optimize", disabled=not saved or bool(draft.fault), width="stretch", key="use_pass"):
        switch_on(name)
        st.switch_page(optimize)


def _save() -> None:
    state = st.session_state
    try:
        file = save_own(state[_NAME], state[_TEXT], state[_FILE])
    except UserError as error:
        state[_FAULT] = str(error)
        return
    state[_FILE], state[_ON_DISK], state[_NOTE] = state[_NAME], state[_TEXT], f"Saved as {file}."


# ---- what it does ----------------------------------------------------------------------


def _draft(opened: Opened) -> PassDraft:
    """What the text holds; it runs in a process of its own when it is another one."""
    state = st.session_state
    key = state[_NAME], state[_TEXT]
    if state.get(_DRAFT) is not None and state[_DRAFT].key == key:
        return cast(PassDraft, state[_DRAFT])
    try:
        file = draft_file(*key)
    except UserError as error:
        return PassDraft(key, Path(), fault=str(error))
    if was_cancelled(opened.jobs, _DRAFT_JOB) and state.get(_ASKED) == key:
        return PassDraft(key, file, fault="It was cancelled; change the text to run it again.", ran=False)
    state[_ASKED] = key
    forget_cancel(opened.jobs, _DRAFT_JOB)
    draft: PassDraft = run_with_progress(
        opened.jobs, _DRAFT_JOB, "Running the pass", partial(run_draft, key, file), worker(), request=key
    )
    state[_DRAFT] = draft
    return draft


def _results(opened: Opened, draft: PassDraft) -> None:
    """Draw the example of the pass, and below it its tests, what it does to the open model, or its explanation."""
    if draft.fault:
        show_error(draft.fault)
        return
    _example(opened, draft)
    row = st.container(horizontal=True, vertical_alignment="center")
    shown = row.segmented_control(
        "Show",
        [_TESTS, _MODEL, _WORDS],
        default=_TESTS,
        required=True,
        key="workshop_shows",
        label_visibility="collapsed",
    )
    if shown == _TESTS:
        _tests(opened, draft, row)
    elif shown == _MODEL:
        _on_the_model(opened, draft)
    else:
        st.code(draft.explained, language=None, wrap_lines=True)


def _example(opened: Opened, draft: PassDraft) -> None:
    """Draw the example before and after, as the pass makes it."""
    examples = {example.subject: example for example in draft.examples}
    if not examples:
        st.info("The pass shows no example; give its rule one.")
        return
    chosen = next(iter(examples))
    if len(examples) > 1:
        chosen = st.selectbox("Example", list(examples), key="workshop_example", label_visibility="collapsed")
    example = examples[chosen]
    if example.fault:
        show_error(f"{chosen}: {example.fault}")
        return
    moment = Snapshot(typed(example.before), typed(example.after))
    key = ("workshop", draft.key, chosen)
    profile = opened.profile
    shown = shown_pair(opened, key, moment, ("before", "after"), "; ".join(example.sentences), profile)
    graph_view(f"workshop_graph_{opened.number}", shown, _GRAPH_HEIGHT)
    for sentence in example.sentences[:_MAX_SENTENCES] or ["The pass does nothing there."]:
        st.caption(markdown_escaped(sentence))


def _tests(opened: Opened, draft: PassDraft, row: Any) -> None:
    """Draw a table of the checks, which begin by themselves when the text is another one; in `row` how many failed."""
    key, state = draft.key, st.session_state
    if state.get(_CHECKED, (None, ()))[0] != key:
        forget_cancel(opened.jobs, _TEST_JOB)
        state[_CHECKED] = key, ()
        opened.jobs.start(_TEST_JOB, Job(partial(run_checks, draft.file), worker(), title="Testing", request=key))
    try:
        state[_CHECKED] = key, result_if_any(opened.jobs, _TEST_JOB, "It was cancelled.") or state[_CHECKED][1]
    except UserError as error:
        show_error(error)
    checks: tuple[PassCheck, ...] = tuple(state[_CHECKED][1])
    if not checks:
        st.button("Test it again", on_click=lambda: state.pop(_CHECKED, None), key="test_again")
        return
    failed = sum(check.ok is False for check in checks)
    undecided = sum(check.ok is None for check in checks)
    open_too = f", {undecided} could not be decided" if undecided else ""
    said = f"{counted(failed, 'check')} failed" if failed else f"All {len(checks)} checks passed"
    row.markdown(f":material/{'error' if failed else 'check_circle'}: **{said}{open_too}.**")
    ordered = sorted(checks, key=lambda check: (False, None, True).index(check.ok))
    rows = [{"": _MARKS[check.ok], "check": check.subject, "in words": check.sentence} for check in ordered]
    columns = {
        "": st.column_config.TextColumn(width=70),
        "check": st.column_config.TextColumn(width=230),
        "in words": st.column_config.TextColumn(width=900),
    }
    chosen = table(
        rows, columns, height=_TABLE_HEIGHT, key="workshop_checks", on_select="rerun", selection_mode="single-cell"
    )["selection"]["cells"]
    check = ordered[min(chosen[0][0], len(ordered) - 1) if chosen else 0]
    lines = (f"{check.subject}: {check.sentence}", *check.details)
    st.code("\n".join(lines), language=None, wrap_lines=True)


def _on_the_model(opened: Opened, draft: PassDraft) -> None:
    """Draw what the pass does to the model as it was opened, once that was asked for."""
    state = st.session_state
    if st.button("Try it on the open model", key="try_pass", width="stretch"):
        forget_cancel(opened.jobs, _TRY_JOB)
        opened.jobs.start(_TRY_JOB, Job(partial(try_pass, opened, draft), worker(), title="Trying it"))
    try:
        state[_TRIED] = result_if_any(opened.jobs, _TRY_JOB, "It was cancelled.") or state.get(_TRIED)
    except UserError as error:
        show_error(error)
        return
    tried: Tried | None = state[_TRIED]
    if tried is None or tried.key != draft.key or tried.graph is not opened.graph:
        st.caption(markdown_escaped(f"It runs alone on {opened.title}, and the result is compared with the original."))
        return
    before, after = tried.nodes
    st.markdown(markdown_escaped(f"It {tried.considered}; {before:,} nodes become {counted(after, 'node')}."))
    if tried.mode != DEFAULT_MODE:
        st.caption(
            f"It ran in mode {tried.mode}, which it needs: on Optimize, choose that for Exactness under Advanced."
        )
    show = st.error if tried.ok is False else st.success if tried.ok else st.warning
    show(markdown_escaped(tried.verdict))
    for sentence in tried.sentences[:_MAX_SENTENCES]:
        st.caption(markdown_escaped(sentence))
    if tried.refusals:
        rows = [{"nodes": count, "reason": reason, "first node": first} for count, reason, first in tried.refusals]
        columns = {"nodes": st.column_config.NumberColumn(width=60), "reason": st.column_config.TextColumn(width=600)}
        table(rows, columns, max_rows=5, key="workshop_refusals")
