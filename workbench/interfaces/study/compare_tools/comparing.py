"""Runs the installed optimizers, ours among them, on one model, and compares nodes, time, memory and results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.analysis.metrics.nodes import count_nodes
from workbench.errors import UserError
from workbench.interfaces.api import export, load, optimize
from workbench.ir import Graph
from workbench.pipeline.registry.pass_registry import library
from workbench.planning.layout.profile import machine_target
from workbench.rewrite import Exactness, with_options
from workbench.rewrite.external.tool_call import ToolCall, ToolError, ToolRun
from workbench.rewrite.external.tool_pass import ToolPass
from workbench.run.measurement.formatting import figures
from workbench.run.measurement.measurement_result import FailedVariant, MeasuredVariant
from workbench.run.measurement.notes import busy_notes
from workbench.run.tools import convert_file

if TYPE_CHECKING:
    from workbench.backends.profiling.progress import ProgressCallback
    from workbench.evidence.verification.verifier import Verifier
    from workbench.run.compare import Verdict

ORIGINAL, OURS = "original", "Graph Workbench"
_LEVELS = ("basic", "extended", "all")  # levels of ONNX Runtime's optimizer
_LATENCY = ("median_ms", "min_ms", "ratio", "ratio_low", "ratio_high", "ratio_busy")
_LIMIT_S, _LIMIT_BYTES = 300, 16 * 10**9


class CompareError(UserError):
    """There is no tool of that name, or the model has no file that the tools could read."""


@dataclass(frozen=True)
class Ours:
    """Our preset `simplify` as a tool: it converts a file to a file, without verification, in its own process."""

    def convert(self, source: Path, target: Path) -> None:
        export(optimize(load(source), preset="simplify", target=machine_target()).graph, target)


@dataclass(frozen=True)
class ComparedTool:
    """A tool to compare.

    call:    how to run it; None: the original model, which no tool changes.
    missing: why the tool cannot run here, such as that it is not installed; "" if it can.
    """

    name: str
    version: str
    call: ToolCall | None
    missing: str = ""

    @property
    def file_stem(self) -> str:
        """The tool's name in names of files."""
        return re.sub(r"\W", "_", self.name)


@dataclass(frozen=True)
class ToolOutcome:
    """The result of one tool on the model.

    file, graph: the tool's output; None if there is none, and `failed` says why.
    run:         time and memory from the call to the written file, with the tool's import; None for the original.
    verdict:     whether the output computes what the original computes; None if it could not be opened.
    blamed:      if an output is wrong: each optimizer of the tool that, switched off alone, makes the output right.
    latency:     the latency of the output in ONNX Runtime with all optimizations, interleaved with the others.
    """

    tool: ComparedTool
    file: Path | None = None
    graph: Graph | None = None
    run: ToolRun | None = None
    verdict: Verdict | None = None
    latency: MeasuredVariant | FailedVariant | None = None
    failed: str = ""
    blamed: tuple[str, ...] = ()

    @cached_property
    def nodes(self) -> int | None:
        """Number of operators, with those in subgraphs and functions."""
        if self.graph is None:
            return None
        return sum(map(count_nodes, (self.graph, *(function.graph for function in self.graph.functions.values()))))

    @property
    def wrong(self) -> str:
        """What is wrong with the output, as a sentence; "" if no fault is known."""
        if self.verdict is None or self.verdict.ok is not False:
            return ""
        without = f" It is right without {' or '.join(self.blamed)}." if self.blamed else ""
        return f"{self.verdict.sentence}{without}"

    @property
    def is_faulty(self) -> bool:
        """Whether the tool ran, and failed or gave a wrong result."""
        return self.tool.call is not None and not self.tool.missing and bool(self.failed or self.wrong)

    def row(self) -> dict[str, Any]:
        """The row of `compare-tools --json`."""
        row = {} if self.latency is None else figures(self.latency)
        return {
            "tool": self.tool.name,
            "version": self.tool.version,
            "nodes": self.nodes,
            "seconds": None if self.run is None else round(self.run.seconds, 3),
            "peak_bytes": None if self.run is None else self.run.peak_bytes,
            "max_rel_error": None if self.verdict is None else self.verdict.max_rel_error,
            "equal": None if self.verdict is None else self.verdict.ok,
            "failed": self.failed or row.get("failed") or self.wrong or None,
            **{name: row.get(name) for name in _LATENCY},
        }


def notes_on(results: Mapping[str, ToolOutcome]) -> list[str]:
    """The notes on latencies that were measured on a busy machine."""
    latencies = {name: result.latency for name, result in results.items()}
    return busy_notes({name: one for name, one in latencies.items() if isinstance(one, MeasuredVariant)})


def comparable_tools() -> list[ComparedTool]:
    """The original, our preset, and every known tool; `missing` says which are not installed."""
    call = ToolCall(OURS, Ours.__module__, Ours.__qualname__, {}, _LIMIT_S, _LIMIT_BYTES)
    results = [ComparedTool(ORIGINAL, "", None), ComparedTool(OURS, _own_version(), call)]
    for name, cls in tools().items():
        results += [
            _compared_tool(name, cls, level) for level in (_LEVELS if "level" in cls.option_fields() else ("",))
        ]
    return results


def tools() -> dict[str, type[ToolPass]]:
    """The passes that run optimizers of other projects, by name; converters and quantizers change what is computed."""
    found = {name: cls for name, cls in library.all_passes().items() if issubclass(cls, ToolPass)}
    return {name: cls for name, cls in found.items() if cls.exactness is Exactness.ROUNDING}


def _own_version() -> str:
    try:
        return metadata.version("graph-workbench")
    except metadata.PackageNotFoundError:
        return ""  # it runs from a checkout and is not installed


def _compared_tool(name: str, cls: type[ToolPass], level: str) -> ComparedTool:
    pass_ = with_options(cls, {"level": level} if level else {})
    missing = cls.missing()
    label = f"{name}:{level}" if level else name
    return ComparedTool(label, "" if missing else cls.version(), pass_.call, missing)


def chosen_tools(names: Sequence[str] | None) -> list[ComparedTool]:
    """The tools of these names, the original first; None: all tools. Raises CompareError."""
    compared = comparable_tools()
    known = {tool.name: tool for tool in compared}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise CompareError(f"there is no tool '{unknown[0]}'; there are: {', '.join(known)}")
    return compared if names is None else [known[name] for name in dict.fromkeys((ORIGINAL, *names))]


def compare_tools(
    graph: Graph,
    compared: Sequence[ComparedTool],
    folder: Path,
    verifier: Verifier,
    *,
    repeat: int | None = None,
    measure: bool = True,
    on_progress: ProgressCallback = lambda text, share: None,
    is_enough: Callable[[], bool] = lambda: False,
    results: dict[str, ToolOutcome] | None = None,
) -> dict[str, ToolOutcome]:
    """Run each tool on the model's file, one after the other, compare its output, and measure all interleaved.

    folder:    for the files that the tools write.
    repeat:    number of measured runs of each; None: as many as the medians need.
    on_progress:  is called with a text and the fraction done, from 0 to 1, also while a tool runs; may raise to stop.
    is_enough: once true, no further tool is run, and measuring ends.
    results:   the results of an earlier, stopped call by tool; it is completed and returned.
    """
    if graph.source is None:
        raise CompareError("the model has no file that a tool could read; export it and open the file")
    results = {} if results is None else results
    for index, tool in enumerate(compared):
        if tool.name not in results and not is_enough():
            message = f"{tool.name} ({index + 1} of {len(compared)})"
            report = _reporter(on_progress, message, index / (len(compared) + measure))
            results[tool.name] = _result_of(graph, tool, folder, verifier, report)
    if measure:
        _measure(results, verifier, repeat, on_progress, is_enough)
    return results


def _reporter(on_progress: ProgressCallback, message: str, share: float) -> Callable[[], None]:
    return lambda: on_progress(message, share)


def _result_of(
    graph: Graph, tool: ComparedTool, folder: Path, verifier: Verifier, report: Callable[[], None]
) -> ToolOutcome:
    report()
    source = Path(str(graph.source))
    if tool.call is None:
        return ToolOutcome(tool, source, graph, verdict=verifier.check_file(graph, source))
    if tool.missing:
        return ToolOutcome(tool, failed=tool.missing)
    output_folder = folder / tool.file_stem
    output_folder.mkdir(parents=True, exist_ok=True)
    target = output_folder / f"{source.stem}.onnx"
    try:
        run = convert_file(source, target, tool.call, report)
    except ToolError as error:
        return ToolOutcome(tool, failed=str(error))
    result = ToolOutcome(tool, run=run)
    try:
        after = load(target)
    except UserError as error:
        return replace(result, failed=f"its result cannot be opened: {error}")
    result = replace(result, file=target, graph=after, verdict=verifier.check_file(after, target))
    wrong = result.verdict is not None and result.verdict.ok is False
    return replace(result, blamed=_blamed(result, source, output_folder, verifier, report)) if wrong else result


def _blamed(
    result: ToolOutcome, source: Path, folder: Path, verifier: Verifier, report: Callable[[], None]
) -> tuple[str, ...]:
    """The optimizers of the tool each of which, switched off alone, makes the tool's output right."""
    call, run = result.tool.call, result.run
    if call is None or run is None or "without" not in call.fields:
        return ()
    blamed = []
    for name in tools()[result.tool.name.partition(":")[0]].switches(run.log):
        target = folder / f"without_{name}.onnx"
        try:
            convert_file(source, target, replace(call, fields={**call.fields, "without": name}), report)
            if verifier.check_file(load(target), target).ok:
                blamed.append(name)
        except UserError:
            continue
        finally:
            target.unlink(missing_ok=True)
    return tuple(blamed)


def _measure(
    results: dict[str, ToolOutcome],
    verifier: Verifier,
    repeat: int | None,
    on_progress: ProgressCallback,
    is_enough: Callable[[], bool],
) -> None:
    """Add the latencies to results whose model can be opened and has the original's inputs."""
    from workbench.run.measurement.measure import measure_models

    inputs = {*verifier.original.inputs}
    outputs = {name: result.graph for name, result in results.items()}
    graphs = {name: graph for name, graph in outputs.items() if graph is not None and {*graph.inputs} == inputs}
    measured = measure_models(
        graphs,
        inputs=verifier.inputs,
        reference=verifier.reference,
        backend="onnxruntime",
        repeat=repeat,
        worker=verifier.worker,
        on_progress=lambda event: on_progress(event["stage"], event["done"] / max(event["total"], 1)),
        is_enough=is_enough,
    )
    for name, variant in measured.variants.items():
        results[name] = replace(results[name], latency=variant)
