"""At which opset and version of the format Export writes the file, and the passes again where that takes it."""

from __future__ import annotations

import onnx
import streamlit as st

from workbench.opsets.lowering import newer_than
from workbench.opsets.versions import OLDEST_OPSET
from workbench.opsets.written import AS_NEEDED, INLINE, KEEP, NEWEST, Opset, OpsetError, Wanted, kept_opset
from workbench.registry.opset_choice import history_at_opset
from workbench.rewrite import History
from workbench.ui.state.session import Opened, Spec, worker
from workbench.ui.state.work import Report
from workbench.ui.widgets.progress import run_with_progress

_OLDEST_IR = 4
_KEY = "passes_again"


def chosen_form(opened: Opened) -> Wanted:
    """What the user chose."""
    has = opened.graph.opset_imports.get("", 0)
    before = opened.graph.file_opset or has
    words = {
        None: f"{before}, the file's; newer if a rewrite needs it",
        KEEP: f"{before}, the file's, and no rewrite that needs a newer one",
        NEWEST: f"{has}, at which passes work",
    }
    left, right = st.columns([2, 1])
    opsets: list[Opset] = [*words, *range(has, OLDEST_OPSET - 1, -1)]
    opset = left.selectbox("Opset", opsets, format_func=lambda o: words.get(o, str(o)), key=f"opset_{opened.number}")
    ir = right.selectbox(
        "File format (IR)",
        [None, *range(onnx.IR_VERSION, _OLDEST_IR - 1, -1)],
        format_func=lambda version: "the lowest that suffices" if version is None else str(version),
        key=f"ir_{opened.number}",
    )
    label = "Put the bodies of functions in place of their calls"
    about = "Channels-last operators and groups are calls of ONNX functions, which not every runtime runs."
    inline = st.checkbox(label, key=f"inline_{opened.number}", help=about)
    return Wanted(opset, ir, INLINE if inline else None)


def history_as_wanted(opened: Opened, history: History, spec: Spec, wanted: Wanted, verified: bool) -> History:
    """The history whose result can be written as wanted: the given one, or one of the same passes, run again.

    verified: whether the file is compared with the original; it is written otherwise than on Optimize, where that was
    done. Raises OpsetError if it is impossible, or computes something else.
    """
    if wanted == AS_NEEDED:
        return history

    def work(report: Report) -> History:
        newest = kept_opset(opened.graph, wanted.opset)
        if newest is not None and newer_than(history.graph, newest):
            report(f"the passes run again, for opset {newest}", None)
        result = history_at_opset(history, spec.pipeline, wanted.opset)
        if verified:
            report("comparing the file with the original", None)
            verdict = opened.verifier.writing(wanted).check(result.graph, result.is_exact)
            if verdict.ok is False:
                raise OpsetError(f"written so, the file is not equal to the original: {verdict.sentence}")
        return result

    return run_with_progress(opened.jobs, _KEY, "Another opset", work, worker(), wanted=(id(history), wanted))
