"""The rights that docs/kafka.md lists for each role are enough for it, on a broker that grants nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.kafka.broker import LocalBroker, free_port, java, libraries
from gateway.kafka import WORKERS
from schemas.settings import Settings
from schemas.topics import BY_NAME, EPISODES_RECORDED, INSIGHTS_UPDATED, TOOLS_EXECUTED
from streams.kafka.log import KafkaLog
from streams.log import LogError, NewRecord
from streams.publisher import Publisher
from streams.sources.market import simulate
from tests.support.kafka import fresh_topics, own_broker, settings_for
from tests.support.streams import read_all

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (?P<role>[^|]+) \| (?P<topics>(?:R|W) [^|]+) \| (?P<groups>[^|]+) \|$", re.MULTILINE)
RUN = """
import asyncio, json, sys
from gateway import kafka
from schemas.settings import Settings
from streams.kafka.app import create_app, run_until_idle
settings, role = Settings(**json.loads(sys.argv[1])), sys.argv[2]
async def work(slots):
    await run_until_idle(create_app(settings, slots), settings, [kafka._Reader(role)])
with kafka.open_slots(settings, [role]) as slots:
    asyncio.run(work(slots))
"""


def documented() -> dict[str, dict[str, list[str]]]:
    """Role → {"R": topics, "W": topics} out of the table."""
    table = (ROOT / "docs" / "kafka.md").read_text()
    rights: dict[str, dict[str, list[str]]] = {}
    for row in ROW.finditer(table):
        rights[row["role"].strip("`")] = found = {"R": [], "W": []}
        for right, names in re.findall(r"(R|W) ([^;]+)", row["topics"]):
            for name in re.findall(r"`([^`]+)`", names.split(", W")[0]):
                found[right] += [topic for topic in BY_NAME if topic in (name, f"brain.{name}.v1")]
            for name in re.findall(r"W `([^`]+)`", names):
                found["W"] += [topic for topic in BY_NAME if topic in (name, f"brain.{name}.v1")]
    return rights


def grant(broker: LocalBroker, user: str, *arguments: str) -> None:
    """Allow a user something, with Kafka's own command."""
    command = [java(), "-cp", f"{libraries()}/*", "org.apache.kafka.tools.AclCommand", "--bootstrap-server", broker.address]
    subprocess.run([*command, "--add", "--allow-principal", f"User:{user}", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, dict[str, Settings]]]:
    """The administrator's settings, and each role's own."""
    folder = tmp_path_factory.mktemp("guarded")
    port, controller, sasl = free_port(), free_port(), free_port()
    users = ["producer", "subscriber", *WORKERS]
    logins = " ".join(f'user_{user}="secret"' for user in users)
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    extra = {
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f'{plain} required username="x" password="y" {logins};',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    (folder / "password").write_text("secret")
    with own_broker(port=port, extra=extra) as broker:
        admin = settings_for(broker.address, folder)
        fresh_topics(admin)
        rights = documented()
        for user in users:
            grant(broker, user, "--operation", "Describe", *[part for topic in BY_NAME for part in ("--topic", topic)], "--cluster")
            grant(broker, user, "--operation", "DescribeConfigs", *[part for topic in BY_NAME for part in ("--topic", topic)])
            for letter, operation in (("R", "Read"), ("W", "Write")):
                topics = rights[user][letter]
                if topics:
                    grant(broker, user, "--operation", operation, *[part for topic in topics for part in ("--topic", topic)])
            if user in WORKERS:
                grant(broker, user, "--operation", "Read", "--group", f"{admin.kafka_app}.{user}.v1")
        security = {"kafka_protocol": "sasl_plaintext", "kafka_mechanism": "PLAIN", "kafka_password_file": folder / "password"}
        base = admin.model_copy(update={"broker": f"kafka://127.0.0.1:{sasl}", **security})
        yield admin, {user: base.model_copy(update={"kafka_username": user, "data_dir": folder / "data"}) for user in users}


def test_the_table_names_every_worker() -> None:
    assert set(WORKERS) | {"producer", "subscriber"} <= set(documented())


def test_what_is_granted_is_enough_and_no_more(guarded: tuple[Settings, dict[str, Settings]]) -> None:
    admin, roles = guarded
    with Publisher(roles["producer"]) as publisher:
        publisher.publish_many(item for item in simulate(11, 1200))
    for role in WORKERS:
        subprocess.run([sys.executable, "-c", RUN, json.dumps(roles[role].plain()), role], check=True, cwd=ROOT, timeout=120)
    with KafkaLog(admin) as log, KafkaLog(roles["subscriber"]) as subscriber:
        assert len(read_all(log, EPISODES_RECORDED.name)) == 1200
        assert read_all(subscriber, INSIGHTS_UPDATED.name) == read_all(log, INSIGHTS_UPDATED.name)
        with pytest.raises(LogError):
            subscriber.append([NewRecord(TOOLS_EXECUTED.name, b"k", b"v")])
