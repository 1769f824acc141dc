"""The brain's one writer on Kafka: a second one is refused, one that was stopped and wakes up writes nothing any more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.composition import layout, open_insights
from gateway.ingest import publish_items
from schemas.settings import Settings
from streams.kafka.client import group_of
from streams.kafka.log import KafkaLog
from streams.sources.market import simulate
from tests.support.kafka import fresh_topics, settings_for, shared_broker
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
COMMAND = "import json, sys; from gateway.kafka import run_workers; from schemas.settings import Settings\n"
COMMAND += "run_workers(Settings(**json.loads(sys.argv[1])), ['writer'])"


@pytest.fixture
def kafka(tmp_path: Path) -> Settings:
    """A cluster with a market's operations, which no writer has read; small batches, so that there is time to interfere."""
    settings = settings_for(shared_broker(), tmp_path)
    fresh_topics(settings)
    with KafkaLog(settings) as log:
        publish_items(log, simulate(11, 1500), "market")
    run_until_written(settings, ("embed", "signals", "distil"))
    return settings.model_copy(update={"batch_records": 1})


def run_until_written(settings: Settings, roles: tuple[str, ...]) -> None:
    """Run workers in a process until they have read all there is."""
    code = (
        "import asyncio, json, sys; from gateway import kafka; from schemas.settings import Settings\n"
        "from streams.kafka.app import create_app, run_until_idle\n"
        "settings = Settings(**json.loads(sys.argv[1])); roles = json.loads(sys.argv[2])\n"
        "readers = [kafka._Reader(role) for role in roles]\n"
        "async def work(slots): await run_until_idle(create_app(settings, slots), settings, readers)\n"
        "with kafka.open_slots(settings, roles) as slots: asyncio.run(work(slots))"
    )
    subprocess.run([sys.executable, "-c", code, json.dumps(settings.plain()), json.dumps(roles)], check=True, cwd=ROOT)


@contextmanager
def writer(settings: Settings) -> Iterator[subprocess.Popen[str]]:
    """A writer's process."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, json.dumps(settings.plain())], stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def insights(settings: Settings) -> list[bytes]:
    with open_insights(settings) as store:
        return [line if isinstance(line, bytes) else line.encode() for line in store.fingerprint_parts()]


def test_a_second_writer_is_refused(kafka: Settings) -> None:
    with KafkaLog(kafka) as log, writer(kafka) as first:
        until(lambda: bool(log.committed(group_of(kafka, "writer"))))
        with writer(kafka) as second:
            assert second.wait(60) == 1
            assert second.stderr is not None
            assert f"is being written by process {first.pid}" in second.stderr.read()
        assert first.poll() is None


def test_a_zombie_writer_fails_its_fence(kafka: Settings, tmp_path: Path) -> None:
    """Its lock is got around, as on another machine: the lock file is replaced while it sleeps."""
    undisturbed = kafka.model_copy(update={"kafka_app": f"{kafka.kafka_app}-calm", "data_dir": tmp_path / "calm"})
    run_until_written(undisturbed, ("writer",))
    with KafkaLog(kafka) as log, writer(kafka) as zombie:
        until(lambda: sum(log.committed(group_of(kafka, "writer")).values()) >= 3)
        zombie.send_signal(signal.SIGSTOP)
        before = sum(log.committed(group_of(kafka, "writer")).values())
        store = layout(kafka).insights
        os.replace(store.with_name(f"{store.name}.writer.lock"), tmp_path / "old.lock")
        run_until_written(kafka, ("writer",))
        assert sum(log.committed(group_of(kafka, "writer")).values()) > before, "there was nothing left to do for the second"
        found = insights(kafka)
        zombie.send_signal(signal.SIGCONT)
        assert zombie.wait(60) == 1
        assert zombie.stderr is not None
        assert "was taken over" in zombie.stderr.read()
        assert insights(kafka) == found == insights(undisturbed)
