"""Reading a topic again: a stage's offsets moved back, or dead letters sent again as they came.

Both are safe at any time: effects know what they have seen by id. What is delivered again counts as a duplicate, or repairs what
was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from schemas.dead_letters import DeadLetter
from schemas.topics import BY_NAME
from streams.dead_letters import ATTEMPT_HEADER
from streams.log import LogAppender, LogError, NewRecord
from workers.stage import Position

LETTER_HEADER = "dlq-letter"


def earlier(committed: Mapping[int, int], wanted: Mapping[int, int]) -> dict[int, int]:
    """Where each partition goes on: where it was, or further back where ``wanted`` says so. Forward would skip records.

    >>> earlier({0: 10, 1: 4}, {0: 3, 1: 8})
    {0: 3, 1: 4}
    """
    return {partition: min(offset, wanted.get(partition, offset)) for partition, offset in committed.items()}


def resend(log: LogAppender, letters: Iterable[DeadLetter]) -> list[Position]:
    """Send dead letters' records again: same topic, key, bytes and headers, with the letter's id and the attempt added.

    Raises:
        LogError: a letter's record came from no topic of ours (a file's line); correct the file and ingest it again.
    """
    records = []
    for letter in letters:
        if letter.topic not in BY_NAME:
            raise LogError(f"dead letter {letter.id} comes from {letter.topic}, no topic", hint="correct it and ingest it again")
        kept = tuple((name, value) for name, value in letter.headers if name not in (ATTEMPT_HEADER, LETTER_HEADER))
        added = ((LETTER_HEADER, letter.id.encode()), (ATTEMPT_HEADER, str(letter.attempt + 1).encode()))
        records.append(NewRecord(letter.topic, letter.key, letter.value, kept + added, letter.partition))
    return log.append(records)
