"""Reruns the pipeline with an opset limit, so that rules insert no operator newer than the opset of the file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.errors import counted
from workbench.formats.opsets.lowering import newer_than
from workbench.formats.opsets.written import KEEP, Opset, Written, opset_limit
from workbench.pipeline.pipeline import Pipeline
from workbench.pipeline.registry.contexts import pass_context
from workbench.pipeline.running import run_pipeline
from workbench.planning.precision.precision_facts import PrecisionFacts
from workbench.rewrite import History

if TYPE_CHECKING:
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
    return run_pipeline(history.initial, pipeline, context, excluded=history.excluded)


def opset_increase_reason(written: Written, history: History, pipeline: Pipeline) -> str:
    """Why the file's opset was raised, in one line, and what keeping it would cost; "" if it was not.

    To find that cost the passes run again, unless they took longer than MAX_SECOND_RUN_S. It cannot be kept if a pass
    without rules, such as a tool, made what needs it: such a pass is not asked for an older form.
    """
    if not written.sentence:
        return ""
    newer = newer_than(history.graph, written.before)
    unasked = dict.fromkeys(
        rewrite.pass_name
        for step in history.steps
        for rewrite in step.rewrites
        if rewrite.rule is None
        and not isinstance(step.facts, PrecisionFacts)  # such a pass keeps in float32 what is newer in another type
        and any(node.op in newer for node in rewrite.edit.insert)
    )
    if unasked:
        return f"{written.sentence}; `--opset {KEEP}` is not possible with {' and '.join(unasked)}"
    reason = f"{written.sentence}; `--opset {KEEP}` stays at {written.before}"
    if sum(step.seconds for step in history.steps) > MAX_SECOND_RUN_S:
        return reason
    here, kept = (one[-1].after["nodes"] or 0 for one in (history, history_at_opset(history, pipeline, KEEP)))
    more_nodes = kept - here
    return f"{reason}, with {counted(more_nodes, 'node')} more" if more_nodes > 0 else reason
