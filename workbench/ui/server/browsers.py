"""Tells browsers apart: each gets a random name in a cookie, by which a reloaded page finds its model again."""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "graph_workbench_browser"


class NamedBrowsers:
    """ASGI middleware: the answer to a page request names the browser, unless it has a name.

    The cookie is sent to this site alone and is not readable by scripts.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_named(Headers(scope=scope).get("cookie", "")):
            await self._app(scope, receive, send)
            return

        async def name(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    cookie = f"{COOKIE}={secrets.token_urlsafe(16)}; Path=/; HttpOnly; SameSite=Strict"
                    headers.append("set-cookie", cookie)
            await send(message)

        await self._app(scope, receive, name)


def _is_named(cookies: str) -> bool:
    try:
        return COOKIE in SimpleCookie(cookies)
    except CookieError:  # another program's on this machine
        return False
