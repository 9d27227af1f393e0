"""Files can be dropped anywhere on the window, of any page: they open as an upload does."""

from __future__ import annotations

import streamlit as st
from streamlit.navigation.page import Page

from workbench.errors import UserError
from workbench.ui.state.session import open_uploads, refuse
from workbench.ui.widgets.controls import forget_samples_settings

_DONE = "drops_done"  # number of drops; in the key of the field, so that each empties it

# What is dropped outside a field for files goes into the hidden one. Listeners stay over reruns, so there is one set.
_SCRIPT = """<script>
(() => {
    if (window.graphWorkbenchDrop) return;
    window.graphWorkbenchDrop = true;
    const veil = document.createElement("div");
    veil.className = "wb-drop";
    veil.textContent = "Drop the model here, with its external data if it has any";
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


def take_dropped_files(open_: Page) -> None:
    """Open the files that were dropped, and show the page Open; a file that does not open is told there."""
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
    try:
        with st.spinner("Opening"):
            forget_samples_settings()
            open_uploads(files)
    except UserError as error:
        refuse(str(error))
    st.switch_page(open_)
