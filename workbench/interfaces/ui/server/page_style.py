"""The app's style sheet in the page itself: one that comes with a page's content would move what is drawn before."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_STYLE = Path(__file__).parent.parent / "style.css"
_BEFORE = b"<body>"  # behind it, since Streamlit adds rules of its own to the head
_DROPPED = ("accept-encoding", "if-none-match", "if-modified-since")  # headers of a request: it is answered anew


class PageStyle:
    """ASGI middleware: a page of HTML gets the app's style sheet."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._style = b"<style>" + _STYLE.read_bytes() + b"</style>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _asks_for_page(scope):
            await self._app(scope, receive, send)
            return
        headers = [(name, value) for name, value in scope["headers"] if name.decode("latin-1") not in _DROPPED]
        started: list[Message] = []  # the beginning of a page, which is sent with its length
        body = bytearray()

        async def send_styled(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_page(message):
                started.append(message)
                return
            if not started or message["type"] != "http.response.body":
                await send(message)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body", False):
                return
            styled = bytes(body).replace(_BEFORE, _BEFORE + self._style, 1)
            response = MutableHeaders(raw=started[0]["headers"])
            response["content-length"] = str(len(styled))
            del response["etag"]
            await send(started[0])
            await send({"type": "http.response.body", "body": styled})

        await self._app({**scope, "headers": headers}, receive, send_styled)


def _asks_for_page(scope: Scope) -> bool:
    return (
        scope["type"] == "http" and scope["method"] == "GET" and "text/html" in Headers(scope=scope).get("accept", "")
    )


def _is_page(message: Message) -> bool:
    """Whether it begins a whole page of the app, not one that is saved: a lesson or a report is HTML too."""
    headers = Headers(raw=message["headers"])
    is_html = headers.get("content-type", "").startswith("text/html")
    return is_html and message["status"] == HTTPStatus.OK and "content-disposition" not in headers
