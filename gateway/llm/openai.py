"""Any endpoint that speaks OpenAI's chat completions: hosted ones, vLLM, llama.cpp's server, Ollama.

The answer is streamed in at HTTP level and read up to a size and within a time, because a server may send a gigabyte, or a byte a
second. Redirects are not followed, for the key would go along, and the environment's proxies are not used. The key is read from
its file at each call, so that it can be changed; it is cut out of whatever an endpoint says back, and stands in no message.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from gateway.llm.port import Answer, Ask, ModelRefused, ModelUnavailable, estimated_tokens
from schemas.errors import BrainError

MAX_BYTES = 256_000
"""Bytes of an answer that are read: some 60,000 tokens."""
PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
Format = Literal["json_schema", "json_object", "text"]


class OpenAICompatible:
    """The adapter. ``format`` says how the endpoint is made to keep to the schema: by name (``json_schema``), as llama.cpp's Python
    server takes it (``json_object`` with a schema), or not at all (``text``, where the prompt alone asks for JSON).

    Raises:
        BrainError: httpx is not installed.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key_file: Path | None = None,
        format: Format = "json_schema",
        timeout_s: float = 5.0,
        max_bytes: int = MAX_BYTES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise BrainError("asking a language model needs httpx", hint='pip install "defi-brain[model]"') from None
        self.name = model
        self._url = f"{url.rstrip('/')}/chat/completions"
        self._key_file = key_file
        self._format = format
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._monotonic = monotonic
        self._errors = httpx.HTTPError
        self._client = httpx.Client(timeout=timeout_s, follow_redirects=False, trust_env=False)

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def complete(self, ask: Ask) -> Answer:
        """See :class:`gateway.llm.port.LanguageModel`."""
        key = self._key()
        headers = {"authorization": f"Bearer {key}"} if key else {}
        try:
            status, retry_after, body = self._post(self._body(ask), headers)
        except self._errors as error:
            raise ModelUnavailable(f"the model's endpoint: {type(error).__name__}", hint="is it running? see llm_url") from None
        if status != 200:
            self._refuse(status, retry_after, body, key)
        return self._answer(ask, body)

    def _key(self) -> str:
        if self._key_file is None:
            return ""
        try:
            return self._key_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ModelRefused(f"llm_key_file cannot be read: {type(error).__name__}", hint="name a readable file") from None

    def _body(self, ask: Ask) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": "system", "content": ask.system}, {"role": "user", "content": ask.user}],
            "max_tokens": ask.max_tokens,
            "temperature": 0,
        }
        if self._format == "json_schema":
            named = {"name": ask.name, "schema": ask.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        elif self._format == "json_object":
            body["response_format"] = {"type": "json_object", "schema": ask.schema}
        return body

    def _post(self, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, float | None, bytes]:
        deadline = self._monotonic() + self._timeout_s
        with self._client.stream("POST", self._url, json=body, headers=headers) as response:
            parts: list[bytes] = []
            size = 0
            for part in response.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > self._max_bytes:
                    raise ModelUnavailable(f"the model's answer is over {self._max_bytes} bytes")
                if self._monotonic() > deadline:
                    raise ModelUnavailable(f"the model's answer took over {self._timeout_s:g} s")
            return response.status_code, _seconds(response.headers.get("retry-after")), b"".join(parts)

    def _refuse(self, status: int, retry_after_s: float | None, body: bytes, key: str) -> None:
        said = body[:300].decode("utf-8", "replace")
        if key:
            said = said.replace(key, "***")
        said = " ".join("".join(one if one.isprintable() else " " for one in said).split())
        if status in PASSING:
            raise ModelUnavailable(f"the model's endpoint answered {status}: {said}", retry_after_s=retry_after_s)
        raise ModelRefused(
            f"the model's endpoint answered {status}: {said}", hint="see llm_url, llm_model, llm_format, llm_key_file"
        )

    def _answer(self, ask: Ask, body: bytes) -> Answer:
        try:
            plain = json.loads(body)
            choice = plain["choices"][0]
            text = choice["message"]["content"]
            if not isinstance(text, str):
                raise TypeError
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            raise ModelUnavailable("the model's endpoint answered something that is no chat completion") from None
        raw = plain.get("usage")
        usage = raw if isinstance(raw, dict) else {}
        return Answer(
            text=text,
            model=str(plain.get("model") or self.name)[:128],
            prompt_tokens=_count(usage.get("prompt_tokens"), estimated_tokens(ask.text)),
            completion_tokens=_count(usage.get("completion_tokens"), estimated_tokens(text)),
            cut=choice.get("finish_reason") == "length",
        )


def _seconds(text: str | None) -> float | None:
    """A ``Retry-After`` in seconds; a date is not taken."""
    try:
        return min(60.0, max(0.0, float(text))) if text is not None else None
    except ValueError:
        return None


def _count(value: Any, otherwise: int) -> int:
    """A number of tokens as the endpoint tells it, if it is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else otherwise
