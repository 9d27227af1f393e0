"""Runs a tool on a graph in a separate process, with limits, and compares the result value by value."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from workbench.backends.failures import EVALUATOR
from workbench.backends.memory import available_bytes, in_gigabytes
from workbench.backends.randomness import is_random
from workbench.backends.tensors import save_tensors
from workbench.errors import UserError
from workbench.formats.io.checks import SHOWN_NOT_RUN
from workbench.formats.io.errors import LoadError
from workbench.formats.io.exporting import export_onnx
from workbench.formats.io.onnx_file import load_onnx
from workbench.formats.opsets.written import NEWEST
from workbench.ir import Graph
from workbench.ir.text import OPSET
from workbench.rewrite.external.quantizer_pass import CALIBRATION
from workbench.rewrite.external.tool_call import ToolCall, ToolError, ToolResult, ToolRun
from workbench.run.calibration import RunInputs, write_calibration
from workbench.run.inputs import seed_inputs
from workbench.run.runnable_dims import settle_dims
from workbench.run.tolerances import tolerances_for
from workbench.run.worker.process import CancelledError, Limits, RunError, WorkerProcess

COMPARE_LIMIT_S = 300.0


def run_tool(
    graph: Graph, call: ToolCall, check_cancelled: Callable[[], None], run_inputs: RunInputs | None = None
) -> ToolResult:
    """Run the tool on the graph's export, in a separate process. Raises ToolError.

    check_cancelled: is called ten times a second, and may raise to stop.
    run_inputs: for calibration; None: seeded ones.
    """
    with _own_process(check_cancelled) as (ask, folder):
        source, target = folder / "model.onnx", folder / "result" / "model.onnx"
        target.parent.mkdir()
        export_onnx(graph, source, check=False, opset=NEWEST)
        calibrated = ""
        if call.calibration is not None:
            inputs = run_inputs or RunInputs()
            calibrated = write_calibration(graph, call.calibration, inputs, folder / CALIBRATION)
        tool_run = ask.to_convert(call, source, target)
        tool_run = replace(tool_run, log="; ".join(filter(None, [calibrated, tool_run.log])))
        after = _opened(target, graph.opset_imports.get("", OPSET))
        _refuse_unknown(graph, after)
        equal_values, reason = None, ""
        if not call.keeps_names:
            equal_values, reason = _same_values(ask, graph, after, [source, target])
    return ToolResult(after, tool_run, equal_values, reason)


def convert_file(source: Path, target: Path, call: ToolCall, check_cancelled: Callable[[], None]) -> ToolRun:
    """Run the tool on a file, in a separate process. Raises ToolError."""
    with _own_process(check_cancelled) as (ask, _):
        return ask.to_convert(call, source, target)


def _opened(target: Path, newest: int) -> Graph:
    """What the tool wrote. Raises ToolError if it is no valid model."""
    try:
        return load_onnx(target, newest=newest)
    except LoadError as error:
        raise ToolError(f"its result is no valid model: {error}") from error


@contextmanager
def _own_process(check_cancelled: Callable[[], None]) -> Iterator[tuple[_Client, Path]]:
    """A process that ends with the block, and a folder. A UserError of the block becomes a ToolError."""
    with tempfile.TemporaryDirectory(prefix="workbench-tool-") as folder:
        process = WorkerProcess(Path(folder) / "tool.log")
        try:
            yield _Client(process, check_cancelled), Path(folder)
        except CancelledError:
            raise
        except UserError as error:
            raise ToolError(str(error)) from error
        finally:
            process.kill()


def _refuse_unknown(before: Graph, after: Graph) -> None:
    """Raises ToolError for operators that the tool added and that cannot be run."""
    unknown = next(
        (warning for warning in after.warnings if SHOWN_NOT_RUN in warning and warning not in before.warnings), None
    )
    if unknown is not None:
        raise ToolError(f"its result cannot be run{unknown.removeprefix(SHOWN_NOT_RUN)}")


@dataclass(frozen=True)
class _Client:
    """Sends requests to the process. Raises RunError if it answers with an error."""

    process: WorkerProcess
    check_cancelled: Callable[[], None]

    def __call__(self, limits: Limits, **message: Any) -> dict[str, Any]:
        request = {"device": "cpu", "memory_limit_bytes": limits.memory_bytes, **message}
        answer = self.process.ask(request, limits=limits, check_cancelled=self.check_cancelled)
        if "error" in answer:
            raise RunError(answer["error"], answer.get("stage", "run"))
        result: dict[str, Any] = answer["result"]
        return result

    def to_convert(self, call: ToolCall, source: Path, target: Path) -> ToolRun:
        names = {"module": call.module, "factory": call.factory, "fields": dict(call.fields)}
        files = {"source": str(source.resolve()), "target": str(target.resolve())}
        return ToolRun(**self(Limits(call.seconds, call.memory_bytes), kind="tool", **names, **files))


def _same_values(
    ask: _Client, before: Graph, after: Graph, files: Sequence[Path]
) -> tuple[Mapping[str, str] | None, str]:
    """The values of `after` that equal one of `before`, by name; None with the reason if they cannot be compared."""
    if is_random(before):
        return None, "the model draws random numbers"
    values = [_tensors(graph) for graph in (before, after)]
    values[1] += [value for value in values[0] if value in after.constants]
    needed, free = sum(map(_bytes_of, (before, after), values)), available_bytes()
    if needed > free // 2:
        return None, f"they take {in_gigabytes(needed)}, and {in_gigabytes(free)} of memory are free"
    tolerances, inputs = tolerances_for(before), files[0].with_name("inputs.npz")
    results: list[Mapping[str, str]] = []
    failures: list[str] = []

    def compare(dims: Mapping[str, int]) -> str | None:
        save_tensors(inputs, seed_inputs(before, dims))
        try:
            answer = ask(
                Limits(COMPARE_LIMIT_S),
                kind="same_values",
                models=[str(file) for file in files],
                inputs=str(inputs),
                values=values,
                tolerances={value: asdict(tolerances[value]) for value in values[0]},
            )
        except RunError as error:
            if error.stage not in ("run", EVALUATOR):  # other lengths do not help
                raise
            failures.append(str(error))
            return str(error)
        results.append(answer["same"])
        return None

    try:
        settle_dims(before, compare)
    except CancelledError:
        raise
    except UserError as error:
        return None, str(error)
    return (results[-1], "") if results else (None, failures[0])


def _tensors(graph: Graph) -> list[str]:
    """The tensors that the graph computes."""
    return [v for node in graph.nodes for v in node.outputs if v and graph.tensor_type(v) is not None]


def _bytes_of(graph: Graph, values: Sequence[str]) -> int:
    """The bytes of these values together, as far as known."""
    types = (graph.bound_types.get(value) or graph.tensor_type(value) for value in values)
    return sum(type_.bytes or 0 for type_ in types if type_ is not None)
