"""The open model through every optimizer that is here, ours among them: what each leaves, takes, and computes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.api import DEFAULT_TARGET, export, load, optimize
from workbench.errors import UserError
from workbench.external.running import ToolCall, ToolError, ToolRun
from workbench.external.tool_pass import ToolPass
from workbench.ir import Graph
from workbench.metrics.nodes import count_nodes
from workbench.registry.pass_registry import library
from workbench.rewrite import with_options
from workbench.run.measurement.formatting import figures
from workbench.run.tools import convert_file

if TYPE_CHECKING:
    from workbench.run.compare import Verdict
    from workbench.run.measurement.measured import FailedVariant, MeasuredVariant
    from workbench.run.profiling.progress import OnShare
    from workbench.verification.verifier import Verifier

ORIGINAL, OURS = "original", "Graph Workbench"
_LEVELS = ("basic", "extended", "all")  # of ONNX Runtime's optimizer
_LIMIT_S, _LIMIT_BYTES = 300, 16 * 10**9


class RivalsError(UserError):
    """There is no tool of that name, or the model has no file for the tools to read."""


@dataclass(frozen=True)
class Ours:
    """Our preset `simplify` as a tool: from file to file, without verification, in a process like the others'."""

    def convert(self, source: Path, target: Path) -> None:
        export(optimize(load(source), preset="simplify", target=DEFAULT_TARGET).graph, target)


@dataclass(frozen=True)
class Rival:
    """One tool, as the user chooses it, and how to run it; `call` is None for the model as it is."""

    name: str
    version: str
    call: ToolCall | None
    missing: str = ""

    @property
    def file_stem(self) -> str:
        """Its name as part of a file's."""
        return re.sub(r"\W", "_", self.name)


@dataclass(frozen=True)
class RivalResult:
    """What one tool made of the model.

    file, graph: its result; None if there is none, and `failed` says why.
    run:         from the call to the file written, the import of the tool counted in; None for the original.
    verdict:     whether its file computes what the original computes; None if it could not be opened.
    blamed:      if it is wrong, its optimizers without any one of which it is right, where they can be switched off.
    latency:     of its result in ONNX Runtime with all optimizations, by turns with the others.
    """

    rival: Rival
    file: Path | None = None
    graph: Graph | None = None
    run: ToolRun | None = None
    verdict: Verdict | None = None
    latency: MeasuredVariant | FailedVariant | None = None
    failed: str = ""
    blamed: tuple[str, ...] = ()

    @cached_property
    def nodes(self) -> int | None:
        """Operators, those of bodies and functions too."""
        if self.graph is None:
            return None
        return sum(map(count_nodes, (self.graph, *(function.graph for function in self.graph.functions.values()))))

    @property
    def wrong(self) -> str:
        """What is wrong with its result; "" if nothing is known to be."""
        if self.verdict is None or self.verdict.ok is not False:
            return ""
        without = f" It is right without {' or '.join(self.blamed)}." if self.blamed else ""
        return f"{self.verdict.sentence}{without}"

    @property
    def is_faulty(self) -> bool:
        """Whether the tool ran, and failed or gave a wrong result; not being installed is no fault."""
        return self.rival.call is not None and not self.rival.missing and bool(self.failed or self.wrong)

    def row(self) -> dict[str, Any]:
        """As `rivals --json` prints it."""
        row = {} if self.latency is None else figures(self.latency)
        return {
            "tool": self.rival.name,
            "version": self.rival.version,
            "nodes": self.nodes,
            "seconds": None if self.run is None else round(self.run.seconds, 3),
            "peak_bytes": None if self.run is None else self.run.peak_bytes,
            "max_rel_error": None if self.verdict is None else self.verdict.max_rel_error,
            "equal": None if self.verdict is None else self.verdict.ok,
            "failed": self.failed or row.get("failed") or self.wrong or None,
            "median_ms": row.get("median_ms"),
        }


def rivals_here() -> list[Rival]:
    """The model as it is, ours, and every tool; a tool that is not installed says so."""
    ours = ToolCall(OURS, Ours.__module__, Ours.__qualname__, {}, _LIMIT_S, _LIMIT_BYTES)
    results = [Rival(ORIGINAL, "", None), Rival(OURS, _own_version(), ours)]
    for name, cls in tools().items():
        results += [_rival(name, cls, level) for level in (_LEVELS if "level" in cls.option_fields() else ("",))]
    return results


def tools() -> dict[str, type[ToolPass]]:
    """The optimizers of others among the passes, by name."""
    return {name: cls for name, cls in library.all_passes().items() if issubclass(cls, ToolPass)}


def _own_version() -> str:
    try:
        return metadata.version("graph-workbench")
    except metadata.PackageNotFoundError:
        return ""  # it runs in its folder


def _rival(name: str, cls: type[ToolPass], level: str) -> Rival:
    pass_ = with_options(cls, {"level": level} if level else {})
    missing = cls.missing()
    label = f"{name}:{level}" if level else name
    return Rival(label, "" if missing else cls.version(), pass_.call, missing)


def chosen_rivals(names: Sequence[str] | None) -> list[Rival]:
    """Those of these names, the original first; all for None. Raises RivalsError."""
    every = rivals_here()
    known = {rival.name: rival for rival in every}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise RivalsError(f"there is no tool '{unknown[0]}'; there are: {', '.join(known)}")
    return every if names is None else [known[name] for name in dict.fromkeys((ORIGINAL, *names))]


def compare_rivals(
    graph: Graph,
    rivals: Sequence[Rival],
    folder: Path,
    verifier: Verifier,
    *,
    repeat: int | None = None,
    measure: bool = True,
    on_share: OnShare = lambda words, share: None,
    is_enough: Callable[[], bool] = lambda: False,
    found: dict[str, RivalResult] | None = None,
) -> dict[str, RivalResult]:
    """Run each tool on the model's file, one after the other, compare its result, and measure all by turns.

    folder:   for the files that the tools write.
    repeat:   runs of each that count; None: until the medians are known.
    on_share: is called with the progress in words and from 0 to 1, also while a tool runs; may raise to stop.
    is_enough: once true, no further tool is run, and the measured runs so far are all.
    found:    is filled and returned; what it has, from a call that was stopped, is not made again.
    """
    if graph.source is None:
        raise RivalsError("the model has no file that a tool could read; export it and open the file")
    found = {} if found is None else found
    for index, rival in enumerate(rivals):
        if rival.name not in found and not is_enough():
            words = f"{rival.name} ({index + 1} of {len(rivals)})"
            hear = _heard(on_share, words, index / (len(rivals) + measure))
            found[rival.name] = _ran(graph, rival, folder, verifier, hear)
    if measure:
        _measure(found, verifier, repeat, on_share, is_enough)
    return found


def _heard(on_share: OnShare, words: str, share: float) -> Callable[[], None]:
    return lambda: on_share(words, share)


def _ran(graph: Graph, rival: Rival, folder: Path, verifier: Verifier, hear: Callable[[], None]) -> RivalResult:
    hear()
    source = Path(str(graph.source))
    if rival.call is None:
        return RivalResult(rival, source, graph, verdict=verifier.check_file(graph, source))
    if rival.missing:
        return RivalResult(rival, failed=rival.missing)
    own = folder / rival.file_stem
    own.mkdir(parents=True, exist_ok=True)
    target = own / f"{source.stem}.onnx"
    try:
        run = convert_file(source, target, rival.call, hear)
    except ToolError as error:
        return RivalResult(rival, failed=str(error))
    result = RivalResult(rival, run=run)
    try:
        after = load(target)
    except UserError as error:
        return replace(result, failed=f"its result cannot be opened: {error}")
    result = replace(result, file=target, graph=after, verdict=verifier.check_file(after, target))
    wrong = result.verdict is not None and result.verdict.ok is False
    return replace(result, blamed=_blamed(result, source, own, verifier, hear)) if wrong else result


def _blamed(
    result: RivalResult, source: Path, folder: Path, verifier: Verifier, hear: Callable[[], None]
) -> tuple[str, ...]:
    """The parts of the tool without any one of which its result is right, found by switching off one at a time."""
    call, run = result.rival.call, result.run
    if call is None or run is None or "without" not in call.fields:
        return ()
    results = []
    for name in tools()[result.rival.name.partition(":")[0]].switches(run.said):
        target = folder / f"without_{name}.onnx"
        try:
            convert_file(source, target, replace(call, fields={**call.fields, "without": name}), hear)
            if verifier.check_file(load(target), target).ok:
                results.append(name)
        except UserError:
            continue
        finally:
            target.unlink(missing_ok=True)
    return tuple(results)


def _measure(
    results: dict[str, RivalResult],
    verifier: Verifier,
    repeat: int | None,
    on_share: OnShare,
    is_enough: Callable[[], bool],
) -> None:
    """Add the latencies of what can be opened and takes the original's inputs."""
    from workbench.run.measurement.measure import measure_models

    inputs = {*verifier.original.inputs}
    opened = {name: result.graph for name, result in results.items()}
    graphs = {name: graph for name, graph in opened.items() if graph is not None and {*graph.inputs} == inputs}
    measured = measure_models(
        graphs,
        inputs=verifier.inputs,
        reference=verifier.reference,
        backend="onnxruntime",
        repeat=repeat,
        worker=verifier.worker,
        on_progress=lambda event: on_share(event["stage"], event["done"] / max(event["total"], 1)),
        is_enough=is_enough,
    )
    for name, variant in measured.variants.items():
        results[name] = replace(results[name], latency=variant)
