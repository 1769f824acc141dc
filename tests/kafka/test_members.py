"""What members do at the edges: failures, slow stages, checkpoints, logs that are not theirs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from schemas.settings import Settings
from schemas.topics import CHECKPOINTS, EPISODES_RECORDED, SIGNALS_RAISED
from streams.embedded.driver import EmbeddedDriver, StageFailed
from streams.embedded.log import EmbeddedLog
from streams.embedded.tallies import StageTally
from streams.embedded.worker import Progress, StageSlot
from streams.kafka import checkpoints, member
from streams.kafka.app import create_app, run_until_idle
from streams.kafka.checkpoints import Checkpoint, checkpoint_record, load_checkpoints
from streams.kafka.client import group_of
from streams.kafka.lag import lags
from streams.kafka.log import KafkaLog
from streams.kafka.topics import admin_client
from streams.log import LogAppender, LogMismatch
from streams.publisher import Publisher
from tests.support.kafka import fresh_topics, stages_of
from tests.support.kafka_checks import nothing_lost
from tests.support.streams import Episodes, Store, Sums, execution, fill, pipeline, read_all
from workers.stage import Delivery, Outcome

pytestmark = pytest.mark.kafka


def run(settings: Settings, slots: Sequence[StageSlot], **options: Any) -> list[Progress]:
    """Run the slots until all is read."""
    progress: list[Progress] = []

    async def main() -> None:
        app = create_app(settings, slots, on_progress=progress.append, **options)
        await run_until_idle(app, settings, stages_of(slots), poll_s=0.1)

    asyncio.run(main())
    return progress


def publish(log: LogAppender, first: int, count: int) -> None:
    Publisher(log).publish_many(execution(n, key=n % 7) for n in range(first, first + count))


class Fails(Episodes):
    """Fails at the n-th batch."""

    def __init__(self, at: int) -> None:
        self._left = at

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        self._left -= 1
        if self._left == 0:
            raise OSError("the disk is gone")
        return super().handle(batch)


def test_an_agent_that_fails_ends_the_run_and_commits_nothing_it_did_not_do(kafka: Settings, tmp_path: Path) -> None:
    small = kafka.model_copy(update={"batch_records": 8})
    with KafkaLog(kafka) as log:
        fill(log)
        with pytest.raises(StageFailed, match="stage episodes failed: OSError: the disk is gone"):
            run(small, [StageSlot(Fails(3))])
        assert len(read_all(log, EPISODES_RECORDED.name)) <= 16
        assert sum(log.committed(group_of(kafka, "episodes")).values()) <= 16
        store = Store(tmp_path / "store.db")
        run(kafka, pipeline(store))
        nothing_lost(log, tmp_path / "store.db")


class FailingSums(Sums):
    """Fails when it has seen enough."""

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        if len(self.seen) > 10:
            raise OSError("no memory")
        return super().handle(batch)


@pytest.mark.slow
def test_a_fold_that_fails_ends_the_run(kafka: Settings, tmp_path: Path) -> None:
    small = kafka.model_copy(update={"batch_records": 8})
    with KafkaLog(kafka) as log:
        fill(log)
        with pytest.raises(StageFailed, match="stage sums failed: OSError: no memory"):
            run(small, [StageSlot(Episodes()), StageSlot(factory=FailingSums)])
        store = Store(tmp_path / "store.db")
        run(kafka, pipeline(store))
        nothing_lost(log, tmp_path / "store.db")


class Slow(Store):
    """A store that takes its time once."""

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        if batch and not hasattr(self, "rested"):
            self.rested = True
            time.sleep(5)  # the work itself: longer than the group waits for a member to ask for records
        return super().handle(batch)


class SlowSums(Sums):
    """A fold that takes its time over its first records."""

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        if not self.seen:
            time.sleep(4)
        return super().handle(batch)


@pytest.mark.slow
def test_slow_work_is_not_taken_for_death(kafka: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that takes longer than the group's patience: partitions are paused meanwhile, and nobody is put out."""
    monkeypatch.setattr(member, "MAX_POLL_S", 2.0)
    monkeypatch.setattr(member, "PAUSE_AFTER_S", 0.5)
    store = Slow(tmp_path / "store.db")
    with KafkaLog(kafka) as log:
        publish(log, 0, 60)
        progress = run(kafka, [StageSlot(Episodes()), StageSlot(factory=SlowSums), StageSlot(store)])
        for stage in ("sums", "store"):
            assert sum(one.tally.duplicates for one in progress if one.stage == stage) == 0
        assert sum(one.tally.received for one in progress if one.stage == "sums") == len(read_all(log, EPISODES_RECORDED.name))
        nothing_lost(log, tmp_path / "store.db")


def test_a_checkpoint_that_is_refused_or_another_logs_is_passed_over(kafka: Settings, tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with KafkaLog(kafka) as log:
        publish(log, 0, 60)
        run(kafka, pipeline(store))
        for log_id, state in ((log.log_id, b'{"partition": 9}'), ("another", b"{}")):
            for partition in range(4):
                where = (EPISODES_RECORDED.name, partition)
                record = checkpoint_record(kafka.kafka_app, "sums", where, log_id, Checkpoint(999, state, StageTally()))
                assert record is not None
                log.append([record])
        fresh = asyncio.run(load_checkpoints(kafka, "sums", [(EPISODES_RECORDED.name, 0)], log.log_id))
        assert fresh[EPISODES_RECORDED.name, 0].state == b'{"partition": 9}'
        publish(log, 60, 60)
        run(kafka, pipeline(store))
        found = [(record.key, record.value) for record in read_all(log, SIGNALS_RAISED.name)]
    once = Store(tmp_path / "once.db")
    with EmbeddedLog(tmp_path / "once.log") as log:
        publish(log, 0, 120)
        with EmbeddedDriver(log, pipeline(once)) as driver:
            driver.run_until_idle()
        assert set(found) == {(record.key, record.value) for record in read_all(log, SIGNALS_RAISED.name)}


def test_a_state_too_large_is_not_checkpointed_and_a_tombstone_is_no_checkpoint(
    kafka: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "CHECKPOINT_MAX_BYTES", 100_000)
    where = (EPISODES_RECORDED.name, 0)
    assert checkpoint_record(kafka.kafka_app, "sums", where, "log", Checkpoint(1, os.urandom(100_000), StageTally())) is None
    assert checkpoint_record(kafka.kafka_app, "sums", where, "log", Checkpoint(1, bytes(1_000_000), StageTally())) is not None
    key = f"{kafka.kafka_app}/sums/{EPISODES_RECORDED.name}/0".encode()
    with KafkaLog(kafka) as log:
        publisher = Publisher(log)
        publisher.publish_raw(CHECKPOINTS, key, None)
        publisher.publish_raw(CHECKPOINTS, key, b"junk", (("format", b"1"), ("log", b"x")))
    assert asyncio.run(load_checkpoints(kafka, "sums", [where], "x")) == {}


def test_another_log_is_refused(kafka: Settings, tmp_path: Path) -> None:
    """The store was filled from topics that were since replaced."""
    store = Store(tmp_path / "store.db")
    with KafkaLog(kafka) as log:
        publish(log, 0, 20)
    run(kafka, pipeline(store))
    fresh_topics(kafka)
    with pytest.raises(StageFailed, match="the store was filled from another log") as failure:
        run(kafka, pipeline(store))
    assert isinstance(failure.value.__cause__, LogMismatch)


async def remove(settings: Settings, topic: str, before: dict[int, int]) -> None:
    """Remove records as retention would."""
    from aiokafka import TopicPartition
    from aiokafka.admin import RecordsToDelete

    async with admin_client(settings) as admin:
        await admin.delete_records({TopicPartition(topic, p): RecordsToDelete(offset) for p, offset in before.items() if offset})


@pytest.mark.slow
def test_what_retention_took_before_it_was_read_is_not_passed_over(kafka: Settings, tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with KafkaLog(kafka) as log:
        publish(log, 0, 40)
        run(kafka, pipeline(store))
        publish(log, 40, 40)
        run(kafka, [StageSlot(Episodes())])
        asyncio.run(remove(kafka, EPISODES_RECORDED.name, log.end_offsets(EPISODES_RECORDED.name)))
    with pytest.raises(StageFailed, match="retention has removed what is before"):
        run(kafka, pipeline(store))


def test_lags_say_who_is_behind(kafka: Settings, tmp_path: Path) -> None:
    with KafkaLog(kafka) as log:
        publish(log, 0, 40)
    run(kafka, [StageSlot(Episodes())])
    found = asyncio.run(lags(kafka, [Episodes(), Sums(0)]))
    assert {lag.consumer: sum(one.records for one in found if one.consumer == lag.consumer) for lag in found} == {
        "episodes": 0,
        "sums": 40,
    }


def test_two_agents_are_refused(kafka: Settings) -> None:
    class Other(Episodes):
        name = "other"

    with pytest.raises(ValueError, match="one application has one agent"):
        create_app(kafka, [StageSlot(Episodes()), StageSlot(Other())])
