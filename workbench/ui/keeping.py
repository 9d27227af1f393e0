"""What the pages measure is kept in the history of runs; where that fails, the page says so and goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from workbench.run.records import Origin, RecordsError, keep, model_hash
from workbench.ui.parts import command_of, plain
from workbench.ui.session import Opened


def keep_measured(opened: Opened, found: Mapping[str, Any], pipelines: Mapping[str, str]) -> None:
    """Keep what `measure_models` returned. pipelines: by label, the command that makes the variant, "" for none."""
    try:
        digest = model_hash(opened.graph)
        keep(found, {label: Origin(digest, opened.title, pipeline) for label, pipeline in pipelines.items()})
    except RecordsError as error:
        st.caption(plain(f"This measurement is shown here, and not kept among the runs: {error}."))


def pipeline_until(opened: Opened, step: int) -> str:
    """The command that does the passes up to and with that step of the history, "" for the model as loaded."""
    if step == 0 or opened.spec is None:
        return ""
    return command_of(opened, replace(opened.spec, passes=opened.spec.passes[:step]))
