"""The app: `make run` or `streamlit run app.py` serves its pages, and rejects requests from other sites."""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

import workbench.ui
from workbench.ui.browsers import NamedBrowsers
from workbench.ui.own_site import OwnSite
from workbench.ui.serving import serving

_PAGES = Path(workbench.ui.__path__[0]) / "main.py"

app = st.App(_PAGES, middleware=[Middleware(OwnSite), Middleware(NamedBrowsers)], lifespan=serving)
