"""Redirects: a page has further addresses: its title, the command that does the same, and former names."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_NAMES: Mapping[str, tuple[str, ...]] = {  # by the address of the page
    "": ("open", "inspect", "app"),
    "optimize": ("passes", "explain", "groups", "report"),
    "workshop": ("new-pass", "test-pass"),
    "run": ("measure", "bench"),
    "compare-tools": ("reduce",),
    "export": ("package", "check"),
    "compare": ("verify",),
    "lessons": ("learn", "lesson"),
}
_FORMER_NAMES = {"rivals": "compare-tools", "lanes": "streams"}
_ADDRESS_OF = {**_FORMER_NAMES, **{name: address for address, names in _NAMES.items() for name in names}}


def names_of_page(path: str) -> tuple[str, ...]:
    """The further names of the page with that address; "" is the first page."""
    return _NAMES.get(path, ())


class PageTitles:
    """ASGI middleware: a request for a name that is not the address of its page is answered with that address."""

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
