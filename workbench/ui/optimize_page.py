"""Optimize: passes and strategy at the left; steps, and the graph before and after the chosen one, at the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from workbench.cli import error_text, verdict_word
from workbench.errors import UserError
from workbench.ir import Graph, graph_text
from workbench.layout.infer import infer_layouts
from workbench.layout.profile import Profile, load_profile
from workbench.rewrite import History, Step
from workbench.ui.controls import controls
from workbench.ui.parts import command_of, header, legend, picture, plain, show_error, summary_of
from workbench.ui.session import Opened, Spec, current, history_of, worker
from workbench.ui.work import Report, forget_cancel, run_with_progress, was_cancelled
from workbench.view.diff import Diff, diff
from workbench.view.picture import MOST_BOXES, draw

_SHOWN_CHARACTERS = 200_000  # of a text form; the whole of it can be downloaded


def optimize_page() -> None:
    try:
        opened = current()
    except UserError as error:
        show_error(error)
        return
    spec = controls()
    top, command = st.columns([5, 1], vertical_alignment="center")
    with top:
        header(opened, summary_of(opened.graph))
    with command, st.popover("Copy as command", width="stretch"):
        st.code(command_of(opened, spec), language="bash", wrap_lines=True)
    history = _history(opened, spec)
    if history is None:
        return
    _notes(opened, history)
    chosen = _steps(history, spec)
    _moment(history, chosen)


def _history(opened: Opened, spec: Spec) -> History | None:
    if opened.spec != spec and was_cancelled("pipeline") and st.session_state.get("cancelled_spec") == spec:
        st.info("The pipeline was cancelled. Change something, or run it again.", icon=":material/block:")
        if not st.button("Run pipeline", type="primary"):
            return None
    forget_cancel("pipeline")
    st.session_state["cancelled_spec"] = spec

    def work(report: Report) -> History:
        total = max(len(spec.passes), 1)
        order = [name for name, _ in spec.passes]

        def heard(words: str, rewrites: int) -> None:
            done = order.index(words.partition(":")[0]) / total
            report(f"{words}, {rewrites:,} rewrites", done)

        return history_of(opened, spec, heard)

    try:
        return run_with_progress("Pipeline", work, worker(), "pipeline")
    except UserError as error:
        show_error(error)
        return None


def _notes(opened: Opened, history: History) -> None:
    if opened.verifier.settled:
        settled = ", ".join(f"{name} = {size}" for name, size in opened.verifier.settled.items())
        st.info(plain(f"The model does not run with the dims as bound; it was run with {settled}, found by trying."))
    failed = history.failed
    if failed is not None:
        broken = (
            "" if failed.broken_by is None else f" Rewrite {failed.broken_by + 1} of {len(failed.rewrites)} broke it."
        )
        sentence = "" if failed.verdict is None else failed.verdict.sentence
        show_error(f"{failed.title}: NOT EQUAL to the original. {sentence}{broken}")
        if failed.broken_by is not None and st.button("Show that rewrite", key="show_broken"):
            st.session_state["step"] = _label(history.steps.index(failed), failed)
            st.session_state["moment_wanted"] = failed.broken_by + 1
    elif history.unverified is not None and history.unverified.verdict is not None:
        st.warning(plain(history.unverified.verdict.sentence))


def _steps(history: History, spec: Spec) -> int:
    """The table of steps, and the choice of one; of a new list the last that changed something is chosen."""
    rows = [_row(index, step) for index, step in enumerate(history.steps)]
    st.dataframe(rows, hide_index=True, row_height=28, height=38 + 28 * len(rows), column_config=_COLUMNS)
    labels = [_label(index, step) for index, step in enumerate(history.steps)]
    changed = [index for index, step in enumerate(history.steps) if step.changed]
    if st.session_state.get("step") not in labels or st.session_state.get("steps_of") != spec:
        st.session_state["steps_of"] = spec
        st.session_state["step"] = labels[changed[-1] if changed else 0]
    chosen = st.segmented_control("Step", labels, key="step", label_visibility="collapsed")
    return labels.index(chosen) if chosen in labels else 0


_COLUMNS = {
    "moved": st.column_config.NumberColumn("elements moved", format="localized"),
    "nodes": st.column_config.NumberColumn(format="localized"),
    "seconds": st.column_config.NumberColumn("seconds", format="%.2f"),
}


def _label(index: int, step: Step) -> str:
    return f"{index} {step.pass_name}" + ("" if step.changed or not index else " (no change)")


def _row(index: int, step: Step) -> dict[str, Any]:
    verdict = step.verdict
    return {
        "#": index,
        "step": step.title + ("" if step.changed or not index else " (changes nothing here)"),
        "rewrites": len(step.rewrites) if index else None,
        "nodes": step.after.nodes,
        "transposes": step.after.transposes,
        "moved": step.after.elements_moved,
        "max relative error": "" if verdict is None else error_text(verdict),
        "verdict": "" if verdict is None else verdict_word(verdict.ok),
        "seconds": step.seconds,
    }


def _moment(history: History, index: int) -> None:
    step = history[index]
    target = load_profile(history.target)
    total = len(step.rewrites)
    left, right = st.columns([3, 2])
    with left:
        moment = _slider(index, total)
    before, after = history.before(index), history.at(index, moment)
    changes = diff(before, after)
    about = step.rewrites[moment - 1].nodes if 0 < moment < total else ()
    with right:
        focus = _focus(before, after, changes, about)
    graph, rewrites, text = st.tabs(["Graph", f"Rewrites ({total:,})", "Text"])
    with graph:
        if moment and moment < total:
            st.caption(plain(f"Rewrite {moment:,}: {step.rewrites[moment - 1].sentence}"))
        legend(target)
        _panes(before, after, changes, target, focus)
    with rewrites:
        _rewrites(step)
    with text:
        _texts(before, after)


def _slider(index: int, total: int) -> int:
    """How many of the step's rewrites are done: any moment of it can be shown."""
    if total < 2:
        return total
    key = f"moment_{index}_{total}"
    wanted = st.session_state.pop("moment_wanted", None)
    if wanted is not None:
        st.session_state[key] = wanted
    elif key not in st.session_state:
        st.session_state[key] = total
    return st.slider(f"Rewrites done, of {total:,}", 0, total, key=key)


def _focus(before: Graph, after: Graph, changes: Diff, about: Sequence[str]) -> set[str]:
    """What the picture starts at: the chosen rewrite, a node of the user's choice, or the first change."""
    focus = set(about) or set(changes.removed | changes.added | changes.changed)
    if max(len(before), len(after)) <= MOST_BOXES:
        return focus
    names = dict.fromkeys(node.name for node in (*after.nodes, *before.nodes))
    changed_first = sorted(names, key=lambda name: not changes.mark(name))
    first = "the first change, or choose a node"
    chosen = st.selectbox("Draw from", changed_first, index=None, placeholder=first, key="draw_from")
    return {chosen} if chosen else focus


def _panes(before: Graph, after: Graph, changes: Diff, target: Profile, focus: set[str]) -> None:
    left, right = st.columns(2)
    with left:
        picture("before", draw(before, infer_layouts(before), target, marks=changes, focus=focus))
    with right:
        words = "after (nothing changed)" if changes.is_empty else "after"
        picture(words, draw(after, infer_layouts(after), target, marks=changes, focus=focus))


def _rewrites(step: Step) -> None:
    if not step.rewrites:
        st.caption(
            "As loaded: nothing was rewritten." if not step.title else "This step found nothing to rewrite here."
        )
        return
    rows = [{"#": i + 1, "sentence": r.sentence, "nodes": ", ".join(r.nodes)} for i, r in enumerate(step.rewrites)]
    columns = {
        "#": st.column_config.NumberColumn(width=45),
        "sentence": st.column_config.TextColumn(width=780),
        "nodes": st.column_config.TextColumn(width=160),
    }
    st.dataframe(rows, hide_index=True, row_height=28, height=480, column_config=columns)


def _texts(before: Graph, after: Graph) -> None:
    for column, words, graph in zip(st.columns(2), ("before", "after"), (before, after), strict=True):
        text = graph_text(graph)
        with column:
            st.caption(words)
            st.download_button(
                f"Download the text {words}", text, file_name=f"{words}.onnxtxt", key=f"text_{words}", mime="text/plain"
            )
            with st.container(height=460):
                st.code(text[:_SHOWN_CHARACTERS], language=None)
            if len(text) > _SHOWN_CHARACTERS:
                st.caption(f"The first {_SHOWN_CHARACTERS:,} of {len(text):,} characters are shown.")
