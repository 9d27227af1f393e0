"""The opset and format version of the exported file; the passes run again if the opset requires it."""

from __future__ import annotations

import onnx
import streamlit as st

from workbench.formats.opsets.lowering import newer_than
from workbench.formats.opsets.versions import OLDEST_OPSET
from workbench.formats.opsets.written import AS_NEEDED, INLINE, KEEP, NEWEST, FileForm, Opset, OpsetError, opset_limit
from workbench.interfaces.ui.state.session import Opened, Spec, worker
from workbench.interfaces.ui.state.work import Report
from workbench.interfaces.ui.widgets.progress import run_with_progress
from workbench.ir.versioned import fixed_opset
from workbench.pipeline.registry.opset_choice import history_at_opset
from workbench.rewrite import History

_OLDEST_IR = 4
_KEY = "passes_again"


def chosen_form(opened: Opened) -> FileForm:
    """Draw the fields for the form of the file; returns the user's choice."""
    graph_opset = opened.graph.opset_imports.get("", 0)
    file_opset = opened.graph.file_opset or graph_opset
    labels = {
        None: f"{file_opset} (as in the file); newer if a rewrite needs it",
        KEEP: f"{file_opset} (as in the file); skip rewrites that need a newer opset",
        NEWEST: f"{graph_opset}, the opset that the passes use internally",
    }
    left, right = st.columns([2, 1])
    opsets: list[Opset] = [*labels, *range(graph_opset, OLDEST_OPSET - 1, -1)]
    if fixed_opset(opened.graph.opset_imports) is not None:  # a call has no form at any other
        labels, opsets = {None: f"{file_opset} (as in the file)"}, [None]
    opset = left.selectbox("Opset", opsets, format_func=lambda o: labels.get(o, str(o)), key=f"opset_{opened.number}")
    ir = right.selectbox(
        "File format (IR)",
        [None, *range(onnx.IR_VERSION, _OLDEST_IR - 1, -1)],
        format_func=lambda version: "the lowest that suffices" if version is None else str(version),
        key=f"ir_{opened.number}",
    )
    label = "Inline functions"
    about = (
        "Channels-last operators and fused groups are written as calls of ONNX functions, which not every runtime runs."
    )
    inline = st.checkbox(label, key=f"inline_{opened.number}", help=about)
    label = "Say in the file what made each node"
    about = (
        "A node that a pass made or changed gets entries of metadata: the pass, the rule, the nodes from which it "
        "stems, and its layout. Netron and other viewers show them; runtimes ignore them."
    )
    metadata = st.checkbox(label, value=True, key=f"metadata_{opened.number}", help=about)
    return FileForm(opset, ir, INLINE if inline else None, metadata)


def history_in_form(opened: Opened, history: History, spec: Spec, form: FileForm, verified: bool) -> History:
    """A history whose result can be written in that form: this one, or one of the same passes, run again.

    verified: whether the written form is compared with the original; Optimize has compared only the default form.
    Raises OpsetError if the form is impossible, or the result is not equal to the original.
    """
    if form._replace(metadata=True) == AS_NEEDED:
        return history

    def work(report: Report) -> History:
        newest = opset_limit(opened.graph, form.opset)
        if newest is not None and newer_than(history.graph, newest):
            report(f"the passes run again, for opset {newest}", None)
        result = history_at_opset(history, spec.pipeline, form.opset, opened.verifier.run_inputs)
        if verified:
            report("comparing the file with the original", None)
            verdict = opened.verifier.with_form(form).check(
                result.graph,
                result.is_exact,
                was_asked=result.is_narrowed(),
                numbers_only=result.is_for_numbers_only(),
            )
            if verdict.ok is False:
                raise OpsetError(f"in this form, the file is not equal to the original: {verdict.sentence}")
        return result

    return run_with_progress(
        opened.jobs, _KEY, "Running the passes again for another opset", work, worker(), request=(id(history), form)
    )
