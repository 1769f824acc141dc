"""A token endpoint on loopback that says what a test wants and remembers what it was asked."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

CLIENT, SECRET = "brain", "s3cret+/&=%"


def unsigned_token(subject: str, valid_s: int) -> str:
    """A token without a signature, which a broker takes that was not told otherwise."""

    def part(plain: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(plain).encode()).rstrip(b"=").decode()

    now = int(time.time())
    return f"{part({'alg': 'none'})}.{part({'sub': subject, 'iat': now - 60, 'exp': now + valid_s})}."


@dataclass
class TokenServer:
    """What it answers (status, body, more headers), in turn, the last one for ever; ``asked`` holds path, fields and headers."""

    answers: list[tuple[int, object]]
    url: str = ""
    asked: list[tuple[str, dict[str, list[str]], dict[str, str]]] = field(default_factory=list)

    def answer(self) -> tuple[int, bytes]:
        """The next answer."""
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()


@contextmanager
def token_server(*answers: tuple[int, object], tls: Path | None = None) -> Iterator[TokenServer]:
    """A server that lives within the block; ``tls`` is a PEM file with key and certificate."""
    state = TokenServer(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
            state.asked.append((self.path, parse_qs(sent), dict(self.headers)))
            status, body = state.answer()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", state.url)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    state.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}/oauth/token?tenant=one"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def basic(client: str, secret: str) -> str:
    """The header by which a client says who it is, both parts encoded as a form (RFC 6749, section 2.3.1)."""
    return "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()
