"""What every log must do, whichever broker serves it. Another implementation joins by adding itself to ``LOGS``."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pytest

from schemas.topics import EPISODES_RECORDED, OPERATIONS, TOOLS_EXECUTED
from streams.embedded.log import EmbeddedLog
from streams.kafka.log import KafkaLog
from streams.log import GroupOffsets, LogAppender, LogReader, NewRecord, ReadableLog, UnknownTopic, wall_clock_ms
from streams.partitioner import partition_for
from streams.record import Record
from tests.support.kafka import fresh_topics, settings_for, shared_broker
from tests.support.streams import read_all

TOPIC = TOOLS_EXECUTED.name


class Log(LogAppender, ReadableLog, Protocol):
    """Everything that a log does."""


Opener = Callable[[], AbstractContextManager[Log]]


def embedded(folder: Path) -> Opener:
    """The embedded log in a file."""
    return lambda: EmbeddedLog(folder / "log.db")


def kafka(folder: Path) -> Opener:
    """A cluster with empty topics."""
    settings = settings_for(shared_broker(), folder)
    fresh_topics(settings)
    return lambda: KafkaLog(settings)


LOGS: dict[str, Callable[[Path], Opener]] = {"embedded": embedded, "kafka": kafka}


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def open_log(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the same log anew at each call."""
    return LOGS[request.param](tmp_path)


@pytest.fixture
def log(open_log: Opener) -> Iterator[Log]:
    with open_log() as log:
        yield log


def new(value: bytes | None, key: bytes | None = b"k", **more: object) -> NewRecord:
    return NewRecord(TOPIC, key, value, **more)  # type: ignore[arg-type]


def test_it_is_appender_reader_and_group_keeper(log: Log) -> None:
    assert isinstance(log, LogAppender)
    assert isinstance(log, LogReader)
    assert isinstance(log, GroupOffsets)


def test_a_key_stays_in_its_partition_and_in_order(log: Log) -> None:
    keys = [f"swap:1:{n}".encode() for n in range(20)]
    for turn in range(3):
        log.append([new(f"{turn}".encode(), key) for key in keys])
    records = read_all(log, TOPIC)
    assert len(records) == 60
    for key in keys:
        mine = [record for record in records if record.key == key]
        assert [record.value for record in mine] == [b"0", b"1", b"2"]
        assert {record.partition for record in mine} == {partition_for(key, TOOLS_EXECUTED.partitions)}


def test_offsets_rise_and_append_says_where_records_stand(log: Log) -> None:
    positions = log.append([new(str(n).encode(), str(n).encode()) for n in range(50)])
    for n, position in enumerate(positions):
        (record,) = log.read(position.topic, position.partition, position.offset, 1)
        assert (record.value, record.offset, record.partition) == (str(n).encode(), position.offset, position.partition)
    for partition, end in log.end_offsets(TOPIC).items():
        offsets = [record.offset for record in log.read(TOPIC, partition, 0, 1000)]
        assert offsets == sorted(set(offsets))
        assert all(offset < end for offset in offsets)


def test_bytes_come_back_as_they_went_in(log: Log) -> None:
    headers = (("ce_id", b"\xff\xfe not text"), ("twice", b"1"), ("twice", b""), ("naïve", b"\x00"))
    sent = [
        new(b"\x00\xff" * 10, b"\x80key", headers=headers, partition=0),
        new(None, b"tombstone", partition=0),
        new(b"", b"", partition=0),
        new(b"no key", None, partition=0),
        new(None, None, partition=0),
        new(b"x" * 900_000, b"large", partition=0),
    ]
    before = wall_clock_ms()
    log.append(sent)
    got = log.read(TOPIC, 0, 0, 100)
    assert [(record.key, record.value, record.headers) for record in got] == [
        (record.key, record.value, record.headers) for record in sent
    ]
    assert got[0].header("ce_id") == "\\xff\\xfe not text"
    assert got[0].header("twice") == ""
    assert got[0].header("absent") is None
    assert all(before <= record.timestamp_ms <= wall_clock_ms() for record in got)


def test_records_without_a_key_are_spread(log: Log) -> None:
    log.append([new(b"x", None) for _ in range(4 * TOOLS_EXECUTED.partitions)])
    assert set(log.end_offsets(TOPIC).values()) == {4}


def test_reading_takes_at_most_the_limit_and_goes_on(log: Log) -> None:
    log.append([new(str(n).encode(), partition=2) for n in range(10)])
    first = log.read(TOPIC, 2, 0, 4)
    rest = log.read(TOPIC, 2, first[-1].offset + 1, 100)
    assert [record.value for record in first + rest] == [str(n).encode() for n in range(10)]
    assert log.read(TOPIC, 2, log.end_offsets(TOPIC)[2], 5) == []
    assert log.read(TOPIC, 1, 0, 5) == []
    assert log.read(EPISODES_RECORDED.name, 2, 0, 5) == []


def test_a_read_of_huge_records_stops_early_but_never_empty(log: Log) -> None:
    log.append([new(b"x" * 1000, partition=0) for _ in range(5)])
    assert len(log.read(TOPIC, 0, 0, 5, max_bytes=2500)) == 3
    assert len(log.read(TOPIC, 0, 3, 5, max_bytes=1)) == 1


def test_unknown_topics_and_partitions_are_refused_whole(log: Log) -> None:
    with pytest.raises(UnknownTopic, match="no topic brain"):
        log.append([new(b"kept?"), NewRecord("brain.nothing", b"k", b"v")])
    with pytest.raises(UnknownTopic, match="partitions 0 to 3, not 4"):
        log.append([new(b"kept?"), new(b"v", partition=4)])
    with pytest.raises(UnknownTopic):
        log.read(OPERATIONS.name, 1, 0, 1)
    with pytest.raises(UnknownTopic):
        log.end_offsets("brain.nothing")
    assert read_all(log, TOPIC) == []


def test_partition_counts(log: Log) -> None:
    assert log.partitions(TOPIC) == 4
    assert log.partitions(OPERATIONS.name) == 1
    assert log.end_offsets(TOPIC) == log.start_offsets(TOPIC) == {0: 0, 1: 0, 2: 0, 3: 0}


def test_records_identity_and_groups_survive_reopening(open_log: Opener) -> None:
    with open_log() as log:
        log.append([new(b"1")])
        log.commit("readers", {(TOPIC, 1): 7})
        identity = log.log_id
    with open_log() as log:
        assert [record.value for record in read_all(log, TOPIC)] == [b"1"]
        assert log.committed("readers") == {(TOPIC, 1): 7}
        assert log.log_id == identity
        log.append([new(b"2")])
        assert [record.value for record in read_all(log, TOPIC)] == [b"1", b"2"]


def test_groups_are_apart_and_may_go_back(log: Log) -> None:
    assert log.committed("a") == {}
    log.commit("a", {(TOPIC, 0): 5, (TOPIC, 1): 2})
    log.commit("b", {(TOPIC, 0): 1})
    log.commit("a", {(TOPIC, 0): 3})
    assert log.committed("a") == {(TOPIC, 0): 3, (TOPIC, 1): 2}
    assert log.committed("b") == {(TOPIC, 0): 1}


def test_waiting_returns_at_once_when_there_is_news(open_log: Opener) -> None:
    """The waiter would otherwise sit out its minute and fail the test's time limit; the token must differ."""
    with open_log() as reader, open_log() as elsewhere:
        for publisher in (reader, elsewhere):
            seen = reader.changes()
            thread = threading.Thread(target=publisher.append, args=([new(b"news")],))
            thread.start()
            assert reader.wait(seen, 60.0) != seen
            thread.join()
        seen = reader.changes()
        assert reader.wait(seen, 0.0) == seen


def test_threads_share_one_log(log: Log) -> None:
    """Writers and readers on one object: every record arrives once, each thread's records in its order."""
    seen: list[list[Record]] = []

    def publish(name: int) -> None:
        for n in range(30):
            log.append([new(f"{name}:{n}".encode(), partition=0)])

    def read() -> None:
        got: list[Record] = []
        while len(got) < 120:
            token = log.changes()
            fresh = log.read(TOPIC, 0, got[-1].offset + 1 if got else 0, 50)
            got += fresh
            if not fresh:
                log.wait(token, 5.0)
        seen.append(got)

    threads = [threading.Thread(target=publish, args=(name,)) for name in range(4)] + [
        threading.Thread(target=read) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 2
    for got in seen:
        assert [record.offset for record in got] == list(range(120))
        for name in range(4):
            mine = [record.value for record in got if record.value and record.value.startswith(f"{name}:".encode())]
            assert mine == [f"{name}:{n}".encode() for n in range(30)]


PUBLISH = """
import sys
from streams.embedded.log import EmbeddedLog
from streams.log import NewRecord
with EmbeddedLog(sys.argv[1]) as log:
    for n in range(40):
        log.append([NewRecord(sys.argv[3], f"{sys.argv[2]}-{k}".encode(), str(n).encode()) for k in range(5)])
"""


def test_two_processes_publish_at_once(tmp_path: Path) -> None:
    """Both also race to create the file."""
    path = tmp_path / "deep" / "log.db"
    racers = [subprocess.Popen([sys.executable, "-c", PUBLISH, str(path), name, TOPIC]) for name in ("one", "two")]
    assert [racer.wait() for racer in racers] == [0, 0]
    with EmbeddedLog(path) as log:
        records = read_all(log, TOPIC)
        assert len(records) == 400
        for name in ("one", "two"):
            for k in range(5):
                mine = [record.value for record in records if record.key == f"{name}-{k}".encode()]
                assert mine == [str(n).encode() for n in range(40)]
        for partition, end in log.end_offsets(TOPIC).items():
            assert [record.offset for record in log.read(TOPIC, partition, 0, 1000)] == list(range(end))
    assert sorted(file.name for file in path.parent.iterdir()) == ["log.db"]
