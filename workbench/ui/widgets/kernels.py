"""The kernels in which the backend `fused` ran the groups of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from workbench.run.measurement.formatting import kernel_words
from workbench.run.measurement.measured import MeasuredVariant
from workbench.run.profiling.profiled import Kernel
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.widgets.numbers import download_button, show_table, shown_csv

_DECIMALS = {"time (ms)": 4, "one by one (ms)": 4, "kB by contract": 1, "kB by inductor": 1, "compiled (s)": 1}


def kernels_of(variants: Mapping[str, MeasuredVariant]) -> None:
    """A table of kernels and their generated source; all variants have some."""
    choose, as_csv = st.columns([6, 1], vertical_alignment="bottom")
    label = choose.selectbox("Variant", list(variants), key="kernels_of", persist_state="session")
    variant = variants[label]
    st.markdown(markdown_escaped(f"{kernel_words(variant.kernels, variant.first_result_s)}."))
    moved = {operator.name: operator.bytes for operator in variant.operators}
    rows = [_row(kernel, moved.get(kernel.group)) for kernel in variant.kernels]
    st.caption(
        "Times are the fastest of a few runs of the group alone, by turns, before the measurement. Bytes by contract "
        "are those of its operands and results; inductor counts those that its own kernels read and write."
    )
    show_table(rows, _DECIMALS, first=("group", "operators", "how", "time (ms)", "one by one (ms)"))
    download_button(as_csv, "CSV", shown_csv(rows), "kernels.csv", "kernels_csv")
    sources = {kernel.group: kernel for kernel in variant.kernels if kernel.source}
    if sources:
        group = st.selectbox("Generated source of", list(sources), key="source_of", persist_state="session")
        st.caption(markdown_escaped("Its operators: " + ", ".join(sources[group].operators)))
        st.code(sources[group].source, "python", height=400)


def _row(kernel: Kernel, moved: int | None) -> dict[str, Any]:
    return {
        "group": kernel.group,
        "operators": ", ".join(kernel.operators),
        "by": kernel.by,
        "how": kernel.how,
        "time (ms)": kernel.time_ms,
        "one by one (ms)": kernel.torch_ms,
        "kB by contract": None if moved is None else moved / 1e3,
        "kB by inductor": None if kernel.bytes is None else kernel.bytes / 1e3,
        "compiled (s)": kernel.compile_s or None,
        "same as": kernel.same_as,
    }
