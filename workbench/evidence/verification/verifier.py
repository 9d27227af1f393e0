"""Verification: whether a graph computes what the user's file computes.

The reference is ONNX Runtime on the original file, without optimizations.
The candidate is the export of the graph, run the same way on the same inputs.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from workbench.backends.failures import EVALUATOR
from workbench.backends.memory import DoesNotFitError
from workbench.backends.onnxruntime.eight_bit_sums import WARNING, multiplies_8_bits, saturates_here
from workbench.backends.tensors import load_tensors, save_tensors
from workbench.errors import UserError, counted, first_of, quoted
from workbench.evidence.verification.inner_values import in_order, inner_values
from workbench.evidence.verification.original_runs import Original, OriginalRuns, scratch_files
from workbench.formats.opsets.written import AS_NEEDED, FileForm, OpsetError
from workbench.ir import DataType, Graph
from workbench.run.calibration import RunInputs
from workbench.run.compare import Comparison, Verdict, compare, compare_numbers, of_all_runs
from workbench.run.doubled_batch import batch_axes, both_batches, expected_of_both
from workbench.run.inputs import Tensors, fed_inputs, in_forms, output_forms, seed_inputs
from workbench.run.tolerances import FLOAT32, NOTHING_MAY_DIFFER, Allowed, Tolerance, allowed_in
from workbench.run.worker.client import RUN_LIMIT_S, Worker
from workbench.run.worker.process import CancelledError, RunError

_INSIDE = 10  # times what outputs may differ, where types are narrowed on purpose
_MAX_NAMES = 4  # of free dims, operators or branches in a sentence
_SEEDED = " Random operators had the same seed on both sides."
_AND_DOUBLE_BATCH = " So is a batch twice as large."
_IN_DOUBLE_BATCH = " That is in a batch twice as large, each half compared with the original's result for it alone."


class Verifier:
    """Compares graphs with one original, whose outputs are computed once, when first needed.

    inputs:  the user's (see `read_inputs`), of one run or several. Without them they are generated from `seed`
             (see `Original`), for `runs` runs or as many as time allows. Dims with which the original does not run, or
             takes long, are then changed, except for those in `given`.
    form:    the opset and format at which graphs are written to be compared.
    patient: whether sizes with which a run takes long are kept, as for measurements.
    """

    def __init__(
        self,
        original: Graph,
        inputs: Mapping[str, np.ndarray] | Sequence[Mapping[str, np.ndarray]] | None = None,
        seed: int = 0,
        worker: Worker | None = None,
        given: Collection[str] = (),
        form: FileForm = AS_NEEDED,
        runs: int | None = None,
        patient: bool = False,
    ) -> None:
        self.original = original
        self._form = form
        self.allowed = allowed_in(original)
        self._owns_worker = worker is None
        self.worker = worker or Worker()  # in which compared models run
        users = [] if inputs is None else [inputs] if isinstance(inputs, Mapping) else list(inputs)
        self._original = Original(original, self.worker, [dict(one) for one in users], seed, given, runs, patient)
        self._seed, self.run_inputs = (
            seed,
            RunInputs(self._original.inputs_of, inputs is None, self._original.several_inputs_of),
        )

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker if the verifier started it."""
        if self._owns_worker:
            self.worker.close()

    @property
    def dims(self) -> Mapping[str, int]:
        """Numbers for free dims; those that were used, after the original has run."""
        first = self._original.known_first
        return self.original.dims if first is None else first.dims

    @property
    def settled(self) -> Mapping[str, int]:
        """The dims that were changed until the original ran; {} before it ran."""
        first = self._original.known_first
        return {} if first is None else first.settled

    @property
    def run_by(self) -> str:
        """What ran the original if ONNX Runtime has no kernel for it; "" before it ran."""
        first = self._original.known_first
        return "" if first is None else first.run_by

    @property
    def inputs(self) -> Tensors:
        """The inputs on which both sides run first. Raises RunError if the original does not run."""
        return self._original.first.inputs

    @property
    def reference(self) -> Tensors:
        """The original's outputs on them, by name. Raises RunError if it does not run."""
        return self._original.first.outputs

    def inputs_of(self, graph: Graph) -> Tensors:
        """The inputs for a graph that came of the original: with axes in its order, and in its element types."""
        return self._original.inputs_of(graph)

    def with_running_dims(self, graph: Graph) -> Graph:
        """A copy of the graph, bound to the dims with which the original runs; a plain copy if it does not run."""
        bound = graph.copy()
        try:
            _ = self._original.first
        except CancelledError:
            raise
        except UserError:  # each verdict says why
            return bound
        bound.dims = {name: self.dims[name] for name in graph.dims}
        return bound

    def with_form(self, form: FileForm) -> Verifier:
        """The same verifier, for files of another opset or format; the original is not run again."""
        other = copy(self)
        other._form = form
        return other

    def check(
        self,
        graph: Graph,
        exact: bool = False,
        narrowed: bool = False,
        was_asked: bool = False,
        numbers_only: bool = False,
        only: int | None = None,
    ) -> Verdict:
        """Export the graph, run it on the same inputs, and compare.

        exact: results that differ in a bit are not equal. narrowed: the element types of `graph` count too, since they
        may be narrower on purpose. was_asked: whether a pass was asked to change them. numbers_only: whether elements
        do not count that are infinite or NaN in the original, as after a rewrite of the mode fast. only: the number of
        the run that is compared, in place of all.
        """
        allowed = self._allowed(graph, exact, narrowed, was_asked, numbers_only)
        with self._folder("candidate-") as folder:
            runnable = self._original.runnable
            export = lambda: runnable(self._exported(graph, folder), graph, folder)  # noqa: E731
            return self._verdict(graph, export, allowed, only)

    def check_file(
        self, graph: Graph, file: Path, exact: bool = False, narrowed: bool = False, numbers_only: bool = False
    ) -> Verdict:
        """Compare the file from which `graph` was loaded, whatever program wrote it; the others as in `check`."""
        allowed = self._allowed(graph, exact, narrowed, False, numbers_only)
        with self._folder("candidate-") as folder:
            return self._verdict(graph, lambda: self._original.runnable(file, graph, folder), allowed)

    def _allowed(self, graph: Graph, exact: bool, narrowed: bool, was_asked: bool, numbers_only: bool) -> Allowed:
        if exact:
            allowed = NOTHING_MAY_DIFFER
        else:
            allowed = allowed_in(self.original, graph, was_asked) if narrowed or was_asked else self.allowed
        return replace(allowed, numbers_only=numbers_only)

    @contextmanager
    def _folder(self, prefix: str) -> Iterator[Path]:
        """A folder for scratch files of this block."""
        with scratch_files(), tempfile.TemporaryDirectory(dir=self.worker.folder, prefix=prefix) as folder:
            yield Path(folder)

    def _exported(self, graph: Graph, folder: Path) -> Path:
        from workbench.formats.io.exporting import export_onnx

        return export_onnx(graph, folder / "model.onnx", **self._form._asdict()).path

    def _verdict(
        self, graph: Graph, candidate: Callable[[], Path], allowed: Allowed, only: int | None = None
    ) -> Verdict:
        """The verdict on the graph. candidate: returns its file, once the original has run. only: as in `check`."""
        start = time.monotonic()
        try:
            runs = self._original.runs
        except CancelledError:
            raise
        except UserError as error:
            sentence = f"It cannot be verified, because the original does not run: {error}"
            return Verdict(None, None, None, False, allowed.loosest, sentence, time.monotonic() - start)
        try:
            file = candidate()
            if only is not None or allowed.on_purpose:
                runs = runs.only(only or 0)
            result, run_by = self._compared(runs, graph, file, allowed)
            larger = self._compare_double_batch(runs, graph, file, allowed) if result.ok and only is None else None
        except (CancelledError, OpsetError):
            raise
        except UserError as error:
            ok = False if _shows_wrong_graph(error) else None
            sentence = f"The original runs, and this graph does not: {error}"
            return Verdict(ok, None, None, False, allowed.loosest, sentence, time.monotonic() - start)
        note = ""
        if larger is not None:
            result, note = (result, _AND_DOUBLE_BATCH) if larger.ok else (larger, _IN_DOUBLE_BATCH)
        note += self._original.first.note + (_SEEDED if self._original.is_random else "")
        if self._original.foreign:
            names = quoted(self._original.foreign, _MAX_NAMES)
            note += f" Nothing here runs {names}: on both sides a function of the operands took the place of each call."
        if not result.ok and multiplies_8_bits(graph) and saturates_here():
            note += f" {WARNING}"
        if result.excluded:
            note += f" {counted(result.excluded, 'element')} did not count, being infinite or NaN in the original."
        run_by = run_by or self.run_by
        return Verdict(
            result.ok,
            result.max_abs_error,
            result.max_rel_error,
            result.bit_equal,
            allowed.loosest,
            result.sentence + note + (f" It was run by {run_by}." if run_by else ""),
            time.monotonic() - start,
            result.run,
        )

    # ---- comparing -----------------------------------------------------------------------

    def _compared(self, runs: OriginalRuns, graph: Graph, file: Path, allowed: Allowed) -> tuple[Comparison, str]:
        """The comparison of all runs, and what ran the file in place of ONNX Runtime."""
        of_half = allowed.loosest.bits and any(map(has_halves, (self.original, graph)))
        if runs.values is not None and not of_half:
            try:
                return self._compared_inside(runs, graph, file, allowed), ""
            except RunError as error:
                if error.stage == "process":
                    raise  # else the plain run says what is wrong, if that was not the recording
        by = ""
        compared = []
        for inputs, reference in zip(
            runs.inputs, self._original.plain_outputs(runs) if of_half else runs.outputs, strict=True
        ):
            outputs = self._original.outputs(file, fed_inputs(inputs, self.original, graph), self.dims)
            tensors = in_forms(outputs.tensors, output_forms(self.original, graph))
            compared.append(_compared_run(reference, tensors, allowed))
            by = outputs.by
        result = of_all_runs(compared)
        return replace(result, sentence=f"{result.sentence} Compared on {self._on_inputs(runs)}."), by

    def _compared_inside(self, runs: OriginalRuns, graph: Graph, file: Path, allowed: Allowed) -> Comparison:
        values = inner_values(graph, self.dims).recorded
        with self._folder("compared-") as scratch:
            files = [(scratch / f"inputs-{n}", scratch / f"outputs-{n}") for n in range(len(runs.inputs))]
            for (source, _), inputs in zip(files, runs.inputs, strict=True):
                save_tensors(source, fed_inputs(inputs, self.original, graph))
            found = self.worker.request(
                "compare_values",
                model=str(file.resolve()),
                values=list(values),
                order=in_order(graph, values),
                must={value: asdict(_of_output(allowed, value)) for value in self.original.outputs},
                known=[value for value in graph.inputs if value in self.original.inputs],
                narrowed=self._inside(allowed),
                numbers_only=allowed.numbers_only,
                inputs=[str(source) for source, _ in files],
                outputs=[str(target) for _, target in files],
                original={
                    "model": str(self._original.file.resolve()),
                    "values": list(runs.values or ()),
                    "large": self._original.inner_values.large,
                    "unrecorded": sorted(self._original.inner_values.unrecorded),
                    "inputs": [str(path) for path in runs.inputs_files],
                    "recorded": [str(path) for path in runs.tensors_files],
                },
                timeout_s=RUN_LIMIT_S,
                need_bytes=self._original.need_bytes(runs.inputs[0], self.dims),
            )
            tensors, right = [load_tensors(target) for _, target in files], runs.outputs
        if any(map(has_halves, (self.original, graph))):  # a value that is recorded is rounded, and else perhaps not
            fed = (fed_inputs(inputs, self.original, graph) for inputs in runs.inputs)
            tensors = [dict(self._original.outputs(file, inputs, self.dims).tensors) for inputs in fed]
            right = self._original.plain_outputs(runs)
        forms = output_forms(self.original, graph)
        compared = [
            _compared_run(reference, in_forms(outputs, forms), allowed, found["explained"])
            for reference, outputs in zip(right, tensors, strict=True)
        ]
        return self._with_inside(of_all_runs(compared), graph, runs, found)

    def _inside(self, allowed: Allowed) -> dict[str, dict[str, Any]]:
        """What values inside may differ that are in narrower types on purpose: ten times what outputs may.

        A value may lose much that no output shows. One that was quantized on purpose may be anything: numbers beyond
        the ends of a range become the ends.
        """

        def inside(tolerance: Tolerance) -> Tolerance:
            if tolerance.close:
                return replace(tolerance, absolute=math.inf)
            return replace(tolerance, relative=_INSIDE * tolerance.relative)

        outputs = self.original.outputs
        tolerances = allowed.on_purpose.items()
        return {value: asdict(one if value in outputs else inside(one)) for value, one in tolerances}

    def _with_inside(
        self, outputs: Comparison, graph: Graph, runs: OriginalRuns, found: Mapping[str, Any]
    ) -> Comparison:
        """The comparison of the outputs, with what the values inside say."""
        first = found["first"]
        if first is not None:
            producer = graph.producer(first["value"])
            of = "" if first["name"] == first["value"] else f", which is '{first['name']}' of the original,"
            difference = f"'{first['value']}' of {producer}{of} is not the same: {first['how']}"
            if not outputs.ok:
                return replace(outputs, sentence=f"{outputs.sentence} The first difference: {difference}.")
            sentence = f"Differs inside: {difference}. The outputs do not show it on {self._on_inputs(runs)}."
            return replace(outputs, ok=False, sentence=sentence, run=first["run"])
        equal = found["equal"]
        inside = f"; {counted(equal, 'value')} inside {'is' if equal == 1 else 'are'} equal too" if equal else ""
        notes = ""
        if runs.channels:
            notes = f" {runs.alive / runs.channels:.0%} of {runs.channels:,} channels were alive."
        if found["unseen"]:
            branches = first_of(found["unseen"], _MAX_NAMES)
            notes += f" Not compared, since no input leads there: {branches}, which the original has otherwise."
        sentence = f"{outputs.sentence} Compared on {self._on_inputs(runs)}{inside}.{notes}"
        return replace(outputs, sentence=sentence)

    def _on_inputs(self, runs: OriginalRuns) -> str:
        """How many inputs were compared, and with which sizes."""
        sizes = [f"{name} = {size:,}" for name, size in self.dims.items()]
        return counted(len(runs.inputs), "input") + (f" with {first_of(sizes, _MAX_NAMES)}" if sizes else "")

    def _compare_double_batch(
        self, runs: OriginalRuns, graph: Graph, file: Path, allowed: Allowed
    ) -> Comparison | None:
        """Compare a run on two inputs in one batch with the original's results for each; None if no batch is free."""
        axes = batch_axes(self.original, graph)
        if not axes or self._original.is_random:
            return None
        inputs, reference = runs.inputs[0], runs.outputs[0]
        other_inputs = seed_inputs(self.original, self.dims, self._seed + 1)
        second = {**inputs, **{value: other_inputs[value] for value in axes}}
        try:
            second_reference = self._original.outputs(self._original.file, second, self.dims).tensors
        except CancelledError:
            raise
        except UserError:  # the original does not run on these inputs
            second, second_reference = inputs, reference
        both = fed_inputs(both_batches(inputs, second, axes), self.original, graph)
        outputs = in_forms(self._original.outputs(file, both, self.dims).tensors, output_forms(self.original, graph))
        return _compared_run(expected_of_both(reference, second_reference, outputs), outputs, allowed)


def has_halves(graph: Graph) -> bool:
    """Whether a value is of float16."""
    types = map(graph.tensor_type, graph.values())
    return any(type_ is not None and type_.dtype == DataType.FLOAT16 for type_ in types)


def _compared_run(reference: Tensors, found: Tensors, allowed: Allowed, explained: Collection[str] = ()) -> Comparison:
    return (compare_numbers if allowed.numbers_only else compare)(reference, found, allowed.of_each, explained)


def _of_output(allowed: Allowed, value: str) -> Tolerance:
    return allowed.of_each if isinstance(allowed.of_each, Tolerance) else allowed.of_each.get(value, FLOAT32)


def _shows_wrong_graph(error: UserError) -> bool:
    """A full machine or a timeout shows none, and neither does ONNX's evaluator, which lacks forms of operators."""
    stage = error.stage if isinstance(error, RunError) else ""
    return not isinstance(error, DoesNotFitError) and stage not in ("process", EVALUATOR)
