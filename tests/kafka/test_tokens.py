"""Tokens from an endpoint: what is asked, when it is asked again, and that a secret goes nowhere it should not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from schemas.settings import Settings
from streams.kafka.tokens import TRIES, Endpoint, TokenRefused, TokenSource, ensure_token, fetch, token_provider
from streams.log import LogError
from tests.support.token_server import CLIENT, SECRET, basic, token_server

GOOD = {"access_token": "abc.def", "token_type": "bearer", "expires_in": 100}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    return path


def test_a_token_is_asked_for_as_the_standard_says(secret: Path) -> None:
    with token_server((200, GOOD)) as server:
        assert fetch(Endpoint(server.url, CLIENT, secret, "kafka read", "cluster")) == ("abc.def", 100.0)
        ((path, fields, headers),) = server.asked
    assert path == "/oauth/token?tenant=one"
    assert fields == {"grant_type": ["client_credentials"], "scope": ["kafka read"], "audience": ["cluster"]}
    assert headers["Authorization"] == basic(CLIENT, "s3cret%2B%2F%26%3D%25")
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, {"error": "invalid_client", "error_description": "who\nare you"}, "answers 401: invalid_client who\nare you"),
        (400, b"<html>", "answers 400"),
        (302, b"", "answers 302"),
        (200, b"not json", "without an access token"),
        (200, [], "without an access token"),
        (200, {"access_token": "a\nb"}, "without an access token"),
        (200, {**GOOD, "token_type": "mac"}, "of type mac"),
        (200, {**GOOD, "expires_in": 0}, "whose life is over"),
        (200, {**GOOD, "expires_in": float("nan")}, "whose life is over"),
    ],
)
def test_an_answer_without_a_token_is_told_once(secret: Path, status: int, body: object, told: str) -> None:
    with token_server((status, body)) as server:
        source = TokenSource(Endpoint(server.url, CLIENT, secret), fetch, pause=pytest.fail)
        with pytest.raises(TokenRefused) as refused:
            source.token()
        assert len(server.asked) == 1, "asking again would not help, and a redirection is not followed"
    assert told in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("life", [None, "soon", "3600"])
def test_a_life_that_is_not_said_is_assumed(secret: Path, life: object) -> None:
    with token_server((200, {**GOOD, "expires_in": life})) as server:
        assert fetch(Endpoint(server.url, CLIENT, secret))[1] == (3600.0 if life == "3600" else 300.0)


def test_an_endpoint_that_is_away_is_asked_again(secret: Path) -> None:
    pauses: list[float] = []
    with token_server((503, b""), (429, b""), (200, GOOD)) as server:
        assert TokenSource(Endpoint(server.url, CLIENT, secret), fetch, pause=pauses.append).token() == "abc.def"
    assert pauses == [0.5, 1.0]
    with pytest.raises(TokenRefused, match="cannot be reached"):
        TokenSource(Endpoint(server.url, CLIENT, secret), fetch, pause=lambda _: None).token()


def test_a_token_is_kept_and_renewed_before_it_ends() -> None:
    now = [0.0]
    given: list[tuple[str, float] | TokenRefused] = [("one", 100.0), ("two", 100.0)]

    def from_list(_: Endpoint) -> tuple[str, float]:
        if not given:
            raise TokenRefused("away", again=True)
        found = given.pop(0)
        if isinstance(found, TokenRefused):
            raise found
        return found

    source = TokenSource(Endpoint("https://sso", CLIENT, Path("secret")), from_list, lambda: now[0], lambda _: None)
    assert [source.token(), source.token()] == ["one", "one"]
    now[0] = 79.9
    assert source.token() == "one"
    now[0] = 80.0
    assert source.token() == "two"
    now[0] = 170.0
    assert source.token() == "two", "the endpoint is away, and this one still lives"
    given += [TokenRefused("no", again=False)]
    with pytest.raises(TokenRefused, match="no"):
        source.token()
    now[0] = 180.0
    with pytest.raises(TokenRefused, match="away"):
        source.token()
    assert TRIES == 3


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://sso.example.com/token", "in the clear"),
        ("ftp://sso.example.com/token", "no URL of an endpoint"),
        ("https://user:password@sso.example.com/token", "no URL of an endpoint"),
        ("https://sso.example.com:99999/token", "no URL of an endpoint"),
        ("sso.example.com", "no URL of an endpoint"),
    ],
)
def test_a_secret_is_not_sent_just_anywhere(secret: Path, url: str, told: str) -> None:
    with pytest.raises(TokenRefused, match=told) as refused:
        fetch(Endpoint(url, CLIENT, secret))
    assert "password" not in str(refused.value)


def test_settings_that_do_not_fit_are_refused(secret: Path) -> None:
    settings = Settings(kafka_mechanism="OAUTHBEARER", kafka_token_url="https://sso.example.com/token")
    with pytest.raises(LogError, match="needs kafka_client_id and kafka_client_secret_file"):
        token_provider(settings)
    with pytest.raises(LogError, match="both set"):
        token_provider(settings.model_copy(update={"kafka_token_file": secret}))


def test_a_client_says_why_there_is_no_token(secret: Path, tmp_path: Path) -> None:
    with token_server((401, {"error": "invalid_client"})) as server:
        settings = Settings(kafka_token_url=server.url, kafka_client_id=CLIENT, kafka_client_secret_file=secret)
        with pytest.raises(LogError, match="answers 401: invalid_client"):
            asyncio.run(ensure_token(token_provider(settings)))
    gone = settings.model_copy(update={"kafka_client_secret_file": tmp_path / "gone"})
    with pytest.raises(LogError, match=r"kafka_client_secret_file .*gone cannot be read"):
        asyncio.run(ensure_token(token_provider(gone)))
