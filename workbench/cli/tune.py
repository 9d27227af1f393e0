"""The command `tune`: the pipeline, backend and precision that are best for a model on this machine, as a recipe."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.arguments import check_writes, input_arguments, model_arguments, on_argument
from workbench.cli.exit_codes import DONE, FAILED, STOPPED
from workbench.cli.printing import megabytes, print_table, say, warn
from workbench.cli.progress_line import ProgressLine
from workbench.errors import UserError
from workbench.io.dims import parse_dims
from workbench.io.model_files import files_of
from workbench.pipeline.command_text import command_text
from workbench.run.verdict_words import error_words
from workbench.study.tuning.budget import parse_budget
from workbench.study.tuning.evidence import Evidence
from workbench.study.tuning.graphs import SAME_GRAPH
from workbench.study.tuning.pipelines import OBJECTIVES, every_candidate
from workbench.study.tuning.recipe import STOPPED_EARLY, Recipe, save_recipe

if TYPE_CHECKING:
    from workbench.study.cluster.jobs import DeviceKind, JobsProgress
    from workbench.study.tuning.job import TuneJob, TuningAnswer
    from workbench.study.tuning.tune import TuneRequest

HELP = "find the pipeline, backend and precision that are best for a model here, and write a recipe"
PART = ".part"  # after the recipe's name: what is measured so far
_HEADER = ("candidate", "median ms", "ratio", "95 % between", "runs", "peak MB", "peak is of", "file MB", "max error")


def add_arguments(command: argparse.ArgumentParser) -> None:
    model_arguments(command, several=True)
    input_arguments(command)
    words = "the recipe to write; for several models a folder, in which each has one"
    command.add_argument("-o", "--output", required=True, metavar="RECIPE.toml", help=words)
    command.add_argument("--budget", default="10m", metavar="TIME", help="the longest it may take: 90s, 10m, 1h (10m)")
    whys = "; ".join(f"{name}: {words}" for name, words in OBJECTIVES.items())
    command.add_argument("--for", dest="objective", default="latency", metavar="WHAT", help=f"{whys} (latency)")
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    command.add_argument(
        "--max-error", type=float, default=1e-3, metavar="E", help="the relative error that is allowed (1e-3)"
    )
    command.add_argument("--json", action="store_true", help="print the recipe as JSON")
    on_argument(command)


def run(chosen: argparse.Namespace) -> int:
    from workbench.study.cluster.start import executor_on
    from workbench.study.tuning.tune import TuneRequest

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
            words = "; ".join(kind.words for kind in kinds)
            raise UserError(f"there are {len(kinds)} kinds of device ({words}); name a folder that exists with -o")
        outputs = {
            (model, kind): _output(chosen.output, model, kind, kinds) if is_folder else chosen.output
            for model in models
            for kind in kinds
        }
        jobs = [(_job(chosen, model, request, output), kind) for (model, kind), output in outputs.items()]
        for outcome in executor.run(jobs, lambda progress: line.comparing(_words(progress, jobs))):
            job, _ = jobs[outcome.index]
            line.clear()
            if outcome.failed and len(jobs) == 1:
                raise UserError(outcome.failed)
            if outcome.failed:
                say(f"{job.model}: {outcome.failed}", sys.stderr)
                codes.append(FAILED)
                continue
            results.append(outcome.answer.recipe)
            codes.append(_done(outcome.answer, outputs[job.model, jobs[outcome.index][1]], chosen.json))
            if codes[-1] == STOPPED:
                break
        warn(executor.notes)
    if chosen.json:
        print(json.dumps([one.table() for one in results] if is_folder else results[0].table(), indent=1))
    return max(codes)


def _models(chosen: argparse.Namespace) -> Sequence[str]:
    """The files, or the one program."""
    if (not chosen.models) == (chosen.torch is None):
        raise UserError("give either model files or --torch package.module:factory")
    if chosen.torch is not None and chosen.on is not None:
        raise UserError("a torch program runs where its package is; save it by torch.export as .pt2, or leave out --on")
    names = [Path(model).stem for model in chosen.models]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"two models are called '{twice}', and each has a recipe of its name; rename one")
    for model in chosen.models:
        files_of(Path(model))  # what is no model is said before anything starts
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
    """One recipe a model, and a kind of device if there are several."""
    of_kind = f".{re.sub(r'[^A-Za-z0-9]+', '-', kind.words)}" if len(kinds) > 1 else ""
    return str(Path(folder) / f"{Path(model).stem}{of_kind}.toml")


def _job(chosen: argparse.Namespace, model: str, request: TuneRequest, output: str) -> TuneJob:
    from workbench.study.tuning.job import TuneJob

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


def _words(progress: JobsProgress, jobs: Sequence[tuple[TuneJob, DeviceKind]]) -> str:
    if progress.total == 1 and progress.running:
        return str(progress.running[0]["stage"])
    running = [f"{Path(jobs[index][0].model).name}: {event['stage']}" for index, event in progress.running.items()]
    done = f"{progress.done} of {progress.total} tunings done on {progress.devices} devices{progress.left_words}"
    return "; ".join(filter(None, [done, progress.waiting, *running]))


def _done(answer: TuningAnswer, output: str, as_json: bool) -> int:
    """Write the recipe and tell of it."""
    from workbench.study.tuning.measuring import forget_record

    recipe, part = answer.recipe, f"{output}{PART}"
    save_recipe(recipe, output)
    if not recipe.is_resumable:
        forget_record(Path(part))
    if not as_json:
        _print(recipe, output)
    again = [f"{recipe.ended} after {recipe.seconds:g} s; the same command goes on with what '{part}' holds"]
    warn([*answer.warnings, *(again if recipe.is_resumable and Path(part).exists() else [])])
    return STOPPED if recipe.ended == STOPPED_EARLY else DONE


def _print(recipe: Recipe, output: str) -> None:
    say(f"for {recipe.objective} on {recipe.device_name}, error at most {recipe.max_error:g}")
    final = [one for one in recipe.evidence if one.dropped_in is None]
    others = [one for one in recipe.evidence if one.dropped_in is not None]
    front = [one for one in others if one.pareto]
    print_table([_HEADER, *map(_cells, (*final, *front))], left=(0, 6))
    if any(one.pareto for one in recipe.evidence):
        say("* no other that was measured is at least as good in latency, memory and error, and better in one")
    same = [one for one in others if one.why.startswith(SAME_GRAPH)]
    for why, labels in _reasons([one for one in others if one not in same]).items():
        say(f"{'; '.join(labels)}: {why}")
    if same:
        say(f"{len(same)} more have the same graph as another and were not measured twice; the recipe names them")
    say(f"best: {recipe.label}; {len(recipe.evidence)} candidates in {recipe.seconds:,.0f} s; {recipe.ended}")
    made = command_text("optimize", "MODEL", "--recipe", str(output), "-o", "OUT.onnx")
    say(f"wrote {output}; `{made}` makes the file")


def _reasons(others: Sequence[Evidence]) -> dict[str, list[str]]:
    """By reason, in the order of the rounds, the candidates that went for it."""
    results: dict[str, list[str]] = {}
    for one in others:
        results.setdefault(f"{one.why}, round {one.dropped_in}" if one.dropped_in else one.why, []).append(one.label)
    return results


def _cells(one: Evidence) -> tuple[str, ...]:
    none = "-"
    between = none if one.ratio_low is None else f"{one.ratio_low:.3f} and {one.ratio_high:.3f}"
    return (
        f"{one.label}{' *' if one.pareto else ''}",
        none if one.median_ms is None else f"{one.median_ms:,.3f}",
        none if one.ratio is None else f"{one.ratio:.3f}",
        between,
        f"{one.runs}" if one.runs else none,
        none if one.peak_bytes is None else f"{one.peak_bytes / 1e6:,.2f}",
        one.peak_counted or none,
        none if one.file_bytes is None else megabytes(one.file_bytes).removesuffix(" MB"),
        none if one.max_rel_error is None else error_words(one.max_rel_error),
    )
