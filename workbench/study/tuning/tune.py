"""Tuning: candidates, their graphs, what is known before measuring, successive halving, the recipe."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import printable
from workbench.ir import Graph
from workbench.rewrite import DEFAULT_MODE
from workbench.run.records.store import model_hash
from workbench.run.worker.memory import available_bytes, estimate_bytes
from workbench.run.worker.process import CancelledError
from workbench.study.cluster.jobs import device_in
from workbench.study.tuning.bounds import search_memory, search_size
from workbench.study.tuning.budget import Budget
from workbench.study.tuning.evidence import evidence_of
from workbench.study.tuning.graphs import MadeGraph, make_graphs, superfluous
from workbench.study.tuning.halving import TOGETHER, Dropped, NothingRanError, Standing
from workbench.study.tuning.latency import search_latency
from workbench.study.tuning.measuring import BudgetOverError, LotMeasurer, LotTimes
from workbench.study.tuning.pipelines import TUNED_TARGET, Configuration, TuneError, every_candidate
from workbench.study.tuning.recipe import BUDGET_ENDED, STOPPED_EARLY, Recipe
from workbench.verification.verifier import Verifier

_GRAPHS_SHARE = 1 / 3  # of the budget; no further graph is made after it
_MEMORY_SHARE = 0.5  # of the free memory, for the models of one lot

SETTLED = "no other candidate that was left can be better by more than 3 %"
TURNS_SPENT = "the limit of runs is reached; the remaining candidates cannot be distinguished"


@dataclass(frozen=True)
class TuneRequest:
    """What to tune for: an objective of `pipelines.OBJECTIVES`, within a relative error, in a time.

    device: "cpu", "cuda" or "cuda:1". Raises TuneError for what cannot be tuned.
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
    """What a tuning knows so far."""

    every: list[Configuration]
    made: dict[str, MadeGraph]
    dropped: dict[str, Dropped]
    times: dict[str, LotTimes]
    last: Standing | None = None
    standings: dict[str, Standing] = field(default_factory=dict)  # by label, the last with a ratio of it

    def heard(self, standing: Standing) -> None:
        self.last = standing
        self.standings |= dict.fromkeys(standing.ratios, standing)


def tune(
    graph: Graph,
    request: TuneRequest,
    verifier: Verifier,
    *,
    record: Path | None = None,
    on_progress: Callable[[str], None] = lambda words: None,
    is_enough: Callable[[], bool] = lambda: False,
) -> Recipe:
    """The pipeline, backend and element type that are best for the request.

    verifier:  of `graph`; candidates that compute something else are dropped.
    record:    a file that keeps each measurement; with it, a stopped tuning can be resumed.
    on_progress:  is called with the progress; may raise to stop. is_enough: once true, the best so far is returned.
    Ctrl-C, and a cancelled run, end it with the best so far, once there is one.
    Raises TuneError if nothing can be measured in the budget, RunError if the model does not run.
    """
    budget = Budget(request.budget_s)
    machine = verifier.worker.request("devices", device=request.device)
    on_progress("computing the reference in ONNX Runtime")
    _ = verifier.reference
    is_over = lambda: budget.spent_s > _GRAPHS_SHARE * budget.seconds or is_enough()  # noqa: E731
    every, made, out = prepared(graph, request, verifier, on_progress=on_progress, is_over=is_over)
    dropped = {label: Dropped(0, why) for label, why in out.items()}
    arms = arms_of(every, made, out)
    if not made and budget.spent_s > _GRAPHS_SHARE * budget.seconds:
        raise TuneError(_too_short(request))
    if not arms:
        raise TuneError(f"no candidate can be used; the first: {next(iter(dropped.values())).why}")
    search = _Search(every, made, dropped, {})
    measurer = LotMeasurer(
        made=arms,
        verifier=verifier,
        device=request.device,
        max_error=request.max_error,
        budget=budget,
        record=record,
        machine={"device": asdict(device_in(machine, request.device, "").kind), "versions": machine["versions"]},
        on_progress=lambda words: on_progress(_progress(search.last, words, budget)),
        is_enough=is_enough,
        found=search.times,
    )
    ended = _ended_by(search, _standings(arms, request, measurer), budget, is_enough)
    if search.last is None:
        if ended == STOPPED_EARLY:
            raise TuneError("it was stopped before any candidate was measured, so there is no recipe")
        raise TuneError(_too_short(request))
    return _recipe(graph, request, search, ended, budget, machine)


def prepared(
    graph: Graph,
    request: TuneRequest,
    verifier: Verifier,
    *,
    on_progress: Callable[[str], None] = lambda words: None,
    is_over: Callable[[], bool] = lambda: False,
) -> tuple[list[Configuration], dict[str, MadeGraph], dict[str, str]]:
    """All candidates, the graphs by pipeline label, and by candidate label why some need not be measured."""
    kind = request.device.partition(":")[0]
    every = every_candidate(request.objective, kind, request.max_error, request.budget_s)
    pipelines = {candidate.pipeline.label: candidate.pipeline for candidate in every}
    made, failed = make_graphs(
        graph, pipelines.values(), verifier, request.max_error, on_progress=on_progress, is_over=is_over
    )
    return every, made, superfluous(every, made, failed)


def arms_of(
    every: Sequence[Configuration], made: Mapping[str, MadeGraph], out: Collection[str]
) -> dict[str, tuple[Configuration, MadeGraph]]:
    """The candidates to measure, by label: all except those in `out`."""
    return {one.label: (one, made[one.pipeline.label]) for one in every if one.label not in out}


def _too_short(request: TuneRequest) -> str:
    return f"the budget of {request.budget_s:g} s ended before any candidate was measured; give more with --budget"


def _standings(
    arms: Mapping[str, tuple[Configuration, MadeGraph]], request: TuneRequest, measurer: LotMeasurer
) -> Iterator[Standing]:
    if request.objective == "size":
        return search_size(arms)
    if request.objective == "memory":
        return search_memory(arms, measurer)
    return search_latency(arms, measurer, _together(arms, measurer.verifier))


def _together(arms: Mapping[str, tuple[Configuration, MadeGraph]], verifier: Verifier) -> int:
    """How many models may be open at once."""
    largest = max(estimate_bytes(made.graph, made.graph.dims) for _, made in arms.values())
    return max(2, min(TOGETHER, int(_MEMORY_SHARE * available_bytes() / max(largest, 1))))


def _ended_by(search: _Search, standings: Iterator[Standing], budget: Budget, is_enough: Callable[[], bool]) -> str:
    """Follow the search to its end, or to that of the budget; returns why it ended."""
    try:
        for standing in standings:
            search.heard(standing)
    except BudgetOverError:
        return STOPPED_EARLY if is_enough() else BUDGET_ENDED
    except NothingRanError as error:
        raise TuneError(f"no candidate runs here; the first: {error}") from None
    except (KeyboardInterrupt, CancelledError):
        if search.last is None:
            raise
        return STOPPED_EARLY
    return SETTLED if search.last is not None and search.last.settled else TURNS_SPENT


def _progress(last: Standing | None, words: str, budget: Budget) -> str:
    left = f"at most {budget.left_s:,.0f} s more"
    if last is None:
        return f"first look: {words}; {left}"
    number = last.round + last.complete or 1
    best = f"best so far {last.best}"
    second = sorted(ratio.ratio for label, ratio in last.ratios.items() if label != last.best)
    ahead = f", the next takes {second[0]:.2f} times as long" if second else ""
    return f"round {number}, {len(last.left)} left, {left}; {best}{ahead}; {words}"


def _recipe(
    graph: Graph, request: TuneRequest, search: _Search, ended: str, budget: Budget, machine: Mapping[str, Any]
) -> Recipe:
    last = search.last
    assert last is not None  # the caller has looked
    chosen = next(candidate for candidate in search.every if candidate.label == last.best)
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
        label=chosen.label,
        backend=chosen.backend,
        dtype=chosen.dtype,
        passes=chosen.pipeline.passes,
        options=chosen.pipeline.options,
        target=TUNED_TARGET,
        mode=DEFAULT_MODE,
        export_for=chosen.pipeline.export_for,
        evidence=evidence_of(
            search.every, search.made, search.times, search.standings, {**search.dropped, **last.dropped}, last.best
        ),
    )
