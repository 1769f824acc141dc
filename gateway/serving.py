"""Listening: a socket that is bound before anybody is told, one application or two on it."""

from __future__ import annotations

import ipaddress
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.mcp.transport import PATH
from schemas.errors import BrainError

API = "/v1"


def bound(host: str, port: int, *, allow_remote: bool) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        BrainError: the address is not this machine's own and ``allow_remote`` is not set, or it is taken.
    """
    if not allow_remote and not _loopback(host):
        raise BrainError(
            f"{host} can be reached from outside", hint="put a proxy with TLS before it, and say --allow-remote if you mean it"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise BrainError(f"{host}:{port} cannot be listened on: {error.strerror}", hint="choose another --port") from None
    listener.listen(128)
    return listener


def url_of(listener: socket.socket) -> str:
    """Where a socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, then return; streams that are open are given two seconds.

    An address is the peer's: a header that names another one would make as many out of it as it likes.

    The server raises the signal once more when it is done; here that ends the call, so that what is open gets closed.
    """

    class Asked(Exception):
        """The signal, again."""

    def again(*_: object) -> None:
        raise Asked

    before = {number: signal.signal(number, again) for number in (signal.SIGINT, signal.SIGTERM)}
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
    )
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except Asked:
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def joined(api: ASGIApp, mcp: ASGIApp, pages: ASGIApp) -> ASGIApp:
    """Three applications on one address: MCP's path, the API under ``/v1`` with the lifespan, and all else the pages."""

    def chosen(scope: Scope) -> ASGIApp:
        path = scope.get("path", "")
        if scope["type"] != "http" or path == API or path.startswith(f"{API}/"):
            return api
        return mcp if path.rstrip("/") == PATH else pages

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await chosen(scope)(scope, receive, send)

    return app


def with_lifespan_of(mcp: Starlette) -> Callable[[object], AbstractAsyncContextManager[None]]:
    """A lifespan for the API that holds the MCP application's."""

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with mcp.router.lifespan_context(mcp):
            yield

    return lifespan


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
