"""What precision strategies ask of runs: magnitudes of values, errors of operators and of outputs.

For the magnitudes, reductions are added to the file of the graph, so that one run is enough and no value is kept.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper

from workbench.errors import UserError
from workbench.formats.io.exporting import export_onnx
from workbench.formats.opsets.written import NEWEST
from workbench.ir import Graph
from workbench.planning.precision.element_types import NARROW_TYPES
from workbench.planning.precision.fitting import MAX_TRIALS
from workbench.planning.precision.recorded import Magnitudes, NotRecordedError, OutputError, ValueRecorder
from workbench.planning.precision.rounding_everywhere import rounded_everywhere
from workbench.run.compare import compare

if TYPE_CHECKING:
    from workbench.backends.profiling.progress import ProgressCallback
    from workbench.run.inputs import Tensors
    from workbench.run.worker.client import Worker

_RUN_AS_WRITTEN = ("float16",)  # types in which ONNX Runtime runs operators on a CPU, some of them in float32
_PREFIX = "workbench_magnitude"


class RunRecorder(ValueRecorder):
    """Runs graphs in ONNX Runtime, without optimizations.

    worker: the process that runs it; a new one if None.
    inputs_of: the inputs of a graph, of one run or several, of which errors are the largest. None: seeded ones, of the
               kinds on which results are always verified.
    on_progress: called before each trial of an error; may raise to stop.
    """

    def __init__(
        self,
        worker: Worker | None = None,
        inputs_of: Callable[[Graph], Sequence[Tensors]] | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> None:
        self._worker, self._inputs_of, self._on_progress = worker, inputs_of, on_progress

    def record(self, graph: Graph, values: Collection[str]) -> Mapping[str, Magnitudes]:
        with self._running(graph) as (worker, inputs), tempfile.TemporaryDirectory(dir=worker.folder) as folder:
            file = _exported(graph, folder)
            measured = add_magnitudes(file, values)
            tensors = worker.outputs(file, inputs[0]).tensors
        pairs = ((tensors[f"{_PREFIX}_{i}_largest"], tensors[f"{_PREFIX}_{i}_smallest"]) for i in range(len(measured)))
        return {value: _magnitudes(*pair) for value, pair in zip(measured, pairs, strict=True)}

    def errors_alone(self, graph: Graph, narrow: str) -> Mapping[str, float]:
        from workbench.run.precision_effects import precision_effects

        largest: dict[str, float] = {}
        with self._running(graph) as (worker, inputs):
            for tensors in inputs:
                for effect in precision_effects(graph, narrow, inputs=tensors, worker=worker):
                    largest[effect.node] = float(np.maximum(largest.get(effect.node, 0.0), effect.alone))  # or NaN
        return largest

    def output_error(self, graph: Graph, narrow: str) -> OutputError:
        rounded = partial(rounded_everywhere, narrow=NARROW_TYPES[narrow])
        return self._error(graph, [rounded, _as_written] if narrow in _RUN_AS_WRITTEN else [rounded])

    def error_as_written(self, graph: Graph) -> OutputError:
        """The same, without roundings that the other form does not have itself."""
        return self._error(graph, [_as_written])

    def _error(self, graph: Graph, forms: Sequence[Callable[[Graph], Graph]]) -> OutputError:
        """forms: what is run of another form of the graph; the error is the largest of them."""
        with self._running(graph) as (worker, inputs), tempfile.TemporaryDirectory(dir=worker.folder) as folder:
            file = _exported(graph, folder)
            expected = [worker.outputs(file, tensors, anew=True).tensors for tensors in inputs]
        runs, numbers = list(itertools.product(range(len(forms)), range(len(inputs)))), itertools.count(1)

        def error(other: Graph, limit: float = math.inf) -> float:
            number = next(numbers)
            if self._on_progress is not None:
                text = f"run {number} of at most {MAX_TRIALS}, with other operators in float32"
                self._on_progress(text, min(number / MAX_TRIALS, 1.0))
            files: dict[int, Path] = {}
            largest = 0.0
            with self._running(other) as (worker, inputs), tempfile.TemporaryDirectory(dir=worker.folder) as folder:
                for run in list(runs):
                    form, place = run
                    if form not in files:
                        (Path(folder) / str(form)).mkdir()
                        files[form] = _exported(forms[form](other), f"{folder}/{form}")
                    outputs = worker.outputs(files[form], inputs[place], anew=True).tensors
                    largest = max(largest, _relative_error(expected[place], outputs))
                    if largest > limit:
                        runs.remove(run)
                        runs.insert(0, run)  # where the next one is refuted soonest
                        break
            return largest

        return OutputError(error, len(inputs))

    @contextmanager
    def _running(self, graph: Graph) -> Iterator[tuple[Worker, Sequence[Tensors]]]:
        """The process that runs a graph, and its inputs. A UserError in the block becomes a NotRecordedError."""
        from workbench.run.input_kinds import USUAL  # other passes need none of these
        from workbench.run.inputs import inputs_of_kinds
        from workbench.run.worker.client import Worker
        from workbench.run.worker.process import CancelledError

        worker = self._worker or Worker()
        try:
            given = self._inputs_of
            yield worker, list(inputs_of_kinds(graph, range(USUAL))) if given is None else given(graph)
        except CancelledError:
            raise
        except UserError as error:
            raise NotRecordedError(str(error)) from error
        finally:
            if self._worker is None:
                worker.close()


def _as_written(graph: Graph) -> Graph:
    return graph


def _relative_error(expected: Tensors, actual: Tensors) -> float:
    """Of all outputs; infinite where one differs in shape or type, or is not finite elsewhere."""
    compared = compare(expected, actual)
    comparable = all(output.max_rel is not None for output in compared.outputs)
    return (compared.max_rel_error or 0.0) if comparable else math.inf


def _exported(graph: Graph, folder: str) -> Path:
    return Path(export_onnx(graph, Path(folder) / "model.onnx", check=False, opset=NEWEST).path)


def add_magnitudes(file: Path, values: Collection[str]) -> list[str]:
    """Replace the outputs of a model's file by two scalars for each of these values that it has, which are returned.

    Its weights stay where they are.
    """
    model = onnx.load(file, load_external_data=False)
    graph = model.graph
    computed = {value for node in graph.node for value in node.output} | {value.name for value in graph.input}
    measured = [value for value in values if value in computed]
    infinity = helper.make_tensor(f"{_PREFIX}_infinity", TensorProto.FLOAT, (), [np.inf])
    zero = helper.make_tensor(f"{_PREFIX}_zero", TensorProto.FLOAT, (), [0.0])
    graph.initializer.extend([infinity, zero])
    del graph.output[:]
    for index, value in enumerate(measured):
        graph.node.extend(_reductions(value, f"{_PREFIX}_{index}"))
        names = (f"{_PREFIX}_{index}_largest", f"{_PREFIX}_{index}_smallest")
        graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, ()) for name in names)
    onnx.save(model, file)
    return measured


def _reductions(value: str, name: str) -> Iterator[onnx.NodeProto]:
    yield helper.make_node("Cast", [value], [f"{name}_float"], to=TensorProto.FLOAT)
    yield helper.make_node("Abs", [f"{name}_float"], [f"{name}_abs"])
    yield helper.make_node("ReduceMax", [f"{name}_abs"], [f"{name}_largest"], keepdims=0)
    yield helper.make_node("Greater", [f"{name}_abs", f"{_PREFIX}_zero"], [f"{name}_positive"])
    positive = [f"{name}_positive", f"{name}_abs", f"{_PREFIX}_infinity"]
    yield helper.make_node("Where", positive, [f"{name}_of_positive"])
    yield helper.make_node("ReduceMin", [f"{name}_of_positive"], [f"{name}_smallest"], keepdims=0)


def _magnitudes(largest: np.ndarray, smallest: np.ndarray) -> Magnitudes:
    return Magnitudes(float(largest), float(smallest) if np.isfinite(smallest) else None)
