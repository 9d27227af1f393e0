"""What the commands print. Arguments are read in `__main__`, work is done by `api`."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.cli.printing import DONE, FAILED, UNVERIFIED, cells_of, print_table, say, verifier_of, write_json
from workbench.cli.progress_line import ProgressLine
from workbench.ir import Graph
from workbench.ir.text import OPSET
from workbench.rewrite import History, Step
from workbench.run.measurement.formatting import error_words

MOST_TIMES = 20  # rows of operators' times that are printed


_CHOICES = ("passes", "preset", "layout", "feed_inputs", "give_outputs", "options")


@dataclass(frozen=True)
class PipelineRequest:
    """What is to be done to a model, as the command line says it; `given`: dims that the user bound."""

    passes: list[str] | None
    preset: str
    target: str
    layout: str | None
    feed_inputs: bool
    give_outputs: bool
    options: Mapping[str, str]
    mode: str
    inputs: str | None
    seed: int
    given: Collection[str]
    verify: str
    on_failure: str

    @property
    def chosen(self) -> dict[str, Any]:
        """The words of `api.choose`."""
        return {name: getattr(self, name) for name in _CHOICES}


@dataclass(frozen=True)
class OptimizeRequest(PipelineRequest):
    """The words of `optimize`."""

    output: str
    fix_dims: bool
    report: str | None


def inspect_command(graph: Graph, *, as_json: bool) -> int:
    from workbench.api import inspect

    found = inspect(graph)
    if as_json:
        print(json.dumps(found.as_dict(), indent=1))
        return DONE
    weights = f"{found.parameters:,} parameters in {megabytes(found.weight_bytes)}"
    brought = f" (brought to it from the file's {found.file_opset})" if found.file_opset != found.opset else ""
    if brought and found.opset < OPSET:
        brought = brought[:-1] + ", the newest at which ONNX Runtime has its kernels)"
    say(f"{found.name}: {found.nodes:,} nodes, opset {found.opset}{brought}, {weights}")
    more = f" (and {found.unknown_flops:,} operators of unknown cost)" if found.unknown_flops else ""
    say(f"one run: {found.flops / 1e9:,.3f} GFLOP{more}")
    say(f"transposes: {found.transposes:,}, moving {found.elements_moved:,} elements")
    say(f"values: {found.cnn_values:,} CNN, {found.tensor_values:,} Tensor")
    for kind, values in (("input", found.inputs), ("output", found.outputs)):
        for value in values:
            bound = f", run with {value.bound}" if value.bound != value.type else ""
            say(f"{kind} {value.name}: {value.type} {value.layout}{bound}")
    if found.dims:
        dims = ", ".join(f"{name}={size}" for name, size in found.dims.items())
        say(f"dims: {dims}  (bind others with --dims)")
    say("operators: " + ", ".join(f"{op} {count:,}" for op, count in found.operators.items()))
    if found.not_native:
        say("left to ONNX Runtime by the torch executor: " + ", ".join(found.not_native))
    return DONE


def optimize_command(graph: Graph, request: OptimizeRequest) -> int:
    from workbench.api import export

    history = _run(graph, request)
    if history.failed is None:
        written = export(history.graph, request.output, fix_dims=request.fix_dims)
        opset = f"opset {history.graph.opset_imports.get('', 0)}"
        say(f"wrote {request.output}, {megabytes(written.bytes)}, {opset}; checked: {', '.join(written.checks)}")
    else:
        why = "it would not compute what the model computes; leave the failing pass out, or add --on-failure skip"
        say(f"'{request.output}' was not written, for {why}", sys.stderr)
    if request.report:
        write_json(request.report, {"model": graph.name, "output": request.output, **history.report()})
    return _exit_code(history)


def report_command(graph: Graph, request: PipelineRequest, output: str) -> int:
    """A pipeline that fails is reported too: its history is what one wants to see."""
    from workbench.api import choose, report

    history = _run(graph, request)
    written = report(history, output, target=request.target, passes=choose(**request.chosen))
    say(f"wrote {output}, {megabytes(written)}; open it in a browser")
    return _exit_code(history)


def against_command(graph: Graph, other: Graph, target: str, output: str) -> int:
    from workbench.api import report_pair

    sentence, written = report_pair(graph, other, output, target=target)
    say(sentence)
    say(f"wrote {output}, {megabytes(written)}; open it in a browser")
    return DONE


def _run(graph: Graph, request: PipelineRequest) -> History:
    """The history of the pipeline, its steps printed."""
    from workbench.api import optimize

    settled = ""
    with ProgressLine() as line:
        words: dict[str, Any] = {
            **request.chosen,
            "target": request.target,
            "mode": request.mode,
            "on_progress": line.passing,
        }
        if request.verify == "off":
            history = optimize(graph, **words)
        else:
            words |= {"verify": request.verify, "on_failure": request.on_failure, "on_check": line.comparing}
            with verifier_of(graph, request.inputs, request.seed, request.given) as verifier:
                history = optimize(graph, verifier=verifier, **words)
                settled = ", ".join(f"{name}={size}" for name, size in verifier.settled.items())
    _print_steps(history)
    if settled:
        say(f"note: the model runs with {settled}, found by trying", file=sys.stderr)
    return history


@dataclass(frozen=True)
class LayoutsRequest:
    """The words of `layouts`; `given`: dims that the user bound."""

    target: str
    inputs: str | None
    seed: int
    given: Collection[str]
    verify: bool
    measure: bool
    device: str
    as_json: bool


_TIMED = ("median ms", "ratio")


def layouts_command(graph: Graph, request: LayoutsRequest) -> int:
    from workbench.api import layouts
    from workbench.run.measurement.formatting import figures
    from workbench.run.measurement.measure import measure_models

    with verifier_of(graph, request.inputs, request.seed, request.given) as verifier:
        found = layouts(graph, target=request.target, verifier=verifier if request.verify else None)
        rows = {name: laid_out.row() for name, laid_out in found.items()}
        if request.measure:
            graphs = {name: laid_out.history.graph for name, laid_out in found.items()}
            measured = measure_models(
                graphs, inputs=verifier.inputs, reference=verifier.reference, device=request.device
            )
            for name, variant in measured["variants"].items():
                row = figures(variant)
                rows[name] |= {key: row[key] for key in ("median_ms", "ratio", "ratio_busy", "failed")}
            for note in measured["notes"]:
                say(f"note: {note}", file=sys.stderr)
    if request.as_json:
        print(json.dumps({"target": request.target, "strategies": rows}, indent=1))
    else:
        header = (
            "strategy",
            "transposes",
            "elements moved",
            "bytes moved",
            "bound (bytes)",
            "seconds",
            "max error",
            "verdict",
        )
        more = _TIMED if request.measure else ()
        table = [(*header, *more), *(_layout_row(name, row) for name, row in rows.items())]
        print_table(table, left=(0, 7))
        for name, row in rows.items():
            if row.get("failed"):
                say(f"{name}: {row['failed']}")
    verdicts = {row["verified"] for row in rows.values()} if request.verify else set()
    broke_off = any(row.get("failed") for row in rows.values())
    return FAILED if broke_off or False in verdicts else UNVERIFIED if None in verdicts else DONE


def _layout_row(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    bound = "-" if row["lower_bound"] is None else f"{row['lower_bound']:,}{' proven' if row['certified'] else ''}"
    cells = (
        name,
        f"{row['transposes']:,}",
        f"{row['elements_moved']:,}",
        f"{row['bytes_moved']:,}",
        bound,
        "-" if row["seconds"] is None else f"{row['seconds']:.2f}",
        error_words(row["max_rel_error"]),
        verdict_word(row["verified"]),
    )
    return (*cells, *cells_of(row, _TIMED)) if "median_ms" in row else cells


def verify_command(
    first: Graph, second: Graph, *, inputs: str | None, seed: int, given: Collection[str], as_json: bool
) -> int:
    from workbench.run.inputs import read_inputs
    from workbench.verification import verify_files

    own = None if inputs is None else read_inputs(inputs, first)
    verdict = verify_files(first, second, own, seed, given)
    if as_json:
        fields = ("ok", "max_abs_error", "max_rel_error", "bit_equal", "sentence", "seconds")
        print(json.dumps({name: getattr(verdict, name) for name in fields}, indent=1))
    else:
        say(f"{verdict_word(verdict.ok)}: {verdict.sentence}")
    return {True: DONE, False: FAILED, None: UNVERIFIED}[verdict.ok]


# ---- printing ---------------------------------------------------------------------------


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.2f} MB"


def verdict_word(ok: bool | None) -> str:
    return {True: "equal", False: "NOT EQUAL", None: "not verified"}[ok]


def _print_steps(history: History) -> None:
    header = ("#", "step", "rewrites", "nodes", "transposes", "elements moved", "max error", "verdict", "seconds")
    rows = [header, *(_row(index, step) for index, step in enumerate(history.steps))]
    print_table(rows, left=(1, 7))
    told = ""
    for step in history.steps:
        _print_times(step)
        if step.proof:
            say(f"{step.pass_name}: {step.proof}")
        if step.verdict is not None and step.verdict.ok is not True and step.verdict.sentence != told:
            told = step.verdict.sentence  # the same reason is told once, at the first step that has it
            say(f"{step.pass_name}: {verdict_word(step.verdict.ok)}: {step.verdict.sentence}")
        if step.broken_by is not None:
            which = f"rewrite {step.broken_by + 1} of {len(step.rewrites)}"
            say(f"{step.pass_name}: {which} broke it: {step.rewrites[step.broken_by].sentence}")

    for out in history.left_out:
        say(f"{out}")
    end = history[-1].verdict
    if end is not None and end.ok:
        say(f"the end: {end.sentence}")


def _print_times(step: Step) -> None:
    """What operators took, where a layout strategy had them timed: those that take longest in all."""
    times = step.facts.get("times")
    if not times:
        return
    most = "" if len(times) <= MOST_TIMES else f", the {MOST_TIMES} of {len(times):,} that take longest"
    say(f"{step.pass_name}: timed on {step.facts['device']}{most}; all with --report")
    header = ("operator", "operands", "nodes", "us as written", "us in the other layout", "converted")
    print_table([header, *(_time_row(row) for row in times[:MOST_TIMES])], left=(0, 1))


def _time_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    operands = row["operands"] if len(row["operands"]) <= 60 else f"{row['operands'][:57]}..."
    other = "-" if row["other_us"] is None else f"{row['other_us']:,.1f}"
    converted = "-" if row["converted"] is None else f"{row['converted']:,}"
    return row["operator"], operands, f"{row['nodes']:,}", f"{row['us']:,.1f}", other, converted


def _row(index: int, step: Step) -> tuple[str, ...]:
    verdict = step.verdict
    error = "" if verdict is None or verdict.max_rel_error is None else error_text(verdict)
    return (
        str(index),
        step.pass_name,
        f"{len(step.rewrites):,}" if index else "-",
        f"{step.after.nodes:,}",
        f"{step.after.transposes:,}",
        f"{step.after.elements_moved:,}",
        error,
        "" if verdict is None else verdict_word(verdict.ok),
        f"{step.seconds:.2f}",
    )


def error_text(verdict: Any) -> str:
    """The error as tables show it: "bit-equal", or the largest relative error."""
    if verdict.bit_equal:
        return "bit-equal"
    return error_words(verdict.max_rel_error)


def _exit_code(history: History) -> int:
    if history.failed is not None:
        return FAILED
    return UNVERIFIED if history.unverified is not None else DONE
