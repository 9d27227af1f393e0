"""The state of a browser session: the open model with the history of its pipeline (`histories.py`)."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import streamlit as st

from workbench.errors import UserError
from workbench.evidence.verification.fitting_dims import fitted
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.formats.io.samples import Shows, samples
from workbench.interfaces.ui.state.address import (
    LinkKey,
    address_of_file,
    excluded_in_address,
    file_of_address,
    model_in_address,
    model_key_in_address,
    pipeline_in_address,
    sample_at,
)
from workbench.interfaces.ui.state.checking import Checking
from workbench.interfaces.ui.state.folders import check_may_open
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.overlay import Overlay
from workbench.interfaces.ui.state.session_restore import abandonment, remember, restored
from workbench.interfaces.ui.state.uploads import Upload, keep_upload, kept_upload, path_from_here, save_upload
from workbench.interfaces.ui.state.work import Jobs
from workbench.ir import Graph
from workbench.pipeline.pipeline import Pipeline
from workbench.planning.layout.declared import declared_layouts
from workbench.planning.layout.infer import declare
from workbench.planning.layout.profile import Profile, load_profile, machine_target
from workbench.presentation.explanations.summary import Summary, summarize
from workbench.presentation.view.matching import Correspondence, match_graphs, with_names_of
from workbench.rewrite import DEFAULT_MODE, Excluded, History
from workbench.rewrite.core.limits import GROW
from workbench.run.compare import Verdict
from workbench.run.inputs import bound_dims, bound_sizes
from workbench.run.measurement.measurement_result import Measurement
from workbench.run.worker.client import Worker

_KEY = "opened"
_REFUSAL = "link_refused"
_NUMBERS = itertools.count()
_S = TypeVar("_S", bound=ModelState)


@dataclass(frozen=True)
class Spec:
    """What to run: the pipeline, the target profile, the mode of exactness, rewrites to leave out.

    grow, keep: limits of rules, see `limits_of`.
    """

    pipeline: Pipeline
    profile: Profile
    mode: str = DEFAULT_MODE
    excluded: tuple[Excluded, ...] = ()
    grow: float = GROW
    keep: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        return self.profile.name


@dataclass(frozen=True)
class MeasuredHere:
    """A measurement of the open model and of what a pipeline made of it. graphs: by the label of the variant."""

    spec: Spec | None
    measurement: Measurement
    graphs: Mapping[str, Graph]


@dataclass
class OtherModel:
    """The model that the open one is compared with.

    renamed_graph: the graph with nodes named as their counterparts in the open model.
    folder, upload_key: of an upload; None and "" for a file opened by path.
    measured, verdict: of the open model and this one; None before they are known.
    """

    title: str
    path: str
    graph: Graph
    renamed_graph: Graph
    correspondence: Correspondence
    folder: tempfile.TemporaryDirectory[str] | None = None
    upload_key: str = ""
    measured: Measurement | None = None
    verdict: Verdict | None = None
    number: int = field(default_factory=lambda: next(_NUMBERS))

    @cached_property
    def summary(self) -> Summary:
        return summarize(self.graph)

    @cached_property
    def shown_names(self) -> dict[str, str]:
        """The names of nodes in `renamed_graph`, by those in `graph`."""
        names = ([node.name for node in graph.nodes] for graph in (self.graph, self.renamed_graph))
        return dict(zip(*names, strict=True))

    @property
    def address(self) -> str:
        """The file in the address of the page."""
        path = self.path if self.folder is None else Path(self.path).name
        return address_of_file(path, self.folder is not None, self.upload_key)


@dataclass(frozen=True)
class PartOf:
    """The whole model of an open part. sources, targets: values at the ends of the part. folder: of an upload."""

    title: str
    file: str
    dims: Mapping[str, int]
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    folder: tempfile.TemporaryDirectory[str] | None = None


@dataclass
class Opened:
    """A model in the session.

    path:    as on the command line. title: its name on screen.
    number:  unique among all opened models; part of the keys of widgets that belong to one model.
    folder, upload_key: of an upload; a part of another model has a folder and no key.
    inputs:  name of the user's .npz file, "" if inputs are generated from `seed`.
    records: by pipeline, its newest measurement; None for the model alone. Every page reads and writes these.
    opened_with: the pipeline with which a sample or a lesson opened it.
    user_dim_names: symbolic dims that the user bound.
    toggled: groups of the graph that the user opened (True) or closed.
    checking: the comparison of the history's steps. excluded: rewrites that are left out. keeps_failing: whether the
             user put one back, so that none is left out without being asked.
    overlay: the user's numbers for nodes.
    states:  what pages and caches keep of it, by class; `state` gives them.
    """

    title: str
    path: str
    graph: Graph
    verifier: Verifier
    history: History | None = None
    spec: Spec | None = None
    checking: Checking | None = None
    excluded: tuple[Excluded, ...] = ()
    keeps_failing: bool = False
    records: dict[Spec | None, MeasuredHere] = field(default_factory=dict)
    part_of: PartOf | None = None
    folder: tempfile.TemporaryDirectory[str] | None = None
    upload_key: str = ""
    user_dim_names: tuple[str, ...] = ()
    inputs: str = ""
    seed: int = 0
    number: int = field(default_factory=lambda: next(_NUMBERS))
    jobs: Jobs = field(default_factory=Jobs)
    toggled: dict[str, bool] = field(default_factory=dict)
    other: OtherModel | None = None
    overlay: Overlay = field(default_factory=Overlay)
    opened_with: Shows | None = None
    states: dict[type[ModelState], Any] = field(default_factory=dict)

    def state(self, kind: type[_S]) -> _S:
        """What a page or a cache keeps of this model, made when first asked for."""
        result: _S = self.states.setdefault(kind, kind())
        return result

    def forget_state(self, kind: type[ModelState]) -> None:
        self.states.pop(kind, None)

    def drop_results(self) -> None:
        """Forget what is not true of other inputs or declared layouts."""
        self.history = self.spec = None
        self.records.clear()
        self.__dict__.pop("summary", None)  # it contains layouts
        self.states = {kind: state for kind, state in self.states.items() if kind.outlives_inputs}

    @property
    def measured(self) -> MeasuredHere | None:
        """The measurement of the pipeline that is shown; None before it is measured."""
        return self.records.get(self.spec)

    def take_measurement(self, measured: MeasuredHere) -> None:
        """Keep a measurement in place of the earlier one of the same pipeline; it becomes the newest of all."""
        self.records.pop(measured.spec, None)
        self.records[measured.spec] = measured

    @property
    def profile(self) -> Profile:
        """The target of its pipeline; before the first one, this machine's."""
        return load_profile(machine_target()) if self.spec is None else self.spec.profile

    @property
    def address(self) -> str:
        """The file in the address of the page."""
        return address_of_file(self.path, self.folder is not None, self.upload_key)

    @property
    def user_dims(self) -> dict[str, int]:
        """The symbolic dims that the user bound, with their sizes."""
        return {name: self.graph.dims[name] for name in self.user_dim_names}

    @cached_property
    def summary(self) -> Summary:
        """Where its sizes do not fit, of dims with which it runs."""
        return summarize(fitted(self.graph, self.verifier))

    def input_types(self, limit: int) -> dict[str, str]:
        """The types of the first `limit` inputs, by name, with the sizes of the last run, or else as bound."""
        results = {value.name: value.bound for value in self.summary.inputs[:limit]}
        if self.verifier.dims == self.graph.dims:
            return results
        bound = bound_dims(self.graph, self.verifier.dims)
        for name in results:
            type_ = self.graph.tensor_type(name)
            if type_ is not None and type_.shape is not None:
                results[name] = str(type_.with_shape(bound_sizes(name, type_.shape, bound)))
        return results


def file_of_model(opened: Opened) -> Path:
    """The path of the model's file; of an upload, where it was saved."""
    return Path(opened.path) if opened.folder is None else Path(opened.folder.name) / opened.path


@st.cache_resource
def worker() -> Worker:
    """The worker of this server, with one process per device, which all sessions share."""
    return Worker()


def current() -> Opened:
    """The open model; a new session starts with the one that its link names, else with the first sample.

    Raises UserError if the sample does not open either. `refusal` says why the link's model did not open.
    """
    if _KEY not in st.session_state:
        _open_first()
    result: Opened = st.session_state[_KEY]
    return result


def opened_if_any() -> Opened | None:
    """The open model; None before the first one is opened."""
    return st.session_state.get(_KEY)


def refusal() -> str | None:
    """Why the link's model or a dropped file did not open; None after another opens or the user closes the message."""
    return st.session_state.get(_REFUSAL)


def refuse(message: str) -> None:
    """Show why a model did not open, until the user closes the message."""
    st.session_state[_REFUSAL] = message


def forget_refusal() -> None:
    st.session_state.pop(_REFUSAL, None)


def _open_first() -> None:
    if _restore():
        return
    fault = _open_link()
    if _KEY not in st.session_state:
        first = samples()[0]
        open_model(str(first.file), first.title, first.dims)
        fault = fault and f"{fault}. The sample '{first.title}' is open instead."
    if fault:
        st.session_state[_REFUSAL] = fault


def _restore() -> bool:
    """Restore the model, results and jobs that this browser had before a reload; returns whether there were any.

    Where the address has a pipeline, the rewrites that it leaves out are those of the address.
    """
    key = model_key_in_address()
    opened = None if key is None else restored(key)
    if opened is None:
        return False
    if pipeline_in_address() is not None:
        opened.excluded = excluded_in_address()
    for state in opened.states.values():
        state.reload()
    st.session_state[_KEY] = opened
    _remember(opened)
    return True


def _remember(opened: Opened) -> None:
    def key() -> LinkKey:
        return LinkKey(opened.address, opened.user_dims, declared_layouts(opened.graph))

    for dropped in remember(key, opened):
        dropped.jobs.stop_all()
    opened.jobs.is_abandoned = abandonment(opened)


def _open_link() -> str | None:
    """Open the link's model, if any; returns why it or one of its declared layouts was refused, or None."""
    try:
        linked = model_in_address()
        if linked is not None:
            if linked.upload_key:
                _open_upload(kept_upload(linked.upload_key, linked.path), linked.dims)
            else:
                sample = sample_at(linked.path)
                open_model(linked.path, linked.title, linked.dims, opened_with=None if sample is None else sample.shows)
            st.session_state[_KEY].excluded = excluded_in_address()
            declare(st.session_state[_KEY].graph, linked.layouts)
    except UserError as error:
        return str(error)
    return None


def open_model(
    path: str,
    title: str,
    dims: Mapping[str, int] | None = None,
    folder: tempfile.TemporaryDirectory[str] | None = None,
    shown_path: str | None = None,
    opened_with: Shows | None = None,
    upload_key: str = "",
) -> None:
    """Load a file and make it the session's model. On an error (UserError) the open model stays open.

    folder:     the folder of an upload; None for a file of this machine that may be opened (`folders.py`).
    shown_path: the path to show, if it differs.
    opened_with, upload_key: see `Opened`.
    """
    if folder is None:
        check_may_open(path)
    graph = load_model(path, dims, name=title)
    verifier = Verifier(graph, worker=worker(), given=tuple(dims or ()))
    upload_folder = folder
    if upload_folder is None and _KEY in st.session_state and st.session_state[_KEY].path == (shown_path or path):
        upload_folder = st.session_state[_KEY].folder
    shown = shown_path or path_from_here(path)
    user_dim_names = tuple(dims or ())
    if _KEY in st.session_state:
        stop_work(st.session_state[_KEY])
    st.session_state[_KEY] = Opened(
        title, shown, graph, verifier, folder=upload_folder, upload_key=upload_key, user_dim_names=user_dim_names,
        opened_with=opened_with,
    )  # fmt: skip
    _remember(st.session_state[_KEY])
    forget_refusal()


def open_uploads(files: Sequence[Any]) -> None:
    """Open an uploaded model. files: the model and its external data.

    A second model goes beside it on Compare; a message says so, and which further ones are not opened.
    """
    upload = save_upload(files)
    model, *others = upload.models
    _open_upload(upload)
    if fault := keep_upload(upload):
        refuse(fault)
    if not others:
        return
    message = f"One model opens at a time: '{model.name}' is open"
    second, *rest = (path.name for path in others)
    try:
        open_other(current(), str(others[0]), upload.folder, upload.key)
        message += f", and '{second}' is beside it on Compare"
    except UserError as error:
        message += f". '{second}' does not open beside it: {error}"
    refuse(message + (f". Open the others one by one: {', '.join(rest)}." if rest else "."))


def _open_upload(upload: Upload, dims: Mapping[str, int] | None = None) -> None:
    model = upload.models[0]
    open_model(str(model), model.name, dims, upload.folder, shown_path=model.name, upload_key=upload.key)


def open_other_in_address(opened: Opened, address: str) -> None:
    """Compare the open model with the one of an address, see `file_of_address`. Raises UserError."""
    key, path = file_of_address(address)
    if key:
        upload = kept_upload(key, path)
        open_other(opened, str(upload.models[0]), upload.folder, key)
    else:
        open_other(opened, path)


def open_other(
    opened: Opened,
    path: str,
    folder: tempfile.TemporaryDirectory[str] | None = None,
    upload_key: str = "",
    title: str = "",
) -> None:
    """Compare the open model with another one. title: on screen; default: the file's name.

    folder, upload_key: of an upload. On an error (UserError) the previous other model stays.
    """
    if folder is None:
        check_may_open(path)
    graph = load_model(path)
    correspondence = match_graphs(opened.graph, graph)
    opened.other = OtherModel(
        title or Path(path).name,
        path,
        graph,
        with_names_of(opened.graph, graph, correspondence.pairs),
        correspondence,
        folder,
        upload_key,
    )


def stop_work(opened: Opened) -> None:
    """Stop all work on the model, since its results would not be used."""
    stop_checking(opened)
    opened.jobs.stop_all()


def stop_checking(opened: Opened) -> None:
    if opened.checking is not None:
        opened.checking.stop()
        opened.checking = None
