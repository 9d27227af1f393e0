"""The runs of the original with which graphs are compared: on which inputs, at which sizes, with what results.

The reference is ONNX Runtime on the original file, without optimizations.
"""

from __future__ import annotations

import itertools
import math
import shutil
import tempfile
import time
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from onnx import defs

from workbench.analysis.inference.bound_sizes import bound_types
from workbench.backends.failures import EVALUATOR, NODE_FAILED
from workbench.backends.memory import estimate_bytes, refuse_unless_fits
from workbench.backends.randomness import is_random, uses_random_numbers, with_seeds
from workbench.backends.tensors import load_tensors, save_tensors
from workbench.errors import UserError
from workbench.evidence.verification.inner_values import InnerValues, axes_of_channels, inner_values
from workbench.formats.opsets.written import AS_NEEDED
from workbench.ir import Graph, Node, TensorType
from workbench.ir.types import ValueType
from workbench.run.foreign_operators import foreign_operators, with_stand_ins
from workbench.run.input_kinds import INPUT_KINDS, USUAL
from workbench.run.inputs import MAX_INTEGER, Tensors, bound_dims, dims_of, fed_inputs, inputs_of_kinds, seed_inputs
from workbench.run.runnable_dims import settle_dims, smaller_dims
from workbench.run.worker.client import RUN_LIMIT_S, Outputs, Worker
from workbench.run.worker.process import CancelledError, RunError, TimeLimitError

SMALLER_INTEGERS = (1, 0)  # bounds of integer inputs, tried if the original does not run with larger ones
TRY_LIMIT_S = 60.0  # the limit of a run with another length than the first, which is used only if it ends in time
# A comparison is several runs, which together should end in a minute: where one run takes longer, sizes are smaller.
FIRST_LIMIT_S = 12.0
# Further inputs may begin within that share of the time that the first took, and some seconds.
_SHARE, _SECONDS = 0.3, 0.1


def _may_be_foreign(node: Node) -> bool:
    """Whether ONNX does not define the operator, or one in a body: then it may be one that nothing here runs."""
    inside = (inner for body in node.bodies.values() for inner in body.nodes)
    return not defs.has(node.op_type, node.domain) or any(map(_may_be_foreign, inside))


def _tensor(type_: ValueType | None) -> TensorType | None:
    return type_ if isinstance(type_, TensorType) else None


@contextmanager
def scratch_files() -> Iterator[None]:
    """A block that writes scratch files: where the system refuses one, UserError says so."""
    try:
        yield
    except OSError as error:
        folder, why = tempfile.gettempdir(), error.strerror or error
        raise UserError(
            f"The comparison cannot write to '{folder}' ({why}); free some room there, or set TMPDIR to another folder"
        ) from None


@dataclass(frozen=True)
class FirstRun:
    """The first run that succeeded.

    dims:    the numbers of free dims; settled: those of them that were searched.
    values:  those that were recorded, besides outputs; None if only outputs can be compared.
    run_by:  what ran the original if ONNX Runtime has no kernel for it. note: a sentence about the inputs.
    seconds: what it took.
    """

    inputs: Tensors
    outputs: Tensors
    dims: Mapping[str, int]
    values: tuple[str, ...] | None = None
    settled: Mapping[str, int] = field(default_factory=dict)
    run_by: str = ""
    note: str = ""
    max_integer: int = MAX_INTEGER
    seconds: float = 0.0


@dataclass(frozen=True)
class OriginalRuns:
    """The inputs and outputs of several runs, the first one first.

    values:          those that were recorded of each run, besides outputs; None: nothing was.
    inputs_files, tensors_files: the inputs and the values of each run, for the worker.
    alive, channels: how many channels of the values were not one number everywhere, and how many there are.
    number:          of the first of these among all runs.
    """

    inputs: tuple[Tensors, ...]
    outputs: tuple[Tensors, ...]
    values: tuple[str, ...] | None = None
    inputs_files: tuple[Path, ...] = ()
    tensors_files: tuple[Path, ...] = ()
    alive: int = 0
    channels: int = 0
    number: int = 0

    def only(self, number: int = 0) -> OriginalRuns:
        """One of the runs alone, by default the first."""
        one = slice(number, number + 1)
        files = self.inputs_files[one], self.tensors_files[one]
        return OriginalRuns(self.inputs[one], self.outputs[one], self.values, *files, number=number)


class Original:
    """Runs the original when it is first asked for a run, and keeps what came, or the error.

    inputs:  the user's, one run each. Without them they are generated from `seed`: several sets of different kinds
             (`INPUT_KINDS`), as far as time allows it, or `count` of them. Dims with which the original does not run
             are then changed, except for those in `given`.
    patient: whether sizes with which a run takes long are kept.
    """

    def __init__(
        self,
        graph: Graph,
        worker: Worker,
        inputs: Sequence[Tensors],
        seed: int,
        given: Collection[str],
        count: int | None,
        patient: bool,
    ) -> None:
        self.graph, self._worker, self._user_inputs, self._seed = graph, worker, inputs, seed
        self._given, self._count, self._patient = given, count, patient
        self._needs: dict[int, int] = {}  # elements of the inputs -> bytes
        self._failure: UserError | None = None

    @cached_property
    def _folder(self) -> Path:
        """For files, of which those of values take up to a gigabyte. It is removed when nothing refers to `self`."""
        folder = tempfile.mkdtemp(dir=self._worker.folder, prefix="original-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    def inputs_of(self, graph: Graph) -> Tensors:
        """The first run's inputs for a graph that came of the original: see `Verifier.inputs_of`."""
        return fed_inputs(self.first.inputs, self.graph, graph)

    def several_inputs_of(self, graph: Graph) -> list[Tensors]:
        """The user's inputs, or the seeded ones on which a comparison is always made, as in `inputs_of`."""
        first = self.first
        seeded = () if self._user_inputs else itertools.islice(self._further_inputs(first), USUAL - 1)
        further = [*self._user_inputs[1:], *seeded]
        return [fed_inputs(inputs, self.graph, graph) for inputs in (first.inputs, *further)]

    @cached_property
    def is_random(self) -> bool:
        """Whether the original draws random numbers. Both sides then get the same seed."""
        return is_random(self.graph)

    @cached_property
    def foreign(self) -> tuple[str, ...]:
        """Operators that nothing here runs. On both sides a function of their operands takes their place."""
        return foreign_operators(self._plain_file) if any(map(_may_be_foreign, self.graph.nodes)) else ()

    @cached_property
    def file(self) -> Path:
        """The user's file, or the export of the original if there is none; if need be a copy that can be run."""
        return self.runnable(self._plain_file, self.graph, self._folder)

    @cached_property
    def _plain_file(self) -> Path:
        if self.graph.source is not None:
            return Path(self.graph.source)
        return self._exported()

    def runnable(self, file: Path, graph: Graph, folder: Path) -> Path:
        """The file of a graph, or a copy in `folder`: with seeds, and with stand-ins for operators that do not run."""
        if self.is_random:
            file = with_seeds(file, folder)
        if not self.foreign:
            return file
        first = self.known_first
        bound = graph.copy()
        bound.dims = {**graph.dims, **(bound_dims(self.graph) if first is None else first.dims)}
        types = {**graph.types, **bound_types(bound)}
        return with_stand_ins(file, folder, lambda value: _tensor(types.get(value)))

    def _exported(self) -> Path:
        from workbench.formats.io.exporting import export_onnx

        return export_onnx(self.graph, self._folder / "original.onnx", **AS_NEEDED._asdict()).path

    @property
    def known_first(self) -> FirstRun | None:
        """The first run if it was made, else None."""
        return self.__dict__.get("first")

    @cached_property
    def first(self) -> FirstRun:
        """Raises RunError if the original does not run, each time it is asked."""
        if self._failure is not None:
            raise self._failure
        with scratch_files():
            try:
                return self._user_run() if self._user_inputs else self._seeded_run()
            except CancelledError:
                raise
            except UserError as error:
                self._failure = error
                raise

    @cached_property
    def runs(self) -> OriginalRuns:
        """The first run and those on further inputs. Raises RunError if the original does not run."""
        first = self.first
        further = self._user_inputs[1:] if self._user_inputs else list(self._further_inputs(first))
        if first.values is not None:
            in_time = not self._user_inputs and self._count is None
            budget = _SHARE * first.seconds + _SECONDS if in_time else math.inf
            return self._record([first.inputs, *further], first.values, first.dims, budget_s=budget, known=1)
        outputs = [self.outputs(self.file, inputs, first.dims).tensors for inputs in self._user_inputs[1:]]
        return OriginalRuns((first.inputs, *self._user_inputs[1:]), (first.outputs, *outputs))

    @cached_property
    def inner_values(self) -> InnerValues:
        """Which values are recorded, and the sizes of those that are too large for it."""
        return inner_values(self.graph, self.first.dims)

    def plain_outputs(self, runs: OriginalRuns) -> tuple[Tensors, ...]:
        """The outputs of these runs without values recorded.

        On a CPU ONNX Runtime computes float16 in float32 between Casts, of which it leaves out what no output needs: a
        value that is recorded is rounded, and what follows from it too.
        """
        return self._all_plain_outputs[runs.number : runs.number + len(runs.inputs)]

    @cached_property
    def _all_plain_outputs(self) -> tuple[Tensors, ...]:
        dims = self.first.dims
        return tuple(self.outputs(self.file, inputs, dims).tensors for inputs in self.runs.inputs)

    def _further_inputs(self, first: FirstRun) -> Iterator[Tensors]:
        if not first.inputs or first.values is None:
            return
        numbers = range(1, self._count or len(INPUT_KINDS))
        yield from inputs_of_kinds(self.graph, numbers, first.dims, self._seed, first.max_integer)

    # ---- the first run -------------------------------------------------------------------

    def _user_run(self) -> FirstRun:
        inputs = dict(self._user_inputs[0])
        return self._run(inputs, {**self.graph.dims, **dims_of(self.graph, inputs)}, RUN_LIMIT_S)

    def _seeded_run(self) -> FirstRun:
        smaller = [] if self._patient else list(smaller_dims(self.graph, self._given))
        try:
            return self._settled_run(FIRST_LIMIT_S if smaller else RUN_LIMIT_S)
        except TimeLimitError:
            if not smaller:
                raise
        for changed in smaller:
            dims = {**bound_dims(self.graph), **changed}
            try:
                found = self._run(seed_inputs(self.graph, dims, self._seed), dims, FIRST_LIMIT_S)
            except CancelledError:
                raise
            except UserError:  # it does not run with these sizes, or takes long too
                continue
            return replace(found, settled=changed)
        return self._settled_run(RUN_LIMIT_S)

    def _settled_run(self, limit_s: float) -> FirstRun:
        """The run at the present sizes, else at others with which the original runs."""
        found: list[FirstRun] = []  # the last run that succeeded; at most one
        failures: list[UserError] = []

        def run(dims: Mapping[str, int], max_integer: int = MAX_INTEGER) -> str | None:
            """The error of a run with these dims, or None."""
            try:
                inputs = seed_inputs(self.graph, dims, self._seed, max_integer)
                one = self._run(inputs, dims, TRY_LIMIT_S if failures else limit_s)
            except CancelledError:
                raise
            except UserError as error:
                if not failures and not (isinstance(error, RunError) and error.stage in ("run", EVALUATOR)):
                    raise  # another length does not help
                failures.append(error)
                return str(error)
            found[:] = [replace(one, max_integer=max_integer)]  # settle_dims keeps a change only after it has run
            return None

        settled = settle_dims(self.graph, run, self._given)
        dims = {**bound_dims(self.graph), **settled}
        note = ""
        for max_integer in SMALLER_INTEGERS if not found and failures else ():
            if run(dims, max_integer) is None:
                note = f" Integers in the inputs are at most {max_integer}: the original fails with larger ones."
                break
        if not found:
            raise failures[0]
        return replace(found[0], dims=dims, settled=settled, note=note)

    def _run(self, inputs: Tensors, dims: Mapping[str, int], limit_s: float) -> FirstRun:
        """A run on these inputs, its values recorded where that is possible."""
        start = time.monotonic()
        if not uses_random_numbers(self.graph):
            values = inner_values(self.graph, dims).recorded
            try:
                recorded = self._record([inputs], values, dims, limit_s)
                return FirstRun(inputs, recorded.outputs[0], dims, values, seconds=time.monotonic() - start)
            except RunError as error:
                if error.stage == "process" or NODE_FAILED in str(error):
                    raise
                # The plain run says what is wrong, if that was not the recording.
        outputs = self.outputs(self.file, inputs, dims, limit_s)
        return FirstRun(inputs, outputs.tensors, dims, run_by=outputs.by, seconds=time.monotonic() - start)

    def outputs(self, file: Path, inputs: Tensors, dims: Mapping[str, int], limit_s: float = RUN_LIMIT_S) -> Outputs:
        """The outputs of a file that has the original's weights and sizes."""
        need, anew = self.need_bytes(inputs, dims), uses_random_numbers(self.graph)
        return self._worker.outputs(file, inputs, anew=anew, need_bytes=need, timeout_s=limit_s)

    def need_bytes(self, inputs: Tensors, dims: Mapping[str, int]) -> int:
        """The memory of a run, estimated again only for more elements of the inputs than before.

        Raises DoesNotFitError if less is free.
        """
        elements = sum(tensor.size for tensor in inputs.values())
        larger = [need for known, need in self._needs.items() if known >= elements]
        if not larger:
            larger = [self._needs.setdefault(elements, estimate_bytes(self.graph, dims))]
        refuse_unless_fits(min(larger), f"'{self.graph.name}'")
        return min(larger)

    # ---- recorded ------------------------------------------------------------------------

    def _record(
        self,
        inputs: Sequence[Tensors],
        values: Sequence[str],
        dims: Mapping[str, int],
        limit_s: float = RUN_LIMIT_S,
        budget_s: float = 0.0,
        known: int = 0,
    ) -> OriginalRuns:
        """Runs on some of these inputs, the first among them: those that ran within the budget.

        known: how many of them the last call has run.
        """
        kinds = ("inputs", "outputs", "tensors")
        files = {kind: [self._folder / f"{kind}-{number}" for number in range(len(inputs))] for kind in kinds}
        for file, tensors in zip(files["inputs"], inputs, strict=True):
            save_tensors(file, tensors)
        answer = self._worker.request(
            "record_values",
            model=str(self.file.resolve()),
            values=list(values),
            channels=axes_of_channels(self.graph, values),
            inputs=[str(file) for file in files["inputs"]],
            outputs=[str(file) for file in files["outputs"]],
            recorded=[str(file) for file in files["tensors"]],
            usual=len(inputs) if budget_s == math.inf else USUAL,
            known=known,
            seconds=1e9 if budget_s == math.inf else budget_s,
            timeout_s=limit_s,
            need_bytes=self.need_bytes(inputs[0], dims),
        )
        kept = answer["kept"]
        used = {kind: tuple(paths[number] for number in kept) for kind, paths in files.items()}
        outputs = tuple(map(load_tensors, used["outputs"]))
        channels = answer["alive"], answer["channels"]
        ran = tuple(inputs[number] for number in kept)
        return OriginalRuns(ran, outputs, tuple(values), used["inputs"], used["tensors"], *channels)
