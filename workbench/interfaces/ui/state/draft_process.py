"""Runs the draft of a pass in a process of its own: `python -m` this module, `DOES FILE [REQUEST]`.

DOES is `describe` or `try`; REQUEST is JSON for `try`. Each answer is a line of JSON on stdout, as soon as it is there,
the last says that it is done; what the pass prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from workbench.errors import UserError
from workbench.evidence.verification.pass_files.checks import carried_out, examples_by_subject
from workbench.evidence.verification.pass_files.example_graphs import typed
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.ir import to_text
from workbench.pipeline.pipeline import Pipeline
from workbench.pipeline.registry.contexts import pass_context
from workbench.pipeline.run_limits import limits_of
from workbench.pipeline.running import run_pipeline
from workbench.planning.layout.infer import declare
from workbench.planning.layout.profile import machine_target
from workbench.presentation.explanations.explanation import explain_pass
from workbench.presentation.explanations.refusals import considered
from workbench.rewrite import DEFAULT_MODE, Exactness, Pass
from workbench.rewrite.core.own_passes import fault_sentence, load_pass
from workbench.run.inputs import read_inputs
from workbench.run.worker.client import Worker

_Answer = Mapping[str, Any]


def describe(cls: type[Pass], file: Path) -> Iterator[_Answer]:
    """The explanation of the pass, and each of its examples before and after; whatever it raises is its fault."""
    try:
        yield {"explained": explain_pass(cls)}
    except Exception as error:  # any error of the draft is shown
        yield {"explained": fault_sentence(error, file)}
    for subject, example in examples_by_subject(cls):
        try:
            graph, step = carried_out(cls, example)
            after = to_text(graph)
            typed(after)
        except Exception as error:  # any error of the draft is shown
            yield {"subject": subject, "fault": fault_sentence(error.__cause__ or error, file)}
        else:
            sentences = [rewrite.sentence for rewrite in step.rewrites]
            yield {"subject": subject, "before": example.before, "after": after, "sentences": sentences}


def try_on_model(cls: type[Pass], request: Mapping[str, Any]) -> Iterator[_Answer]:
    """What the pass does to a model, in mode `fast` if it needs that, and how the result compares.

    request: of `workshop.try_pass`.
    """
    mode = "fast" if any(rule.exactness is Exactness.FAST_MATH for rule in cls.rules) else DEFAULT_MODE
    yield {"progress": ["opening the model", 0.1]}
    graph = load_model(request["model"], request["dims"])
    declare(graph, request["layouts"])
    with Worker() as worker:
        limits = limits_of(graph, mode=mode)
        context = pass_context(machine_target(), worker, lambda *_: None, mode=mode, limits=limits)
        yield {"progress": ["running", 0.3]}
        history = run_pipeline(graph, Pipeline((cls(),)), context)
        yield {"progress": ["asking what it refused", 0.5]}
        result = considered(history[-1], cls(), history.graph, context)
        yield {"progress": ["comparing with the original", 0.7]}
        inputs = read_inputs(Path(request["inputs"]), graph) if request["inputs"] else None
        verdict = Verifier(graph, inputs, request["seed"], worker, request["given"]).check(
            history.graph, was_asked=history.is_narrowed(), numbers_only=history.is_for_numbers_only()
        )
    yield {
        "mode": mode,
        "considered": result.sentence,
        "refusals": [[len(group.nodes), group.sentence, group.nodes[0]] for group in result.groups],
        "nodes": [len(graph), len(history.graph)],
        "sentences": [rewrite.sentence for rewrite in history[-1].rewrites],
        "ok": verdict.ok,
        "verdict": verdict.sentence,
    }


def _main(does: str, file: Path, *request: str) -> None:
    """Answer on the stdout of before, so that nothing that the pass writes comes between."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        answer = _answering(out)
        try:
            cls = load_pass(file)
            answer({"loaded": True})
            for each in try_on_model(cls, json.loads(request[0])) if does == "try" else describe(cls, file):
                answer(each)
        except UserError as error:
            answer({"error": str(error)})
        answer({"done": True})


def _answering(out: IO[str]) -> Callable[[_Answer], None]:
    def answer(content: _Answer) -> None:
        print(json.dumps(content), file=out, flush=True)

    return answer


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
