"""The download of a history as one HTML file."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from workbench.rewrite import History
from workbench.ui.state.graph_views import report_of
from workbench.ui.state.session import Opened, Spec


def report_button(opened: Opened, history: History, spec: Spec) -> None:
    """A button that makes the file on a click: every moment with its reasons, without a server or a network."""
    st.download_button(
        "Download the report (HTML)",
        lambda: report_of(opened, history, spec),
        f"{Path(opened.path).stem}.report.html",
        "text/html",
        key="download_html",
        on_click="ignore",
        help="Every step and rewrite with its reasons, to be played and inspected in any browser, offline.",
    )
