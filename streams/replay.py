"""Reading a topic again: a stage's offsets moved back, or dead letters sent again as they came.

Both are safe at any time: effects know what they have seen by id. What is delivered again counts as a duplicate, or repairs what
was lost.

One record may have many letters: each stage that refuses it writes one, and so does each time that it was sent again and refused
again. The record is sent again once, for its latest letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from schemas.dead_letters import DeadLetter
from schemas.topics import BY_NAME
from streams.dead_letters import ATTEMPT_HEADER, dead_letters
from streams.log import LogAppender, LogError, LogReader, NewRecord
from workers.stage import Position

LETTER_HEADER = "dlq-letter"


def earlier(committed: Mapping[int, int], wanted: Mapping[int, int]) -> dict[int, int]:
    """Where each partition goes on: where it was, or further back where ``wanted`` says so. Forward would skip records.

    >>> earlier({0: 10, 1: 4}, {0: 3, 1: 8})
    {0: 3, 1: 4}
    """
    return {partition: min(offset, wanted.get(partition, offset)) for partition, offset in committed.items()}


def to_send_again(log: LogReader, *, stage: str | None = None, reason: str | None = None) -> list[DeadLetter]:
    """The letters of a stage or reason whose records may be sent again: one a record, none of a file's line (correct the file and
    ingest it again), and none whose record was sent again and refused again, for which there is a later letter."""
    headers = (header for letter in dead_letters(log) for header in letter.headers)
    answered = {named.decode(errors="replace") for name, named in headers if name == LETTER_HEADER}
    chosen: dict[tuple[str, int, int], DeadLetter] = {}
    sent: set[tuple[str, int, int]] = set()
    for letter in dead_letters(log):
        if letter.id in answered:
            sent.add(_place(letter))
        elif letter.topic in BY_NAME and stage in (None, letter.stage) and reason in (None, letter.reason):
            chosen.setdefault(_place(letter), letter)
    return [letter for place, letter in chosen.items() if place not in sent]


def resend(log: LogAppender, letters: Iterable[DeadLetter]) -> list[Position]:
    """Send dead letters' records again, each once: same topic, key, bytes and headers, with the letter's id and the attempt added.

    Raises:
        LogError: a letter's record came from no topic of ours (a file's line); correct the file and ingest it again.
    """
    records = []
    for letter in {_place(letter): letter for letter in letters}.values():
        if letter.topic not in BY_NAME:
            raise LogError(f"dead letter {letter.id} comes from {letter.topic}, no topic", hint="correct it and ingest it again")
        kept = tuple((name, value) for name, value in letter.headers if name not in (ATTEMPT_HEADER, LETTER_HEADER))
        added = ((LETTER_HEADER, letter.id.encode()), (ATTEMPT_HEADER, str(letter.attempt + 1).encode()))
        records.append(NewRecord(letter.topic, letter.key, letter.value, kept + added, letter.partition))
    return log.append(records)


def _place(letter: DeadLetter) -> tuple[str, int, int]:
    return (letter.topic, letter.partition, letter.offset)
