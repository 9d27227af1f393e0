"""Small elements of pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import streamlit as st

from workbench.errors import UserError, counted, with_short_names
from workbench.interfaces.ui.state.address import write_open_model
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened, current, forget_refusal, opened_if_any, refusal
from workbench.interfaces.ui.widgets.address_bar import address_bar
from workbench.interfaces.ui.widgets.units import short_count
from workbench.planning.layout.declared import declared_layouts

_MAX_NAME = 60  # characters of an input's name in the header
_SCREEN_HEIGHT = 768  # pixels for which pages are laid out; panes grow on a higher screen


def show_error(error: Exception | str) -> None:
    st.error(markdown_escaped(with_short_names(str(error))), icon=":material/error:")


def opened_here() -> Opened | None:
    """The open model, in a new session the link's or the first sample; writes it to the URL. None if none opens.

    Shows why a model did not open.
    """
    try:
        with nullcontext() if opened_if_any() else st.spinner("Opening the model"):
            opened = current()
    except UserError as error:
        show_error(error)
        return None
    fault = refusal()
    with st.container():  # so that nothing below is mounted again when the message comes or goes
        if fault:  # shown until closed: the page may rerun by itself at any time
            message, button = st.columns([14, 1], vertical_alignment="center")
            with message:
                show_error(fault)
            button.button("Close", on_click=forget_refusal, key="close_refusal", width="stretch")
    write_open_model(opened.address, opened.user_dims, declared_layouts(opened.graph))
    address_bar("model")  # at once, since the page may be reloaded before the rest is drawn
    return opened


def opening(action: Callable[[], None], title: str = "Opening") -> bool:
    """Run `action`, which opens a file, under a spinner; shows its error and returns whether it succeeded."""
    try:
        with st.spinner(title, show_time=True):
            action()
    except UserError as error:
        show_error(error)
        return False
    return True


def header(opened: Opened) -> None:
    """Draw one line on the open model, with its inputs in the sizes with which it runs."""
    summary = opened.summary
    inputs = ", ".join(f"{_short_name(name)} {type_}" for name, type_ in opened.input_types(3).items())
    more = f" and {len(summary.inputs) - 3} more" if len(summary.inputs) > 3 else ""
    st.markdown(
        f"**{markdown_escaped(opened.title)}**&ensp;·&ensp;{counted(summary.nodes, 'node')}&ensp;·&ensp;"
        f"{_parameters(summary.parameters)}&ensp;·&ensp;{markdown_escaped(inputs + more)}"
    )


def _parameters(number: int) -> str:
    return "1 parameter" if number == 1 else f"{short_count(number)} parameters"


def _short_name(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}..."


def say_changed_dims(opened: Opened) -> bool:
    """Say if the model ran with other dims than bound; returns whether it did."""
    changed_dims = ", ".join(f"{name} = {size}" for name, size in opened.verifier.settled.items())
    if changed_dims:
        st.caption(
            markdown_escaped(f"The model does not run with the bound dims; it ran with {changed_dims}, found by trial.")
        )
    return bool(changed_dims)


def shown_mark(mark: str) -> str:
    """The mark with a minus sign, which is easier to see than a hyphen."""
    return "\u2212" if mark == "-" else mark


def growing(height: int) -> str:
    """A height in CSS: `height` pixels at a screen height of 768 pixels, more on a higher screen."""
    return f"max({height}px, calc(100vh - {_SCREEN_HEIGHT - height}px))"


def pane(key: str, height: int, border: bool = True) -> Any:
    """A container that scrolls. height: see `growing`."""
    st.html(f"<style>.st-key-{key} {{height: {growing(height)} !important;}}</style>")
    return st.container(height=height, border=border, key=key)


def warnings(messages: Sequence[str]) -> None:
    for message in messages:
        st.warning(markdown_escaped(message), icon=":material/info:")
