"""The small pipeline on Kafka: the same outputs as on the embedded log; restarts; every record accounted for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from schemas.settings import Settings
from schemas.topics import EPISODES_RECORDED, INSIGHTS_UPDATED, SIGNALS_RAISED, TOOLS_EXECUTED
from streams.dead_letters import dead_letters
from streams.embedded.driver import EmbeddedDriver
from streams.embedded.log import EmbeddedLog
from streams.embedded.worker import Progress, StageSlot
from streams.kafka.app import create_app, run_until_idle
from streams.kafka.log import KafkaLog
from tests.support.kafka import stages_of
from tests.support.streams import GARBAGE, Store, fill, pipeline, read_all

pytestmark = pytest.mark.kafka


def run(settings: Settings, slots: Sequence[StageSlot]) -> list[Progress]:
    """Run the slots until all is read."""
    progress: list[Progress] = []

    async def main() -> None:
        await run_until_idle(create_app(settings, slots, on_progress=progress.append), settings, stages_of(slots))

    asyncio.run(main())
    return progress


def by_key(log: KafkaLog | EmbeddedLog, topic: str) -> dict[bytes | None, list[bytes | None]]:
    found: dict[bytes | None, list[bytes | None]] = {}
    for record in read_all(log, topic):
        found.setdefault(record.key, []).append(record.value)
    return found


def on_embedded(folder: Path) -> tuple[object, object, object]:
    """What the embedded log gives for the same input."""
    store = Store(folder / "embedded.store")
    with EmbeddedLog(folder / "embedded.db") as log:
        fill(log)
        with EmbeddedDriver(log, pipeline(store)) as driver:
            driver.run_until_idle()
        return by_key(log, EPISODES_RECORDED.name), by_key(log, SIGNALS_RAISED.name), [row[0] for row in store.contents()]


def test_the_same_input_gives_the_same_on_both_logs(kafka: Settings, tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with KafkaLog(kafka) as log:
        fill(log)
        run(kafka, pipeline(store))
        found = by_key(log, EPISODES_RECORDED.name), by_key(log, SIGNALS_RAISED.name), [row[0] for row in store.contents()]
        assert found == on_embedded(tmp_path)
        assert store.left() == 0
        assert len(read_all(log, INSIGHTS_UPDATED.name)) == len(read_all(log, SIGNALS_RAISED.name))
        letters = {letter.key: letter for letter in dead_letters(log, stage="episodes")}
        sent = {record.key: record for record in read_all(log, TOOLS_EXECUTED.name)}
        for n, (value, reason) in enumerate(GARBAGE):
            letter = letters[f"bad-{n}".encode()]
            record = sent[letter.key]
            assert (letter.reason, letter.value, letter.headers) == (reason, value, (("ce_id", b"\xff"),))
            assert (letter.partition, letter.offset, letter.timestamp_ms) == (record.partition, record.offset, record.timestamp_ms)
