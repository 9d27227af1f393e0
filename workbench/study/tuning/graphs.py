"""The graphs of the candidates: one for each list of passes, verified once for each distinct file."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.api import optimize
from workbench.errors import UserError
from workbench.io.exporting import export_onnx
from workbench.ir import Graph
from workbench.pipeline.running import Progress
from workbench.run.compare import Comparison, Verdict
from workbench.run.tolerances import Tolerance
from workbench.run.worker.process import CancelledError
from workbench.study.tuning.pipelines import TUNED_TARGET, Configuration, NamedPasses
from workbench.verification.verifier import Verifier

SAME_GRAPH = "its graph is that of"  # how the reason of an equal candidate begins


@dataclass(frozen=True)
class MadeGraph:
    """What a pipeline made of the model.

    digest: SHA-256 of its file; equal files are equal graphs, weights and order included. bytes: of the file.
    wrong:  why it cannot be used, in words; "" if nothing is known to be wrong.
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
) -> tuple[dict[str, MadeGraph], dict[str, str]]:
    """By the pipelines' labels, their graphs, and why there is none. Once `is_over`, no further one is made."""
    made: dict[str, MadeGraph] = {}
    failed: dict[str, str] = {}
    verified: dict[str, MadeGraph] = {}
    for pipeline in pipelines:
        if is_over():
            failed[pipeline.label] = "its graph is not made: the budget ended before"
            continue
        on_progress(f"passes: {pipeline.label}")
        try:
            result = _made(graph, pipeline, verifier, is_over)
        except _TimeOverError:
            failed[pipeline.label] = "its graph is not made: the budget ended meanwhile"
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
        made[pipeline.label] = verified[result.digest]
    return made, failed


def superfluous(
    every: Sequence[Configuration], made: Mapping[str, MadeGraph], failed: Mapping[str, str]
) -> dict[str, str]:
    """By the candidates' labels, why some need not be measured: no graph, a wrong one, or one that another candidate
    runs in the same way."""
    results: dict[str, str] = {}
    first: dict[tuple[str, str, str], str] = {}
    for candidate in every:
        name = candidate.pipeline.label
        if name in failed:
            results[candidate.label] = failed[name]
        elif made[name].wrong:
            results[candidate.label] = f"its graph is wrong: {made[name].wrong}"
        else:
            same = first.setdefault((made[name].digest, *candidate.way), candidate.label)
            if same != candidate.label:
                results[candidate.label] = f"{SAME_GRAPH} '{same}'"
    return results


class _TimeOverError(Exception):
    """Passes are broken off."""


def _made(graph: Graph, pipeline: NamedPasses, verifier: Verifier, is_over: Callable[[], bool]) -> MadeGraph:
    def heed(_: Progress) -> None:
        if is_over():
            raise _TimeOverError

    history = optimize(
        graph,
        list(pipeline.passes),
        target=TUNED_TARGET,
        export_for=pipeline.export_for,
        options=pipeline.options,
        on_progress=heed,
    )
    with tempfile.TemporaryDirectory(dir=verifier.worker.folder, prefix="tuned-") as folder:
        written = export_onnx(history.graph, Path(folder) / "model.onnx", check=False)
        return MadeGraph(history.graph, _digest(Path(folder)), written.bytes)


def _digest(folder: Path) -> str:
    """Of all files of a model, since large weights stand beside it."""
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
    """The sentence that the error is not allowed; "" if it is.

    tolerance: by which it was compared. Outputs that are equal by it need no more if it is the stricter one: faint
    outputs may have a large relative error.
    """
    if result.bit_equal or (result.ok and (result.max_rel_error is None or tolerance.relative <= max_error)):
        return ""
    if result.max_rel_error is None:
        return "its results are not those of the original"
    if result.max_rel_error <= max_error:
        return ""
    return f"its relative error, {result.max_rel_error:.1e}, is above the {max_error:g} that is allowed"
