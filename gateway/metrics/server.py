"""One port for those who watch: ``/metrics``, ``/healthz``, ``/readyz``. It answers reads and nothing else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

import orjson
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from gateway.metrics.health import Health
from schemas.errors import BrainError

LOGGER = logging.getLogger(__name__)

JSON = "application/json"
READ_S = 10.0
"""A client that takes longer to say what it wants is cut off."""

CLOSE_LOOK_S = 0.1
"""How often the port's thread looks whether it is to end."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    registry: CollectorRegistry
    health: Callable[[], Health]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up in the middle is no news either."""
        LOGGER.debug("metrics: a request of %s failed", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "defi-brain"
    sys_version = ""
    timeout = READ_S

    def do_GET(self) -> None:
        """Answer."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, content_type = choose_encoder(self.headers.get("Accept") or "")
            self._answer(200, content_type, encode(self.server.registry))
        elif path in ("/healthz", "/readyz"):
            self._health(path)
        else:
            self._answer(404, JSON, orjson.dumps({"error": "no such page", "pages": ["/metrics", "/healthz", "/readyz"]}))

    do_HEAD = do_GET

    def _health(self, path: str) -> None:
        try:
            health = self.server.health()
        except Exception as error:  # whatever it is: a brain whose log cannot be read is not well
            problem = f"{type(error).__name__}: {error}"
            self._answer(503, JSON, orjson.dumps({"alive": False, "ready": False, "problems": [problem], "stages": {}}))
            return
        well = health.alive if path == "/healthz" else health.ready
        self._answer(200 if well else 503, JSON, orjson.dumps(health.plain()))

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """A scrape every few seconds is no news."""


class MetricsServer:
    """The port, open until it is closed. ``port`` 0 takes a free one; ``url`` says which.

    Raises:
        BrainError: the address cannot be had.
    """

    def __init__(self, registry: CollectorRegistry, health: Callable[[], Health], port: int, host: str = "127.0.0.1") -> None:
        try:
            self._server = _Server((host, port), _Handler)
        except OSError as error:
            raise BrainError(
                f"metrics cannot be served on {host}:{port}: {error.strerror or error}",
                hint="set metrics_port to another port, or to 0 for none",
            ) from error
        self._server.registry = registry
        self._server.health = health
        self.port = self._server.server_port
        self.url = f"http://{host}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(CLOSE_LOOK_S,), name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
