"""The state of the view in the URL of the page, so that a link reproduces it.

model, dims, input_layout, target, passes, option, mode: the arguments of `workbench optimize`; the pages write them.
leave_out: rewrites that the user left out, "step:rule@node#number", or "step:" for all of a pass.
preset: the preset that the list of passes started from, and is reset to.
verify: what is compared with the original, if not each step.
left, right: the pipelines side by side on Lockstep.
step, rewrite, node: what is on screen; the component writes them during stepping, without a rerun.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st
from streamlit import runtime

from workbench.errors import UserError
from workbench.io.dims import parse_dims
from workbench.io.samples import Sample, Shows, samples
from workbench.layout.declared import parse_layouts
from workbench.pipeline.pipeline import Pipeline
from workbench.registry.pass_choice import DEFAULT_PRESET
from workbench.registry.reading import shortest_text
from workbench.rewrite import DEFAULT_MODE, LeftOut
from workbench.rewrite.core.identity import read_rewrite_id
from workbench.ui.state.folders import real_path

_MODEL, _DIMS, _TARGET, _PASSES, _OPTION, _MODE = "model", "dims", "target", "passes", "option", "mode"
_PRESET, _INPUT_LAYOUT, _LEAVE_OUT, _VERIFY = "preset", "input_layout", "leave_out", "verify"
_STEP, _REWRITE, _NODE, _OTHER = "step", "rewrite", "node", "other"
_LEFT, _RIGHT = "left", "right"
_COUNT = re.compile(r"[0-9]{1,9}")
_WANTED = "wanted_address"  # in the session: what this run of the page wrote
_UPLOADED = "upload:"  # prefix of the name of an uploaded model, which only its session has

Moment = tuple[int, int | None]  # a step, and how many of its rewrites are done; None: all, shown as one


@dataclass(frozen=True)
class Named:
    """The model that a link names, with the sizes of symbolic dims and the layouts of inputs that it declares."""

    path: str
    title: str
    dims: Mapping[str, int]
    layouts: Mapping[str, str]


def model_in_address() -> Named | None:
    """The model of the link, None if it names none. Raises UserError for an upload, which a link cannot open."""
    path = st.query_params.get(_MODEL)
    if not path:
        return None
    if path.startswith(_UPLOADED):
        name = path.removeprefix(_UPLOADED)
        raise UserError(f"the link is to '{name}', which was uploaded in another session; upload the file here")
    name, sample = path.rpartition("/")[2], sample_at(path)
    dims, layouts = parse_dims(st.query_params.get(_DIMS, "")), parse_layouts(st.query_params.get_all(_INPUT_LAYOUT))
    return Named(path, name if sample is None else sample.title, dims, layouts)


def named_in_address() -> tuple[str, dict[str, int]] | None:
    """The name of the link's model, also of an upload, and the sizes of its dims; None if it names none or is wrong."""
    path = st.query_params.get(_MODEL)
    try:
        return None if not path else (path, dict(parse_dims(st.query_params.get(_DIMS, ""))))
    except UserError:
        return None


def address_of_model(path: str, uploaded: bool) -> str:
    return f"{_UPLOADED}{path}" if uploaded else path


def sample_at(path: str) -> Sample | None:
    """The sample whose file that is, None for any other file."""
    return next((s for s in samples() if s.file == real_path(path)), None)


@dataclass(frozen=True)
class Wished:
    """The pipeline of a link: its text, further "pass.option=value", the target's name ("" for none), mode, preset."""

    pipeline: str
    options: tuple[str, ...]
    target: str
    mode: str
    preset: str


def pipeline_in_address() -> Wished | None:
    """The pipeline of the link, None if it names none."""
    named = st.query_params.get(_PASSES)
    if named is None:
        return None
    options, target = tuple(st.query_params.get_all(_OPTION)), st.query_params.get(_TARGET, "")
    mode, preset = st.query_params.get(_MODE, DEFAULT_MODE), st.query_params.get(_PRESET, DEFAULT_PRESET)
    return Wished(named, options, target, mode, preset)


def left_out_in_address() -> tuple[LeftOut, ...]:
    """The rewrites that the link leaves out."""
    named = (word.partition(":") for word in st.query_params.get_all(_LEAVE_OUT))
    ids = ((step, text, read_rewrite_id(text)) for step, _, text in named)
    return tuple(LeftOut(step, identity) for step, text, identity in ids if identity is not None or not text)


def address_of(shows: Shows) -> dict[str, str]:
    """The query parameters of a link to a sample's rewrite: the pipeline and the moment."""
    sentences = {
        _PASSES: ",".join(shows.passes),
        _TARGET: shows.target,
        _MODE: shows.mode,
        _PRESET: shows.preset,
        _STEP: str(shows.step),
        _REWRITE: "" if shows.rewrite is None else str(shows.rewrite),
        _NODE: shows.node,
    }
    return {key: words for key, words in sentences.items() if words}


def moment_in_address() -> Moment | None:
    """The moment in the URL, which the browser shows; None if there is none."""
    step, rewrite = st.query_params.get(_STEP, ""), st.query_params.get(_REWRITE, "")
    if not _COUNT.fullmatch(step):
        return None
    return int(step), int(rewrite) if _COUNT.fullmatch(rewrite) else None


def node_in_address() -> str:
    """The selected node of the link, "" for none."""
    return st.query_params.get(_NODE, "")


def other_in_address() -> str:
    """The path of the other file of the link, on Compare; "" for none."""
    return st.query_params.get(_OTHER, "")


def write_other(path: str) -> None:
    """Write the path of the other file to the URL, "" for an upload."""
    _write(_OTHER, path)


def sides_in_address() -> tuple[str, str]:
    """The pipelines of the link on the left and right of Lockstep, "" for none; `pipelines.py` has their words."""
    return st.query_params.get(_LEFT, ""), st.query_params.get(_RIGHT, "")


def target_in_address() -> str:
    """The target profile of the link, "" for none."""
    return st.query_params.get(_TARGET, "")


def write_sides(left: str, right: str, target: str) -> None:
    """Write the two pipelines of Lockstep and their target profile to the URL."""
    _write(_LEFT, left)
    _write(_RIGHT, right)
    write_target(target)


def write_target(target: str) -> None:
    """Write the target profile to the URL."""
    _write(_TARGET, target)


def write_open_model(path: str, dims: Mapping[str, int], layouts: Mapping[str, str], uploaded: bool) -> None:
    """Write the open model, its dims and the declared layouts of its inputs to the URL."""
    _write(_MODEL, address_of_model(path, uploaded))
    _write(_DIMS, ",".join(f"{name}={size}" for name, size in dims.items()))
    _write_all(_INPUT_LAYOUT, [f"{value}={layout}" for value, layout in layouts.items()])


def write_pipeline(pipeline: Pipeline, target: str, mode: str, preset: str) -> None:
    """Write the pipeline to the URL."""
    _write(_PASSES, shortest_text(pipeline))
    _write(_TARGET, target)
    _write(_MODE, "" if mode == DEFAULT_MODE else mode)
    _write(_PRESET, "" if preset == DEFAULT_PRESET else preset)
    _write_all(_OPTION, [])


def verification_in_address() -> str:
    """What the link compares with the original, "" where it says nothing."""
    return st.query_params.get(_VERIFY, "")


def write_verification(how: str, default: str) -> None:
    """Write what is compared with the original to the URL."""
    _write(_VERIFY, "" if how == default else how)


def write_left_out(left_out: Sequence[LeftOut]) -> None:
    """Write the left-out rewrites to the URL."""
    _write_all(_LEAVE_OUT, [f"{out.step}:{out.rewrite or ''}" for out in left_out])


def write_seen(moment: Moment | None, node: str) -> None:
    """Write what is on screen to the URL; during stepping the browser writes it itself."""
    step, rewrite = moment or (0, None)
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
    st.session_state.setdefault(_WANTED, {})[key] = values


def _write(key: str, value: str) -> None:
    _write_all(key, [value] if value or key == _PASSES else [])


def written_address() -> dict[str, list[str]]:
    """What this run of the page wrote, by key; [] for what the URL must not have. The browser puts it there.

    (Streamlit's own `st.query_params` adds an entry to the browser's history for each key.)
    """
    result: dict[str, list[str]] = st.session_state.pop(_WANTED, {})
    return result
