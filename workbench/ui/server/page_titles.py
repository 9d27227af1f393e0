"""Redirects: the title of a page is an address of it, too."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_ADDRESS_OF: Mapping[str, str] = {"open": "", "measure": "run", "learn": "lessons"}  # Streamlit's default page has none


class PageTitles:
    """ASGI middleware: a request for a title that is not the address of its page is answered with that address."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        title = scope["path"].rpartition("/")[2] if scope["type"] == "http" else ""
        if title not in _ADDRESS_OF:
            await self._app(scope, receive, send)
            return
        query = scope["query_string"].decode("latin-1")
        address = f"./{_ADDRESS_OF[title]}{'?' if query else ''}{query}"
        await RedirectResponse(address)(scope, receive, send)
