"""Plays a lesson: runs the pipelines of its stops, and finds their moments and nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from workbench.errors import UserError, closest
from workbench.formats.io import load_model
from workbench.formats.io.dims import parse_dims
from workbench.formats.io.samples import FOLDER as SAMPLES
from workbench.interfaces.lessons.lesson import Fault, Lesson, LessonError, LessonPipeline, Stop
from workbench.interfaces.lessons.pictures import Picture, picture_of
from workbench.interfaces.lessons.stop_text import EXPRESSION, StopText, stop_text
from workbench.ir import Graph
from workbench.pipeline.pipeline import Pipeline
from workbench.pipeline.registry.contexts import pass_context
from workbench.pipeline.registry.pass_choice import choose
from workbench.pipeline.run_limits import limits_of
from workbench.pipeline.running import run_pipeline
from workbench.planning.fusion.opened_groups import OpenedGroups
from workbench.planning.layout.declared import parse_layouts
from workbench.planning.layout.infer import declare
from workbench.planning.layout.profile import load_profile, profile_names
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.presentation.view.finding import matching_nodes
from workbench.presentation.view.ids import INPUT_ID, OUTPUT_ID
from workbench.rewrite import MODES, History, Pass

_EXPECTED = re.compile(r"count\((.+)\)\s*=\s*(\d+)")
_MOST_NAMED = 5  # nodes in a sentence
_T = TypeVar("_T")
MayOpen = Callable[[str], None]


class _Fault(UserError):
    """A fault of one key of a stop."""

    def __init__(self, key: str, sentence: str) -> None:
        super().__init__(sentence)
        self.key = key


@dataclass(frozen=True)
class PlayedStop:
    """A stop with the history of its pipeline, and its moment in it.

    rewrites: the number of the step's rewrites that are done; None for all.
    text:     of the graph, beside it; None for none.
    picture:  drawn beside the graph; None for none.
    has_equations: whether boxes have the equations of their values, as in all stops of a pipeline with an expression.
    """

    stop: Stop
    model: Path
    passes: tuple[Pass, ...]
    history: History
    step: int
    rewrites: int | None
    text: StopText | None
    picture: Picture | None
    has_equations: bool

    @property
    def panes(self) -> int:
        """2, the graphs before and after the step, if it changed something; else 1."""
        return 2 if self.history[self.step].rewrites else 1

    @property
    def graph(self) -> Graph:
        """The graph at the moment."""
        return self.history.at(self.step, self.rewrites)


@dataclass
class _PipelineRun:
    model: Path
    passes: tuple[Pass, ...]
    history: History


@dataclass
class _Player:
    lesson: Lesson
    may_open: MayOpen | None
    runs: dict[LessonPipeline, _PipelineRun | _Fault] = field(default_factory=dict)

    def play(self, stop: Stop) -> PlayedStop:
        """The played stop; a pipeline that ran before is not run again. Raises _Fault."""
        if stop.pipeline not in self.runs:
            self.runs[stop.pipeline] = self._run_or_fault(stop.pipeline)
        run = self.runs[stop.pipeline]
        if isinstance(run, _Fault):
            raise run
        step, rewrites = _moment(stop, run.history)
        graph = run.history.at(step, rewrites)
        before = run.history.before(step) if rewrites is None else run.history.at(step, max(rewrites - 1, 0))
        _check_names(stop, before, graph)
        _check_expected(stop, graph)
        changed = bool(run.history[step].rewrites)
        text = _as_fault("beside", lambda: stop_text(stop.beside, before if changed else None, graph))
        picture = _as_fault("picture", lambda: picture_of(stop.picture, graph))
        has_equations = any(
            other.beside == EXPRESSION and other.pipeline == stop.pipeline for other in self.lesson.stops
        )
        return PlayedStop(stop, run.model, run.passes, run.history, step, rewrites, text, picture, has_equations)

    def play_or_raise(self, stop: Stop) -> PlayedStop:
        """The played stop. Raises LessonError."""
        try:
            return self.play(stop)
        except _Fault as fault:
            raise LessonError([_in_file(fault, self.lesson, stop)]) from None

    def _run_or_fault(self, lesson_pipeline: LessonPipeline) -> _PipelineRun | _Fault:
        try:
            return self._run(lesson_pipeline)
        except _Fault as fault:
            return fault

    def _run(self, lesson_pipeline: LessonPipeline) -> _PipelineRun:
        model = model_file(self.lesson, lesson_pipeline.model)
        if self.may_open is not None:
            self.may_open(str(model))
        dims = _as_fault("dims", lambda: parse_dims(lesson_pipeline.dims))
        graph = _as_fault("model", lambda: load_model(model, dims))
        _as_fault("layouts", lambda: declare(graph, parse_layouts(lesson_pipeline.layouts)))
        if lesson_pipeline.profile not in profile_names() and not lesson_pipeline.profile.endswith(".toml"):
            name = lesson_pipeline.profile
            raise _Fault("profile", f"there is no target profile '{name}'{closest(name, profile_names())}")
        _as_fault("profile", lambda: load_profile(lesson_pipeline.profile))
        if lesson_pipeline.mode not in MODES:
            raise _Fault("mode", f"there is no mode '{lesson_pipeline.mode}'; there are: {', '.join(MODES)}")
        pipeline = _pipeline(lesson_pipeline)
        for absent in filter(lambda pass_: pass_.missing(), pipeline.passes):
            raise _Fault("passes", f"{absent.name} cannot act here: {absent.missing()}")
        limits = limits_of(graph, mode=lesson_pipeline.mode)
        context = pass_context(lesson_pipeline.profile, mode=lesson_pipeline.mode, limits=limits)
        history = _as_fault("passes", lambda: run_pipeline(graph, pipeline, context))
        return _PipelineRun(model, pipeline.passes, history)


def play(lesson: Lesson, may_open: MayOpen | None = None) -> list[PlayedStop]:
    """Every stop; each pipeline runs once, and nothing is compared with ONNX Runtime.

    may_open: called with the path of each model; may raise UserError.
    Raises LessonError with all faults.
    """
    faults, played = [], []
    player = _Player(lesson, may_open)
    for stop in lesson.stops:
        try:
            played.append(player.play(stop))
        except _Fault as fault:
            faults.append(_in_file(fault, lesson, stop))
    if faults:
        raise LessonError(list(dict.fromkeys(faults)))
    return played


def shown_in_list(lesson: Lesson) -> PlayedStop:
    """The stop whose picture stands for the lesson: the first that is drawn, or that shows a change; else the first.

    Raises LessonError.
    """
    player, first = _Player(lesson, None), None
    for stop in lesson.stops:
        played = player.play_or_raise(stop)
        if played.picture is not None or played.panes == 2:
            return played
        first = first or played
    assert first is not None  # a lesson has a stop
    return first


def model_file(lesson: Lesson, name: str) -> Path:
    """The file of this name beside the lesson, else among the samples. Raises _Fault."""
    beside = lesson.file.parent / name
    if beside.is_file():
        return beside
    if (SAMPLES / name).is_file():
        return SAMPLES / name
    files = [str(file.relative_to(SAMPLES)) for file in _models()]
    raise _Fault("model", f"there is no model '{name}' beside the lesson or among the samples{closest(name, files)}")


def _models() -> Iterator[Path]:
    for ending in ("*.onnx", "*.onnxtxt"):
        yield from sorted(SAMPLES.rglob(ending))


def _pipeline(lesson_pipeline: LessonPipeline) -> Pipeline:
    """The passes that run. Raises _Fault."""
    is_preset = lesson_pipeline.passes is None and lesson_pipeline.preset
    names = None if is_preset else list(lesson_pipeline.passes or ())
    layout = lesson_pipeline.strategy or None
    if names is None:
        return _as_fault("preset", lambda: choose(preset=lesson_pipeline.preset, layout=layout))
    _as_fault("strategy", lambda: choose([], layout=layout))
    return _as_fault("passes", lambda: choose(names, layout=layout))


def _moment(stop: Stop, history: History) -> tuple[int, int | None]:
    """The step and the number of its rewrites that are done. Raises _Fault."""
    chosen, _, number = stop.moment.partition(" ")
    if stop.moment == "start":
        return 0, None
    if stop.moment == "end":
        return len(history) - 1, None
    names = [step.pass_name for step in history.steps]
    strategies = {s.pass_.strategy: s.pass_name for s in history.steps if isinstance(s.pass_, LayoutStrategy)}
    name = strategies.get(chosen, chosen)
    if name not in names[1:]:
        known = ["start", "end", *names[1:]]
        raise _Fault("moment", f"'{chosen}' is not a pass that runs here{closest(chosen, known)}")
    step = names.index(name, 1)
    if not number:
        return step, None
    total = len(history[step].rewrites)
    if not number.strip().isdecimal() or int(number) > total:
        count = f"{total:,} rewrite{'' if total == 1 else 's'}"
        sentence = f"'{number}' is not a rewrite of {name}, which has {count} here; write a number from 0 to {total}"
        raise _Fault("moment", sentence)
    return step, int(number)


def _check_names(stop: Stop, before: Graph, graph: Graph) -> None:
    """Raise _Fault if the node, or something that the stop frames, exists in neither of the graphs that it shows."""
    known: dict[str, None] = {}
    for shown in (graph, before):
        known |= dict.fromkeys(node.name for node in OpenedGroups(shown).opened.nodes)
        known |= dict.fromkeys(f"{INPUT_ID}{value}" for value in shown.inputs)
        known |= dict.fromkeys(f"{OUTPUT_ID}{value}" for value in shown.outputs)
    for key, names in (("node", (stop.node,) if stop.node else ()), ("frame", stop.frame)):
        for name in names:
            if name not in known:
                sentence = f"there is no node '{name}' at this moment of '{stop.title}'{closest(name, known)}"
                raise _Fault(key, sentence)


def _check_expected(stop: Stop, graph: Graph) -> None:
    """Raise _Fault if the graph is not as the stop's answer says."""
    for expected in stop.expected:
        match = _EXPECTED.fullmatch(expected)
        if match is None:
            raise _Fault("expect", f"'{expected}' is not of the form `count(QUERY) = NUMBER`")
        query, number = match[1], int(match[2])
        found = _as_fault("expect", partial(matching_nodes, OpenedGroups(graph).opened, query))
        if len(found) != number:
            names = f": {', '.join(found[:_MOST_NAMED])}" if found else ""
            sentence = f"'{stop.title}' expects {number:,} of '{query}', but there are {len(found):,}{names}"
            raise _Fault("expect", sentence)


def _in_file(fault: _Fault, lesson: Lesson, stop: Stop) -> Fault:
    return Fault(str(lesson.file), stop.line_of(fault.key), str(fault))


def _as_fault(key: str, call: Callable[[], _T]) -> _T:
    """What the call returns. A UserError of it becomes a _Fault of the key."""
    try:
        return call()
    except UserError as error:
        raise _Fault(key, str(error)) from None
