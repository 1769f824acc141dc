"""How clients reach the cluster: addresses and security, for aiokafka and for Faust, from the settings."""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any, TypeVar
from urllib.parse import urlsplit

from schemas.settings import Settings
from streams.kafka.secret_files import read_secret
from streams.kafka.tokens import token_provider
from streams.log import LogError

T = TypeVar("T")

PATIENCE_S = 60.0
"""How long an answer that can be had later is waited for."""


def require_extra() -> None:
    """Refuse, in words, an installation without the ``kafka`` extra.

    Raises:
        LogError: aiokafka or Faust is missing.
    """
    # Faust, once imported, is a module without a specification: it may be looked for only before.
    missing = [name for name in ("aiokafka", "faust") if name not in sys.modules and find_spec(name) is None]
    if missing:
        raise LogError(f"{' and '.join(missing)} not installed", hint="pip install 'defi-brain[kafka]'")


def servers_of(settings: Settings) -> list[str]:
    """The bootstrap addresses of ``kafka://HOST:PORT[,HOST:PORT…]``.

    Raises:
        LogError: the broker setting is not a Kafka one, or holds something that is no address.
    """
    if not settings.on_kafka:
        raise LogError(f"the broker is {settings.broker or 'the embedded log'}, not Kafka: set broker to kafka://HOST:PORT")
    servers = [part.strip() for part in settings.broker.removeprefix("kafka://").rstrip("/").split(",") if part.strip()]
    wrong = [server for server in servers if not _is_address(server)]
    if wrong or not servers:
        raise LogError(f"{wrong[0] if wrong else settings.broker} is no address of a broker", hint="kafka://HOST:PORT[,HOST:PORT]")
    return servers


def _is_address(server: str) -> bool:
    """``HOST`` or ``HOST:PORT``, an IPv6 address in brackets."""
    try:
        found = urlsplit(f"//{server}")
        return found.netloc == server and bool(found.hostname) and found.port != 0 and not any(map(str.isspace, server))
    except ValueError:  # no port of that number, or half a bracket
        return False


def group_of(settings: Settings, role: str) -> str:
    """A consumer group's name, ``<app>.<role>.v1``."""
    return f"{settings.kafka_app}.{role}.v1"


def tls_of(settings: Settings) -> ssl.SSLContext | None:
    """The TLS context, or None where the protocol has no TLS.

    Raises:
        LogError: a certificate or key cannot be read.
    """
    if "ssl" not in settings.kafka_protocol:
        return None
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=settings.kafka_ca_file)
        context.check_hostname = settings.kafka_check_hostname
        if settings.kafka_cert_file is not None:
            passphrase = read_secret(settings.kafka_key_password_file, "kafka_key_password_file")
            context.load_cert_chain(settings.kafka_cert_file, settings.kafka_key_file, passphrase or None)
    except (OSError, ssl.SSLError) as error:
        raise LogError(f"a TLS file cannot be used ({error}): see kafka_ca_file, kafka_cert_file, kafka_key_file") from None
    return context


def client_arguments(settings: Settings) -> dict[str, Any]:
    """The keyword arguments that every aiokafka client takes: addresses, protocol, TLS, SASL.

    Raises:
        LogError: a setting or a secret file is missing.
    """
    arguments: dict[str, Any] = {
        "bootstrap_servers": servers_of(settings),
        "security_protocol": settings.kafka_protocol.upper(),
        "client_id": settings.kafka_app,
    }
    tls = tls_of(settings)
    if tls is not None:
        arguments["ssl_context"] = tls
    if settings.kafka_protocol.startswith("sasl_"):
        arguments["sasl_mechanism"] = settings.kafka_mechanism
        if settings.kafka_mechanism == "OAUTHBEARER":
            arguments["sasl_oauth_token_provider"] = token_provider(settings)
        else:
            user, password = _user(settings)
            arguments["sasl_plain_username"] = user
            arguments["sasl_plain_password"] = password
    return arguments


def faust_credentials(settings: Settings) -> Any:
    """The same as Faust's ``broker_credentials``; None for plaintext.

    Raises:
        LogError: a setting or a secret file is missing.
    """
    from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials

    tls = tls_of(settings)
    if settings.kafka_protocol == "plaintext":
        return None
    if settings.kafka_protocol == "ssl":
        return SSLCredentials(tls)
    if settings.kafka_mechanism == "OAUTHBEARER":
        return OAuthCredentials(oauth_cb=token_provider(settings), ssl_context=tls)
    user, password = _user(settings)
    return SASLCredentials(username=user, password=password, mechanism=settings.kafka_mechanism, ssl_context=tls)


def _user(settings: Settings) -> tuple[str, str]:
    if not settings.kafka_username:
        raise LogError(f"{settings.kafka_mechanism} needs kafka_username")
    return settings.kafka_username, read_secret(settings.kafka_password_file, "kafka_password_file", required=True)


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """What a call to the cluster gives, asked again while it is not ready to say: coordinators move, leaders are elected."""
    from aiokafka.errors import KafkaError

    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await call()
        except KafkaError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.1)
