"""The state of the view in the URL of the page, so that a link reproduces it.

model, dims, input_layout, target, passes, option, mode, grow, keep: arguments of `workbench optimize`; the pages write
them. An upload is "upload:KEY/NAME", see `uploads.py`.
leave_out: rewrites that the user left out, "step:rule@node#number", or "step:" for all of a pass.
preset: the preset from which the list of passes started, and to which it is reset.
verify: which steps are compared with the original; absent: each step.
left, right: the two pipelines on Lockstep.
step, rewrite, node: what is on screen; the component writes them during stepping, without a rerun.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from workbench.errors import UserError
from workbench.formats.io.dims import parse_dims
from workbench.formats.io.samples import Sample, Shows, samples
from workbench.interfaces.ui.state.folders import real_path
from workbench.pipeline.pipeline import Pipeline
from workbench.pipeline.registry.pass_choice import DEFAULT_PRESET
from workbench.pipeline.registry.reading import shortest_text
from workbench.planning.layout.declared import parse_layouts
from workbench.rewrite import DEFAULT_MODE, Excluded
from workbench.rewrite.core.identity import present_label, read_rewrite_id
from workbench.rewrite.core.limits import GROW

_MODEL, _DIMS, _TARGET, _PASSES, _OPTION, _MODE = "model", "dims", "target", "passes", "option", "mode"
_PRESET, _INPUT_LAYOUT, _EXCLUDED, _VERIFY = "preset", "input_layout", "leave_out", "verify"
_GROW, _KEEP = "grow", "keep"
_STEP, _REWRITE, _NODE, _OTHER = "step", "rewrite", "node", "other"
_LEFT, _RIGHT = "left", "right"
_COUNT = re.compile(r"[0-9]{1,9}")
_FACTOR = re.compile(r"[1-9][0-9]{0,5}(\.[0-9]{1,6})?")
_WRITTEN = "wanted_address"  # key in the session: what this run of the page wrote
_UPLOADED = "upload:"  # prefix of the address of an uploaded model

Moment = tuple[int, int | None]  # a step, and the number of its rewrites that are done; None: all at once


@dataclass(frozen=True)
class LinkedModel:
    """The model that a link names, with the sizes of symbolic dims and the layouts of inputs that it declares.

    path: of its file; of an upload the name. upload_key: "" for a file of this machine.
    """

    path: str
    upload_key: str
    title: str
    dims: Mapping[str, int]
    layouts: Mapping[str, str]


@dataclass(frozen=True)
class LinkKey:
    """What identifies an open model in a link: its address, the sizes that the user bound, the layouts of inputs."""

    address: str
    dims: Mapping[str, int]
    layouts: Mapping[str, str]


def model_in_address() -> LinkedModel | None:
    """The model of the link; None without one. Raises UserError for a part of a model, which only its session has."""
    address = st.query_params.get(_MODEL)
    if not address:
        return None
    key, path = file_of_address(address)
    name, sample = path.rpartition("/")[2], None if key else sample_at(path)
    dims, layouts = parse_dims(st.query_params.get(_DIMS, "")), parse_layouts(st.query_params.get_all(_INPUT_LAYOUT))
    return LinkedModel(path, key, name if sample is None else sample.title, dims, layouts)


def model_key_in_address() -> LinkKey | None:
    """What the link says of its model, which may be an upload; None if it has none."""
    path = st.query_params.get(_MODEL)
    if not path:
        return None
    try:
        layouts = parse_layouts(st.query_params.get_all(_INPUT_LAYOUT))
        return LinkKey(path, dict(parse_dims(st.query_params.get(_DIMS, ""))), layouts)
    except UserError:
        return None


def address_of_file(path: str, is_uploaded: bool, upload_key: str) -> str:
    """The text in an address for a file; that of a part of a model, which has no key, opens in its session only."""
    if not is_uploaded:
        return path
    return f"{_UPLOADED}{upload_key}/{path}" if upload_key else f"{_UPLOADED}{path}"


def file_of_address(address: str) -> tuple[str, str]:
    """(the key of the upload, or ""; the path, of an upload the name). Raises UserError for a part of a model."""
    if not address.startswith(_UPLOADED):
        return "", address
    key, _, name = address.removeprefix(_UPLOADED).rpartition("/")
    if not key:
        raise UserError(f"the link is to '{name}', which only the session that made it has; upload the file here")
    return key, name


def sample_at(path: str) -> Sample | None:
    """The sample with that file; None for any other file."""
    return next((s for s in samples() if s.file == real_path(path)), None)


@dataclass(frozen=True)
class LinkedPipeline:
    """The pipeline of a link as text, and settings. options: further "pass.option=value". target: a name, or "".

    grow, keep: as in `Spec`.
    """

    pipeline: str
    options: tuple[str, ...]
    target: str
    mode: str
    preset: str
    grow: float = GROW
    keep: tuple[str, ...] = ()


def pipeline_in_address() -> LinkedPipeline | None:
    """The pipeline of the link; None without one."""
    text = st.query_params.get(_PASSES)
    if text is None:
        return None
    options, target = tuple(st.query_params.get_all(_OPTION)), st.query_params.get(_TARGET, "")
    mode, preset = st.query_params.get(_MODE, DEFAULT_MODE), st.query_params.get(_PRESET, DEFAULT_PRESET)
    grow = st.query_params.get(_GROW, "")
    keep = tuple(st.query_params.get_all(_KEEP))
    return LinkedPipeline(text, options, target, mode, preset, float(grow) if _FACTOR.fullmatch(grow) else GROW, keep)


def excluded_in_address() -> tuple[Excluded, ...]:
    """The rewrites that the link leaves out."""
    entries = (entry.partition(":") for entry in st.query_params.get_all(_EXCLUDED))
    ids = ((present_label(step), text, read_rewrite_id(text, step)) for step, _, text in entries)
    return tuple(Excluded(step, identity) for step, text, identity in ids if identity is not None or not text)


def address_of(shows: Shows) -> dict[str, str]:
    """The query parameters of a link to a sample's rewrite: the pipeline and the moment."""
    parameters = {
        _PASSES: ",".join(shows.passes),
        _TARGET: shows.target,
        _MODE: shows.mode,
        _PRESET: shows.preset,
        _STEP: str(shows.step),
        _REWRITE: "" if shows.rewrite is None else str(shows.rewrite),
        _NODE: shows.node,
    }
    return {key: value for key, value in parameters.items() if value}


def moment_in_address() -> Moment | None:
    """The moment in the URL; None if there is none."""
    step, rewrite = st.query_params.get(_STEP, ""), st.query_params.get(_REWRITE, "")
    if not _COUNT.fullmatch(step):
        return None
    return int(step), int(rewrite) if _COUNT.fullmatch(rewrite) else None


def page_of_run() -> str:
    """Which page this run of the script is for, as Streamlit names it; "" outside of a run."""
    context = get_script_run_ctx()
    return "" if context is None else context.page_script_hash


def node_in_address() -> str:
    """The selected node of the link, or ""."""
    return st.query_params.get(_NODE, "")


def other_in_address() -> str:
    """The address of the other file on Compare, or ""; see `file_of_address`."""
    return st.query_params.get(_OTHER, "")


def write_other(address: str) -> None:
    """Write the address of the other file to the URL; "" without one."""
    _write(_OTHER, address)


def sides_in_address() -> tuple[str, str]:
    """The keys of the left and the right pipeline on Lockstep, or ""; see `pipelines.py`."""
    return st.query_params.get(_LEFT, ""), st.query_params.get(_RIGHT, "")


def target_in_address() -> str:
    """The target profile of the link, or ""."""
    return st.query_params.get(_TARGET, "")


def write_sides(left: str, right: str, target: str) -> None:
    """Write the two pipelines of Lockstep and their target profile to the URL."""
    _write(_LEFT, left)
    _write(_RIGHT, right)
    write_target(target)


def write_target(target: str) -> None:
    """Write the target profile to the URL."""
    _write(_TARGET, target)


def write_open_model(address: str, dims: Mapping[str, int], layouts: Mapping[str, str]) -> None:
    """Write the open model, its dims and the declared layouts of its inputs to the URL."""
    _write(_MODEL, address)
    _write(_DIMS, ",".join(f"{name}={size}" for name, size in dims.items()))
    _write_all(_INPUT_LAYOUT, [f"{value}={layout}" for value, layout in layouts.items()])


def write_pipeline(
    pipeline: Pipeline, target: str, mode: str, preset: str, grow: float = GROW, keep: Sequence[str] = ()
) -> None:
    """Write the pipeline to the URL."""
    _write(_GROW, "" if grow == GROW else f"{grow:g}")
    _write_all(_KEEP, list(keep))
    _write(_PASSES, shortest_text(pipeline))
    _write(_TARGET, target)
    _write(_MODE, "" if mode == DEFAULT_MODE else mode)
    _write(_PRESET, "" if preset == DEFAULT_PRESET else preset)
    _write_all(_OPTION, [])


def verification_in_address() -> str:
    """Which steps the link compares with the original, or ""."""
    return st.query_params.get(_VERIFY, "")


def write_verification(how: str, default: str) -> None:
    """Write to the URL which steps are compared with the original."""
    _write(_VERIFY, "" if how == default else how)


def write_excluded(excluded: Sequence[Excluded]) -> None:
    """Write the left-out rewrites to the URL."""
    _write_all(_EXCLUDED, [f"{out.step}:{out.rewrite or ''}" for out in excluded])


def write_seen(moment: Moment | None, node: str) -> None:
    """Write the shown moment and the selected node to the URL; during stepping, the browser writes them itself.

    moment: None: the original and the result are shown.
    """
    step, rewrite = moment or ("", None)
    _write(_STEP, str(step))
    _write(_REWRITE, "" if rewrite is None else str(rewrite))
    _write(_NODE, node)


def _write_all(key: str, values: list[str]) -> None:
    if type(runtime.get_instance()) is not runtime.Runtime:  # a test without a browser
        if values:
            st.query_params[key] = values
        else:
            st.query_params.pop(key, None)
        return
    st.session_state.setdefault(_WRITTEN, {})[key] = values


def _write(key: str, value: str) -> None:
    _write_all(key, [value] if value or key == _PASSES else [])


def written_address() -> dict[str, list[str]]:
    """What this run of the page wrote, by key, for the browser to put into the URL; []: the key is removed.

    Streamlit's own `st.query_params` would add an entry to the browser's history for each key.
    """
    result: dict[str, list[str]] = st.session_state.pop(_WRITTEN, {})
    return result
