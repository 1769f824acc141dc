"""OAUTHBEARER tokens: out of a file that somebody rotates, or from a token endpoint by client credentials (RFC 6749, section 4.4).

A token is asked for when a connection is made; a connection that lasts keeps what it was made with, and the broker ends it when
the token has (``connections.max.reauth.ms``), upon which the next one gets a new token. From an endpoint a token is asked for once
and handed out again until four fifths of its life are over: so one that is handed out is good for a while, and the endpoint may be
away for the last fifth of it.

The secret goes into one request, by HTTP Basic over TLS whose certificate is checked (plain HTTP to this machine only), and into
no message. Redirections are refused: they would carry it on.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import http.client
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote_plus, urlencode, urlsplit

from schemas.settings import Settings
from streams.kafka.secret_files import read_secret
from streams.log import LogError

if TYPE_CHECKING:
    from aiokafka.abc import AbstractTokenProvider

TIMEOUT_S = 10.0
TRIES = 3
PAUSE_S = 0.5
"""Before the second try; the third waits twice as long."""
ANSWER_BYTES = 256 * 1024
ASSUMED_S = 300.0
"""How long a token is taken to be good whose endpoint does not say."""
USED_OF_LIFE = 0.8


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where tokens come from, and as whom they are asked for. ``ca_file``: who signs the endpoint; None: the system's list."""

    url: str
    client_id: str
    secret_file: Path
    scope: str = ""
    audience: str = ""
    ca_file: Path | None = None


class TokenRefused(Exception):
    """No token, and why, in words that hold no secret. ``again``: asking again may help."""

    def __init__(self, why: str, *, again: bool = False) -> None:
        super().__init__(why)
        self.again = again


class TokenSource:
    """The tokens of one endpoint, shared by all connections of a process. May be used by several threads.

    >>> held = TokenSource(Endpoint("https://sso", "brain", Path("secret")), lambda _: ("abc", 100.0), clock=lambda: 0.0)
    >>> held.token()
    'abc'
    """

    def __init__(
        self,
        endpoint: Endpoint,
        fetch: Callable[[Endpoint], tuple[str, float]],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._endpoint = endpoint
        self._fetch = fetch
        self._clock = clock
        self._pause = pause
        self._lock = threading.Lock()
        self._held: tuple[str, float, float] | None = None

    def token(self) -> str:
        """A token that is good for a while. Blocks while it is fetched.

        Raises:
            TokenRefused: the endpoint gives none, and the last one's life is over.
        """
        with self._lock:
            now = self._clock()
            if self._held is not None and now < self._held[1]:
                return self._held[0]
            try:
                token, life = self._fetched()
            except TokenRefused as refused:
                if self._held is not None and refused.again and self._clock() < self._held[2]:
                    return self._held[0]
                raise
            self._held = token, now + life * USED_OF_LIFE, now + life
            return token

    def _fetched(self) -> tuple[str, float]:
        for attempt in range(1, TRIES):
            try:
                return self._fetch(self._endpoint)
            except TokenRefused as refused:
                if not refused.again:
                    raise
            self._pause(PAUSE_S * attempt)
        return self._fetch(self._endpoint)


def fetch(endpoint: Endpoint) -> tuple[str, float]:
    """A token and its life in seconds, by one request.

    Raises:
        TokenRefused: the endpoint cannot be reached, is not safe to send a secret to, or answers with no token.
    """
    target = urlsplit(endpoint.url)
    host, port = target.hostname or "", _port_of(target)
    if target.scheme not in ("http", "https") or not host or target.username is not None or port == 0:
        raise TokenRefused("kafka_token_url is no URL of an endpoint: https://HOST/PATH, with no user in it")
    if target.scheme == "http" and not _own_machine(host):
        raise TokenRefused(f"kafka_token_url {endpoint.url} would carry the secret in the clear: use https")
    try:
        secret = read_secret(endpoint.secret_file, "kafka_client_secret_file", required=True)
    except LogError as error:
        raise TokenRefused(str(error)) from None
    wanted = {"grant_type": "client_credentials", "scope": endpoint.scope, "audience": endpoint.audience}
    basic = base64.b64encode(f"{quote_plus(endpoint.client_id)}:{quote_plus(secret)}".encode()).decode()
    headers = {
        "Authorization": f"Basic {basic}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    path = (target.path or "/") + (f"?{target.query}" if target.query else "")
    connection = _connection(endpoint, target.scheme, host, port)
    try:
        connection.request("POST", path, urlencode({name: value for name, value in wanted.items() if value}), headers)
        answer = connection.getresponse()
        return _token_in(endpoint.url, answer.status, answer.read(ANSWER_BYTES))
    except ssl.SSLError as error:
        raise TokenRefused(f"the token endpoint {endpoint.url} is not trusted: {error.reason or error}") from None
    except (OSError, http.client.HTTPException) as error:
        raise TokenRefused(
            f"the token endpoint {endpoint.url} cannot be reached: {error or type(error).__name__}", again=True
        ) from None
    finally:
        connection.close()


def _connection(endpoint: Endpoint, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=endpoint.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise TokenRefused(f"kafka_token_ca_file {endpoint.ca_file} cannot be used: {error}") from None
    return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)


def _token_in(url: str, status: int, body: bytes) -> tuple[str, float]:
    """What an answer holds (RFC 6749, sections 5.1 and 5.2)."""
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    told = told if isinstance(told, dict) else {}
    if status != 200:
        what = " ".join(str(told[name])[:200] for name in ("error", "error_description") if told.get(name))
        raise TokenRefused(
            f"the token endpoint {url} answers {status}{f': {what}' if what else ''}", again=status >= 500 or status == 429
        )
    token, kind, life = told.get("access_token"), told.get("token_type", "Bearer"), told.get("expires_in", ASSUMED_S)
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise TokenRefused(f"the token endpoint {url} answers without an access token")
    if str(kind).lower() != "bearer":
        raise TokenRefused(f"the token endpoint {url} gives a token of type {str(kind)[:40]}, not a bearer token")
    try:
        seconds = float(life)
    except (TypeError, ValueError):
        seconds = ASSUMED_S
    if not 0 < seconds < float("inf"):
        raise TokenRefused(f"the token endpoint {url} gives a token whose life is over")
    return token, seconds


def _port_of(target: SplitResult) -> int | None:
    """The port that a URL names, None where it names none; 0 for one that cannot be."""
    try:
        return target.port
    except ValueError:
        return 0


def _own_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@functools.lru_cache(maxsize=4)
def shared_source(endpoint: Endpoint) -> TokenSource:
    """The process's one source for an endpoint: clients come and go, several a second in ``lags``, and a token serves them all."""
    return TokenSource(endpoint, fetch)


def token_provider(settings: Settings) -> AbstractTokenProvider:
    """What aiokafka and Faust ask for a token: the endpoint of ``kafka_token_url``, else ``kafka_token_file``, read each time.

    Raises:
        LogError: neither is set, both are, or a setting that the endpoint needs is missing.
    """
    from aiokafka.abc import AbstractTokenProvider
    from aiokafka.errors import KafkaConnectionError

    give = _giver(settings)

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            try:
                return await asyncio.to_thread(give)
            except (TokenRefused, LogError) as error:  # of the kind that clients wait and try again after
                raise KafkaConnectionError(str(error)) from None

    return Provider()


def _giver(settings: Settings) -> Callable[[], str]:
    path = settings.kafka_token_file
    if settings.kafka_token_url and path is not None:
        raise LogError("kafka_token_url and kafka_token_file are both set", hint="take one of them")
    if not settings.kafka_token_url:
        read_secret(path, "kafka_token_file", required=True)
        return lambda: read_secret(path, "kafka_token_file", required=True)
    if not settings.kafka_client_id or settings.kafka_client_secret_file is None:
        raise LogError("kafka_token_url needs kafka_client_id and kafka_client_secret_file")
    endpoint = Endpoint(
        settings.kafka_token_url,
        settings.kafka_client_id,
        settings.kafka_client_secret_file,
        settings.kafka_token_scope,
        settings.kafka_token_audience,
        settings.kafka_token_ca_file,
    )
    return shared_source(endpoint).token


async def ensure_token(provider: AbstractTokenProvider | None) -> None:
    """Is there a token? Asked before a client is started, whose own message says no more than that it could not connect.

    Raises:
        LogError: there is none, with the reason.
    """
    from aiokafka.errors import KafkaError

    if provider is None:
        return
    try:
        await provider.token()
    except KafkaError as error:
        raise LogError(str(error.args[0] if error.args else error)) from None
