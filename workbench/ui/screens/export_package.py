"""Export as a compiled package of torch: its device, the work in the background, and the file with what calls it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import streamlit as st

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.run.torch.packages import PackageReport, package_graph
from workbench.ui.screens.run_page import devices_here
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.session import Opened, stop_checking, worker
from workbench.ui.state.work import Report, forget_cancel, was_cancelled
from workbench.ui.widgets.parts import show_error
from workbench.ui.widgets.progress import run_with_progress

_KEY, _MADE = "package", "packaged"


def chosen_device(opened: Opened) -> str | None:
    """The device that the user chose for the package; None if it is not known which there are."""
    result = devices_here()
    if result is None:
        return None
    names = [device["device"] for device in result]
    value: str | None = st.selectbox("Device of the package", names, key=f"package_device_{opened.number}")
    return value


def package_part(opened: Opened, graph: Graph, device: str) -> None:
    """The button that makes the package, and the file once it is made."""
    wanted = (id(graph), device)
    job = opened.jobs.by_key.get(_KEY)
    if was_cancelled(opened.jobs, _KEY):
        st.info("The package was cancelled; nothing is written.", icon=":material/block:")
    if st.button("Compile the package", type="primary", key="compile_package"):
        forget_cancel(opened.jobs, _KEY)
        st.session_state.pop(_MADE, None)
        _make(opened, graph, device)
    elif job is not None and job.wanted == wanted:  # it goes on when the page is left
        _make(opened, graph, device)
    key, made, content = st.session_state.get(_MADE, (None, None, b""))
    if key == wanted:
        _download(made, content)
    else:
        st.caption("The package is not compiled yet; a C++ compiler takes about a minute for a small model.")


def _make(opened: Opened, graph: Graph, device: str) -> None:
    name = f"{Path(opened.path).stem}.opt.pt2"
    stop_checking(opened)

    def work(report: Report) -> tuple[PackageReport, bytes]:
        with tempfile.TemporaryDirectory(prefix="workbench-export-") as folder:
            place = Path(folder) / name
            report("running the original", None)
            hear = lambda event: report(event["stage"], None)  # noqa: E731
            made = package_graph(graph, place, opened.verifier, device=device, on_progress=hear)
            return replace(made, path=Path(name)), place.read_bytes() if made.bytes else b""

    try:
        result = run_with_progress(opened.jobs, _KEY, "Package", work, worker(), wanted=(id(graph), device))
    except UserError as error:
        show_error(error)
        return
    st.session_state[_MADE] = ((id(graph), device), *result)


def _download(made: PackageReport, content: bytes) -> None:
    if not made.comparison.ok:
        show_error(f"{made.sentence} So it is not offered for download.")
        return
    st.metric("Size", f"{made.bytes / 1e6:,.2f} MB")
    st.success(markdown_escaped(made.sentence))
    takes, code = made.call
    st.caption(markdown_escaped(f"It {takes}."))
    st.code(code, language="python", wrap_lines=True)
    name = made.path.name
    st.download_button(f"Download {name}", content, name, "application/octet-stream", key="download_package")
