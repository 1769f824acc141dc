"""A model's endpoint that does what a test tells it to, on a port of its own; and answers in its form."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Handler = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


def completion(text: str, **more: Any) -> bytes:
    """A chat completion that says ``text``."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return json.dumps(
        {"model": "stub", "choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 20}, **more}
    ).encode()


def saying(text: str, **more: Any) -> Handler:
    """Answer with a completion."""
    return raw(completion(text, **more))


def raw(body: bytes, status: int = 200, **headers: str) -> Handler:
    """Answer with these bytes."""

    def handle(request: BaseHTTPRequestHandler, _: dict[str, Any]) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return handle


@dataclass
class Endpoint:
    """What was asked, and what will be answered: the handlers in turn, the last one for ever."""

    url: str
    handlers: list[Handler]
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def silent(self, request: BaseHTTPRequestHandler, _: dict[str, Any]) -> None:
        """Say nothing until the test is over."""
        self.released.wait(30)

    def dripping(self, request: BaseHTTPRequestHandler, _: dict[str, Any]) -> None:
        """A byte now and then, until the test is over or the caller is gone."""
        request.send_response(200)
        request.send_header("content-length", "1000000")
        request.end_headers()
        while not self.released.wait(0.02):
            request.wfile.write(b" ")
            request.wfile.flush()


@contextmanager
def endpoint(*handlers: Handler) -> Iterator[Endpoint]:
    """A server with these handlers; more can be put into ``handlers`` later."""
    told = Endpoint("", list(handlers))

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            told.asked.append({"path": self.path, **body})
            told.headers.append({name.lower(): value for name, value in self.headers.items()})
            handler = told.handlers[min(len(told.asked), len(told.handlers)) - 1]
            try:
                handler(self, body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    told.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield told
    finally:
        told.released.set()
        server.shutdown()
        server.server_close()


@dataclass
class Recorded:
    """A model without an endpoint: answers in turn, the last one for ever; an exception is raised."""

    answers: Sequence[str | Exception]
    name: str = "recorded"
    asks: list[Any] = field(default_factory=list)

    def complete(self, ask: Any) -> Any:
        from gateway.llm.port import Answer

        self.asks.append(ask)
        found = self.answers[min(len(self.asks), len(self.answers)) - 1]
        if isinstance(found, Exception):
            raise found
        return Answer(found, self.name, 100, 20)
