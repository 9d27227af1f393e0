"""The way between pages: a button to the next stage (Open, Optimize, Measure, Export), links to a page's parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st
from streamlit.navigation.page import Page


def next_button(page: Page, stages: Sequence[Page]) -> None:
    """Draw the button from a stage to the next one, or from a tool's page to the second stage; the last has none."""
    index = next((number for number, stage in enumerate(stages) if stage.url_path == page.url_path), None)
    if index == len(stages) - 1:
        return
    target = stages[1 if index is None else index + 1]
    label = f"Back to {target.title}" if index is None else f"Next: {target.title}"
    with st.container(key="way_next"):  # the style sheet puts it into the bar of pages
        if st.button(label, type="secondary" if index is None else "primary", key="next"):
            st.switch_page(target)


def part_links(page: Page, groups: Sequence[Mapping[str, Page]]) -> None:
    """Draw the links of the group to which the page belongs, if it belongs to one.

    groups: pages by the labels of their links; the first of each group is in the bar of pages.
    """
    for group in groups:
        if page.url_path not in [part.url_path for part in group.values()]:
            continue
        with st.container(horizontal=True, key="part_links"):
            for label, part in group.items():
                st.page_link(part, label=label)
