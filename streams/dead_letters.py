"""Dead letters: what could not be processed, kept with its original bytes and the reason (law 5).

Each stage that refuses a record writes its own letter, so a stage's ``rejected`` count is the number of its letters. The letter's
id derives from the record's position and the stage: a redelivered record gives the same letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import orjson
from pydantic import ValidationError

from schemas.dead_letters import DeadLetter
from schemas.identity import content_id
from schemas.topics import RECORDS_REJECTED
from streams.headers import event_headers
from streams.log import LogReader, NewRecord
from streams.record import Record
from workers.stage import Refusal

ATTEMPT_HEADER = "dlq-attempt"
_DETAIL_LENGTH = 2000
_READ_RECORDS = 200


def dead_letter(record: Record, stage: str, reason: str, detail: str, error_class: str) -> DeadLetter:
    """The letter for a record that ``stage`` refused: ``reason`` is a stable code, ``detail`` one line for people."""
    seconds, rest = divmod(record.timestamp_ms, 1000)
    return DeadLetter(
        id=content_id("dead-letter", record.topic, record.partition, record.offset, stage),
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        stage=stage,
        reason=reason,
        detail=_text(detail)[:_DETAIL_LENGTH],
        error_class=error_class,
        attempt=_attempt(record),
        first_failed_at=datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000),
        key=record.key,
        value=record.value,
        headers=record.headers,
    )


def refused(record: Record, stage: str, refusal: Refusal) -> DeadLetter:
    """The letter for a record that decoded but that the stage refused."""
    return dead_letter(record, stage, refusal.reason, refusal.detail, "Refusal")


def _attempt(record: Record) -> int:
    """1, or what a record that was sent again says (``streams/replay.py``)."""
    told = record.header(ATTEMPT_HEADER) or ""
    return max(1, int(told)) if told.isascii() and told.isdigit() and len(told) < 6 else 1


def _text(detail: str) -> str:
    """Error messages may quote half a character; a letter is UTF-8."""
    return detail.encode("utf-8", "backslashreplace").decode()


def dead_letter_record(letter: DeadLetter) -> NewRecord:
    """The letter as a record of the topic of rejected records, under the original key.

    Where it comes from and why stands in ``dlq-`` headers, too: a tool that knows headers need not read the value.
    """
    headers = event_headers(RECORDS_REJECTED, letter.id, letter.timestamp_ms, source=letter.stage)
    origin = {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp_ms,
        "stage": letter.stage,
        "reason": letter.reason,
        "error": letter.error_class,
        "attempt": letter.attempt,
    }
    marks = tuple((f"dlq-{name}", str(value).encode()) for name, value in origin.items())
    return NewRecord(RECORDS_REJECTED.name, letter.key, letter.to_wire(), headers + marks)


def read_dead_letter(record: Record) -> DeadLetter | None:
    """The letter that a record holds, whatever its size; None for a record that holds none."""
    try:
        return DeadLetter.from_plain(orjson.loads(record.value or b""))
    except (orjson.JSONDecodeError, ValidationError):
        return None


def dead_letters(log: LogReader, *, stage: str | None = None, reason: str | None = None) -> Iterator[DeadLetter]:
    """Every dead letter in the log, oldest first, of one stage or reason where given."""
    for partition, end in sorted(log.end_offsets(RECORDS_REJECTED.name).items()):
        offset = log.start_offsets(RECORDS_REJECTED.name)[partition]
        while offset < end and (records := log.read(RECORDS_REJECTED.name, partition, offset, _READ_RECORDS)):
            for record in records:
                letter = read_dead_letter(record)
                if letter and stage in (None, letter.stage) and reason in (None, letter.reason):
                    yield letter
            offset = records[-1].offset + 1


def find_dead_letter(log: LogReader, letter_id: str) -> DeadLetter | None:
    """The letter of an id, or of the only id that starts so; None where there is none or more than one."""
    found: dict[str, DeadLetter] = {}
    for letter in dead_letters(log):
        if letter.id.startswith(letter_id):
            found[letter.id] = letter
    return next(iter(found.values())) if len(found) == 1 else None
