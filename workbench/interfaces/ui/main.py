"""The script that Streamlit runs for each session: the navigation between the pages. `app.py` serves it."""

from collections.abc import Callable
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import Page

from workbench.interfaces.ui.screens.compare_page import compare_page
from workbench.interfaces.ui.screens.compare_tools_page import compare_tools_page
from workbench.interfaces.ui.screens.export_page import export_page
from workbench.interfaces.ui.screens.extract_page import extract_page
from workbench.interfaces.ui.screens.layouts_page import layouts_page
from workbench.interfaces.ui.screens.lessons_page import lessons_page
from workbench.interfaces.ui.screens.lockstep_page import lockstep_page
from workbench.interfaces.ui.screens.matrix_page import matrix_page
from workbench.interfaces.ui.screens.memory_page import memory_page
from workbench.interfaces.ui.screens.open_page import open_page
from workbench.interfaces.ui.screens.optimize_page import optimize_page
from workbench.interfaces.ui.screens.precision_page import precision_page
from workbench.interfaces.ui.screens.run_page import run_page
from workbench.interfaces.ui.screens.runs_page import runs_page
from workbench.interfaces.ui.screens.streams_page import streams_page
from workbench.interfaces.ui.screens.tune_page import tune_page
from workbench.interfaces.ui.screens.workshop_page import workshop_page
from workbench.interfaces.ui.state.goals import FLOAT16_GOAL, HARDWARE_GOAL
from workbench.interfaces.ui.widgets.address_bar import address_bar
from workbench.interfaces.ui.widgets.controls import Parts
from workbench.interfaces.ui.widgets.file_drop import take_dropped_files
from workbench.interfaces.ui.widgets.page_palette import page_palette
from workbench.interfaces.ui.widgets.page_steps import next_button, part_links
from workbench.interfaces.ui.widgets.theme import keep_theme

_ICON = Path(__file__).parent / "icon.svg"  # a named icon would be fetched from another site

st.set_page_config(page_title="Graph Workbench", page_icon=str(_ICON), layout="wide")


def _part(script: Callable[[], None], title: str, url_path: str) -> Page:
    """A page inside one of the seven: its links stand there, its address is its own."""
    return st.Page(script, title=title, url_path=url_path, visibility="hidden")


def _optimize_with_parts() -> None:
    of_goals = {HARDWARE_GOAL: (_layouts, "Compare all layouts"), FLOAT16_GOAL: (_precision, "Where accuracy is lost")}
    optimize_page(Parts(_tune, of_goals, _extract, (_workshop,)))


_optimize = st.Page(_optimize_with_parts, title="2 Optimize", url_path="optimize")
_layouts: Page = _part(layouts_page, "Layouts", "layouts")
_precision: Page = _part(precision_page, "Precision", "precision")
_tune: Page = _part(lambda: tune_page(_optimize), "Tune", "tune")
_extract: Page = _part(lambda: extract_page(_optimize), "Extract", "extract")
_workshop: Page = _part(lambda: workshop_page(_optimize), "Workshop", "workshop")
_measure = st.Page(lambda: run_page(_optimize), title="3 Measure", url_path="run")
_compare = st.Page(lambda: compare_page(_optimize), title="Compare", url_path="compare")
_memory = st.Page(memory_page, title="Memory", url_path="memory")
_streams = _part(streams_page, "Streams", "streams")
_learn = st.Page(lambda: lessons_page(_optimize), title="Learn", url_path="lessons")
_open = st.Page(
    lambda: open_page(_optimize, {"memory": _memory, "streams": _streams}, _learn),
    title="1 Open",
    url_path="open",
    default=True,
)
_stages = [_open, _optimize, _measure, st.Page(lambda: export_page(_optimize), title="4 Export", url_path="export")]
_groups = [
    {
        "Pipeline": _optimize,
        "Layouts": _layouts,
        "Precision": _precision,
        "Tune": _tune,
        "Extract": _extract,
        "Workshop": _workshop,
    },
    {
        "Latency": _measure,
        "Compare tools": _part(lambda: compare_tools_page(_compare), "Compare tools", "compare-tools"),
        "Matrix": _part(matrix_page, "Matrix", "matrix"),
        "Runs": _part(runs_page, "Runs", "runs"),
    },
    {"Files": _compare, "Lockstep": _part(lockstep_page, "Lockstep", "lockstep")},
    {"Plan": _memory, "Streams": _streams},
]
_parts = [page for group in _groups for page in list(group.values())[1:]]
_pages = [*_stages, _compare, _memory, _learn, *_parts]
_page = st.navigation(_pages, position="top")
if _page.url_path == _optimize.url_path:
    st.sidebar.empty()  # first, so that the page does not move aside for its sidebar
next_button(_page, _stages)
with st.container(key="page_scripts"):  # which take no place, also while they are loaded
    keep_theme(["open", *(page.url_path for page in _pages)])
    take_dropped_files(_open, _workshop)
    page_palette(_pages)
if _page.url_path != _optimize.url_path:  # whose sidebar has the links, so that the graph has the height
    part_links(_page, _groups)
_page.run()
address_bar("page")
