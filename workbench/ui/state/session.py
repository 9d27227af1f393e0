"""The state of a browser session: the open model with the history of its pipeline (`histories.py`)."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.explanations.layout_comparison import LaidOut
from workbench.explanations.summary import Summary, summarize
from workbench.io import load_model
from workbench.io.samples import Shows, samples
from workbench.ir import Graph
from workbench.layout.infer import declare
from workbench.layout.profile import Profile
from workbench.pipeline.pipeline import Pipeline
from workbench.rewrite import DEFAULT_MODE, History, LeftOut
from workbench.run.inputs import bound_dims, bound_sizes
from workbench.run.measurement.measured import Measurement
from workbench.run.worker.client import Worker
from workbench.study.compare_tools.comparing import RivalResult
from workbench.study.sweep.blocks import Block
from workbench.study.tuning.recipe import Recipe
from workbench.ui.state.address import (
    address_of_model,
    left_out_in_address,
    model_in_address,
    named_in_address,
    sample_at,
)
from workbench.ui.state.checking import Checking
from workbench.ui.state.folders import check_may_open
from workbench.ui.state.lru import Recent
from workbench.ui.state.overlay import Overlay
from workbench.ui.state.session_restore import found_again, key_of, remember
from workbench.ui.state.uploads import path_from_here, save_uploads
from workbench.ui.state.work import Jobs
from workbench.verification.verifier import Verifier
from workbench.view.matching import Correspondence, match_graphs, renamed

_KEY = "opened"
_REFUSAL = "link_refused"
_MOST_MOMENTS = 6  # moments of a history that are cached
_MOST_VIEWS = 4  # placed graphs that are cached
_MOST_PLANS = 24  # memory plans that are cached
_MOST_SIDES = 2  # pairs of pipelines that are cached
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Spec:
    """What to run: the pipeline, target, mode of exactness (MODES), rewrites to leave out."""

    pipeline: Pipeline
    profile: Profile
    mode: str = DEFAULT_MODE
    left_out: tuple[LeftOut, ...] = ()

    @property
    def target(self) -> str:
        return self.profile.name


@dataclass
class Compared:
    """The results of all layout strategies for one profile, and their measurements by device."""

    profile: Profile
    found: dict[str, LaidOut]
    measured: dict[str, Measurement] = field(default_factory=dict)


@dataclass
class Other:
    """The model that the open one is compared with.

    named:  the graph with nodes renamed to their counterparts in the open model.
    folder: of its upload, None for a file opened by path.
    """

    title: str
    path: str
    graph: Graph
    named: Graph
    found: Correspondence
    folder: tempfile.TemporaryDirectory[str] | None = None
    number: int = field(default_factory=lambda: next(_NUMBERS))


@dataclass(frozen=True)
class PartOf:
    """The model out of which the open one was cut, between values of it. folder: of its upload."""

    title: str
    file: str
    dims: Mapping[str, int]
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    folder: tempfile.TemporaryDirectory[str] | None = None


@dataclass
class Opened:
    """A model in the session.

    path:    as given to the command line.
    title:   its name on screen.
    number:  unique among all opened models; part of the keys of fields that belong to one model.
    inputs:  name of the user's own .npz, "" if inputs are generated from `seed`.
    laid_out: see `workbench.ui.state.strategies`, by target.
    moments: see `workbench.ui.state.snapshots`; views: see `workbench.ui.state.graph_views`.
    plans:   of memory, see `workbench.ui.screens.memory_page`.
    sides, side_histories: see `workbench.ui.screens.lockstep_page`.
    came_with: the pipeline with which a sample or a lesson opened it.
    toggled: groups of the graph that the user opened (True) or closed.
    checking: the running comparison of the history's steps; left_out: rewrites that the user left out.
    overlay: the user's own numbers for nodes.
    """

    title: str
    path: str
    graph: Graph
    verifier: Verifier
    history: History | None = None
    spec: Spec | None = None
    checking: Checking | None = None
    left_out: tuple[LeftOut, ...] = ()
    measured: Measurement | None = None
    measured_spec: Spec | None = None
    measured_graphs: dict[str, Graph] = field(default_factory=dict)
    matrix: list[Block] = field(default_factory=list)
    laid_out: dict[str, Compared] = field(default_factory=dict)
    laid_out_begun: dict[str, Compared] = field(default_factory=dict)  # comparisons that were stopped
    rivals: dict[str, RivalResult] = field(default_factory=dict)  # by the tool's name
    rivals_folder: tempfile.TemporaryDirectory[str] | None = None  # of the files that tools wrote
    reduced: dict[str, Any] = field(default_factory=dict)  # see `workbench.ui.state.reducing`, by the tool's name
    tuned: Recipe | None = None
    part_of: PartOf | None = None
    extracted: Any = None  # see `workbench.ui.state.extracting`, the part that was cut out
    put_back: Any = None  # and the whole with the open part
    folder: tempfile.TemporaryDirectory[str] | None = None
    given: tuple[str, ...] = ()
    inputs: str = ""
    seed: int = 0
    number: int = field(default_factory=lambda: next(_NUMBERS))
    moments: Recent[Any] = field(default_factory=lambda: Recent(_MOST_MOMENTS))
    views: Recent[Any] = field(default_factory=lambda: Recent(_MOST_VIEWS))
    plans: Recent[Any] = field(default_factory=lambda: Recent(_MOST_PLANS))
    jobs: Jobs = field(default_factory=Jobs)
    on_lanes: dict[str, tuple[Graph, Any]] = field(default_factory=dict)  # measured on Lanes, by the graph's name there
    sides: Recent[Any] = field(default_factory=lambda: Recent(_MOST_SIDES))
    side_histories: Recent[History] = field(default_factory=lambda: Recent(2 * _MOST_SIDES))
    toggled: dict[str, bool] = field(default_factory=dict)
    other: Other | None = None
    overlay: Overlay = field(default_factory=Overlay)
    came_with: Shows | None = None

    @property
    def uploaded(self) -> bool:
        """Whether the model was uploaded, so that only this session has it."""
        return self.folder is not None

    @property
    def dims_given(self) -> dict[str, int]:
        """The symbolic dims that the user bound."""
        return {name: self.graph.dims[name] for name in self.given}

    @cached_property
    def summary(self) -> Summary:
        return summarize(self.graph)

    def input_types(self, most: int) -> dict[str, str]:
        """The first `most` inputs with their types, in the sizes with which the model ran, else as bound."""
        results = {value.name: value.bound for value in self.summary.inputs[:most]}
        if self.verifier.dims == self.graph.dims:
            return results
        bound = bound_dims(self.graph, self.verifier.dims)
        for name in results:
            type_ = self.graph.tensor_type(name)
            if type_ is not None and type_.shape is not None:
                results[name] = str(type_.with_shape(bound_sizes(name, type_.shape, bound)))
        return results


def file_of_model(opened: Opened) -> Path:
    """The file as the user has it, an upload where it was saved."""
    return Path(opened.path) if opened.folder is None else Path(opened.folder.name) / opened.path


@st.cache_resource
def worker() -> Worker:
    """The worker processes of this server, one for each device; all sessions share them and wait for their turn."""
    return Worker()


def current() -> Opened:
    """The open model; a new session starts with the one that its link names, else with the first sample.

    Raises UserError if not even the sample opens. `refusal` tells why the link's model did not.
    """
    if _KEY not in st.session_state:
        _open_first()
    result: Opened = st.session_state[_KEY]
    return result


def opened_if_any() -> Opened | None:
    """The open model, None before the first is opened."""
    return st.session_state.get(_KEY)


def refusal() -> str | None:
    """Why the link's model, or a dropped one, did not open, until another opens or the message is closed."""
    return st.session_state.get(_REFUSAL)


def refuse(words: str) -> None:
    """Why a model did not open, to be shown until it is closed."""
    st.session_state[_REFUSAL] = words


def forget_refusal() -> None:
    st.session_state.pop(_REFUSAL, None)


def _open_first() -> None:
    if _find_again():
        return
    fault = _open_link()
    if _KEY not in st.session_state:
        first = samples()[0]
        open_model(str(first.file), first.title, first.dims)
        fault = fault and f"{fault}. The sample '{first.title}' is open instead."
    if fault:
        st.session_state[_REFUSAL] = fault


def _find_again() -> bool:
    """Take over what this browser had open before a reload, with results and jobs; returns whether there was any."""
    named = named_in_address()
    opened = None if named is None else found_again(key_of(*named))
    if opened is None:
        return False
    st.session_state[_KEY] = opened
    _remember(opened)
    return True


def _remember(opened: Opened) -> None:
    for dropped in remember(key_of(address_of_model(opened.path, opened.uploaded), opened.dims_given), opened):
        dropped.jobs.stop_all()


def _open_link() -> str | None:
    """Open the model that the link names, if any; returns why it, or a declared layout of it, was refused."""
    try:
        named = model_in_address()
        if named is not None:
            sample = sample_at(named.path)
            open_model(named.path, named.title, named.dims, came_with=None if sample is None else sample.shows)
            st.session_state[_KEY].left_out = left_out_in_address()
            declare(st.session_state[_KEY].graph, named.layouts)
    except UserError as error:
        return str(error)
    return None


def open_model(
    path: str,
    title: str,
    dims: Mapping[str, int] | None = None,
    folder: tempfile.TemporaryDirectory[str] | None = None,
    shown_path: str | None = None,
    came_with: Shows | None = None,
) -> None:
    """Load a file and make it the session's model. On an error (UserError) the open model stays open.

    folder: of an upload; a file of this machine must be one that may be opened (`workbench.ui.state.folders`).
    """
    if folder is None:
        check_may_open(path)
    graph = load_model(path, dims, name=title)
    verifier = Verifier(graph, worker=worker(), given=tuple(dims or ()))
    kept = folder
    if kept is None and _KEY in st.session_state and st.session_state[_KEY].path == (shown_path or path):
        kept = st.session_state[_KEY].folder
    shown = shown_path or path_from_here(path)
    given = tuple(dims or ())
    if _KEY in st.session_state:
        stop_work(st.session_state[_KEY])
    st.session_state[_KEY] = Opened(title, shown, graph, verifier, folder=kept, given=given, came_with=came_with)
    _remember(st.session_state[_KEY])
    forget_refusal()


def open_uploads(files: Sequence[Any]) -> None:
    """Open an uploaded model; the other files are its external data."""
    folder, model = save_uploads(files)
    open_model(str(model), model.name, folder=folder, shown_path=model.name)


def open_other(
    opened: Opened, path: str, folder: tempfile.TemporaryDirectory[str] | None = None, title: str = ""
) -> None:
    """Compare the open model with another, an upload or a file that may be opened, called `title` or by its name.

    On an error (UserError) the previous other model stays.
    """
    if folder is None:
        check_may_open(path)
    graph = load_model(path)
    correspondence = match_graphs(opened.graph, graph)
    opened.other = Other(
        title or Path(path).name,
        path,
        graph,
        renamed(graph, correspondence.pairs, opened.graph),
        correspondence,
        folder,
    )


def stop_work(opened: Opened) -> None:
    """Stop what still computes on the model, since its results would no longer be wanted."""
    stop_checking(opened)
    opened.jobs.stop_all()


def stop_checking(opened: Opened) -> None:
    if opened.checking is not None:
        opened.checking.stop()
        opened.checking = None
