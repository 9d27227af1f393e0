"""Access control: the server answers requests from the app's own page, not from pages of other sites.

The app opens files of its machine and receives commands through a WebSocket,
which browsers let any page open. A page of another site is recognized by its
Origin; one whose name was resolved to this machine after it was loaded (DNS
rebinding, which makes it the same site for the browser) by its Host.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import config
from streamlit.web.server.server_util import allowlisted_origins

LOCAL = ("localhost", "127.0.0.1", "::1")
_EVERYWHERE = ("0.0.0.0", "::")  # wildcard addresses to listen on; they do not name a machine
_PORTS = {"http": 80, "https": 443}  # default ports, which browsers omit
_log = logging.getLogger(__name__)


class OriginGuard:
    """ASGI middleware: a request with another Host or Origin than these is answered with 403 and one sentence.

    Host:   a name of this machine (LOCAL), the address at which the request arrived, or what the user set:
            `server.allowedHosts`, `server.address`, `browser.serverAddress`.
    Origin: none, as from clients that are not browsers; such a name with the port of this app or
            `browser.serverPort`; or one of `server.corsAllowedOrigins`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._allowed_hosts = tuple(config.get_option("server.allowedHosts"))
        config.set_option("server.allowedHosts", [])  # Streamlit's own check would allow only these names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        fault = _fault(scope, self._allowed_hosts) if scope["type"] in ("http", "websocket") else ""
        if not fault:
            await self._app(scope, receive, send)
            return
        _log.warning(fault)
        await PlainTextResponse(f"{fault}\n", 403, {"X-Content-Type-Options": "nosniff"})(scope, receive, send)


def _fault(scope: Scope, allowed_hosts: Sequence[str]) -> str:
    """Why the request is refused; "" if it is allowed. allowed_hosts: patterns of `server.allowedHosts`."""
    headers = Headers(scope=scope)
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    address, port = scope["server"]
    host = _site(f"//{hosts[0]}") if len(hosts) == 1 else None
    if host is None or not _is_own_name(host[1], address, allowed_hosts):
        name = ", ".join(hosts) or "none"
        return (
            f"This app does not answer to the name {name!a}; open it as localhost, "
            "or start it with --server.allowedHosts and that name."
        )
    ports = (port, config.get_option("browser.serverPort"))
    for origin in set(origins) - allowlisted_origins():
        scheme, name, origin_port = _site(origin) or ("", "", None)
        if (
            scheme not in _PORTS
            or not _is_own_name(name, address, allowed_hosts)
            or (origin_port or _PORTS[scheme]) not in ports
        ):
            return (
                f"This app refuses requests from pages of {origin!a}; use its own page, "
                "or start it with --server.corsAllowedOrigins and that site."
            )
    return ""


def _site(url: str) -> tuple[str, str, int | None] | None:
    """Scheme, name and port of "https://box:8501" or "//box"; None for any other form."""
    try:
        parts = urlsplit(url)
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    extra = parts.path or parts.query or parts.fragment or parts.username or parts.password
    return None if not name or extra else (parts.scheme, _normal(name), port)


def _normal(name: str) -> str:
    """The normal form of a name or an address: "localhost" for "LOCALHOST.", "::1" for "0:0::1"."""
    name = name.lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name
    return str(getattr(address, "ipv4_mapped", None) or address)


def _is_own_name(name: str, address: str, allowed_hosts: Sequence[str]) -> bool:
    """Whether `name` names this app. address: where the request arrived, which DNS rebinding cannot forge."""
    configured = (config.get_option("server.address"), config.get_option("browser.serverAddress"))
    own_names = {_normal(known) for known in (*LOCAL, address, *configured) if known and known not in _EVERYWHERE}
    return name in own_names or any(_fits(name, pattern.strip()) for pattern in allowed_hosts)


def _fits(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern as in Streamlit: a name, "*.box.lan" for all subdomains, or "*"."""
    if pattern.startswith("*."):
        return name.endswith(_normal(pattern[1:]))
    return pattern == "*" or name == _normal(pattern)


def listens_beyond_this_machine() -> bool:
    """Whether other machines can reach the app."""
    address = config.get_option("server.address")
    if not address:
        return True
    try:
        return not ipaddress.ip_address(address).is_loopback
    except ValueError:
        result: bool = address != "localhost"
        return result
