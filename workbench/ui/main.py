"""The script that each session of the app runs: the navigation between its pages. `app.py` serves it."""

from pathlib import Path

import streamlit as st

from workbench.ui.screens.compare_page import compare_page
from workbench.ui.screens.export_page import export_page
from workbench.ui.screens.extract_page import extract_page
from workbench.ui.screens.lanes_page import lanes_page
from workbench.ui.screens.layouts_page import layouts_page
from workbench.ui.screens.lessons_page import lessons_page
from workbench.ui.screens.lockstep_page import lockstep_page
from workbench.ui.screens.matrix_page import matrix_page
from workbench.ui.screens.memory_page import memory_page
from workbench.ui.screens.open_page import open_page
from workbench.ui.screens.optimize_page import optimize_page
from workbench.ui.screens.rivals_page import rivals_page
from workbench.ui.screens.run_page import run_page
from workbench.ui.screens.runs_page import runs_page
from workbench.ui.screens.tune_page import tune_page
from workbench.ui.widgets.address_bar import address_bar
from workbench.ui.widgets.dropping import take_dropped_files
from workbench.ui.widgets.page_steps import next_button
from workbench.ui.widgets.parts import style

_ICON = Path(__file__).parent / "icon.svg"  # a named icon would be fetched from another site

st.set_page_config(page_title="Graph Workbench", page_icon=str(_ICON), layout="wide")
style()

_optimize = st.Page(optimize_page, title="2 Optimize", url_path="optimize")
_memory = st.Page(memory_page, title="Memory", url_path="memory")
_lanes = st.Page(lanes_page, title="Lanes", url_path="lanes")
_compare = st.Page(compare_page, title="Compare", url_path="compare")
_lessons = st.Page(lambda: lessons_page(_optimize), title="Lessons", url_path="lessons")
_open = st.Page(
    lambda: open_page(_optimize, {"memory": _memory, "lanes": _lanes}, _lessons),
    title="1 Open",
    url_path="open",
    default=True,
)
_way = [
    _open,
    _optimize,
    st.Page(run_page, title="3 Measure", url_path="run"),
    st.Page(lambda: export_page(_optimize), title="4 Export", url_path="export"),
]
_tools = [
    _lessons,
    st.Page(layouts_page, title="Layouts", url_path="layouts"),
    st.Page(lockstep_page, title="Lockstep", url_path="lockstep"),
    _compare,
    st.Page(lambda: extract_page(_optimize), title="Extract", url_path="extract"),
    st.Page(lambda: rivals_page(_compare), title="Rivals", url_path="rivals"),
    st.Page(lambda: tune_page(_optimize), title="Tune", url_path="tune"),
    st.Page(matrix_page, title="Matrix", url_path="matrix"),
    _memory,
    _lanes,
    st.Page(runs_page, title="Runs", url_path="runs"),
]
_page = st.navigation([*_way, *_tools], position="top")
next_button(_page, _way)
take_dropped_files(_open)
_page.run()
address_bar("page")
