"""What the log remembers about its stages: how many records came in and what became of each, and how far behind they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field

OUTCOMES = ("processed", "duplicates", "late", "rejected")


@dataclass(slots=True)
class StageTally:
    """A stage's counts. ``received == processed + duplicates + late + rejected`` (law 5).

    ``reasons`` splits ``rejected``; ``emitted`` counts outputs by topic; ``counts`` is what the stage counts for itself.
    """

    received: int = 0
    processed: int = 0
    duplicates: int = 0
    late: int = 0
    rejected: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    emitted: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, other: StageTally) -> None:
        """Take another tally's counts in."""
        for kind, name, count in other.rows():
            self.put(kind, name, count)

    def put(self, kind: str, name: str, count: int) -> None:
        """Add one row's count."""
        if kind == "outcome":
            setattr(self, name, getattr(self, name) + count)
            return
        bucket: dict[str, int] = getattr(self, kind)
        bucket[name] = bucket.get(name, 0) + count

    def rows(self) -> Iterator[tuple[str, str, int]]:
        """The counts that are not zero as (kind, name, count)."""
        for name in ("received", *OUTCOMES):
            if count := getattr(self, name):
                yield "outcome", name, count
        for kind in ("reasons", "emitted", "counts"):
            for name, count in getattr(self, kind).items():
                if count:
                    yield kind, name, count


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a consumer is behind on one partition. ``kind`` is ``stage`` or ``group``; ``oldest_ms`` is when the first record
    that it has not read was appended (Unix ms), None when it has read all."""

    kind: str
    consumer: str
    topic: str
    partition: int
    next_offset: int
    end_offset: int
    oldest_ms: int | None

    @property
    def records(self) -> int:
        """Records not read yet."""
        return max(0, self.end_offset - self.next_offset)


def add_tally(connection: sqlite3.Connection, stage: str, tally: StageTally) -> None:
    """Add a tally to what the log has for the stage."""
    connection.executemany(
        "INSERT INTO tallies VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
        [(stage, kind, name, count) for kind, name, count in tally.rows()],
    )


def read_tallies(connection: sqlite3.Connection) -> dict[str, StageTally]:
    """Every stage's tally."""
    tallies: dict[str, StageTally] = {}
    for stage, kind, name, count in connection.execute("SELECT stage, kind, name, count FROM tallies ORDER BY stage, kind, name"):
        tallies.setdefault(stage, StageTally()).put(kind, name, count)
    return tallies


def read_lags(connection: sqlite3.Connection) -> list[Lag]:
    """Every consumer's lag, ordered by kind, consumer, topic and partition."""
    rows = connection.execute(
        """
        SELECT o.kind, o.consumer, o.topic, o.partition, o.next_offset, p.next_offset, r.timestamp_ms
        FROM offsets o JOIN partitions p ON p.topic = o.topic AND p.partition = o.partition
        LEFT JOIN records r ON r.id = (p.id << 40 | o.next_offset)
        ORDER BY o.kind DESC, o.consumer, o.topic, o.partition
        """
    )
    return [Lag(*row) for row in rows]
