"""The state of the view in the address of the page, so that a link shows the same.

model, dims, target, passes, option, mode: what `workbench optimize` is given; the pages write them.
preset: where the list of passes comes from, and what it goes back to.
step, rewrite, node: what is looked at; the component writes them while one steps, without a rerun.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from workbench.api import DEFAULT_PRESET
from workbench.errors import UserError
from workbench.loading.dims import parse_dims
from workbench.loading.samples import samples
from workbench.rewrite import DEFAULT_MODE
from workbench.ui.folders import real_path

MODEL, DIMS, TARGET, PASSES, OPTION, MODE = "model", "dims", "target", "passes", "option", "mode"
PRESET = "preset"
STEP, REWRITE, NODE, OTHER = "step", "rewrite", "node", "other"
UPLOADED = "upload:"  # before the name of a model that only its own session has

Moment = tuple[int, int | None]  # a step, and how many of its rewrites are done; None: all, seen as one


@dataclass(frozen=True)
class Named:
    """The model that a link names."""

    path: str
    title: str
    dims: Mapping[str, int]


def model_in_address() -> Named | None:
    """The model of the link, None where it names none. Raises UserError where a link can not name it."""
    path = st.query_params.get(MODEL)
    if not path:
        return None
    if path.startswith(UPLOADED):
        name = path.removeprefix(UPLOADED)
        raise UserError(f"the link shows '{name}', an upload that only its own session has; upload the file here")
    name = path.rpartition("/")[2]
    sample = next((s for s in samples() if s.file == real_path(path)), None)
    return Named(path, name if sample is None else sample.title, parse_dims(st.query_params.get(DIMS, "")))


@dataclass(frozen=True)
class Wished:
    """The pipeline of a link: passes in order, "pass.option=value", the target's name ("" for none), mode, preset."""

    passes: tuple[str, ...]
    options: tuple[str, ...]
    target: str
    mode: str
    preset: str


def pipeline_in_address() -> Wished | None:
    """The pipeline of the link, None where it names none."""
    named = st.query_params.get(PASSES)
    if named is None:
        return None
    passes = tuple(name for name in named.split(",") if name)
    options, target = tuple(st.query_params.get_all(OPTION)), st.query_params.get(TARGET, "")
    mode, preset = st.query_params.get(MODE, DEFAULT_MODE), st.query_params.get(PRESET, DEFAULT_PRESET)
    return Wished(passes, options, target, mode, preset)


def moment_in_address() -> Moment | None:
    """The moment that the browser shows, where it has said so."""
    step, rewrite = st.query_params.get(STEP, ""), st.query_params.get(REWRITE, "")
    if not step.isdecimal():
        return None
    return int(step), int(rewrite) if rewrite.isdecimal() else None


def node_in_address() -> str:
    """The selected node of the link, "" for none."""
    return st.query_params.get(NODE, "")


def other_in_address() -> str:
    """The path of the other file of the link, on Compare; "" for none."""
    return st.query_params.get(OTHER, "")


def write_other(path: str) -> None:
    """Let the address say which other file is compared; an upload has none."""
    _write(OTHER, path)


def write_model(path: str, dims: Mapping[str, int], uploaded: bool) -> None:
    """Let the address say what is open."""
    _write(MODEL, f"{UPLOADED}{path}" if uploaded else path)
    _write(DIMS, ",".join(f"{name}={size}" for name, size in dims.items()))


def write_pipeline(passes: Sequence[str], options: Mapping[str, object], target: str, mode: str, preset: str) -> None:
    """Let the address say what is done to it."""
    _write(PASSES, ",".join(passes))
    _write(TARGET, target)
    _write(MODE, "" if mode == DEFAULT_MODE else mode)
    _write(PRESET, "" if preset == DEFAULT_PRESET else preset)
    told = [f"{key}={value}" for key, value in options.items()]
    if st.query_params.get_all(OPTION) != told:
        st.query_params[OPTION] = told


def write_seen(moment: Moment | None, node: str) -> None:
    """Let the address say what is looked at; while one steps, the browser writes it by itself."""
    step, rewrite = moment or (0, None)
    _write(STEP, str(step))
    _write(REWRITE, "" if rewrite is None else str(rewrite))
    _write(NODE, node)


def _write(key: str, value: str) -> None:
    if st.query_params.get(key, "") == value:
        return
    if value or key == PASSES:
        st.query_params[key] = value
    else:
        del st.query_params[key]
