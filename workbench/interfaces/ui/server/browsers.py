"""Identifies browsers: each gets a random name in a cookie, with which a reloaded page restores its model."""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "graph_workbench_browser"


class NamedBrowsers:
    """ASGI middleware: the response to a page request sets the cookie, unless the browser has it.

    The cookie is sent to this site only, and scripts cannot read it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_named(Headers(scope=scope).get("cookie", "")):
            await self._app(scope, receive, send)
            return

        async def add_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    cookie = f"{COOKIE}={secrets.token_urlsafe(16)}; Path=/; HttpOnly; SameSite=Strict"
                    headers.append("set-cookie", cookie)
            await send(message)

        await self._app(scope, receive, add_cookie)


def _is_named(cookies: str) -> bool:
    try:
        return COOKIE in SimpleCookie(cookies)
    except CookieError:  # set by another program on this machine
        return False
