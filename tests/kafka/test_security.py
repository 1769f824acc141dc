"""TLS and SASL against a broker that demands them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.kafka.broker import free_port
from schemas.settings import Settings
from schemas.topics import TOOLS_EXECUTED
from streams.kafka.client import client_arguments
from streams.kafka.log import KafkaLog
from streams.log import LogError, NewRecord
from tests.support.kafka import fresh_topics, own_broker, settings_for
from tests.support.kafka_checks import nothing_lost
from tests.support.kafka_runs import ALL, work
from tests.support.streams import fill
from tests.support.token_server import CLIENT, SECRET, token_server, unsigned_token

pytestmark = pytest.mark.kafka
ADMIN, PASSWORD = "brain", "correct horse"


@dataclass(frozen=True)
class Secured:
    """The broker's ports by listener, and where the files are."""

    plain: str
    ports: dict[str, int]
    folder: Path


def certificates(folder: Path) -> None:
    """A throw-away authority, and certificates that it signed for the broker and for a client."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test-ca"
    )
    for name in ("broker", "client"):
        (folder / f"{name}.ext").write_text("subjectAltName=IP:127.0.0.1\n")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-out", f"{name}.pem", "-extfile", f"{name}.ext",
        )  # fmt: skip
        (folder / f"{name}-both.pem").write_text((folder / f"{name}.key").read_text() + (folder / f"{name}.pem").read_text())


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secrets")
    certificates(folder)
    names = {"SSL": "SSL", "MTLS": "SSL", "SASL": "SASL_PLAINTEXT", "SASLSSL": "SASL_SSL", "TOKEN": "SASL_PLAINTEXT"}
    port, controller, *ports = (free_port() for _ in range(len(names) + 2))
    at = dict(zip(names, ports, strict=True))
    login = "org.apache.kafka.common.security"
    bearer = f"{login}.oauthbearer.OAuthBearerLoginModule"
    ours = [f"{name}://127.0.0.1:{number}" for name, number in {"PLAINTEXT": port, **at}.items()]
    extra = {
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": ",".join([*ours, f"CONTROLLER://127.0.0.1:{controller}"]),
        "advertised.listeners": ",".join(ours),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        + ",".join(f"{n}:{p}" for n, p in names.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker-both.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.token.oauthbearer.sasl.jaas.config": f'{bearer} required unsecuredLoginStringClaim_sub="broker";',
    }
    for listener in ("sasl", "saslssl"):
        extra[f"listener.name.{listener}.sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
        extra[f"listener.name.{listener}.plain.sasl.jaas.config"] = (
            f'{login}.plain.PlainLoginModule required username="x" password="y" user_{ADMIN}="{PASSWORD}";'
        )
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            extra[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = f"{login}.scram.ScramLoginModule required;"
    (folder / "password").write_text(PASSWORD + "\n")
    (folder / "wrong").write_text("wrong")
    with own_broker(port=port, extra=extra, scram={ADMIN: PASSWORD}) as broker:
        fresh_topics(settings_for(broker.address, folder))
        yield Secured(broker.address, at, folder)


def settings(secured: Secured, listener: str, **more: object) -> Settings:
    return settings_for(f"127.0.0.1:{secured.ports[listener]}", secured.folder, **more)


def works(settings: Settings) -> bool:
    with KafkaLog(settings) as log:
        (position,) = log.append([NewRecord(TOOLS_EXECUTED.name, b"k", b"v")])
        return log.read(position.topic, position.partition, position.offset, 1)[0].value == b"v"


def test_tls(secured: Secured) -> None:
    assert works(settings(secured, "SSL", kafka_protocol="ssl", kafka_ca_file=secured.folder / "ca.pem"))


def test_an_authority_that_is_not_known_is_refused(secured: Secured) -> None:
    with pytest.raises(LogError, match="cannot be reached"):
        KafkaLog(settings(secured, "SSL", kafka_protocol="ssl"))


def test_mutual_tls(secured: Secured) -> None:
    files = {"kafka_cert_file": secured.folder / "client.pem", "kafka_key_file": secured.folder / "client.key"}
    assert works(settings(secured, "MTLS", kafka_protocol="ssl", kafka_ca_file=secured.folder / "ca.pem", **files))
    with pytest.raises(LogError, match="cannot be reached"):
        KafkaLog(settings(secured, "MTLS", kafka_protocol="ssl", kafka_ca_file=secured.folder / "ca.pem"))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SASL", "SASLSSL"])
def test_passwords(secured: Secured, mechanism: str, listener: str) -> None:
    security: dict[str, object] = {"kafka_mechanism": mechanism, "kafka_username": ADMIN, "kafka_protocol": "sasl_plaintext"}
    if listener == "SASLSSL":
        security |= {"kafka_protocol": "sasl_ssl", "kafka_ca_file": secured.folder / "ca.pem"}
    assert works(settings(secured, listener, kafka_password_file=secured.folder / "password", **security))
    with pytest.raises(LogError, match="cannot be reached"):
        KafkaLog(settings(secured, listener, kafka_password_file=secured.folder / "wrong", **security))


def token(folder: Path, name: str, valid_s: int) -> Path:
    """A file with an unsigned token."""
    path = folder / name
    path.write_text(unsigned_token(ADMIN, valid_s))
    return path


def test_bearer_tokens(secured: Secured) -> None:
    security = {"kafka_protocol": "sasl_plaintext", "kafka_mechanism": "OAUTHBEARER"}
    assert works(settings(secured, "TOKEN", kafka_token_file=token(secured.folder, "token", 600), **security))
    with pytest.raises(LogError):
        KafkaLog(settings(secured, "TOKEN", kafka_token_file=token(secured.folder, "expired", -30), **security))


def test_tokens_from_an_endpoint(secured: Secured) -> None:
    """Over TLS that is checked; one token for every connection."""
    (secured.folder / "client-secret").write_text(SECRET)
    answer = {"access_token": unsigned_token(ADMIN, 600), "token_type": "Bearer", "expires_in": 600}
    with token_server((200, answer), tls=secured.folder / "broker-both.pem") as server:
        security: dict[str, object] = {
            "kafka_protocol": "sasl_plaintext", "kafka_mechanism": "OAUTHBEARER", "kafka_token_url": server.url,
            "kafka_client_id": CLIENT, "kafka_client_secret_file": secured.folder / "client-secret",
        }  # fmt: skip
        trusting = {**security, "kafka_token_ca_file": secured.folder / "ca.pem"}
        assert works(settings(secured, "TOKEN", **trusting))
        assert len(server.asked) == 1
        with pytest.raises(LogError, match="is not trusted"):
            KafkaLog(settings(secured, "TOKEN", **security))
        assert len(server.asked) == 1
    assert works(settings(secured, "TOKEN", **trusting)), "the token is good without its endpoint"


def test_a_missing_secret_is_named(secured: Secured) -> None:
    sasl = settings(secured, "SASL", kafka_protocol="sasl_plaintext")
    with pytest.raises(LogError, match="SCRAM-SHA-512 needs kafka_username"):
        client_arguments(sasl)
    with pytest.raises(LogError, match="kafka_password_file is not set"):
        client_arguments(sasl.model_copy(update={"kafka_username": "x"}))
    nowhere = secured.folder / "nowhere"
    with pytest.raises(LogError, match=r"kafka_password_file .*nowhere cannot be read"):
        client_arguments(sasl.model_copy(update={"kafka_username": "x", "kafka_password_file": nowhere}))
    with pytest.raises(LogError, match="kafka_token_file is not set"):
        client_arguments(sasl.model_copy(update={"kafka_mechanism": "OAUTHBEARER"}))
    with pytest.raises(LogError, match="a TLS file cannot be used"):
        client_arguments(sasl.model_copy(update={"kafka_protocol": "ssl", "kafka_ca_file": nowhere}))


def test_secrets_are_not_among_the_settings(secured: Secured) -> None:
    found = settings(secured, "SASL", kafka_protocol="sasl_plaintext", kafka_password_file=secured.folder / "password")
    assert PASSWORD not in str(found.plain())


@pytest.mark.slow
@pytest.mark.parametrize("listener", ["SASLSSL", "TOKEN"])
def test_the_pipeline_runs_secured(secured: Secured, tmp_path: Path, listener: str) -> None:
    """Faust, the members and the administration all take their security from the settings."""
    (secured.folder / "client-secret").write_text(SECRET)
    answer = {"access_token": unsigned_token(ADMIN, 600), "token_type": "Bearer", "expires_in": 600}
    with token_server((200, answer)) as server:
        security: dict[str, dict[str, object]] = {
            "SASLSSL": {
                "kafka_protocol": "sasl_ssl", "kafka_ca_file": secured.folder / "ca.pem", "kafka_username": ADMIN,
                "kafka_password_file": secured.folder / "password",
            },
            "TOKEN": {
                "kafka_protocol": "sasl_plaintext", "kafka_mechanism": "OAUTHBEARER", "kafka_token_url": server.url,
                "kafka_client_id": CLIENT, "kafka_client_secret_file": secured.folder / "client-secret",
            },
        }  # fmt: skip
        found = settings(secured, listener, **security[listener])
        fresh_topics(found)
        store = tmp_path / "store.db"
        with KafkaLog(found) as log:
            fill(log, 30)
            asyncio.run(work(found, str(store), ALL, lambda stage, step: None))
            nothing_lost(log, store)
        assert len(server.asked) == (listener == "TOKEN"), "one token serves every client of the process"
