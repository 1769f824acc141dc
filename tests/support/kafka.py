"""A Kafka broker for tests: the one DEFI_BRAIN_TEST_BROKER names, else one of our own on loopback.

Where neither can be had a test is skipped with one line, except in CI, where it fails: there Kafka must be tested.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.kafka.broker import BrokerError, LocalBroker
from schemas.settings import Settings
from streams.embedded.worker import StageSlot
from streams.kafka.topics import admin_client, apply
from workers.stage import Stage


def unavailable(reason: str) -> None:
    """Skip the test, or fail it in CI."""
    line = f"no Kafka broker: {reason.splitlines()[0]}"
    if os.environ.get("CI"):
        pytest.fail(line, pytrace=False)
    pytest.skip(line)


@contextmanager
def own_broker(**options: object) -> Iterator[LocalBroker]:
    """A broker of our own that a test may kill and configure; gone with its folder afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="defi-brain-kafka-"))
    broker = LocalBroker(folder, **options)  # type: ignore[arg-type]
    try:
        try:
            broker.up()
        except BrokerError as error:
            unavailable(str(error))
        yield broker
    finally:
        _remove(broker)


def shared_broker() -> str:
    """``HOST:PORT`` of the broker that tests share: started when it is first asked for, gone with the test run."""
    address, reason = _shared()
    if reason:
        unavailable(reason)
    return address


@functools.cache
def _shared() -> tuple[str, str]:
    """The address, or why there is none; tried once."""
    named = os.environ.get("DEFI_BRAIN_TEST_BROKER", "").removeprefix("kafka://")
    if named:
        return named, ""
    folder = Path(tempfile.mkdtemp(prefix="defi-brain-kafka-"))
    broker = LocalBroker(folder)
    atexit.register(_remove, broker)
    try:
        return broker.up().removeprefix("kafka://"), ""
    except BrokerError as error:
        return "", str(error)


def _remove(broker: LocalBroker) -> None:
    broker.kill()
    shutil.rmtree(broker.folder, ignore_errors=True)


def settings_for(address: str, folder: Path, **more: object) -> Settings:
    """Settings for a broker; each call has consumer groups of its own."""
    app = f"test-{uuid.uuid4().hex[:8]}"
    return Settings(**{"broker": f"kafka://{address}", "data_dir": folder, "kafka_app": app, "kafka_session_s": 6.0, **more})  # type: ignore[arg-type]


async def _fresh(settings: Settings) -> None:
    async with admin_client(settings) as admin:
        while ours := [name for name in await admin.list_topics() if name.startswith("brain.")]:
            await admin.delete_topics(ours)
            await asyncio.sleep(0.05)
        await apply(admin)


def fresh_topics(settings: Settings) -> None:
    """Replace all our topics by new, empty ones. Only ever on a test's broker."""
    asyncio.run(_fresh(settings))


def stages_of(slots: Sequence[StageSlot]) -> list[Stage]:
    """A stage of each slot, to ask for its name and inputs."""
    return [slot.stage or slot.factory(0) for slot in slots if slot.stage or slot.factory]
