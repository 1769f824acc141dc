"""Sending dead letters again: each record once, however many letters it has and however often that is done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.topics import EPISODES_RECORDED, RECORDS_REJECTED, TOOLS_EXECUTED, Topic
from streams.batch import accounted, decoded
from streams.dead_letters import dead_letter, dead_letter_record, dead_letters
from streams.embedded.log import EmbeddedLog
from streams.log import NewRecord
from streams.record import Record
from streams.replay import resend, to_send_again
from tests.support.streams import read_all


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "log.db") as opened:
        yield opened


def refuse(log: EmbeddedLog, topic: Topic, stages: tuple[str, ...], seen: int = 0) -> int:
    """What stages do with the topic's records from ``seen`` on, which nobody can read; how many there are now."""
    records = read_all(log, topic.name)
    for stage in stages:
        log.append(accounted(stage, [decoded(topic, record) for record in records[seen:]], [])[1])
    return len(records)


def test_replaying_again_and_again_sends_each_record_once_a_time(log: EmbeddedLog) -> None:
    """Three stages refuse two records, each time anew; a replay must not send a record beside what the last replay made of it."""
    stages = ("episodes", "signals", "distil")
    log.append([NewRecord(EPISODES_RECORDED.name, b"k", value, partition=0) for value in (b"poison", b"venom")])
    seen = refuse(log, EPISODES_RECORDED, stages)
    for attempt in range(2, 6):
        letters = to_send_again(log, reason="not_json")
        assert sorted(letter.value or b"" for letter in letters) == [b"poison", b"venom"]
        assert len(resend(log, letters)) == 2
        assert [record.header("dlq-attempt") for record in read_all(log, EPISODES_RECORDED.name)[-2:]] == [str(attempt)] * 2
        seen = refuse(log, EPISODES_RECORDED, stages, seen)
    assert len(read_all(log, EPISODES_RECORDED.name)) == 10
    assert len(list(dead_letters(log))) == 30


def test_a_record_that_another_stage_refused_as_well_is_sent_once(log: EmbeddedLog) -> None:
    log.append([NewRecord(EPISODES_RECORDED.name, b"k", b"poison", partition=0)])
    refuse(log, EPISODES_RECORDED, ("signals", "distil"))
    assert len(to_send_again(log, stage="distil")) == 1
    assert len(resend(log, dead_letters(log))) == 1
    assert len(read_all(log, EPISODES_RECORDED.name)) == 2


def test_lines_of_files_are_left_alone(log: EmbeddedLog) -> None:
    log.append([NewRecord(TOOLS_EXECUTED.name, b"k", b"poison", partition=0)])
    refuse(log, TOOLS_EXECUTED, ("embed",))
    line = dead_letter(Record("file:trades.jsonl", 0, 7, 0, None, b"poison"), "ingest", "not_json", "detail", "Rejected")
    log.append([dead_letter_record(line)])
    assert len(read_all(log, RECORDS_REJECTED.name)) == 2
    assert [letter.topic for letter in to_send_again(log, reason="not_json")] == [TOOLS_EXECUTED.name]
