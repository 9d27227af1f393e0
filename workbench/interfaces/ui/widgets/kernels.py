"""The kernels in which the backend `fused` ran the groups of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from workbench.backends.profiling.profile_result import Kernel
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.widgets.numbers import download_button, show_table, shown_csv
from workbench.run.measurement.formatting import kernels_text
from workbench.run.measurement.measurement_result import MeasuredVariant

_DECIMALS = {"time (ms)": 4, "one by one (ms)": 4, "kB by contract": 1, "kB by inductor": 1, "compiled (s)": 1}


def kernels_of(variants: Mapping[str, MeasuredVariant]) -> None:
    """Draw the kernels of a variant and their generated source. variants: each has kernels."""
    choose, as_csv = st.columns([6, 1], vertical_alignment="bottom")
    label = choose.selectbox("Variant", list(variants), key="kernels_of", persist_state="session")
    variant = variants[label]
    st.markdown(markdown_escaped(f"{kernels_text(variant.kernels, variant.first_result_s)}."))
    bytes_moved = {operator.name: operator.bytes for operator in variant.operators}
    rows = [_row(kernel, bytes_moved.get(kernel.group)) for kernel in variant.kernels]
    st.caption(
        "Times are the fastest of a few interleaved runs of the group alone, before the measurement. Bytes by contract "
        "are those of its operands and results; inductor counts those that its own kernels read and write."
    )
    show_table(rows, _DECIMALS, first=("group", "operators", "how", "time (ms)", "one by one (ms)"))
    download_button(as_csv, "CSV", shown_csv(rows), "kernels.csv", "kernels_csv")
    sources = {kernel.group: kernel for kernel in variant.kernels if kernel.source}
    if sources:
        group = st.selectbox("Generated source of", list(sources), key="source_of", persist_state="session")
        st.caption(markdown_escaped("Its operators: " + ", ".join(sources[group].operators)))
        st.code(sources[group].source, "python", height=400)


def _row(kernel: Kernel, bytes_moved: int | None) -> dict[str, Any]:
    return {
        "group": kernel.group,
        "operators": ", ".join(kernel.operators),
        "by": kernel.by,
        "how": kernel.how,
        "time (ms)": kernel.time_ms,
        "one by one (ms)": kernel.torch_ms,
        "kB by contract": None if bytes_moved is None else bytes_moved / 1e3,
        "kB by inductor": None if kernel.bytes is None else kernel.bytes / 1e3,
        "compiled (s)": kernel.compile_s or None,
        "same as": kernel.same_as,
    }
