"""The theme that the user chooses in the menu, kept for all pages; Streamlit keeps it for the page that was loaded."""

from __future__ import annotations

import json
from collections.abc import Iterable

import streamlit as st

# Streamlit's key in the browser's storage is "stActiveTheme-/optimize-v2" for the page /optimize.
_SCRIPT = """<script>
(() => {
    if (window.graphWorkbenchTheme) return;
    window.graphWorkbenchTheme = true;
    const { setItem } = Storage.prototype;
    Storage.prototype.setItem = function (key, value) {
        setItem.call(this, key, value);
        const found = /^(stActiveTheme-.*[/])[^/]*(-v[0-9]+)$/.exec(key);
        for (const page of found ? PAGES : []) setItem.call(this, found[1] + page + found[2], value);
    };
})();
</script>"""


def keep_theme(pages: Iterable[str]) -> None:
    """Keep the chosen theme under the key of every page. pages: the paths of their addresses."""
    st.html(_SCRIPT.replace("PAGES", json.dumps(list(pages))), unsafe_allow_javascript=True)
