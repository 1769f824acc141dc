"""The adapter against a server that does everything a server should not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.llm.openai import OpenAICompatible
from gateway.llm.port import Ask, ModelRefused, ModelUnavailable
from tests.support.llm import Handler, completion, endpoint, raw, saying

ASK = Ask("rules", "data", {"type": "object"}, "claims", 50)
KEY = "sk-very-secret"


def adapter(url: str, **more: Any) -> OpenAICompatible:
    return OpenAICompatible(url, "some-model", **more)


def test_a_question_and_its_answer(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(f"{KEY}\n")
    with endpoint(saying('{"claims": []}')) as server:
        answer = adapter(server.url, key_file=key_file).complete(ASK)
    assert (answer.text, answer.model, answer.prompt_tokens, answer.completion_tokens) == ('{"claims": []}', "stub", 100, 20)
    (asked,) = server.asked
    assert asked["path"] == "/v1/chat/completions"
    assert asked["messages"] == [{"role": "system", "content": "rules"}, {"role": "user", "content": "data"}]
    assert asked["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "claims", "schema": {"type": "object"}, "strict": True},
    }
    assert (asked["temperature"], asked["max_tokens"], asked["model"]) == (0, 50, "some-model")
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("format", "expected"), [("json_object", {"type": "json_object", "schema": {"type": "object"}}), ("text", None)]
)
def test_formats(format: Any, expected: Any) -> None:
    with endpoint(saying("{}")) as server:
        adapter(server.url, format=format).complete(ASK)
    assert server.asked[0].get("response_format") == expected
    assert "authorization" not in server.headers[0]


HOSTILE: list[tuple[Handler, type[Exception]]] = [
    (raw(b"", 500), ModelUnavailable),
    (raw(b"busy", 503), ModelUnavailable),
    (raw(b"slow down", 429), ModelUnavailable),
    (raw(b"no such model", 404), ModelRefused),
    (raw(b"bad key", 401), ModelRefused),
    (raw(b"", 302, location="http://127.0.0.1:1/steal"), ModelRefused),
    (raw(b"not json"), ModelUnavailable),
    (raw(b"[]"), ModelUnavailable),
    (raw(b'{"choices": []}'), ModelUnavailable),
    (raw(b'{"choices": [{"message": {"content": null}}]}'), ModelUnavailable),
    (raw(b'{"choices": [{"message": {"content": [1]}}]}'), ModelUnavailable),
    (raw(b'{"choices": [{"message": ' + b"[" * 100_000), ModelUnavailable),
    (raw(b"\xff\xfe"), ModelUnavailable),
    (raw(b" " * 300_000), ModelUnavailable),
]


@pytest.mark.parametrize(("handler", "error"), HOSTILE)
def test_whatever_comes_back_is_one_of_two_errors(handler: Handler, error: type[Exception]) -> None:
    with endpoint(handler) as server, pytest.raises(error) as raised:
        adapter(server.url).complete(ASK)
    assert len(str(raised.value)) < 500
    assert "\n" not in str(raised.value)


def test_silence_and_a_drip_end_in_time() -> None:
    with endpoint() as server:
        server.handlers += [server.silent, server.dripping]
        with pytest.raises(ModelUnavailable, match="ReadTimeout"):
            adapter(server.url, timeout_s=0.2).complete(ASK)
        with pytest.raises(ModelUnavailable, match="took over"):
            adapter(server.url, timeout_s=0.2).complete(ASK)


def test_nobody_there() -> None:
    with pytest.raises(ModelUnavailable, match="ConnectError") as raised:
        adapter("http://127.0.0.1:1/v1").complete(ASK)
    assert raised.value.hint is not None


def test_a_wish_to_wait_is_told() -> None:
    with endpoint(raw(b"", 429, retry_after="7"), raw(b"", 429, retry_after="Wed, 21 Oct 2026")) as server:
        with pytest.raises(ModelUnavailable) as first:
            adapter(server.url).complete(ASK)
        with pytest.raises(ModelUnavailable) as second:
            adapter(server.url).complete(ASK)
    assert (first.value.retry_after_s, second.value.retry_after_s) == (7.0, None)


def test_the_key_stands_in_no_message(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(KEY)
    with endpoint(raw(f"your key {KEY} is\nwrong\x07".encode(), 401)) as server, pytest.raises(ModelRefused) as raised:
        adapter(server.url, key_file=key_file).complete(ASK)
    assert KEY not in f"{raised.value} {raised.value.hint} {raised.value!r} {caplog.text}"
    assert "*** is wrong" in str(raised.value)


def test_a_key_file_that_is_not_there(tmp_path: Path) -> None:
    with endpoint(saying("{}")) as server, pytest.raises(ModelRefused, match="llm_key_file"):
        adapter(server.url, key_file=tmp_path / "none").complete(ASK)
    assert not server.asked


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": -5, "completion_tokens": "many"}, {"prompt_tokens": True}, [1]])
def test_tokens_that_are_not_told_are_estimated(usage: Any) -> None:
    with endpoint(saying("x" * 90, usage=usage)) as server:
        answer = adapter(server.url).complete(ASK)
    assert (answer.prompt_tokens, answer.completion_tokens) == (4, 30)


def test_an_answer_that_was_cut_says_so() -> None:
    cut = json.loads(completion("{"))
    cut["choices"][0]["finish_reason"] = "length"
    with endpoint(raw(json.dumps(cut).encode())) as server:
        assert adapter(server.url).complete(ASK).cut
