"""What docs/results says about the open model, to hold one's own measurement against."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened
from workbench.interfaces.ui.widgets.parts import show_error
from workbench.run.records.published import PublishedPart, published_about


def published_figures(opened: Opened) -> None:
    """Draw the rows about a model of this file's name, if there are any, with where and when they were measured."""
    model = Path(opened.path).stem
    try:
        parts = published_about(model)
    except UserError as error:
        show_error(error)
        return
    if parts:
        with st.expander("Published figures", icon=":material/table_chart:"), st.container(key="published"):
            _draw(model, parts)


def _draw(model: str, parts: Sequence[PublishedPart]) -> None:
    st.caption(
        f"The rows of docs/results about models called {markdown_escaped(model)}. Times of other machines differ; "
        "compare within one table."
    )
    for part in parts:
        st.markdown(f"**{markdown_escaped(part.title)}** `docs/results/{part.name}.json`", help="\n\n".join(part.about))
        for measurement in part.measurements:
            for table in measurement.tables:
                st.markdown(table.markdown)
            st.caption(markdown_escaped(measurement.origin))
