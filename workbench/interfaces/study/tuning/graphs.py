"""The graphs of the candidates: one per pipeline, verified once per distinct file."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.errors import UserError
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io.exporting import export_onnx
from workbench.interfaces.api import optimize
from workbench.interfaces.study.tuning.pipelines import TUNED_TARGET, Configuration, NamedPasses
from workbench.ir import Graph
from workbench.pipeline.running import Progress
from workbench.run.compare import Comparison, Verdict
from workbench.run.tolerances import Tolerance
from workbench.run.worker.process import CancelledError

SAME_GRAPH = "its graph is the same as that of"  # start of a candidate's reason to be dropped


@dataclass(frozen=True)
class CandidateGraph:
    """The graph that a pipeline produces from the model.

    digest: SHA-256 of its file; graphs of equal files are equal, with their weights and order. bytes: of the file.
    The file has no entries on what made each node, which differ between pipelines of equal results.
    wrong:  the reason why the graph cannot be used; "" if no fault is known.
    """

    graph: Graph
    digest: str
    bytes: int
    verdict: Verdict | None = None
    wrong: str = ""


def make_graphs(
    graph: Graph,
    pipelines: Iterable[NamedPasses],
    verifier: Verifier,
    max_error: float,
    *,
    on_progress: Callable[[str], None],
    is_over: Callable[[], bool],
) -> tuple[dict[str, CandidateGraph], dict[str, str]]:
    """The graphs by pipeline label, and the reason why there is none by the label of each other pipeline.

    max_error: the largest allowed relative error. is_over: once true, no further graph is made.
    """
    graphs: dict[str, CandidateGraph] = {}
    failed: dict[str, str] = {}
    verified: dict[str, CandidateGraph] = {}
    for pipeline in pipelines:
        if is_over():
            failed[pipeline.label] = "its graph was not made: the budget had ended"
            continue
        on_progress(f"passes: {pipeline.label}")
        try:
            result = _graph_of(graph, pipeline, verifier, is_over)
        except _BudgetEndedError:
            failed[pipeline.label] = "its graph was not made: the budget ended while its passes ran"
            continue
        except CancelledError:
            raise
        except UserError as error:
            failed[pipeline.label] = f"its passes fail: {error}"
            continue
        if result.digest not in verified:
            on_progress(f"comparing with the original: {pipeline.label}")
            verdict = verifier.check(result.graph)
            verified[result.digest] = replace(result, verdict=verdict, wrong=_fault(verdict, max_error))
        graphs[pipeline.label] = verified[result.digest]
    return graphs, failed


def superfluous(
    candidates: Sequence[Configuration], graphs: Mapping[str, CandidateGraph], failed: Mapping[str, str]
) -> dict[str, str]:
    """For each candidate label, why a candidate need not be measured.

    It has no graph, a wrong one, or the same graph, backend and element type as another candidate.
    """
    results: dict[str, str] = {}
    first: dict[tuple[str, str, str], str] = {}
    for candidate in candidates:
        name = candidate.pipeline.label
        if name in failed:
            results[candidate.label] = failed[name]
        elif graphs[name].wrong:
            results[candidate.label] = f"its graph is wrong: {graphs[name].wrong}"
        else:
            same = first.setdefault((graphs[name].digest, *candidate.execution), candidate.label)
            if same != candidate.label:
                results[candidate.label] = f"{SAME_GRAPH} '{same}'"
    return results


class _BudgetEndedError(Exception):
    """The budget ended while passes ran."""


def _graph_of(graph: Graph, pipeline: NamedPasses, verifier: Verifier, is_over: Callable[[], bool]) -> CandidateGraph:
    def check_time(_: Progress) -> None:
        if is_over():
            raise _BudgetEndedError

    history = optimize(
        graph,
        list(pipeline.passes),
        target=TUNED_TARGET,
        export_for=pipeline.export_for,
        options=pipeline.options,
        on_progress=check_time,
    )
    with tempfile.TemporaryDirectory(dir=verifier.worker.folder, prefix="tuned-") as folder:
        written = export_onnx(history.graph, Path(folder) / "model.onnx", check=False, metadata=False)
        return CandidateGraph(history.graph, _digest(Path(folder)), written.bytes)


def _digest(folder: Path) -> str:
    """SHA-256 of all files of a model; large weights are in a file beside it."""
    result = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        with open(file, "rb") as opened:
            result.update(hashlib.file_digest(opened, "sha256").digest())
    return result.hexdigest()


def _fault(verdict: Verdict, max_error: float) -> str:
    if verdict.ok is None:
        return f"it cannot be verified: {verdict.sentence}"
    if verdict.ok is False and verdict.max_rel_error is None:
        return verdict.sentence
    return error_fault(verdict, verdict.tolerance, max_error)


def error_fault(result: Verdict | Comparison, tolerance: Tolerance, max_error: float) -> str:
    """The sentence that the error is too large; "" if it is allowed.

    tolerance: the one of the comparison. If it is stricter than `max_error`, being equal by it is enough, since outputs
    near zero may have a large relative error.
    """
    if result.bit_equal or (result.ok and (result.max_rel_error is None or tolerance.relative <= max_error)):
        return ""
    if result.max_rel_error is None:
        return "its results differ from those of the original"
    if result.max_rel_error <= max_error:
        return ""
    return f"its relative error, {result.max_rel_error:.1e}, is above the allowed {max_error:g}"
