"""Reruns the pipeline with an opset limit, so that rules insert no operator newer than the opset of the file."""

from __future__ import annotations

from dataclasses import replace

from workbench.errors import counted
from workbench.opsets.lowering import newer_than
from workbench.opsets.written import KEEP, Opset, Written, opset_limit
from workbench.pipeline.pipeline import Pipeline
from workbench.pipeline.running import run_pipeline
from workbench.registry.contexts import pass_context
from workbench.rewrite import History
from workbench.run.calibration import RunInputs

MAX_SECOND_RUN_S = 10.0


def history_at_opset(
    history: History, pipeline: Pipeline, opset: Opset, run_inputs: RunInputs | None = None
) -> History:
    """The history itself if its graph can be written at `opset`; else that of the same passes, limited to the opset.

    run_inputs: as in `pass_context`. Raises OpsetError for an impossible opset.
    """
    max_opset = opset_limit(history.initial, opset)
    if max_opset is None or not newer_than(history.graph, max_opset):
        return history
    limits = replace(history.limits, opset=max_opset)
    context = pass_context(history.target, mode=history.mode, run_inputs=run_inputs, limits=limits)
    return run_pipeline(history.initial, pipeline, context, left_out=history.left_out)


def opset_increase_reason(written: Written, history: History, pipeline: Pipeline) -> str:
    """Why the file's opset was raised, in one line, and what keeping it would cost; "" if it was not.

    To find that cost the passes run again, unless they took longer than MAX_SECOND_RUN_S.
    """
    if not written.sentence:
        return ""
    reason = f"{written.sentence}; `--opset {KEEP}` stays at {written.before}"
    if sum(step.seconds for step in history.steps) > MAX_SECOND_RUN_S:
        return reason
    more_nodes = len(history_at_opset(history, pipeline, KEEP).graph) - len(history.graph)
    return f"{reason}, with {counted(more_nodes, 'node')} more" if more_nodes > 0 else reason
