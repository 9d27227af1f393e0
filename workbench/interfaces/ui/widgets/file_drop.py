"""Files dropped anywhere on the window of any page: models open like uploads, the file of a pass in the Workshop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.navigation.page import Page

from workbench.errors import UserError
from workbench.interfaces.ui.state.session import open_uploads, refuse
from workbench.interfaces.ui.state.workshop import offer_file, why_no_workshop
from workbench.interfaces.ui.widgets.controls import forget_samples_settings

_DONE = "drops_done"  # number of drops; part of the field's key, so that each drop empties the field

# Files dropped outside an upload field go into the hidden one. Listeners survive reruns, so they are added once.
_SCRIPT = """<script>
(() => {
    if (window.graphWorkbenchDrop) return;
    window.graphWorkbenchDrop = true;
    const veil = document.createElement("div");
    veil.className = "wb-drop";
    veil.textContent = "Drop a model here, with its external data if it has any, or the file of a pass";
    const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    const isOwn = (event) => event.target.closest?.('[data-testid="stFileUploaderDropzone"]');
    window.addEventListener("dragover", (event) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        if (isOwn(event)) veil.remove();
        else document.body.append(veil);
    });
    window.addEventListener("dragleave", (event) => { if (!event.relatedTarget) veil.remove(); });
    window.addEventListener("drop", (event) => {
        veil.remove();
        if (!hasFiles(event) || isOwn(event)) return;
        event.preventDefault();
        const field = document.querySelector(".st-key-dropped input[type=file]");
        if (!field) return;
        field.files = event.dataTransfer.files;
        field.dispatchEvent(new Event("change", { bubbles: true }));
    });
})();
</script>"""


def take_dropped_files(open_: Page, workshop: Page) -> None:
    """Open dropped files and show the page Open, which also says why a file does not open.

    workshop: the page that the file of a pass leads to.
    """
    st.html(_SCRIPT, unsafe_allow_javascript=True)
    with st.container(key="dropped"):
        files = st.file_uploader(
            "Files dropped on the window",
            accept_multiple_files=True,
            key=f"dropped_{st.session_state.setdefault(_DONE, 0)}",
        )
    if not files:
        return
    st.session_state[_DONE] += 1
    if all(is_pass_file(file.name) for file in files):
        fault = why_no_pass([file.name for file in files])
        if not fault:
            offer_file(files[0].name, files[0].getvalue())
            st.switch_page(workshop)
        refuse(fault)
        st.switch_page(open_)
    open_files(files)
    st.switch_page(open_)


def open_files(files: Sequence[Any]) -> None:
    """Open uploaded files as a model; the next run of the page shows why they do not open."""
    forget_samples_settings()
    try:
        with st.spinner("Opening", show_time=True):
            open_uploads(files)
    except UserError as error:
        refuse(str(error))


def is_pass_file(name: str) -> bool:
    return Path(name).suffix == ".py"


def why_no_pass(names: Sequence[str]) -> str:
    """Why these files of passes are not shown in the Workshop; "" if they are."""
    if why_no_workshop():
        return f"'{names[0]}' is Python, not a model, and no pass can be written in this app; drop a model"
    return "" if len(names) == 1 else "the Workshop shows one pass at a time; drop one .py file"
