"""The app: `make run` or `streamlit run app.py` serves its pages and rejects requests from other sites."""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

import workbench.interfaces.ui
from workbench.interfaces.ui.server.browsers import NamedBrowsers
from workbench.interfaces.ui.server.lifespan import lifespan
from workbench.interfaces.ui.server.origin_guard import OriginGuard
from workbench.interfaces.ui.server.page_style import PageStyle
from workbench.interfaces.ui.server.page_titles import PageTitles

_PAGES = Path(workbench.interfaces.ui.__path__[0]) / "main.py"

_MIDDLEWARE = [Middleware(OriginGuard), Middleware(PageTitles), Middleware(NamedBrowsers), Middleware(PageStyle)]

app = st.App(_PAGES, middleware=_MIDDLEWARE, lifespan=lifespan)
