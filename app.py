"""The app: `make run` or `streamlit run app.py` serves its pages and rejects requests from other sites."""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

import workbench.ui
from workbench.ui.server.browsers import NamedBrowsers
from workbench.ui.server.lifespan import lifespan
from workbench.ui.server.origin_guard import OriginGuard

_PAGES = Path(workbench.ui.__path__[0]) / "main.py"

app = st.App(_PAGES, middleware=[Middleware(OriginGuard), Middleware(NamedBrowsers)], lifespan=lifespan)
