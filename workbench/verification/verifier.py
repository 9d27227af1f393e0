"""Verification: whether a graph computes what the user's file computes, and which rewrite broke it.

The reference is ONNX Runtime on the original file, without optimizations.
The candidate is the export of the graph, run the same way on the same inputs.
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
from workbench.opsets.written import AS_NEEDED, FileForm, OpsetError
from workbench.run.calibration import RunInputs
from workbench.run.compare import Comparison, Verdict, compare
from workbench.run.doubled_batch import batch_axes, both_batches, expected_of_both
from workbench.run.inputs import Tensors, bound_dims, dims_of, fed_inputs, in_forms, output_forms, seed_inputs
from workbench.run.randomness import is_random, uses_random_numbers, with_seeds
from workbench.run.runnable_dims import settle_dims
from workbench.run.tolerances import NOTHING_MAY_DIFFER, Allowed, allowed_in
from workbench.run.worker.client import RUN_LIMIT_S, Outputs, Worker
from workbench.run.worker.failures import EVALUATOR
from workbench.run.worker.memory import DoesNotFitError, estimate_bytes, refuse_unless_fits
from workbench.run.worker.process import CancelledError, RunError

if TYPE_CHECKING:
    from workbench.rewrite import History

OnCheck = Callable[[str], None]

SMALLER_INTEGERS = (1, 0)  # bounds of integer inputs, tried if the original does not run with larger ones
_AND_DOUBLE_BATCH = " So is a batch twice as large."
_IN_DOUBLE_BATCH = " That is in a batch twice as large, each half compared with the original's result for it alone."
TRY_LIMIT_S = 60.0  # the limit of a run with another length than the first, which is used only if it ends in time


class Verifier:
    """Compares graphs with one original, whose outputs are computed once, when first needed.

    inputs: the user's (see `read_inputs`). Without them they are generated from `seed`. Dims with which the original
            does not run are then changed until it does, except for those in `given`.
    form:   the opset and format at which graphs are written to be compared.
    After the first check, `dims` holds the sizes that were used and `settled` those that were searched. `run_by` is
    what ran the original if ONNX Runtime has no kernel for it.
    """

    def __init__(
        self,
        original: Graph,
        inputs: Mapping[str, np.ndarray] | None = None,
        seed: int = 0,
        worker: Worker | None = None,
        given: Collection[str] = (),
        form: FileForm = AS_NEEDED,
    ) -> None:
        self.original = original
        self._form = form
        self.allowed = allowed_in(original)
        self.settled: dict[str, int] = {}
        self.note, self.run_by = "", ""  # a sentence about the inputs for verdicts; what ran the original
        self.dims = dict(original.dims)
        self._inputs = None if inputs is None else dict(inputs)
        self._seed, self.run_inputs = seed, RunInputs(self.inputs_of, inputs is None)
        self._needs: dict[int, int] = {}  # elements of the inputs -> bytes
        self._given = given
        self._failure: UserError | None = None
        self._owns_worker = worker is None
        self.worker = worker or Worker()  # in which compared models run

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker if the verifier started it."""
        if self._owns_worker:
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
        """Whether the original draws random numbers. Both sides then get the same seed."""
        return is_random(self.original)

    def _runnable(self, file: Path, folder: Path) -> Path:
        """The file, or a copy with seeds in `folder` if the model draws random numbers."""
        return with_seeds(file, folder) if self.is_random else file

    @cached_property
    def inputs(self) -> Tensors:
        """The inputs on which both sides run."""
        return self._run_reference()[0]

    @cached_property
    def reference(self) -> Tensors:
        """The original's outputs by name. Raises RunError if it does not run."""
        return self._run_reference()[1]

    def inputs_of(self, graph: Graph) -> Tensors:
        """The inputs for a graph that came of the original: with axes in its order, and in its element types."""
        return fed_inputs(self.inputs, self.original, graph)

    def with_running_dims(self, graph: Graph) -> Graph:
        """A copy of the graph, bound to the dims with which the original runs; a plain copy if it does not run."""
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
        """The inputs and outputs of the original. They, or the error, are cached, since a run may be slow."""
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
            return self._inputs, self._reference_tensors(self._outputs(self.reference_file, self._inputs, self.dims))
        return self._run_seeded()

    def _run_seeded(self) -> tuple[Tensors, Tensors]:
        last_run: list[tuple[Tensors, Tensors]] = []  # inputs and outputs of the last run that succeeded; at most one
        failures: list[UserError] = []

        def run(dims: Mapping[str, int], *max_integer: int) -> str | None:
            """The error of a run with these dims, or None."""
            try:
                inputs = seed_inputs(self.original, dims, self._seed, *max_integer)
                limit = TRY_LIMIT_S if failures else RUN_LIMIT_S
                outputs = self._reference_tensors(self._outputs(self.reference_file, inputs, dims, limit))
            except CancelledError:
                raise
            except UserError as error:
                if not failures and not (isinstance(error, RunError) and error.stage in ("run", EVALUATOR)):
                    raise  # another length does not help
                failures.append(error)
                return str(error)
            last_run[:] = [(inputs, outputs)]  # settle_dims keeps a change only after it has run
            return None

        self.settled = settle_dims(self.original, run, self._given)
        self.dims = {**bound_dims(self.original), **self.settled}
        for max_integer in SMALLER_INTEGERS if not last_run and failures else ():
            if run(self.dims, max_integer) is None:
                self.note += f" Integers in the inputs are at most {max_integer}: the original fails with larger ones."
                break
        if not last_run:
            raise failures[0]
        return last_run[0]

    def _outputs(self, file: Path, inputs: Tensors, dims: Mapping[str, int], limit_s: float = RUN_LIMIT_S) -> Outputs:
        need = self._need_bytes(sum(tensor.size for tensor in inputs.values()), dims)
        refuse_unless_fits(need, f"'{self.original.name}'")
        is_random = uses_random_numbers(self.original)
        return self.worker.outputs(file, inputs, anew=is_random, need_bytes=need, timeout_s=limit_s)

    def _reference_tensors(self, outputs: Outputs) -> Tensors:
        """The original's tensors by name; what ran it is stored in `run_by`."""
        self.run_by = outputs.by
        return outputs.tensors

    def _need_bytes(self, elements: int, dims: Mapping[str, int]) -> int:
        """The memory of a run on so many input elements, estimated again only for more elements than before."""
        larger = [need for known, need in self._needs.items() if known >= elements]
        return min(larger) if larger else self._needs.setdefault(elements, estimate_bytes(self.original, dims))

    def check(self, graph: Graph, exact: bool = False, narrowed: bool = False) -> Verdict:
        """Export the graph, run it on the same inputs, and compare.

        exact: results that differ in a bit are not equal. narrowed: the element types of `graph` count too, since a
        pass was asked to change them.
        """
        allowed = NOTHING_MAY_DIFFER if exact else allowed_in(self.original, graph) if narrowed else self.allowed
        with tempfile.TemporaryDirectory(dir=self.worker.folder, prefix="candidate-") as folder:
            export = lambda: self._runnable(self._exported(graph, Path(folder)), Path(folder))  # noqa: E731
            return self._verdict(graph, export, allowed)

    def _exported(self, graph: Graph, folder: Path) -> Path:
        from workbench.io.exporting import export_onnx

        return export_onnx(graph, folder / "model.onnx", **self._form._asdict()).path

    def with_form(self, form: FileForm) -> Verifier:
        """The same verifier, for files of another opset or format; the original is not run again."""
        other = copy(self)
        other._form = form
        return other

    def check_file(self, graph: Graph, file: Path, narrowed: bool = False) -> Verdict:
        """Compare the file from which `graph` was loaded, whatever program wrote it. narrowed: as in `check`."""
        allowed = allowed_in(self.original, graph) if narrowed else self.allowed
        with tempfile.TemporaryDirectory(dir=self.worker.folder, prefix="candidate-") as folder:
            return self._verdict(graph, lambda: self._runnable(file, Path(folder)), allowed)

    def _verdict(self, graph: Graph, candidate: Callable[[], Path], allowed: Allowed) -> Verdict:
        """The verdict on the graph. candidate: returns its file, once the original has run."""
        start = time.monotonic()
        try:
            reference, inputs = self.reference, self.inputs
        except CancelledError:
            raise
        except UserError as error:
            sentence = f"It cannot be verified, because the original does not run: {error}"
            return Verdict(None, None, None, False, allowed.loosest, sentence, time.monotonic() - start)
        try:
            file = candidate()
            outputs, tensors = self._run(graph, file, inputs)
            result = compare(reference, tensors, allowed.of_each)
            larger = self._compare_double_batch(graph, file, allowed) if result.ok else None
        except (CancelledError, OpsetError):
            raise
        except UserError as error:
            ok = False if _shows_wrong_graph(error) else None
            sentence = f"The original runs, and this graph does not: {error}"
            return Verdict(ok, None, None, False, allowed.loosest, sentence, time.monotonic() - start)
        seconds = time.monotonic() - start
        note = ""
        if larger is not None:
            result, note = (result, _AND_DOUBLE_BATCH) if larger.ok else (larger, _IN_DOUBLE_BATCH)
        run_by = outputs.by or self.run_by
        return Verdict(
            result.ok,
            result.max_abs_error,
            result.max_rel_error,
            result.bit_equal,
            allowed.loosest,
            result.sentence + note + self.note + (f" It was run by {run_by}." if run_by else ""),
            seconds,
        )

    def _run(self, graph: Graph, file: Path, inputs: Tensors) -> tuple[Outputs, Tensors]:
        """The outputs of the graph's file on inputs of the original; then in the form that the original has."""
        outputs = self._outputs(file, fed_inputs(inputs, self.original, graph), self.dims)
        return outputs, in_forms(outputs.tensors, output_forms(self.original, graph))

    def _compare_double_batch(self, graph: Graph, file: Path, allowed: Allowed) -> Comparison | None:
        """Compare a run on two inputs in one batch with the original's results for each; None if no batch is free."""
        axes = batch_axes(self.original, graph)
        if not axes or self.is_random:
            return None
        other_inputs = seed_inputs(self.original, self.dims, self._seed + 1)
        second = {**self.inputs, **{value: other_inputs[value] for value in axes}}
        try:
            second_reference = self._outputs(self.reference_file, second, self.dims).tensors
        except CancelledError:
            raise
        except UserError:  # the original does not run on these inputs
            second, second_reference = self.inputs, self.reference
        _, outputs = self._run(graph, file, both_batches(self.inputs, second, axes))
        expected = expected_of_both(self.reference, second_reference, outputs)
        return compare(expected, outputs, allowed.of_each)


def _shows_wrong_graph(error: UserError) -> bool:
    """A full machine or a timeout shows none, and neither does ONNX's evaluator, which lacks forms of operators."""
    stage = error.stage if isinstance(error, RunError) else ""
    return not isinstance(error, DoesNotFitError) and stage not in ("process", EVALUATOR)


# ---- which step, which rewrite ---------------------------------------------------------


def verify_step(verifier: Verifier, history: History, on_check: OnCheck | None = None) -> None:
    """Set the verdict of the history's last step; if it is the first that fails, find the rewrite that broke it."""
    index = len(history) - 1
    step, previous = history[index], history[index - 1].verdict if index else None
    if not step.changed and previous is not None:
        step.verdict = previous
        return
    step.verdict = _checked(verifier, history, index, on_check)
    if step.verdict.ok is not False or not index or (previous is not None and previous.ok is False):
        return
    _find_rewrite(verifier, history, index, on_check, known_right=previous is not None)


def verify_end(verifier: Verifier, history: History, on_check: OnCheck | None = None) -> None:
    """Compare only the end; if that fails, find the first step that fails, and the rewrite that broke it.

    Every moment can be replayed, so that the search takes about log2(steps) + log2(rewrites) runs. Each comparison
    sets a verdict in the history.

    on_check: called before each comparison with what is compared; may raise to stop.
    """
    last = len(history) - 1
    verdict = history[last].verdict = _checked(verifier, history, last, on_check)
    if verdict.ok is not False or last == 0:
        return

    def is_wrong(index: int) -> bool:
        step = history[index]
        step.verdict = _checked(verifier, history, index, on_check)
        return step.verdict.ok is False

    changed = [0, *(index for index, step in enumerate(history.steps) if step.changed)]
    first_wrong = changed[bisect(lambda number: is_wrong(changed[number]), len(changed) - 1)]
    if first_wrong == 0:
        return
    history[first_wrong].verdict = history[first_wrong].verdict or verdict
    _find_rewrite(verifier, history, first_wrong, on_check, known_right=True)


def verify_others(
    verifier: Verifier, history: History, shown: Callable[[], int], on_check: OnCheck | None = None
) -> None:
    """Set a verdict for every step without one, the shown step first; steps with the same graph are compared once.

    shown: returns the index of the shown step; called before each comparison.
    """
    changed = [index for index, step in enumerate(history.steps) if step.changed or not index]
    last_equal = [*(index - 1 for index in changed[1:]), len(history) - 1]  # the last step with the graph of each
    while True:
        waiting = []
        for first, last in zip(changed, last_equal, strict=True):
            steps = history.steps[first : last + 1]
            known = next((step.verdict for step in steps if step.verdict is not None), None)
            if known is None:
                waiting.append(first)
            for step in steps:
                step.verdict = step.verdict or known
        if not waiting:
            return
        index = max((i for i in waiting if i <= shown()), default=waiting[0])
        history[index].verdict = _checked(verifier, history, index, on_check)


def bisect(is_wrong: Callable[[int], bool], count: int, known_right: bool = False) -> int:
    """The first of `count` changes (from 1) after which the graph is wrong; 0 if it is wrong before all of them.

    It must be wrong after all of them. known_right: whether it is known to be right before them.
    Makes about log2(count) comparisons.
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
    """Set `broken_by` of the failing step. known_right: whether the step before it is known to pass."""

    def is_wrong(rewrites: int) -> bool:
        return _checked(verifier, history, index, on_check, rewrites).ok is False

    number = bisect(is_wrong, len(history[index].rewrites), known_right)
    history[index].broken_by = number - 1 if number else None


def _checked(
    verifier: Verifier, history: History, index: int, on_check: OnCheck | None, rewrites: int | None = None
) -> Verdict:
    """The verdict on the graph after a step, or after this number of its rewrites."""
    is_last = index == len(history) - 1 and rewrites is None
    graph = history.graph if is_last else history.at(index, rewrites)
    if on_check is not None:
        partly = "" if rewrites is None else f" after {rewrites:,} of {len(history[index].rewrites):,} rewrites"
        on_check(f"comparing step {index}, {history[index].title}{partly}, with the original")
    return verifier.check(graph, history.is_exact, history.is_narrowed(index))
