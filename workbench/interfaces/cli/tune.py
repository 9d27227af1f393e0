"""The command `tune`: finds the best pipeline, backend and precision for a model here, and writes a recipe."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import UserError
from workbench.formats.io.dims import parse_dims
from workbench.formats.io.model_files import files_of
from workbench.interfaces.cli.arguments import check_writes, input_arguments, model_arguments, on_argument
from workbench.interfaces.cli.exit_codes import DONE, FAILED, STOPPED
from workbench.interfaces.cli.printing import megabytes, print_table, say, warn
from workbench.interfaces.cli.progress_line import ProgressLine
from workbench.interfaces.study.tuning.budget import parse_budget
from workbench.interfaces.study.tuning.evidence import Evidence
from workbench.interfaces.study.tuning.graphs import SAME_GRAPH
from workbench.interfaces.study.tuning.pipelines import OBJECTIVES, every_candidate
from workbench.interfaces.study.tuning.recipe import STOPPED_EARLY, Recipe, save_recipe
from workbench.pipeline.command_text import command_text
from workbench.run.verdict_words import relative_error_text

if TYPE_CHECKING:
    from workbench.interfaces.study.cluster.jobs import DeviceKind, JobsProgress
    from workbench.interfaces.study.tuning.job import TuneJob, TuningAnswer
    from workbench.interfaces.study.tuning.tune import TuneRequest

HELP = "find the pipeline, backend and precision that are best for a model here, and write a recipe"
EXAMPLES = ("model.onnx --budget 10m -o best.toml",)
DETAILS = """
Backends come one after the other, the fastest first. In each, pipelines are measured interleaved, with ever more
iterations for the better half, until nothing that is left can be better by more than 3 %. At the end the best and the
original are measured once more, interleaved in one run of 100 iterations; a fifth of the budget is kept for that.

- Smaller element types are candidates only if their rounding is within --max-error.
- A recipe is written when the budget ends, with the best so far. `optimize MODEL --recipe R.toml -o OUT.onnx` runs it.
- What was measured is kept in RECIPE.toml.part until the tuning is done. After Ctrl-C (exit code 130), a crash, or the
end of the budget the same command goes on there.
- On a CPU, --for memory compares plans of the backend arena only, since the peaks of the others count other bytes.
"""
PART = ".part"  # the suffix of the file with the measurements so far
_HEADER = (
    "candidate",
    "measured in",
    "median ms",
    "min ms",
    "ratio",
    "ratio, 95 % interval",
    "runs",
    "peak MB",
    "peak covers",
    "file MB",
    "max error",
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command, several=True)
    input_arguments(command)
    help_text = "the recipe to write; for several models a folder, with one recipe each"
    command.add_argument("-o", "--output", required=True, metavar="RECIPE.toml", help=help_text)
    command.add_argument("--budget", default="10m", metavar="TIME", help="time limit: 90s, 10m, 1h (10m)")
    objectives = "; ".join(f"{name}: {meaning}" for name, meaning in OBJECTIVES.items())
    command.add_argument("--for", dest="objective", default="latency", metavar="WHAT", help=f"{objectives} (latency)")
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to run (default: cpu)")
    command.add_argument(
        "--max-error", type=float, default=1e-3, metavar="E", help="the relative error that is allowed (1e-3)"
    )
    command.add_argument("--json", action="store_true", help="print the recipe as JSON")
    on_argument(command)


def run(chosen: argparse.Namespace) -> int:
    from workbench.interfaces.study.cluster.choose_executor import executor_on
    from workbench.interfaces.study.tuning.tune import TuneRequest

    request = TuneRequest(chosen.objective, chosen.device, chosen.max_error, parse_budget(chosen.budget))
    every_candidate(request.objective, request.device, request.max_error, request.budget_s)
    models = _models(chosen)
    is_folder = len(models) > 1 or Path(chosen.output).is_dir()
    _check_output(chosen, is_folder)
    results: list[Recipe] = []
    codes = [DONE]
    with ProgressLine() as line, executor_on(chosen.on) as executor:
        kinds = list(dict.fromkeys(device.kind for device in executor.devices(request.device)))
        if len(kinds) > 1 and not is_folder:
            labels = "; ".join(kind.label for kind in kinds)
            raise UserError(f"there are {len(kinds)} kinds of device ({labels}); name a folder that exists with -o")
        outputs = {
            (model, kind): _output(chosen.output, model, kind, kinds) if is_folder else chosen.output
            for model in models
            for kind in kinds
        }
        jobs = [(_job(chosen, model, request, output), kind) for (model, kind), output in outputs.items()]
        for outcome in executor.run(jobs, lambda progress: line.comparing(_progress_text(progress, jobs))):
            job, _ = jobs[outcome.index]
            line.clear()
            if outcome.failed and len(jobs) == 1:
                raise UserError(outcome.failed)
            if outcome.failed:
                say(f"{job.model}: {outcome.failed}", sys.stderr)
                codes.append(FAILED)
                continue
            results.append(outcome.answer.recipe)
            codes.append(_finish(outcome.answer, outputs[job.model, jobs[outcome.index][1]], chosen.json))
            if codes[-1] == STOPPED:
                break
        warn(executor.notes)
    if chosen.json:
        print(json.dumps([recipe.table() for recipe in results] if is_folder else results[0].table(), indent=1))
    return max(codes)


def _models(chosen: argparse.Namespace) -> Sequence[str]:
    """The model files, or the torch program. Raises UserError."""
    if (not chosen.models) == (chosen.torch is None):
        raise UserError("give either model files or --torch package.module:factory")
    if chosen.torch is not None and chosen.on is not None:
        raise UserError("a torch program runs where its package is; save it by torch.export as .pt2, or leave out --on")
    names = [Path(model).stem for model in chosen.models]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise UserError(f"two models are called '{repeated}', and recipes are named after models; rename one")
    for model in chosen.models:
        files_of(Path(model))  # raises LoadError before anything starts
    return chosen.models or [chosen.torch]


def _check_output(chosen: argparse.Namespace, is_folder: bool) -> None:
    if not is_folder:
        check_writes([chosen.output, f"{chosen.output}{PART}"], chosen.models, [chosen.inputs])
        return
    try:
        Path(chosen.output).mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(
            f"'{chosen.output}' cannot be the folder of the recipes: {error.strerror or error}; name another"
        ) from None


def _output(folder: str, model: str, kind: DeviceKind, kinds: Sequence[DeviceKind]) -> str:
    """The path of the recipe of a model, for a kind of device if there are several."""
    suffix = f".{re.sub(r'[^A-Za-z0-9]+', '-', kind.label)}" if len(kinds) > 1 else ""
    return str(Path(folder) / f"{Path(model).stem}{suffix}.toml")


def _job(chosen: argparse.Namespace, model: str, request: TuneRequest, output: str) -> TuneJob:
    from workbench.interfaces.study.tuning.job import TuneJob

    return TuneJob(
        model,
        request,
        dims=tuple(parse_dims(chosen.dims).items()),
        layouts=tuple(chosen.input_layout),
        inputs=chosen.inputs,
        seed=chosen.seed,
        record=f"{output}{PART}",
        is_program=chosen.torch is not None,
    )


def _progress_text(progress: JobsProgress, jobs: Sequence[tuple[TuneJob, DeviceKind]]) -> str:
    """What runs now; with several tunings also how many are done."""
    if progress.total == 1 and progress.running:
        return str(progress.running[0]["stage"])
    running = [f"{Path(jobs[index][0].model).name}: {event['stage']}" for index, event in progress.running.items()]
    done = f"{progress.done} of {progress.total} tunings done on {progress.devices} devices{progress.remaining_text}"
    return "; ".join(filter(None, [done, progress.waiting, *running]))


def _finish(answer: TuningAnswer, output: str, as_json: bool) -> int:
    """Write the recipe and print it. Returns the exit code."""
    from workbench.interfaces.study.tuning.measuring import forget_record

    recipe, part = answer.recipe, f"{output}{PART}"
    save_recipe(recipe, output)
    if not recipe.is_resumable:
        forget_record(Path(part))
    if not as_json:
        _print(recipe, output)
    resume = [f"{recipe.ended} after {recipe.seconds:g} s; the same command continues with what '{part}' has"]
    warn([*recipe.notes, *answer.warnings, *(resume if recipe.is_resumable and Path(part).exists() else [])])
    return STOPPED if recipe.ended == STOPPED_EARLY else DONE


def _print(recipe: Recipe, output: str) -> None:
    say(f"for {recipe.objective} on {recipe.device_name}, error at most {recipe.max_error:g}")
    dropped = [one for one in recipe.evidence if one.dropped_in is not None and one.median_ms is None]
    final = [one for one in recipe.evidence if one not in dropped]
    front = [candidate for candidate in dropped if candidate.pareto]
    print_table([_HEADER, *map(_cells, (*final, *front))], left=(0, 1, 8))
    for candidate in final:
        if candidate.original:
            say(f"{candidate.label}: {candidate.result}")
    if any(candidate.pareto for candidate in recipe.evidence):
        say("* no other measured candidate is at least as good in latency, memory and error, and better in one")
    same = [candidate for candidate in dropped if candidate.why.startswith(SAME_GRAPH)]
    for reason, labels in _labels_by_reason([candidate for candidate in dropped if candidate not in same]).items():
        say(f"{'; '.join(labels)}: {reason}")
    if same:
        say(f"{len(same)} more have the same graph as another and were not measured; the recipe names them")
    if recipe.gain_text:
        say(f"{recipe.label} is {recipe.gain_text}")
    say(f"best: {recipe.label}; {len(recipe.evidence)} candidates in {recipe.seconds:,.0f} s; {recipe.ended}")
    optimize = command_text("optimize", "MODEL", "--recipe", str(output), "-o", "OUT.onnx")
    say(f"wrote {output}; `{optimize}` writes the model")


def _labels_by_reason(dropped: Sequence[Evidence]) -> dict[str, list[str]]:
    """The labels of dropped candidates by the reason and round, in the order of the rounds."""
    results: dict[str, list[str]] = {}
    for candidate in dropped:
        reason = f"{candidate.why}, round {candidate.dropped_in}" if candidate.dropped_in else candidate.why
        results.setdefault(reason, []).append(candidate.label)
    return results


def _cells(candidate: Evidence) -> tuple[str, ...]:
    absent = "-"
    ratio = absent if candidate.ratio is None else "busy" if candidate.busy else f"{candidate.ratio:.3f}"
    is_known = candidate.ratio_low is not None and not candidate.busy
    between = f"{candidate.ratio_low:.3f} to {candidate.ratio_high:.3f}" if is_known else absent
    return (
        f"{candidate.label}{' *' if candidate.pareto else ''}",
        candidate.measured_in or absent,
        absent if candidate.median_ms is None else f"{candidate.median_ms:,.3f}",
        absent if candidate.min_ms is None else f"{candidate.min_ms:,.3f}",
        ratio,
        between,
        f"{candidate.runs}" if candidate.runs else absent,
        absent if candidate.peak_bytes is None else f"{candidate.peak_bytes / 1e6:,.2f}",
        candidate.peak_counted or absent,
        absent if candidate.file_bytes is None else megabytes(candidate.file_bytes).removesuffix(" MB"),
        absent if candidate.max_rel_error is None else relative_error_text(candidate.max_rel_error),
    )
