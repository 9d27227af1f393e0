"""The library's verbs. Where they take a graph, they take the path of a file too.

import workbench as wb
graph = wb.load("model.onnx", dims={"N": 1})
history = wb.optimize(graph, ["fold_batchnorm", "layout_greedy"], target="cuda")
history[1].rewrites[0].sentence
wb.verify(graph, history.graph), wb.gain(history)
wb.measure({"before": graph, "after": history.graph}, device="cuda")
wb.compile(history.graph, device="cuda")(images)
wb.export(history.graph, "model.opt.onnx")
wb.package(history.graph, "model.opt.pt2", device="cuda")
wb.report(history, "report.html")
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.formats.io import Model, graph_of
from workbench.ir import Graph
from workbench.ir.display import notebook_html
from workbench.pipeline.pipeline import Fixpoint as Fixpoint
from workbench.pipeline.pipeline import Pipeline as Pipeline
from workbench.pipeline.registry.contexts import pass_context
from workbench.pipeline.registry.pass_choice import DEFAULT_PRESET, FIX, Passes, choose, leaves_out
from workbench.pipeline.registry.pass_registry import library
from workbench.pipeline.repeat import Repeat
from workbench.pipeline.run_limits import limits_of
from workbench.pipeline.running import OnProgress, branch, extend, run_pipeline, start
from workbench.planning.layout.profile import Profile, load_profile, machine_target, profile_names
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.rewrite import DEFAULT_MODE, Excluded, History, Pass, PassContext
from workbench.rewrite.core.exactness import EXACT, FAST
from workbench.support.files import write_text
from workbench.support.options import check_options

if TYPE_CHECKING:
    import numpy as np
    from graphviz import Digraph
    from onnx import ModelProto

    from workbench.backends.profiling.progress import ProgressCallback
    from workbench.checker.checking import CheckResult
    from workbench.evidence.verification.verifier import Verifier
    from workbench.formats.io.exporting import ExportReport
    from workbench.planning.memory.planning import MemoryPlan, Sharing
    from workbench.presentation.explanations.gain import Gain
    from workbench.presentation.explanations.group_comparison import Grouping
    from workbench.presentation.explanations.layout_comparison import LaidOut
    from workbench.presentation.explanations.summary import Summary
    from workbench.run.compare import Verdict
    from workbench.run.compiling import CompiledGraph
    from workbench.run.measurement.measurement_result import Measurement
    from workbench.run.measurement.variants import Variant
    from workbench.run.packages import PackageReport


def _profile(target: str | None) -> Profile:
    return load_profile(target or machine_target())


def load(source: str | Path, dims: Mapping[str, int] | None = None, *, freeze_defaults: bool = False) -> Graph:
    """The graph of an .onnx, .pt2 or text file. Raises LoadError with one sentence.

    dims: sizes of symbolic dims, for running. freeze_defaults: inputs with a default value become constants.
    """
    from workbench.formats.io import load_model

    return load_model(source, dims, freeze_defaults=freeze_defaults)


def inspect(graph: Model, *, given: Collection[str] = ()) -> Summary:
    """The operators, parameters, FLOPs, inputs, outputs and layouts of a graph.

    Where its dims are too small for a kernel, they are those with which it runs, except for dims in `given`.
    """
    from workbench.evidence.verification.fitting_dims import with_fitting_dims
    from workbench.presentation.explanations.summary import summarize

    return summarize(with_fitting_dims(graph_of(graph), given))


def optimize(
    graph: Model,
    passes: Passes | None = None,
    *,
    preset: str = DEFAULT_PRESET,
    target: str | None = None,
    layout: str | None = None,
    fix_dims: bool = False,
    free_dims: str = "",
    relayout_inputs: bool = False,
    relayout_outputs: bool = False,
    export_for: str | None = None,
    precision: str | None = None,
    io_as_computed: bool = False,
    options: Mapping[str, Any] | None = None,
    mode: str = DEFAULT_MODE,
    verifier: Verifier | None = None,
    verify: str = "each",
    on_failure: str | None = None,
    on_progress: OnProgress | None = None,
    on_check: Callable[[str], None] | None = None,
    **limits: Any,
) -> History:
    """Run passes over a copy of `graph`, which may be the path of a file; `history.graph` is the result.

    target:   of the layouts; None: "cuda" if this machine has an NVIDIA GPU, else "cpu".
    passes:   a `Pipeline`, its text ("simplify,layout{strategy=optimal}"), or names and passes in order; None: those
              of `preset`. layout: a layout strategy ("greedy"), precision: one for element types ("optimal").
    fix_dims: whether symbolic dims become the numbers of `graph.dims`. free_dims: batch axes made symbolic ("x:0=N").
    relayout_inputs, relayout_outputs, io_as_computed: whether inputs and outputs get the layout, or type, that is
              computed.
    export_for: "onnxruntime" uses its own operators where its CPU provider has a kernel; only it can run the file.
    mode:     "exact" keeps every bit, "ieee" allows other rounding, "fast" also other signed zeros, infinities, NaN.
    verifier: compares after "each" step or at the "end", as `verify` says, and traces a failure to its rewrite.
    on_failure: "stop" at the failure, or "skip": run the passes again without that rewrite (`history.excluded`); None:
              "stop" if `passes` are named, "skip" for a preset.
    on_check: is called before each comparison; may raise to stop. limits: `opset`, `grow`, `keep` of `limits_of`.
    """
    chosen = choose(
        passes,
        preset=preset,
        layout=layout,
        fix_dims=fix_dims,
        free_dims=free_dims,
        relayout_inputs=relayout_inputs or limits.pop("feed_inputs", False),  # the former name
        relayout_outputs=relayout_outputs or limits.pop("give_outputs", False),
        export_for=export_for,
        precision=precision,
        io_as_computed=io_as_computed,
        options=options or {},
    )
    graph = graph_of(graph)
    worker, run_inputs = (None, None) if verifier is None else (verifier.worker, verifier.run_inputs)
    if verifier is not None:
        from workbench.evidence.verification.fitting_dims import fitted

        graph = verifier.with_running_dims(graph) if FIX in chosen.names else fitted(graph, verifier)
    check_options("optimize", limits, limits_of, ("graph", "mode"))
    target, limited = target or machine_target(), limits_of(graph, mode=mode, **limits)
    context = pass_context(target, worker, mode=mode, run_inputs=run_inputs, limits=limited)
    after_step = None
    if verifier is not None and verify == "each":
        from workbench.evidence.verification.steps import verify_step

        after_step = partial(verify_step, verifier, on_check=on_check)
    excluded: list[Excluded] = []
    while True:
        history = run_pipeline(
            graph, chosen, context, after_step=after_step, on_progress=on_progress, excluded=excluded
        )
        if verifier is not None and (after_step is None or len(history) == 1):
            from workbench.evidence.verification.steps import verify_end

            verify_end(verifier, history, on_check)
        culprit = history.culprit if leaves_out(passes, on_failure) else None
        if culprit is None:
            return history
        excluded.append(culprit)


def layouts(
    graph: Model,
    *,
    preset: str = DEFAULT_PRESET,
    target: str | None = None,
    verifier: Verifier | None = None,
    on_strategy: ProgressCallback | None = None,
    found: dict[str, LaidOut] | None = None,
    timed: bool = True,
) -> dict[str, LaidOut]:
    """The result of every layout strategy on a copy of `graph`, by name; the first, "none", is the preset alone.

    verifier:    compares each result with the original. timed: with strategies that run operators here.
    on_strategy: is called with the next strategy and the progress from 0 to 1; may raise to stop.
    found:       results of an earlier, stopped call; it is completed and returned.
    """
    from workbench.backends.profiling.progress import part_progress
    from workbench.planning.layout.problem.required_layouts import required_layouts_met
    from workbench.presentation.explanations.layout_comparison import LaidOut

    graph, found = graph_of(graph), {} if found is None else found
    names = (None, *(n for n, cls in library.compared_strategies().items() if timed or not cls.times_operators))
    worker = None if verifier is None else verifier.worker
    before = [*takewhile(lambda p: not isinstance(p, LayoutStrategy), choose(preset=preset, layout=names[-1]).passes)]
    limits = limits_of(graph)
    normalized = run_pipeline(graph, before, PassContext(_profile(target), limits=limits))
    for index, name in enumerate(names):
        if (name or "none") in found:
            continue
        report = part_progress(on_strategy, name or "none", index / len(names))
        context = pass_context(target or machine_target(), worker, report, limits=limits)
        history = branch(normalized)
        report("", 0)
        for pass_ in choose(preset=preset, layout=name).passes[len(before) :]:
            extend(history, pass_, context)
        verdict = None if verifier is None else verifier.check(history.graph)
        found[name or "none"] = LaidOut(history, verdict, required_layouts_met(history.graph, _profile(target)))
    return found


def groupings(
    graph: Model,
    passes: Passes = (),
    *,
    target: str | None = None,
    max_operators: int = 256,
    seconds: int = 60,
    on_grouping: ProgressCallback | None = None,
) -> dict[str, Grouping]:
    """The memory traffic of several groupings: "greedy" (`fuse_groups`), then the minimum under each set of rules.

    passes: are run first. seconds: time limit of each search for a minimum.
    on_grouping: is called with the next grouping and the progress from 0 to 1; may raise to stop.
    """
    from workbench.planning.fusion.rules import RULES
    from workbench.presentation.explanations.group_comparison import compare_groupings

    fusing = {"greedy": choose(["fuse_groups"], options={"fuse_groups.max_operators": max_operators}).passes[0]}
    for rules in RULES:
        options = {"rules": rules, "max_operators": max_operators, "seconds": seconds}
        (fusing[rules],) = choose(["fuse_minimum"], options={f"fuse_minimum.{k}": v for k, v in options.items()}).passes
    graph = graph_of(graph)
    context = PassContext(_profile(target), limits=limits_of(graph))
    return compare_groupings(run_pipeline(graph, choose(passes), context), fusing, context, on_grouping)


def memory_plan(
    graph: Model,
    passes: Passes = (),
    *,
    planner: str = "exact",
    order: str = "file",
    seconds: float = 20,
    alignment: int = 1,
    target: str | None = None,
) -> MemoryPlan:
    """One arena for all values that the graph computes, and the offset of each value in it.

    passes: are run first. seconds: time limit of the search. alignment: in bytes.
    """
    from workbench.planning.memory.planning import plan_memory

    return plan_memory(memory_sharing(graph, passes, order=order, alignment=alignment, target=target), planner, seconds)


def memory_sharing(
    graph: Model, passes: Passes = (), *, order: str = "file", alignment: int = 1, target: str | None = None
) -> Sharing:
    """When each value is in use, and which values share memory: the input of all planners."""
    from workbench.planning.memory.orders import ordered
    from workbench.planning.memory.planning import sharing_of

    graph = graph_of(graph)
    after = run_pipeline(graph, choose(passes), PassContext(_profile(target), limits=limits_of(graph))).graph
    return sharing_of(after, order, ordered(after, order), alignment=alignment)


def explain(pass_name: str) -> str:
    """A description of the pass: cases, options, examples before and after with their sentences, refusals."""
    from workbench.presentation.explanations.explanation import explain_pass

    return explain_pass(Repeat if pass_name == Repeat().name else library.find_pass(pass_name))


def verify(
    original: Model,
    optimized: Model,
    *,
    inputs: Mapping[str, np.ndarray] | Sequence[Mapping[str, np.ndarray]] | None = None,
    seed: int = 0,
    runs: int | None = None,
    mode: str = DEFAULT_MODE,
) -> Verdict:
    """Compare both on the same inputs, as their narrower types allow. ONNX Runtime runs the original's file.

    optimized: the path of a file is compared as the command `verify` does: that file is run, as it is.
    inputs: of one run or of several; None: seeded ones of several kinds, `runs` of them or as many as time allows.
    mode:   "exact" allows no other bit; "fast" compares only elements that are finite in the original.
    """
    from workbench.evidence.verification.files import verify_files
    from workbench.evidence.verification.verifier import Verifier

    original = graph_of(original)
    if not isinstance(optimized, Graph):
        return verify_files(original, load(optimized), inputs, seed, runs=runs, mode=mode)
    with Verifier(original, inputs, seed, runs=runs) as verifier:
        return verifier.check(optimized, mode == EXACT, narrowed=True, numbers_only=mode == FAST)


def measure(
    graphs: Model | Mapping[str, Model | Variant],
    *,
    device: str = "cpu",
    inputs: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
    **options: Any,
) -> Measurement:
    """Latency (ms) and memory (bytes) of one graph or several, interleaved, each compared with ONNX Runtime.

    graphs:  by label; a `workbench.run.measurement.variants.Variant` is a graph with a backend and element type.
    options: the options of `workbench.run.measurement.measure.measure_models`: backend, dtype, repeat, cold.
    """
    from workbench.evidence.verification.verifier import Verifier
    from workbench.run.measurement.measure import measure_models

    common = ("inputs", "reference", "worker")
    check_options("measure", options, measure_models, ("graphs", "device", *common))
    models = graphs if isinstance(graphs, Mapping) else {"model": graphs}
    named = {name: graph_of(model) if isinstance(model, Model) else model for name, model in models.items()}
    first = next(iter(named.values()))
    with Verifier(first if isinstance(first, Graph) else first.graph, inputs, seed, patient=True) as verifier:
        given = {name: getattr(verifier, name) for name in common}
        return measure_models(named, device=device, **given, **options)


def gain(history: History, *, backend: str = "onnxruntime", **options: Any) -> Gain:
    """The gain of a history: nodes, latency (ms), memory, error, and where the time went. options: of `measure`."""
    from workbench.presentation.explanations.gain import AFTER, BEFORE, gain_of

    return gain_of(history, measure({BEFORE: history.initial, AFTER: history.graph}, backend=backend, **options))


def export(graph: Model, path: str | Path, **how: Any) -> ExportReport:
    """Write the graph as ONNX.

    how: `opset`, `ir`, `functions`, `metadata` of `workbench.formats.io.exporting.export_onnx`.
    """
    from workbench.formats.io.exporting import export_onnx
    from workbench.pipeline.provenance import with_layouts

    check_options("export", how, export_onnx, ("graph", "path"))
    return export_onnx(with_layouts(graph_of(graph)), path, **how)


def compile(graph: Model, *, device: str = "cpu", dtype: str = "float32", backend: str = "torch") -> CompiledGraph:
    """The graph as a function of torch tensors or numpy arrays, which runs as in `measure` (`CompiledGraph`)."""
    from workbench.run.compiling import compile_graph

    return compile_graph(graph_of(graph), device=device, dtype=dtype, backend=backend)


def package(
    graph: Model, path: str | Path, *, inputs: Mapping[str, np.ndarray] | None = None, seed: int = 0, **how: Any
) -> PackageReport:
    """Compile the graph for the shapes of the inputs into a package (.pt2) that torch alone runs.

    It is written only if its results equal ONNX Runtime's. how: `device` and `dtype` of `package_graph`.
    """
    from workbench.evidence.verification.verifier import Verifier
    from workbench.run.packages import package_graph

    check_options("package", how, package_graph, ("graph", "path", "right"))
    graph = graph_of(graph)
    original = graph.copy()
    original.source = None  # the graph's file may have another layout of its inputs
    with Verifier(original, inputs, seed, patient=True) as verifier:
        return package_graph(graph, path, verifier, **how)


def certificate(
    history: History, model: str | Path, output: str | Path, path: str | Path, plan: MemoryPlan | None = None
) -> int:
    """Write the evidence of a history from the file `model` to the exported file `output`; returns its bytes."""
    from workbench.evidence.certification.writing import write_certificate

    return write_certificate(history, model, output, path, plan)


def check_certificate(model: str | Path, output: str | Path, path: str | Path, runs: int = 0) -> CheckResult:
    """What a certificate proves, and what it only claims. runs: number of random inputs. Raises DoesNotHold."""
    from workbench.checker.checking import check_files

    return check_files(model, output, path, runs)


def report(history: History, path: str | Path, *, target: str | None = None, passes: Sequence[Pass] = ()) -> int:
    """Write the history as one HTML file that needs no network: every moment with its reasons, and the inspector.

    passes: the inspector says why these did not match a node. Returns the size of the file in bytes.
    """
    from workbench.presentation.explanations.digest import change_digest
    from workbench.presentation.explanations.digest_text import digest_details
    from workbench.presentation.view.report_page import report_page

    above = digest_details(change_digest(history))
    return write_text(path, report_page(history, _profile(target or _target_of(history)), passes, above))


def _target_of(history: History) -> str:
    """The target of the history; this machine's target if the history's profile was read from a file."""
    return history.target if history.target in profile_names() else machine_target()


@notebook_html.register
def history_in_notebook(shown: History) -> str:
    """What changed, and the report, as the output of a notebook's cell."""
    from workbench.presentation.explanations.digest import change_digest
    from workbench.presentation.explanations.digest_text import digest_html
    from workbench.presentation.view.notebook import framed
    from workbench.presentation.view.report_page import report_page

    digest = change_digest(shown)
    return (digest_html(digest) if digest.kinds else "") + framed(report_page(shown, _profile(_target_of(shown))))


@notebook_html.register
def graph_in_notebook(shown: Graph) -> str:
    """The graph as a history without steps."""
    return history_in_notebook(start(shown, _profile(None)))


def report_pair(first: Graph, second: Graph, path: str | Path, *, target: str | None = None) -> tuple[str, int]:
    """Write the differences of two models as one HTML file; returns a sentence on their nodes, and the file size."""
    from workbench.presentation.view.report_page import pair_page

    profile = _profile(target)
    sentence, page = pair_page(start(first, profile), start(second, profile), profile)
    return sentence, write_text(path, page)


def reduce(
    path: str | Path,
    shows: Callable[[ModelProto, Mapping[str, np.ndarray]], bool],
    *,
    inputs: str | Path | None = None,
    seed: int = 0,
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """The smallest part of a file's model that was found to show a fault, and recorded inputs for it.

    shows:  takes a candidate and its inputs; returns whether the candidate still shows the fault.
    inputs: an .npz file for the whole model, instead of random ones from `seed`.
    """
    from workbench.evidence.reduction.reduce import reduce_file

    return reduce_file(str(path), shows, None if inputs is None else str(inputs), seed)


def dot(graph: Model, *, target: str | None = None) -> Digraph:
    """The graph for Graphviz: `.source` is DOT, `.render("g", format="svg")` draws it if Graphviz is installed."""
    from workbench.presentation.view.dot import dot_of

    return dot_of(graph_of(graph), _profile(target))
