"""Verification: whether a graph computes what the user's file computes, and which rewrite broke it.

The reference is ONNX Runtime on the original file, its own optimizations off;
the candidate is the export of the graph, run the same way on the same inputs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.opsets.written import AS_NEEDED, OpsetError, Wanted
from workbench.run.batches import batch_axes, both_batches, expected_of_both
from workbench.run.compare import Comparison, Verdict, compare
from workbench.run.inputs import Tensors, bound_dims, dims_of, output_orders, permute_inputs, seed_inputs, turned
from workbench.run.randomness import draws_numbers, is_random, with_seeds
from workbench.run.runnable_dims import settle_dims
from workbench.run.tolerances import BITS, tolerance_for, tolerances_for
from workbench.run.worker.client import RUN_LIMIT_S, Outputs, Worker
from workbench.run.worker.memory import DoesNotFitError, estimate_bytes, refuse_unless_fits
from workbench.run.worker.process import CancelledError, RunError

if TYPE_CHECKING:
    from workbench.rewrite import History

OnCheck = Callable[[str], None]

SMALLER_INTEGERS = (1, 0)  # tried if the original does not run with larger ones, such as positions
_OF_TWO = " That is of a batch twice as large, each half of it beside what the original gives for it alone."
TRY_LIMIT_S = 60.0  # a trial with another length that takes longer is not used for verification


class Verifier:
    """Compares graphs with one original, whose outputs are computed once, when first needed.

    inputs: the user's (see `read_inputs`); without them they are generated from
            `seed`, and dims with which the original does not run are
            changed until it does, except for the names in `given`.
    wanted: the opset and format at which graphs are written to be compared.
    After the first check, `dims` holds the values that were used and
    `settled` those that had to be found, `by` what ran the original if ONNX Runtime has no kernel for it.
    """

    def __init__(
        self,
        original: Graph,
        inputs: Mapping[str, np.ndarray] | None = None,
        seed: int = 0,
        worker: Worker | None = None,
        given: Collection[str] = (),
        wanted: Wanted = AS_NEEDED,
    ) -> None:
        self.original = original
        self._wanted = wanted
        self.tolerances = tolerances_for(original)
        self.tolerance = tolerance_for(original)
        self.settled: dict[str, int] = {}
        self.note, self.by = "", ""  # what a verdict says about the inputs, and about who ran them
        self.dims = dict(original.dims)
        self._inputs = None if inputs is None else dict(inputs)
        self._seed = seed
        self._needs: dict[int, int] = {}  # elements of the inputs -> bytes
        self._given = given
        self._failure: UserError | None = None
        self._own_worker = worker is None
        self.worker = worker or Worker()  # in which compared models run

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker if the verifier started it."""
        if self._own_worker:
            self.worker.close()

    @cached_property
    def reference_file(self) -> Path:
        """The user's file; the export of the original if there is none.

        If the model draws random numbers, a copy with seeds.
        """
        if self.original.source is not None and not self.is_random:
            return Path(self.original.source)
        folder = Path(tempfile.mkdtemp(dir=self.worker.folder, prefix="reference-"))
        file = self._exported(self.original, folder) if self.original.source is None else Path(self.original.source)
        return self._runnable(file, folder)

    @cached_property
    def is_random(self) -> bool:
        """Whether the original draws random numbers, for which both sides then get the same seed."""
        return is_random(self.original)

    def _runnable(self, file: Path, folder: Path) -> Path:
        return with_seeds(file, folder) if self.is_random else file

    @cached_property
    def inputs(self) -> Tensors:
        """The inputs on which both sides run."""
        return self._run_reference()[0]

    @cached_property
    def reference(self) -> Tensors:
        """The original's outputs by name. Raises RunError if it does not run."""
        return self._run_reference()[1]

    def with_running_dims(self, graph: Graph) -> Graph:
        """A copy of the original's graph, bound to the dims with which the original runs; as it is if it does not."""
        bound = graph.copy()
        try:
            self._run_reference()
        except CancelledError:
            raise
        except UserError:  # each verdict says why
            return bound
        bound.dims = {name: self.dims[name] for name in graph.dims}
        return bound

    def _run_reference(self) -> tuple[Tensors, Tensors]:
        """Run the original, settling its dims, and cache inputs and outputs, or the error, since a run may be slow."""
        if self._failure is not None:
            raise self._failure
        try:
            self.inputs, self.reference = self._first_run()
        except CancelledError:
            raise
        except UserError as error:
            self._failure = error
            raise
        return self.inputs, self.reference

    def _first_run(self) -> tuple[Tensors, Tensors]:
        self.note = " Random operators had the same seed on both sides." if self.is_random else ""
        if self._inputs is not None:
            self.dims.update(dims_of(self.original, self._inputs))
            return self._inputs, self._heard(self._outputs(self.reference_file, self._inputs, self.dims))
        return self._run_seeded()

    def _run_seeded(self) -> tuple[Tensors, Tensors]:
        good: dict[str, tuple[Tensors, Tensors]] = {}  # the last success, without its message
        failures: list[UserError] = []

        def run(dims: Mapping[str, int], *most: int) -> str | None:
            try:
                inputs = seed_inputs(self.original, dims, self._seed, *most)
                limit = TRY_LIMIT_S if failures else RUN_LIMIT_S
                outputs = self._heard(self._outputs(self.reference_file, inputs, dims, limit))
            except CancelledError:
                raise
            except UserError as error:
                if not failures and not (isinstance(error, RunError) and error.stage == "run"):
                    raise  # another length does not help
                failures.append(error)
                return str(error)
            good["last"] = inputs, outputs  # settle_dims keeps a change only after it has run
            return None

        self.settled = settle_dims(self.original, run, self._given)
        self.dims = {**bound_dims(self.original), **self.settled}
        for most in SMALLER_INTEGERS if not good and failures else ():
            if run(self.dims, most) is None:
                self.note += f" Integers in the inputs are at most {most}: the original does not run with larger ones."
                break
        if not good:
            raise failures[0]
        return good["last"]

    def _outputs(self, file: Path, inputs: Tensors, dims: Mapping[str, int], limit_s: float = RUN_LIMIT_S) -> Outputs:
        need = self._need_bytes(sum(tensor.size for tensor in inputs.values()), dims)
        refuse_unless_fits(need, f"'{self.original.name}'")
        anew = draws_numbers(self.original)
        return self.worker.outputs(file, inputs, anew=anew, need_bytes=need, timeout_s=limit_s)

    def _heard(self, ran: Outputs) -> Tensors:
        self.by = ran.by
        return ran.tensors

    def _need_bytes(self, elements: int, dims: Mapping[str, int]) -> int:
        """The memory that a run on so many input elements needs; estimated again only for more elements than before."""
        larger = [need for known, need in self._needs.items() if known >= elements]
        return min(larger) if larger else self._needs.setdefault(elements, estimate_bytes(self.original, dims))

    def check(self, graph: Graph, exact: bool = False) -> Verdict:
        """Export the graph, run it on the same inputs, compare.

        exact: results that differ in a bit are not equal.
        """
        with tempfile.TemporaryDirectory(dir=self.worker.folder, prefix="candidate-") as folder:
            return self._judged(graph, lambda: self._runnable(self._exported(graph, Path(folder)), Path(folder)), exact)

    def _exported(self, graph: Graph, folder: Path) -> Path:
        from workbench.io.exporting import export_onnx

        return export_onnx(graph, folder / "model.onnx", **self._wanted._asdict()).path

    def writing(self, wanted: Wanted) -> Verifier:
        """The same verifier, for files of another opset or format; the original is not run again."""
        other = copy(self)
        other._wanted = wanted
        return other

    def check_file(self, graph: Graph, file: Path) -> Verdict:
        """The same for the file from which `graph` was loaded, written by any program."""
        with tempfile.TemporaryDirectory(dir=self.worker.folder, prefix="candidate-") as folder:
            return self._judged(graph, lambda: self._runnable(file, Path(folder)))

    def _judged(self, graph: Graph, candidate: Callable[[], Path], exact: bool = False) -> Verdict:
        start = time.monotonic()
        try:
            reference, inputs = self.reference, self.inputs
        except CancelledError:
            raise
        except UserError as error:
            sentence = f"It cannot be verified, because the original does not run: {error}"
            return Verdict(None, None, None, False, self.tolerance, sentence, time.monotonic() - start)
        try:
            file = candidate()
            ran, outputs = self._run(graph, file, inputs)
            result = compare(reference, outputs, BITS if exact else self.tolerances)
            larger = self._of_two(graph, file, exact) if result.ok else None
        except (CancelledError, OpsetError):
            raise
        except UserError as error:
            ok = False if _is_the_models_fault(error) else None
            sentence = f"The original runs, and this graph does not: {error}"
            return Verdict(ok, None, None, False, self.tolerance, sentence, time.monotonic() - start)
        seconds = time.monotonic() - start
        note = ""
        if larger is not None:
            result, note = (result, " So is a batch twice as large.") if larger.ok else (larger, _OF_TWO)
        return Verdict(
            result.ok,
            result.max_abs_error,
            result.max_rel_error,
            result.bit_equal,
            BITS if exact else self.tolerance,
            result.sentence + note + self.note + (f" It was run by {ran.by or self.by}." if ran.by or self.by else ""),
            seconds,
        )

    def _run(self, graph: Graph, file: Path, inputs: Tensors) -> tuple[Outputs, Tensors]:
        """What ran the graph's file on inputs of the original, and its outputs as the original orders their axes."""
        ran = self._outputs(file, permute_inputs(inputs, self.original, graph), self.dims)
        return ran, turned(ran.tensors, output_orders(self.original, graph))

    def _of_two(self, graph: Graph, file: Path, exact: bool) -> Comparison | None:
        """A run on a batch of two inputs of the original beside its results for each; None if no batch became free."""
        axes = batch_axes(self.original, graph)
        if not axes or self.is_random:
            return None
        anew = seed_inputs(self.original, self.dims, self._seed + 1)
        second = {**self.inputs, **{value: anew[value] for value in axes}}
        try:
            other = self._outputs(self.reference_file, second, self.dims).tensors
        except CancelledError:
            raise
        except UserError:  # such inputs do not suit it
            second, other = self.inputs, self.reference
        _, outputs = self._run(graph, file, both_batches(self.inputs, second, axes))
        expected = expected_of_both(self.reference, other, outputs)
        return compare(expected, outputs, BITS if exact else self.tolerances)


def _is_the_models_fault(error: UserError) -> bool:
    """Whether the error shows that the graph is wrong; a full machine or a timeout does not."""
    return not isinstance(error, DoesNotFitError) and not (isinstance(error, RunError) and error.stage == "process")


# ---- which step, which rewrite ---------------------------------------------------------


def verify_step(verifier: Verifier, history: History, on_check: OnCheck | None = None) -> None:
    """Give the history's last step its verdict, and if it is the first to fail, find the rewrite that broke it."""
    index = len(history) - 1
    step, before = history[index], history[index - 1].verdict if index else None
    if not step.changed and before is not None:
        step.verdict = before
        return
    step.verdict = _checked(verifier, history, index, on_check)
    if step.verdict.ok is not False or not index or (before is not None and before.ok is False):
        return
    _find_rewrite(verifier, history, index, on_check, known_right=before is not None)


def verify_end(verifier: Verifier, history: History, on_check: OnCheck | None = None) -> None:
    """Compare only the end; if that fails, find the first step that fails, and the rewrite that broke it.

    Every moment can be replayed, so the search takes about log2(steps) +
    log2(rewrites) runs. What was compared has its verdict in the history.

    on_check: is called before each comparison with what is compared; may raise to stop.
    """
    last = len(history) - 1
    verdict = history[last].verdict = _checked(verifier, history, last, on_check)
    if verdict.ok is not False or last == 0:
        return

    def is_wrong(index: int) -> bool:
        step = history[index]
        step.verdict = _checked(verifier, history, index, on_check)
        return step.verdict.ok is False

    places = [0, *(index for index, step in enumerate(history.steps) if step.changed)]
    at = places[bisect(lambda place: is_wrong(places[place]), len(places) - 1)]
    if at == 0:
        return
    history[at].verdict = history[at].verdict or verdict
    _find_rewrite(verifier, history, at, on_check, known_right=True)


def verify_others(
    verifier: Verifier, history: History, shown: Callable[[], int], on_check: OnCheck | None = None
) -> None:
    """Give every step without a verdict one, the shown step first; steps that changed nothing cost nothing.

    shown: returns the shown step, before each comparison.
    """
    changed = [index for index, step in enumerate(history.steps) if step.changed or not index]
    ends = [*(index - 1 for index in changed[1:]), len(history) - 1]  # of the runs of steps with the same graph
    while True:
        waiting = []
        for first, last in zip(changed, ends, strict=True):
            alike = history.steps[first : last + 1]
            known = next((step.verdict for step in alike if step.verdict is not None), None)
            if known is None:
                waiting.append(first)
            for step in alike:
                step.verdict = step.verdict or known
        if not waiting:
            return
        index = max((i for i in waiting if i <= shown()), default=waiting[0])
        history[index].verdict = _checked(verifier, history, index, on_check)


def bisect(is_wrong: Callable[[int], bool], count: int, known_right: bool = False) -> int:
    """The first of `count` changes (from 1) after which the graph is wrong; 0 if it is wrong before all of them.

    After all of them it is known to be wrong; `known_right`: whether it is known to be
    right before them. Makes about log2(count) comparisons.
    """
    if not known_right and is_wrong(0):
        return 0
    right, wrong = 0, count
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if is_wrong(middle):
            wrong = middle
        else:
            right = middle
    return wrong


def _find_rewrite(
    verifier: Verifier, history: History, index: int, on_check: OnCheck | None, known_right: bool
) -> None:
    """Set in the failing step the rewrite that broke it. known_right: whether the step before is known to pass."""

    def is_wrong(rewrites: int) -> bool:
        return _checked(verifier, history, index, on_check, rewrites).ok is False

    number = bisect(is_wrong, len(history[index].rewrites), known_right)
    history[index].broken_by = number - 1 if number else None


def _checked(
    verifier: Verifier, history: History, index: int, on_check: OnCheck | None, rewrites: int | None = None
) -> Verdict:
    """The verdict on the graph after a step, or after so many of its rewrites."""
    is_last = index == len(history) - 1 and rewrites is None
    graph = history.graph if is_last else history.at(index, rewrites)
    if on_check is not None:
        partly = "" if rewrites is None else f" after {rewrites:,} of {len(history[index].rewrites):,} rewrites"
        on_check(f"comparing step {index}, {history[index].title}{partly}, with the original")
    return verifier.check(graph, history.is_exact)
