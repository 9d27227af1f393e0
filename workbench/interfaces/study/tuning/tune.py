"""Tuning: makes the candidates' graphs, drops those that need no measurement, measures the rest, makes the recipe."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from workbench.backends.memory import available_bytes, estimate_bytes
from workbench.errors import printable
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.study.cluster.jobs import device_in
from workbench.interfaces.study.tuning.bounds import search_memory, search_size
from workbench.interfaces.study.tuning.budget import Budget
from workbench.interfaces.study.tuning.evidence import evidence_of
from workbench.interfaces.study.tuning.graphs import CandidateGraph, make_graphs, superfluous
from workbench.interfaces.study.tuning.halving import BATCH_SIZE, Dropped, NothingRanError, Standing
from workbench.interfaces.study.tuning.last_run import LastRun, measured_last, originals_of
from workbench.interfaces.study.tuning.latency import search_latency
from workbench.interfaces.study.tuning.measuring import BatchMeasurer, BatchTimes, BudgetOverError
from workbench.interfaces.study.tuning.pipelines import TUNED_TARGET, Configuration, TuneError, every_candidate
from workbench.interfaces.study.tuning.recipe import BUDGET_ENDED, STOPPED_EARLY, Recipe
from workbench.ir import Graph
from workbench.rewrite import DEFAULT_MODE
from workbench.run.records.store import model_hash
from workbench.run.worker.process import CancelledError

_GRAPHS_SHARE = 1 / 3  # the part of the budget after which no further graph is made
_SEARCH_SHARE = 0.8  # the part of the budget that the search may take; the last run has the rest
_MEMORY_SHARE = 0.5  # the part of the free memory for the models of one batch

SETTLED = "no remaining candidate can be better by more than 3 %"
ITERATIONS_SPENT = "the limit of runs is reached; the remaining candidates cannot be distinguished"


@dataclass(frozen=True)
class TuneRequest:
    """The request of a tuning. Raises TuneError for an invalid error.

    objective: one of `pipelines.OBJECTIVES`. device: "cpu", "cuda" or "cuda:1".
    max_error: the largest allowed relative error. budget_s: the time for the whole tuning.
    """

    objective: str = "latency"
    device: str = "cpu"
    max_error: float = 1e-3
    budget_s: float = 600.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.max_error) and self.max_error >= 0):
            raise TuneError(f"the allowed error must be a number of at least 0, not {self.max_error}")


@dataclass
class _Search:
    """The state of a tuning. graphs: by pipeline label. dropped, times: by candidate label."""

    candidates: list[Configuration]
    graphs: dict[str, CandidateGraph]
    dropped: dict[str, Dropped]
    times: dict[str, BatchTimes]
    last: Standing | None = None
    standings: dict[str, Standing] = field(default_factory=dict)  # by label, the last one with its ratio

    def add(self, standing: Standing) -> None:
        self.last = standing
        self.standings |= dict.fromkeys(standing.ratios, standing)


def tune(
    graph: Graph,
    request: TuneRequest,
    verifier: Verifier,
    *,
    record: Path | None = None,
    on_progress: Callable[[str], None] = lambda message: None,
    is_enough: Callable[[], bool] = lambda: False,
) -> Recipe:
    """The recipe with the pipeline, backend and element type that are best for the request.

    verifier:    the verifier of `graph`; candidates with other results are dropped.
    record:      a file to which measurements are written, from which a stopped tuning is resumed.
    on_progress: is called with a text; may raise to stop.
    is_enough:   once true, the best so far is returned. Ctrl-C and a cancelled run do the same, once there is one.
    Raises TuneError if nothing can be measured in the budget, RunError if the model does not run.
    """
    budget = Budget(request.budget_s)
    machine = verifier.worker.request("devices", device=request.device)
    on_progress("computing the reference in ONNX Runtime")
    _ = verifier.reference
    is_over = lambda: budget.spent_s > _GRAPHS_SHARE * budget.seconds or is_enough()  # noqa: E731
    candidates, graphs, out = prepared(graph, request, verifier, on_progress=on_progress, is_over=is_over)
    dropped = {label: Dropped(0, why) for label, why in out.items()}
    arms = arms_of(candidates, graphs, out)
    if not graphs and budget.spent_s > _GRAPHS_SHARE * budget.seconds:
        raise TuneError(_too_short(request))
    if not arms:
        raise TuneError(f"no candidate can be used; the first: {next(iter(dropped.values())).why}")
    search = _Search(candidates, graphs, dropped, {})
    measurer = BatchMeasurer(
        arms=arms,
        verifier=verifier,
        device=request.device,
        max_error=request.max_error,
        budget=budget.part(_SEARCH_SHARE),
        record=record,
        machine={"device": asdict(device_in(machine, request.device, "").kind), "versions": machine["versions"]},
        on_progress=lambda message: on_progress(_progress(search.last, message, budget)),
        is_enough=is_enough,
        results=search.times,
    )
    batch_size = _batch_size(arms, verifier)
    ended = _ended_by(search, _standings(arms, request, measurer, batch_size), is_enough)
    if search.last is None:
        if ended == STOPPED_EARLY:
            raise TuneError("it was stopped before any candidate was measured, so there is no recipe")
        raise TuneError(_too_short(request))
    last_run = None
    if request.objective != "size" and ended != STOPPED_EARLY:
        measurer.budget = budget
        measurer.on_progress = lambda message: on_progress(
            f"last run, of the best and the original, interleaved: {message}; at most {budget.left_s:,.0f} s more"
        )
        last_run, ended = _last_run(search, measurer, batch_size, ended, is_enough)
    return _recipe(graph, request, search, last_run, ended, budget, machine)


def prepared(
    graph: Graph,
    request: TuneRequest,
    verifier: Verifier,
    *,
    on_progress: Callable[[str], None] = lambda message: None,
    is_over: Callable[[], bool] = lambda: False,
) -> tuple[list[Configuration], dict[str, CandidateGraph], dict[str, str]]:
    """All candidates, the graphs by pipeline label, and the superfluous candidates with the reason, by label."""
    kind = request.device.partition(":")[0]
    candidates = every_candidate(request.objective, kind, request.max_error, request.budget_s)
    pipelines = {candidate.pipeline.label: candidate.pipeline for candidate in candidates}
    graphs, failed = make_graphs(
        graph, pipelines.values(), verifier, request.max_error, on_progress=on_progress, is_over=is_over
    )
    return candidates, graphs, superfluous(candidates, graphs, failed)


def arms_of(
    candidates: Sequence[Configuration], graphs: Mapping[str, CandidateGraph], out: Collection[str]
) -> dict[str, tuple[Configuration, CandidateGraph]]:
    """The candidates that are not in `out`, each with its graph, by label."""
    return {one.label: (one, graphs[one.pipeline.label]) for one in candidates if one.label not in out}


def _too_short(request: TuneRequest) -> str:
    return f"the budget of {request.budget_s:g} s ended before any candidate was measured; allow a longer budget"


def _standings(
    arms: Mapping[str, tuple[Configuration, CandidateGraph]],
    request: TuneRequest,
    measurer: BatchMeasurer,
    batch_size: int,
) -> Iterator[Standing]:
    if request.objective == "size":
        return search_size(arms)
    if request.objective == "memory":
        return search_memory(arms, measurer)
    return search_latency(arms, measurer, batch_size)


def _batch_size(arms: Mapping[str, tuple[Configuration, CandidateGraph]], verifier: Verifier) -> int:
    """The number of models that may be open at once."""
    largest = max(estimate_bytes(result.graph, result.graph.dims) for _, result in arms.values())
    return max(2, min(BATCH_SIZE, int(_MEMORY_SHARE * available_bytes() / max(largest, 1))))


def _ended_by(search: _Search, standings: Iterator[Standing], is_enough: Callable[[], bool]) -> str:
    """Run the search until it or the budget ends; returns why it ended."""
    try:
        for standing in standings:
            search.add(standing)
    except BudgetOverError:
        return STOPPED_EARLY if is_enough() else BUDGET_ENDED
    except NothingRanError as error:
        raise TuneError(f"no candidate runs here; the first: {error}") from None
    except (KeyboardInterrupt, CancelledError):
        if search.last is None:
            raise
        return STOPPED_EARLY
    return SETTLED if search.last is not None and search.last.settled else ITERATIONS_SPENT


def _last_run(
    search: _Search, measurer: BatchMeasurer, batch_size: int, ended: str, is_enough: Callable[[], bool]
) -> tuple[LastRun | None, str]:
    """The last run, None if there was no time for it, and why the tuning ended."""
    assert search.last is not None  # the caller has checked
    best, _ = measurer.arms[search.last.best]
    originals = originals_of(measurer.arms, search.graphs, best.backend)
    try:
        return measured_last(search.last, originals, measurer, batch_size), ended
    except BudgetOverError:
        return None, STOPPED_EARLY if is_enough() else BUDGET_ENDED
    except (KeyboardInterrupt, CancelledError):
        return None, STOPPED_EARLY


def _progress(last: Standing | None, message: str, budget: Budget) -> str:
    remaining = f"at most {budget.left_s:,.0f} s more"
    if last is None:
        return f"first comparison: {message}; {remaining}"
    number = last.round + last.complete or 1
    best = f"best so far {last.best}"
    second = sorted(ratio.ratio for label, ratio in last.ratios.items() if label != last.best)
    ahead = f", the next takes {second[0]:.2f} times as long" if second else ""
    return f"round {number}, {len(last.remaining)} left, {remaining}; {best}{ahead}; {message}"


def _recipe(
    graph: Graph,
    request: TuneRequest,
    search: _Search,
    last_run: LastRun | None,
    ended: str,
    budget: Budget,
    machine: Mapping[str, Any],
) -> Recipe:
    last = search.last
    assert last is not None  # the caller has checked
    ratios = {label: standing.ratios[label] for label, standing in search.standings.items()}
    label, latency_ratios = last.best, {} if last_run is None else last_run.ratios
    if request.objective == "latency":
        ratios |= latency_ratios
        latency_ratios = ratios
        label = label if last_run is None else last_run.fastest
    best = next(candidate for candidate in search.candidates if candidate.label == label)
    return Recipe(
        model_name=printable(graph.name if graph.source is None else Path(graph.source).name),
        model_sha256=model_hash(graph),
        objective=request.objective,
        device=request.device,
        device_name=device_in(machine, request.device, "").kind.name,
        versions=machine["versions"],
        max_error=request.max_error,
        seconds=round(budget.spent_s, 1),
        ended=ended,
        label=best.label,
        backend=best.backend,
        dtype=best.dtype,
        passes=best.pipeline.passes,
        options=best.pipeline.options,
        target=TUNED_TARGET,
        mode=DEFAULT_MODE,
        export_for=best.pipeline.export_for,
        evidence=evidence_of(
            search.candidates,
            search.graphs,
            search.times,
            ratios,
            latency_ratios,
            {**search.dropped, **last.dropped},
            last_run,
            label,
        ),
        notes=() if last_run is None else last_run.notes,
    )
