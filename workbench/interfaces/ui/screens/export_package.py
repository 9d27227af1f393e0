"""Export as a compiled torch package: its device, the compilation in the background, the file and code to call it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.screens.run_page import devices_here
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened, stop_checking, worker
from workbench.interfaces.ui.state.work import Report, forget_cancel, was_cancelled
from workbench.interfaces.ui.widgets.parts import show_error
from workbench.interfaces.ui.widgets.progress import run_with_progress
from workbench.ir import Graph
from workbench.run.packages import PackageReport, package_graph

_KEY, _PACKAGED = "package", "packaged"


def chosen_device(opened: Opened) -> str | None:
    """Draw the choice of the package's device; returns it, or None if the devices are not known."""
    result = devices_here()
    if result is None:
        return None
    names = [device["device"] for device in result]
    value: str | None = st.selectbox("Device of the package", names, key=f"package_device_{opened.number}")
    return value


def package_part(opened: Opened, graph: Graph, device: str) -> None:
    """Draw the button that compiles the package, and the download of the compiled package."""
    request = (id(graph), device)
    job = opened.jobs.by_key.get(_KEY)
    if was_cancelled(opened.jobs, _KEY):
        st.info("The package was cancelled; nothing is written.", icon=":material/block:")
    if st.button("Compile the package", type="primary", key="compile_package"):
        forget_cancel(opened.jobs, _KEY)
        st.session_state.pop(_PACKAGED, None)
        _make(opened, graph, device)
    elif job is not None and job.request == request:  # it continues when the user leaves the page
        _make(opened, graph, device)
    key, report, content = st.session_state.get(_PACKAGED, (None, None, b""))
    if key == request:
        _download(report, content)
    else:
        st.caption("The package is not compiled yet; a C++ compiler takes about a minute for a small model.")


def _make(opened: Opened, graph: Graph, device: str) -> None:
    name = f"{Path(opened.path).stem}.opt.pt2"
    stop_checking(opened)

    def work(report: Report) -> tuple[PackageReport, bytes]:
        with tempfile.TemporaryDirectory(prefix="workbench-export-") as folder:
            path = Path(folder) / name
            report("running the original", None)
            on_progress = lambda event: report(event["stage"], None)  # noqa: E731
            result = package_graph(graph, path, opened.verifier, device=device, on_progress=on_progress)
            return replace(result, path=Path(name)), path.read_bytes() if result.bytes else b""

    try:
        result = run_with_progress(opened.jobs, _KEY, "Package", work, worker(), request=(id(graph), device))
    except UserError as error:
        show_error(error)
        return
    st.session_state[_PACKAGED] = ((id(graph), device), *result)


def _download(report: PackageReport, content: bytes) -> None:
    if not report.comparison.ok:
        show_error(f"{report.sentence} It is therefore not offered for download.")
        return
    st.metric("Size", f"{report.bytes / 1e6:,.2f} MB")
    st.success(markdown_escaped(report.sentence))
    inputs_text, code = report.call
    st.caption(markdown_escaped(f"It {inputs_text}."))
    st.code(code, language="python", wrap_lines=True)
    name = report.path.name
    st.download_button(f"Download {name}", content, name, "application/octet-stream", key="download_package")
