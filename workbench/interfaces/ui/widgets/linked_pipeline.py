"""The result of the pipeline on pages that show it and do not choose it: a link to any of them runs its pipeline."""

from __future__ import annotations

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.state.histories import history_of
from workbench.interfaces.ui.state.session import Opened, Spec, worker
from workbench.interfaces.ui.state.work import Report, was_cancelled
from workbench.interfaces.ui.widgets.controls import linked_spec, write_settings
from workbench.interfaces.ui.widgets.parts import opened_here, show_error
from workbench.interfaces.ui.widgets.progress import finished, run_with_progress
from workbench.rewrite import History

PIPELINE = "pipeline"  # key of the job that runs the passes


def optimized_here() -> Opened | None:
    """The open model as in `opened_here`, with the result of the pipeline that the address names, which runs now if
    it has not run yet. Writes the pipeline to the URL. None if no model opens.
    """
    opened = opened_here()
    if opened is None:
        return None
    with st.container():  # so that nothing below is mounted again when the progress comes or goes
        _run_linked_pipeline(opened)
    if opened.spec is not None and not was_cancelled(opened.jobs, PIPELINE):
        write_settings(opened, opened.spec)
    return opened


def history_with_progress(opened: Opened, spec: Spec) -> History:
    """The history of the pipeline; shows its progress. Raises UserError."""

    def work(report: Report) -> History:
        return history_of(opened, spec, report)

    return run_with_progress(opened.jobs, PIPELINE, "Pipeline", work, worker(), request=spec)


def _run_linked_pipeline(opened: Opened) -> None:
    try:
        if PIPELINE in opened.jobs.by_key:  # the user came here while Optimize ran it
            finished(opened.jobs, PIPELINE)
        elif was_cancelled(opened.jobs, PIPELINE):
            done = 0 if opened.spec is None else len(opened.spec.pipeline.passes)
            st.info(f"The pipeline was cancelled after {done} passes; Optimize runs the rest.", icon=":material/block:")
        elif (spec := linked_spec(opened)) is not None:
            history_with_progress(opened, spec)
    except UserError as error:
        show_error(error)
