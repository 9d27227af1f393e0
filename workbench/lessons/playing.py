"""Plays a lesson: runs the pipelines of its stops and finds their moments and nodes, as the page Lessons shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from workbench.errors import UserError, closest
from workbench.fusion.opened_groups import OpenedGroups
from workbench.io import load_model
from workbench.io.dims import parse_dims
from workbench.io.samples import FOLDER as SAMPLES
from workbench.ir import Graph
from workbench.layout.declared import parse_layouts
from workbench.layout.infer import declare
from workbench.layout.profile import load_profile, profile_names
from workbench.layout.strategies.layout_strategy import LayoutStrategy
from workbench.lessons.lesson import Fault, Lesson, LessonError, LessonPipeline, Stop
from workbench.lessons.pictures import Picture, picture_of
from workbench.pipeline.pipeline import Pipeline
from workbench.pipeline.running import run_pipeline
from workbench.registry.contexts import pass_context
from workbench.registry.pass_choice import choose
from workbench.rewrite import MODES, History, Pass
from workbench.view.ids import INPUT_ID, OUTPUT_ID

_T = TypeVar("_T")
MayOpen = Callable[[str], None]


class _Fault(UserError):
    """A fault of one key of a stop."""

    def __init__(self, key: str, sentence: str) -> None:
        super().__init__(sentence)
        self.key = key


@dataclass(frozen=True)
class PlayedStop:
    """A stop with the history of its pipeline and its moment there.

    rewrites: done at the moment, None for all of the step. picture: beside the graph, None for none.
    """

    stop: Stop
    model: Path
    passes: tuple[Pass, ...]
    history: History
    step: int
    rewrites: int | None
    picture: Picture | None

    @property
    def panes(self) -> int:
        """Two, before and after, where the step changed something."""
        return 2 if self.history[self.step].rewrites else 1

    @property
    def graph(self) -> Graph:
        """The graph at the moment."""
        return self.history.at(self.step, self.rewrites)


@dataclass
class _Ran:
    model: Path
    passes: tuple[Pass, ...]
    history: History


@dataclass
class _Player:
    lesson: Lesson
    may_open: MayOpen | None
    ran: dict[LessonPipeline, _Ran | _Fault] = field(default_factory=dict)

    def play(self, stop: Stop) -> PlayedStop:
        """Raises _Fault."""
        if stop.pipeline not in self.ran:
            self.ran[stop.pipeline] = self._run(stop.pipeline)
        ran = self.ran[stop.pipeline]
        if isinstance(ran, _Fault):
            raise ran
        step, rewrites = _moment(stop, ran.history)
        graph = ran.history.at(step, rewrites)
        _check_node(stop, ran.history, step, graph)
        picture = _saying("picture", lambda: picture_of(stop.picture, graph))
        return PlayedStop(stop, ran.model, ran.passes, ran.history, step, rewrites, picture)

    def _run(self, wanted: LessonPipeline) -> _Ran | _Fault:
        try:
            return self._ran(wanted)
        except _Fault as fault:
            return fault

    def _ran(self, wanted: LessonPipeline) -> _Ran:
        model = model_file(self.lesson, wanted.model)
        if self.may_open is not None:
            self.may_open(str(model))
        dims = _saying("dims", lambda: parse_dims(wanted.dims))
        graph = _saying("model", lambda: load_model(model, dims))
        _saying("layouts", lambda: declare(graph, parse_layouts(wanted.layouts)))
        if wanted.profile not in profile_names() and not wanted.profile.endswith(".toml"):
            words = f"there is no target profile '{wanted.profile}'{closest(wanted.profile, profile_names())}"
            raise _Fault("profile", words)
        _saying("profile", lambda: load_profile(wanted.profile))
        if wanted.mode not in MODES:
            raise _Fault("mode", f"there is no mode '{wanted.mode}'; there are: {', '.join(MODES)}")
        pipeline = _pipeline(wanted)
        for absent in filter(lambda pass_: pass_.missing(), pipeline.passes):
            raise _Fault("passes", f"{absent.name} cannot act here: {absent.missing()}")
        context = pass_context(wanted.profile, mode=wanted.mode)
        history = _saying("passes", lambda: run_pipeline(graph, pipeline, context))
        return _Ran(model, pipeline.passes, history)


def play(lesson: Lesson, may_open: MayOpen | None = None) -> list[PlayedStop]:
    """Every stop; each pipeline runs once, and nothing is compared with ONNX Runtime.

    may_open: is called with the path of each model, and may raise UserError. Raises LessonError with all faults.
    """
    faults, played = [], []
    player = _Player(lesson, may_open)
    for stop in lesson.stops:
        try:
            played.append(player.play(stop))
        except _Fault as fault:
            faults.append(Fault(str(lesson.file), stop.line_of(fault.key), str(fault)))
    if faults:
        raise LessonError(list(dict.fromkeys(faults)))
    return played


def model_file(lesson: Lesson, named: str) -> Path:
    """The file beside the lesson, or the sample. Raises _Fault."""
    beside = lesson.file.parent / named
    if beside.is_file():
        return beside
    if (SAMPLES / named).is_file():
        return SAMPLES / named
    files = [str(file.relative_to(SAMPLES)) for file in _models()]
    raise _Fault("model", f"there is no model '{named}' beside the lesson or among the samples{closest(named, files)}")


def _models() -> Iterator[Path]:
    for ending in ("*.onnx", "*.onnxtxt"):
        yield from sorted(SAMPLES.rglob(ending))


def _pipeline(wanted: LessonPipeline) -> Pipeline:
    names = list(wanted.passes or ()) if wanted.passes is not None or not wanted.preset else None
    layout = wanted.strategy or None
    if names is None:
        return _saying("preset", lambda: choose(preset=wanted.preset, layout=layout))
    _saying("strategy", lambda: choose([], layout=layout))
    return _saying("passes", lambda: choose(names, layout=layout))


def _moment(stop: Stop, history: History) -> tuple[int, int | None]:
    """The step and the number of its rewrites that are done. Raises _Fault."""
    word, _, number = stop.moment.partition(" ")
    if stop.moment == "start":
        return 0, None
    if stop.moment == "end":
        return len(history) - 1, None
    names = [step.pass_name for step in history.steps]
    strategies = {s.pass_.strategy: s.pass_name for s in history.steps if isinstance(s.pass_, LayoutStrategy)}
    name = strategies.get(word, word)
    if name not in names[1:]:
        known = ["start", "end", *names[1:]]
        raise _Fault("moment", f"'{word}' is no pass that runs here{closest(word, known)}")
    step = names.index(name, 1)
    if not number:
        return step, None
    total = len(history[step].rewrites)
    if not number.strip().isdecimal() or int(number) > total:
        ran = f"{name} has {total:,} rewrite{'' if total == 1 else 's'} here"
        raise _Fault("moment", f"'{number}' is no moment of it: {ran}; write a number from 0 to {total}")
    return step, int(number)


def _check_node(stop: Stop, history: History, step: int, graph: Graph) -> None:
    """Raises _Fault if the node is neither there at the moment nor before its step."""
    if not stop.node:
        return
    known: dict[str, None] = {}
    for one in (graph, history.before(step)):
        known |= dict.fromkeys(node.name for node in OpenedGroups(one).opened.nodes)
        known |= dict.fromkeys(f"{INPUT_ID}{value}" for value in one.inputs)
        known |= dict.fromkeys(f"{OUTPUT_ID}{value}" for value in one.outputs)
    if stop.node not in known:
        raise _Fault("node", f"there is no node '{stop.node}' at this moment{closest(stop.node, known)}")


def _saying(key: str, work: Callable[[], _T]) -> _T:
    """What the work returns; its UserError becomes a fault of that key."""
    try:
        return work()
    except UserError as error:
        raise _Fault(key, str(error)) from None
