"""The way through the app, Open, Optimize, Measure, Export: a Next button on each of its pages, and on each tool's."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.navigation.page import Page


def next_button(page: Page, way: Sequence[Page]) -> None:
    """Draw the button to the page after `page`; from a tool's page back to the way's second."""
    place = next((number for number, stage in enumerate(way) if stage.url_path == page.url_path), None)
    following = way[1] if place is None else way[(place + 1) % len(way)]
    words = f"Back to {following.title}" if place is None else f"Next: {following.title}"
    with st.container(key="way_next"):  # the style sheet puts it into the bar of pages
        if st.button(words, type="secondary" if place is None else "primary", key="next"):
            st.switch_page(following)
