"""Reading again, sending dead letters again, and moving an embedded log to a cluster: nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from schemas.settings import Settings
from schemas.topics import EPISODES_RECORDED, INSIGHTS_UPDATED, OPERATIONS, RECORDS_REJECTED, SIGNALS_RAISED, TOOLS_EXECUTED
from streams.dead_letters import dead_letters
from streams.embedded.driver import EmbeddedDriver
from streams.embedded.log import EmbeddedLog
from streams.embedded.worker import StageSlot
from streams.kafka import lag, member
from streams.kafka.app import create_app, run_until_idle
from streams.kafka.client import group_of
from streams.kafka.log import KafkaLog
from streams.kafka.mirror import hand_over, mirror
from streams.log import LogAppender, LogError, LogMismatch
from streams.publisher import Publisher
from streams.replay import earlier, resend
from streams.subscriber import Subscriber
from tests.support.kafka import stages_of
from tests.support.kafka_checks import everything, firsts
from tests.support.streams import Episodes, Store, Sums, execution, fill, pipeline, read_all

pytestmark = pytest.mark.kafka


def run(settings: Settings, slots: Sequence[StageSlot]) -> None:
    asyncio.run(run_until_idle(create_app(settings, slots), settings, stages_of(slots), poll_s=0.1))


def publish(log: LogAppender, first: int, count: int) -> None:
    Publisher(log).publish_many(execution(n, key=n % 7) for n in range(first, first + count))


def move_back(log: KafkaLog, settings: Settings, stage: str, offset: int) -> None:
    group = group_of(settings, stage)
    log.commit(group, {(topic, p): min(at, offset) for (topic, p), at in log.committed(group).items()})


def test_every_stage_may_read_again(kafka: Settings, tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with KafkaLog(kafka) as log:
        fill(log)
        run(kafka, pipeline(store))
        before = everything(log, tmp_path / "store.db")
        signals = len(read_all(log, SIGNALS_RAISED.name))
        for stage in ("episodes", "sums", "store"):
            move_back(log, kafka, stage, 2)
        run(kafka, pipeline(store))
        assert len(read_all(log, SIGNALS_RAISED.name)) > signals  # they were indeed sent again
        assert everything(log, tmp_path / "store.db") == before


@pytest.mark.slow
def test_a_group_that_was_forgotten_goes_on_from_its_checkpoints(
    kafka: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka forgets offsets of a group that was away for a week."""
    store = Store(tmp_path / "store.db")
    with KafkaLog(kafka) as log:
        publish(log, 0, 60)
        run(kafka, pipeline(store))
        signals = len(read_all(log, SIGNALS_RAISED.name))
        for module in (member, lag):
            monkeypatch.setattr(module, "group_of", lambda settings, role: f"{settings.kafka_app}.{role}.later")
        run(kafka, [StageSlot(factory=Sums)])
        assert len(read_all(log, SIGNALS_RAISED.name)) == signals


def test_offsets_by_time_of_arrival(kafka: Settings) -> None:
    with KafkaLog(kafka) as log:
        publish(log, 0, 20)
        middle = max(record.timestamp_ms for record in read_all(log, TOOLS_EXECUTED.name)) + 1
        ends = log.end_offsets(TOOLS_EXECUTED.name)
        assert log.offsets_at(TOOLS_EXECUTED.name, middle) == ends
        publish(log, 20, 20)
        assert log.offsets_at(TOOLS_EXECUTED.name, 0) == dict.fromkeys(ends, 0)
        later = {partition: min(end, ends[partition]) for partition, end in log.end_offsets(TOOLS_EXECUTED.name).items()}
        assert earlier(ends, log.offsets_at(TOOLS_EXECUTED.name, middle)) == later


@pytest.mark.slow
def test_dead_letters_may_be_sent_again(kafka: Settings, tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with KafkaLog(kafka) as log:
        log.append([])
        fill(log, 40)
        run(kafka, pipeline(store))
        letters = list(dead_letters(log, stage="episodes"))
        positions = resend(log, letters)
        run(kafka, pipeline(store))
        again = [letter for letter in dead_letters(log, stage="episodes") if letter not in letters]
        assert [(letter.reason, letter.key, letter.value) for letter in letters] == [
            (letter.reason, letter.key, letter.value) for letter in sorted(again, key=lambda letter: positions.index(at(letter)))
        ]
        assert {letter.attempt for letter in letters} == {1}
        assert {letter.attempt for letter in again} == {2}
        marks = dict(read_all(log, RECORDS_REJECTED.name)[0].headers)
        assert (marks["dlq-topic"], marks["dlq-stage"], marks["dlq-attempt"]) == (TOOLS_EXECUTED.name.encode(), b"episodes", b"1")
        with pytest.raises(LogError, match="no topic"):
            resend(log, [letters[0].model_copy(update={"topic": "file:trades.jsonl"})])


def at(letter: object) -> object:
    from workers.stage import Position

    return Position(letter.topic, letter.partition, letter.offset)  # type: ignore[attr-defined]


def test_a_grown_up_log_moves_to_a_cluster(kafka: Settings, tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    moved = Store(tmp_path / "moved.db")
    with EmbeddedLog(tmp_path / "log.db") as source, KafkaLog(kafka) as target:
        fill(source, 100)
        with EmbeddedDriver(source, pipeline(store)) as driver:
            driver.run_until_idle()
        total = sum(sum(source.end_offsets(topic.name).values()) for topic in (TOOLS_EXECUTED, EPISODES_RECORDED, SIGNALS_RAISED))
        assert mirror(source, target) >= total
        assert mirror(source, target) == 0
        hand_over(kafka, target, {stage: source.stage_offsets(stage) for stage in ("episodes", "sums", "store")})
        for topic in (TOOLS_EXECUTED, EPISODES_RECORDED, SIGNALS_RAISED):
            mine, theirs = read_all(source, topic.name), read_all(target, topic.name)
            assert [(r.partition, r.offset, r.key, r.value, r.headers) for r in mine] == [
                (r.partition, r.offset, r.key, r.value, r.headers) for r in theirs
            ]
        publish(source, 200, 40)
        with EmbeddedDriver(source, pipeline(store)) as driver:
            driver.run_until_idle()
        publish(target, 200, 40)
        run(kafka, pipeline(moved))
        assert len(read_all(target, EPISODES_RECORDED.name)) == len(read_all(source, EPISODES_RECORDED.name))
        assert firsts(target, SIGNALS_RAISED.name) == firsts(source, SIGNALS_RAISED.name)
        assert [row[0] for row in moved.contents()] == [row[0] for row in store.contents()]
        Publisher(target).publish_raw(OPERATIONS, b"k", b"{}")
        Publisher(source).publish_raw(OPERATIONS, b"k", b"[]")
        with pytest.raises(LogMismatch, match="holds other records than the source"):
            mirror(source, target)


def test_updates_reach_a_subscriber_and_its_group_goes_on(kafka: Settings, tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with KafkaLog(kafka) as log:
        publish(log, 0, 60)
        run(kafka, pipeline(store))
        with Subscriber(log, group="readers") as subscriber:
            first = [(update.insight.id, update.revision) for update in subscriber.updates(timeout_s=0)]
            subscriber.commit()
        assert len(first) == len(set(first)) == len(read_all(log, INSIGHTS_UPDATED.name))
        publish(log, 60, 30)
        run(kafka, pipeline(store))
        with Subscriber(log, group="readers") as subscriber:
            second = [(update.insight.id, update.revision) for update in subscriber.updates(timeout_s=0)]
        assert second
        assert not set(first) & set(second)


def test_one_stage_alone(kafka: Settings) -> None:
    """A worker without an agent, and one without anything else."""
    with KafkaLog(kafka) as log:
        publish(log, 0, 30)
        run(kafka, [StageSlot(Episodes())])
        run(kafka, [StageSlot(factory=Sums)])
        assert len(read_all(log, EPISODES_RECORDED.name)) == 30
        assert read_all(log, SIGNALS_RAISED.name)
