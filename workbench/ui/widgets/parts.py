"""Small elements of pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import streamlit as st

from workbench.errors import UserError, counted, with_short_names
from workbench.layout.declared import declared_layouts
from workbench.ui.state.address import write_open_model
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.session import Opened, current, forget_refusal, opened_if_any, refusal
from workbench.ui.widgets.address_bar import address_bar
from workbench.ui.widgets.units import short_count

_MAX_NAME = 60  # characters of an input's name in the header
_SCREEN_HEIGHT = 768  # pixels for which pages are laid out; panes grow on a higher screen

_STYLE = """<style>
.stMainBlockContainer {padding: 3.8rem 1.4rem 0.3rem 1.4rem; max-width: none;}
[data-testid="stSidebarContent"] {padding: 0 0.2rem;}
[data-testid="stSidebarUserContent"] {padding: 0 0.9rem 1rem 0.9rem;}
[data-testid="stSidebar"] [data-testid="stCheckbox"] p {white-space: normal; line-height: 1.2;}
[data-testid="stSidebar"]:not(:has([data-testid="stElementContainer"], [data-testid="stSidebarNav"])) {display: none;}
[data-testid="stSidebarHeader"] {height: 2.2rem; margin-bottom: 0;}
[data-testid="stVerticalBlock"] {gap: 0.45rem;}
[data-testid="stSidebar"] [data-testid="stVerticalBlock"] {gap: 0.3rem;}
[data-testid="stSidebar"] [data-testid="stHorizontalBlock"] {min-height: 0; gap: 0.1rem; flex-wrap: nowrap;}
[data-testid="stSidebar"] [data-testid="stColumn"] {min-width: 0;}
[data-testid="stSidebar"] .st-key-part_links a {padding: 0.1rem 0.2rem;}
[data-testid="stSidebar"] button[kind="tertiary"] {min-height: 1.4rem; padding: 0;}
.st-key-way_next {position: fixed; top: 0.8rem; right: 1rem; width: auto; z-index: 1000001;}
.st-key-way_next button {min-height: 1.9rem; padding: 0 0.8rem;}
[data-testid="stHeader"] {padding-right: 12rem;}
[data-testid="stTopNav"] a {padding: 0 5px;}
[data-testid="stTopNav"] .rc-overflow-item:nth-child(5) {border-left: 1px solid #88888880; padding-left: 0.6rem;}
.st-key-dropped {position: fixed; left: -9999px; width: 1px;}
.wb-drop {position: fixed; inset: 0; z-index: 1000002; display: flex; align-items: center; justify-content: center;
  font-size: 1.6rem; background: color-mix(in srgb, Canvas 80%, transparent); border: 6px dashed; pointer-events: none;}
[class*="st-key-address_"], .stLayoutWrapper:has(> .st-key-way_next) {position: absolute;}
[class*="st-key-card_"] {padding: 0.35rem 0.7rem;}
[class*="st-key-card_"] [data-testid="stColumn"]:last-child {min-width: 4.6rem;}
[class*="st-key-card_"] [data-testid="stHorizontalBlock"] {flex-wrap: nowrap;}
[class*="st-key-card_"] [data-testid="stColumn"]:first-child {min-width: 0;}
[class*="st-key-card_"] p {line-height: 1.35;}
@media (max-width: 1000px) {[data-testid="stHeader"] {padding-right: 8rem;}}
.wb-card {display: flex; flex-wrap: wrap; gap: 0.1rem 1.2rem; line-height: 1.25;}
.wb-card b {display: block; font-size: 1.02rem; font-weight: 650;}
.wb-card span {font-size: 0.78rem; opacity: 0.85;}
.st-key-part_links {gap: 0.2rem; margin-top: -0.5rem; flex-wrap: wrap;}
.st-key-part_links > * {flex: 0 0 auto; width: auto; min-width: max-content;}
.st-key-part_links a {padding: 0.1rem 0.5rem; min-height: 0;}
.st-key-digest, .st-key-digest_alone {overflow-y: auto; gap: 0.3rem; padding: 2px 2px 2px 0;}
.st-key-digest {max-height: max(18rem, calc(100vh - 27rem));}
.st-key-digest_alone {max-height: calc(100vh - 5rem);}
.st-key-digest button, .st-key-digest_alone button {min-height: 1.7rem; padding: 0 0.5rem;}
.st-key-digest_places {gap: 0 0.4rem;}
.st-key-digest_places p {font-size: 0.82rem;}
[class*="st-key-kind_"] {position: relative; gap: 0; border-radius: 0.4rem;}
[class*="st-key-kind_"] > [data-testid="stElementContainer"]:last-child
  {position: absolute; inset: 0; width: 100%; height: 100%;}
[class*="st-key-kind_"] [data-testid="stButton"], [class*="st-key-kind_"] button {width: 100%; height: 100%;}
[class*="st-key-kind_"] button, [class*="st-key-kind_"] button:hover {background: transparent;}
[class*="st-key-kind_"] button p {font-size: 0; color: transparent;}
[class*="st-key-kind_chosen_"] button {border: 2px solid var(--st-primary-color, #7a5c12);}
.wb-kind {padding: 0.25rem 0.5rem; font-size: 0.82rem; line-height: 1.35;}
.wb-kind > div {display: flex; flex-wrap: wrap; gap: 0.1rem 0.35rem; align-items: baseline;}
.wb-kind .picture {display: flex; flex-wrap: wrap; gap: 0.1rem 0.35rem; align-items: baseline;}
.wb-kind > div:first-child {flex-wrap: nowrap; justify-content: space-between;}
.wb-kind b {font-weight: 600;}
.wb-kind i {font-style: normal; font-size: 0.75rem; color: var(--wb-faint);}
.wb-kind span {font-size: 0.75rem; color: var(--wb-faint);}
.wb-kind em {font-style: normal; font-size: 0.72rem; color: #24262b; border: 1px solid #8a7d4a; border-radius: 3px;
  padding: 0 0.25rem;}
.wb-kind em.own {background: palegoldenrod;}
.wb-kind em.target {background: peachpuff; border-width: 2px;}
.wb-kind em.tensor {background: lightgrey; border-style: dotted;}
.st-key-place_of_card {min-height: 3.1rem;}
.st-key-gain_card {flex-wrap: nowrap;}
.st-key-gain_card > [data-testid="stElementContainer"]:has(.wb-card) {min-width: 0;}
[data-testid="stRadioGroup"] > div:has(> [data-testid="stRadioCaption"]) {position: relative;}
[data-testid="stRadioGroup"] > div:has(> [data-testid="stRadioCaption"]) > label::after
  {content: ""; position: absolute; inset: 0;}
[data-testid="stRadioGroup"] > div:has(> [data-testid="stRadioCaption"]) > label > * {position: relative; z-index: 1;}
[data-testid="stCode"] .token.parameter {white-space: nowrap;}
[data-testid="stMarkdownContainer"] strong {unicode-bidi: isolate;}
.st-key-published {overflow-x: auto;}
.wb-lines {font-size: 0.8rem; line-height: 1.45; opacity: 0.85;}
.wb-text {font: 0.75rem/1.5 monospace; width: 100%; border-collapse: collapse; table-layout: fixed;}
.wb-text td {white-space: pre-wrap; overflow-wrap: anywhere; vertical-align: top; padding: 0 0.4rem;}
.wb-text td.mark {padding: 0; text-align: center; font-weight: 700;}
.wb-text td.rest {color: #808080; text-align: center;}
</style>"""


# Streamlit sets `color-scheme` of the app, so that these follow when the theme changes, without a run of the page.
_CONTRAST = """<style>
.stApp {
    --wb-faint: light-dark(#5f5e5c, #b4b2ae);
    --wb-ink: light-dark(#31302e, #e8e6e2);
    --wb-on-primary: light-dark(#ffffff, #12100a);
}
[data-testid="stCaptionContainer"] {opacity: 1 !important;}
[data-testid="stCaptionContainer"] p {color: var(--wb-faint);}
[data-testid="stWidgetLabel"] p {color: var(--wb-ink);}
[data-testid="stCode"] .token {color: var(--wb-ink) !important;}
[data-testid^="stBaseButton-primary"] p, [data-testid="stMultiSelect"] span[title] {color: var(--wb-on-primary);}
.wb-card .better, .wb-kind .better {color: light-dark(#1b6e20, #81c784);}
.wb-card .worse, .wb-kind .worse {color: light-dark(#b3261e, #ff8a80);}
button kbd {color: inherit !important; opacity: 1 !important;}
[data-testid^="stBaseButton-primary"] kbd {color: var(--wb-on-primary) !important;}
</style>"""


def style() -> None:
    """Apply the app's style sheet, which is more compact than Streamlit's and has contrasts of WCAG AA."""
    st.html(_STYLE)
    st.html(_CONTRAST)


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
