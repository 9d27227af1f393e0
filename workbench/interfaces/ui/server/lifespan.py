"""Startup and shutdown of the server, which Streamlit leaves to its ASGI app."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from streamlit import config
from streamlit.web.server.server_util import get_display_address, get_url
from uvicorn import Server


@asynccontextmanager
async def lifespan(_: Any) -> AsyncIterator[None]:
    """Print the address, open the page in a browser unless headless, and make Ctrl-C and SIGTERM end the app quietly.

    The address is that of the model that the command line names, where it names one.

    After shutdown, uvicorn re-raises a signal that it has caught itself: SIGINT would print "Aborted!", SIGTERM would
    end Python before its temporary folders are removed.
    """
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    if isinstance(server, Server):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: _end(server))
    is_configured = config.is_manually_set("browser.serverAddress")
    configured_address = config.get_option("browser.serverAddress") if is_configured else None
    url = get_url(configured_address or get_display_address(config.get_option("server.address") or "localhost"))
    if sys.argv[1:]:  # the command `app MODEL`, or `streamlit run app.py -- MODEL`
        url = f"{url}/optimize?model={quote(sys.argv[1], safe='/')}"
    print(f"The app is at {url}; Ctrl-C ends it.", flush=True)
    if not config.get_option("server.headless"):
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()  # some browsers block
    threading.Thread(target=_import_pages, daemon=True).start()
    yield


def _import_pages() -> None:
    """Import what pages need while the first browser still loads Streamlit's own files: 1.4 s on two cores."""
    library = importlib.import_module("workbench.pipeline.registry.pass_registry").library
    library.all_passes()
    importlib.import_module("workbench.interfaces.ui.screens.optimize_page")


def _end(server: Server) -> None:
    """End the server; if it is ending already, without waiting for open connections."""
    server.force_exit = server.should_exit
    server.should_exit = True
