"""The rights that docs/kafka.md lists for each role are enough for it, on a broker that grants nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deploy.kafka.broker import LocalBroker, free_port, java, libraries
from gateway.brain import open_service
from gateway.kafka import WORKERS
from gateway.keys import Caller, Tier
from schemas.settings import Settings
from schemas.topics import BY_NAME, EPISODES_RECORDED, INSIGHTS_UPDATED, TOOLS_EXECUTED
from stores.episodes import EpisodeFilter
from streams.kafka.log import KafkaLog
from streams.log import LogError, NewRecord
from streams.publisher import Publisher
from streams.sources.market import simulate
from tests.support.events import swap
from tests.support.kafka import fresh_topics, own_broker, settings_for
from tests.support.kafka_rights import documented
from tests.support.streams import read_all

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
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


def grant(broker: LocalBroker, users: Sequence[str], operations: Sequence[str], topics: Sequence[str], *more: str) -> None:
    """Allow users some operations on topics and on what ``more`` names, with Kafka's own command; each takes seconds to start."""
    command = [
        java(),
        "-cp",
        f"{libraries()}/*",
        "org.apache.kafka.tools.AclCommand",
        "--bootstrap-server",
        broker.address,
        "--add",
    ]
    for option, values in (
        ("--allow-principal", [f"User:{user}" for user in users]),
        ("--operation", operations),
        ("--topic", topics),
    ):
        command += [part for value in values for part in (option, value)]
    subprocess.run([*command, *more], check=True, capture_output=True)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, dict[str, Settings]]]:
    """The administrator's settings, and each role's own."""
    folder = tmp_path_factory.mktemp("guarded")
    port, controller, sasl = free_port(), free_port(), free_port()
    users = ["producer", "subscriber", "gateway", *WORKERS]
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
        grant(broker, users, ["Describe", "DescribeConfigs"], list(BY_NAME), "--cluster")
        for user in users:
            group = ["--group", f"{admin.kafka_app}.{user}.v1"] if user in WORKERS else []
            if rights[user]["R"]:
                grant(broker, [user], ["Read"], rights[user]["R"], *group)
            if rights[user]["W"]:
                grant(broker, [user], ["Write"], rights[user]["W"])
        security = {"kafka_protocol": "sasl_plaintext", "kafka_mechanism": "PLAIN", "kafka_password_file": folder / "password"}
        base = admin.model_copy(update={"broker": f"kafka://127.0.0.1:{sasl}", **security})
        yield admin, {user: base.model_copy(update={"kafka_username": user, "data_dir": folder / "data"}) for user in users}


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
    with open_service(roles["gateway"], pipeline=False) as service:
        admin_key = Caller("operator", Tier.ADMIN)
        episode = service.search_episodes(admin_key, "swap", EpisodeFilter(), 1)[0]
        assert service.forget_episode(admin_key, "1", episode.id, "").state == "pending"
        service.record_execution(admin_key, "2", swap(event_id="by-the-gateway"))
        service.remember(admin_key, "3", "Pools are thin at noon.")
        service.mark_used(admin_key, "4", [episode.id])
        service.value_portfolio(admin_key, {"portfolio": "p", "ts": "2026-03-02T00:00:00Z", "value": "1", "net_deposits": "1"})
        service.take_answer(admin_key, "5", episode.key, "client", "{}")
        service.reflected(admin_key, "5")
    for role in ("episodes", "writer"):
        subprocess.run([sys.executable, "-c", RUN, json.dumps(roles[role].plain()), role], check=True, cwd=ROOT, timeout=120)
    with open_service(roles["gateway"], pipeline=False) as service:
        assert service.episode_traces(admin_key, episode.id)["row"] == 0
        assert service.stats(admin_key).uses == 1
