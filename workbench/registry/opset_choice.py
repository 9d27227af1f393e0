"""What another opset of the written file takes: the passes again, with rules that write nothing newer."""

from __future__ import annotations

from dataclasses import replace

from workbench.errors import counted
from workbench.opsets.lowering import newer_than
from workbench.opsets.written import KEEP, Opset, Written, kept_opset
from workbench.pipeline.pipeline import Pipeline
from workbench.pipeline.running import run_pipeline
from workbench.registry.contexts import pass_context
from workbench.rewrite import History

LONGEST_SECOND_RUN_S = 10.0


def history_at_opset(history: History, pipeline: Pipeline, opset: Opset) -> History:
    """The history, or the one of the same passes at the opset if the graph has what cannot be written there.

    Raises OpsetError for an impossible opset.
    """
    newest = kept_opset(history.initial, opset)
    if newest is None or not newer_than(history.graph, newest):
        return history
    context = pass_context(history.target, mode=history.mode, limits=replace(history.limits, opset=newest))
    return run_pipeline(history.initial, pipeline, context, left_out=history.left_out)


def why_raised(written: Written, history: History, pipeline: Pipeline) -> str:
    """Why the file's opset was raised, in one line, and what keeping it would cost; "" if it was not.

    The passes run again for that, unless they took long.
    """
    if not written.sentence:
        return ""
    words = f"{written.sentence}; `--opset {KEEP}` stays at {written.before}"
    if sum(step.seconds for step in history.steps) > LONGEST_SECOND_RUN_S:
        return words
    more = len(history_at_opset(history, pipeline, KEEP).graph) - len(history.graph)
    return f"{words}, with {counted(more, 'node')} more" if more > 0 else words
