"""What changed, by kind: the list beside the graph, whose entries lead to their places in it."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import streamlit as st

from workbench.errors import counted
from workbench.interfaces.ui.state.gains import gain_here
from workbench.interfaces.ui.state.session import Opened
from workbench.interfaces.ui.widgets.panes import WHY_NOT
from workbench.interfaces.ui.widgets.steps import VIEW, WHOLE, is_whole, rewrites_done, show_place, step_list
from workbench.planning.layout.profile import Profile
from workbench.presentation.explanations.digest import SHORT, ChangeKind, ChangePlace, Digest, Operators
from workbench.presentation.explanations.digest_text import LEAST_BYTES, megabytes_text
from workbench.presentation.explanations.gain import ms_text
from workbench.presentation.view.node_style import OWN, PLAIN, TARGET, are_of_target, box_kind_of, coloured_kind
from workbench.rewrite import History

_ORDER = "digest_order"  # key in the session
_CHOSEN = "difference_chosen"  # key in the session: the pair of files, and the number of the place in their difference
_IS_NEW = "place_is_new"  # key in the session: whether a place was chosen since the page was drawn
_LARGEST, _BY_TIME, _BY_STEP = "Largest first", "By time", "By step"
_CLASSES = {OWN: "own", TARGET: "target", PLAIN: "tensor"}  # by a layout's kind
_MOST_OPERATORS = 6  # in a picture


@dataclass(frozen=True)
class Colours:
    """How a picture colours layouts: as the graph does. is_own: whether the model has the target's layout itself."""

    target: Profile
    is_own: bool

    def class_of(self, layout: str) -> str:
        """The class in the style sheet."""
        return _CLASSES[coloured_kind(box_kind_of(layout, self.target), self.is_own)]


def digest_panel(opened: Opened, history: History, target: Profile) -> None:
    """Draw the kinds of change, or the steps. target: by whose layouts operators are coloured."""
    digest = gain_here(opened, history).digest
    colours = _colours(digest, target)
    with st.container(key="digest"):
        label = f"**The whole model** :small[{counted(digest.changes, 'change')}]"
        st.button(
            label,
            key="show_whole",
            width="stretch",
            type="primary" if is_whole() else "secondary",
            on_click=_show_whole,
        )
        is_timed = any(kind.ms is not None for kind in digest.kinds)
        order = st.segmented_control(
            "What changed",
            [_LARGEST, *([_BY_TIME] if is_timed else []), _BY_STEP],
            default=_LARGEST,
            required=True,
            key=_ORDER,
            label_visibility="collapsed",
            width="stretch",
            persist_state="session",
        )
        if order == _BY_STEP:
            step_list(opened, history)
            return
        if not digest.kinds:
            st.caption("No pass changed anything.")
        done = None if is_whole() else rewrites_done(opened, history)
        show = partial(show_place, opened)
        _kinds(digest.by_time() if order == _BY_TIME else digest, colours, done, show, explains=True)


def changes_panel(opened: Opened, history: History, target: Profile) -> bool:
    """Draw the kinds of change on a page that has no steps; returns whether a place was chosen, for Optimize to show.

    target: as in `digest_panel`.
    """
    digest = gain_here(opened, history).digest
    with st.container(key="digest_alone"):
        st.markdown(f"**What changed** :small[{counted(digest.changes, 'change')}]")
        if not digest.kinds:
            st.caption("No pass changed anything.")
        _kinds(digest, _colours(digest, target), None, partial(_choose_place, opened), explains=False)
    return bool(st.session_state.pop(_IS_NEW, False))


def _choose_place(opened: Opened, step: int, rewrites: int) -> None:
    show_place(opened, step, rewrites)
    st.session_state[_IS_NEW] = True


def _colours(digest: Digest, target: Profile) -> Colours:
    return Colours(target, are_of_target({box_kind_of(layout, target) for layout in digest.layouts}))


def difference_panel(digest: Digest, target: Profile, number: int) -> ChangePlace | None:
    """Draw the kinds of difference between two files; returns the place that was chosen now, or None.

    number: of the pair of files. target: as in `digest_panel`.
    """
    pair, chosen = st.session_state.get(_CHOSEN, (number, None))
    with st.container(key="digest_alone"):
        st.markdown(f"**What differs** :small[{counted(digest.changes, 'change')}]")
        if not digest.kinds:
            st.caption("Both files have the same nodes.")
        done = (0, chosen) if pair == number and chosen is not None else None
        _kinds(digest, _colours(digest, target), done, partial(_choose_difference, number), explains=False)
    if done is None or not st.session_state.pop(_IS_NEW, False):
        return None
    places = (place for kind in digest.kinds for place in kind.places)
    return next((place for place in places if place.rewrite + 1 == chosen), None)


def _choose_difference(number: int, _: int, rewrites: int) -> None:
    st.session_state[_CHOSEN], st.session_state[_IS_NEW] = (number, rewrites), True


def _show_whole() -> None:
    st.session_state[WHOLE] = True


def _kinds(
    digest: Digest, colours: Colours, done: tuple[int, int] | None, show: Callable[[int, int], None], *, explains: bool
) -> None:
    """Draw the kinds. done: the step on screen and how many of its rewrites are done; show: shows such a place.

    explains: whether there is an explanation of why a place was left.
    """
    for number, kind in enumerate(digest.kinds):
        places = [(place.step, place.rewrite + 1) for place in kind.places]
        at = places.index(done) if done in places else None
        chosen = "chosen_" if at is not None else ""
        with st.container(key=f"kind_{chosen}{number}"):
            st.html(_card(kind, colours))
            label = f"{kind.title}, {counted(len(places), 'time')}"
            st.button(label, key=f"show_kind_{number}", on_click=show, args=places[0])
        if at is not None:
            _places(places, at, show)
            if explains:
                st.button("Why not elsewhere?", key="place_why_not", type="tertiary", on_click=_show_why_not)


def _places(places: list[tuple[int, int]], at: int, show: Callable[[int, int], None]) -> None:
    """Draw the way through the places of a kind."""
    with st.container(horizontal=True, vertical_alignment="center", key="digest_places"):
        last = len(places) - 1
        st.button(
            "‹",
            key="place_before",
            shortcut="p",
            disabled=not at,
            on_click=show,
            args=places[max(at - 1, 0)],
        )
        st.markdown(f"{at + 1:,} of {last + 1:,}")
        st.button(
            "›",
            key="place_after",
            shortcut="n",
            disabled=at == last,
            on_click=show,
            args=places[min(at + 1, last)],
        )


def _show_why_not() -> None:
    st.session_state[VIEW] = WHY_NOT


# ---- a kind as HTML ------------------------------------------------------------------------------


def _card(kind: ChangeKind, colours: Colours) -> str:
    becomes = f"{_picture(kind.before, colours)}<i>becomes</i>{_picture(kind.after, colours)}"
    if not kind.before and not kind.after:
        becomes = "<i>constants and types</i>"
    times = f'<b class="times">×{len(kind.places):,}</b>'
    if kind.title == kind.operators:  # nothing is known of it but the picture
        head = f'<div><div class="picture">{becomes}</div>{times}</div>'
    else:
        head = f"<div><b>{html.escape(kind.short_title)}</b>{times}</div><div>{becomes}</div>"
    numbers = "".join(f"<span>{text}</span>" for text in _numbers(kind))
    return f'<div class="wb-kind">{head}<div>{numbers}</div></div>'


def _numbers(kind: ChangeKind) -> Iterable[str]:
    if kind.nodes:
        sign, word = ("-", "better") if kind.nodes < 0 else ("+", "worse")
        yield f'<span class="{word}">{sign}{counted(abs(kind.nodes), "node")}</span>'
    if abs(kind.bytes) >= LEAST_BYTES:
        yield f"{megabytes_text(kind.bytes)} MB written"
    if kind.ms is not None:
        yield f"{'+' if kind.ms > 0 else '-' if kind.ms else ''}{ms_text(abs(kind.ms))} ms"
    if kind.exactness is not None:
        yield SHORT[kind.exactness]


def _picture(operators: tuple[Operators, ...], colours: Colours) -> str:
    """The operators in their colours; the layout, where they have one, is their tip."""
    if not operators:
        return "<i>nothing</i>"
    chips = [_chip(one, colours) for one in operators[:_MOST_OPERATORS]]
    more = len(operators) - len(chips)
    return "".join([*chips, *([f"<i>{more} more</i>"] if more else [])])


def _chip(one: Operators, colours: Colours) -> str:
    name = one.op.removeprefix("workbench.")
    text = name if one.number == 1 else f"{one.number} {name}"
    return f'<em class="{colours.class_of(one.layout)}" title="{html.escape(one.layout)}">{html.escape(text)}</em>'
