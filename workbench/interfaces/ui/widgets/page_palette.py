"""The command palette (Ctrl K) of every page: its buttons, and all pages by title and by the commands that do the same.

Where a graph is in sight, its own palette opens, which has these pages too.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.navigation.page import Page

from workbench.interfaces.ui.server.page_titles import names_of_page
from workbench.interfaces.ui.widgets.bundled_component import bundled_component


def page_palette(pages: Sequence[Page]) -> None:
    """Mount the palette; shows the page that was chosen in it."""
    by_path = {page.url_path: page for page in pages}
    listed = [[path, _text(page)] for path, page in by_path.items()]
    mounted = bundled_component("palette", "page_palette.js", "mountPagePalette")
    chosen = mounted(key="page_palette", data={"pages": listed}, height=0, on_page_change=lambda: None).page
    if chosen in by_path:
        st.switch_page(by_path[chosen])


def _text(page: Page) -> str:
    """The title, and the further names that it does not have already: "3 Measure (bench)"."""
    names = [name for name in names_of_page(page.url_path) if name not in page.title.lower()]
    return f"{page.title} ({', '.join(names)})" if names else page.title
