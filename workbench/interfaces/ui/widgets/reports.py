"""The button that downloads a history as one HTML file."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from workbench.interfaces.ui.state.graph_views import report_of
from workbench.interfaces.ui.state.session import Opened, Spec
from workbench.rewrite import History


def report_button(opened: Opened, history: History, spec: Spec) -> None:
    """Draw the button; the file, which needs no server and no network, is made on the click."""
    st.download_button(
        "Download the report (HTML)",
        lambda: report_of(opened, history, spec),
        f"{Path(opened.path).stem}.report.html",
        "text/html",
        key="download_html",
        on_click="ignore",
        help="Every step and rewrite with its reasons, to be played and inspected in any browser, offline.",
    )
