"""What a log is, whichever broker serves it: records in topics, partitions and offsets, and who has read how far.

A **log** is a set of topics; each has a fixed number of partitions; a partition is an ordered, append-only row of records that
are read by offset. The embedded log (``streams/embedded``) has dense offsets from 0; a compacted Kafka topic has gaps, so code
over these protocols goes on from ``record.offset + 1`` and never counts.

Everything here is synchronous. An asyncio program calls it through ``asyncio.to_thread``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from schemas.errors import BrainError
from streams.record import Headers, Record
from workers.stage import Position

Partition = tuple[str, int]
"""A topic's name and a partition's number."""

Change = tuple[int, int]
"""A token for "what I have seen of the log so far"; only equality means anything."""

MAX_READ_BYTES = 16 * 1024 * 1024
"""One read stops after this many bytes of values, so that a run of huge records cannot exhaust memory."""


class LogError(BrainError):
    """The log cannot do what was asked."""


class UnknownTopic(LogError):
    """The log has no such topic or partition."""


class LogMismatch(LogError):
    """The log on disk is not the one that this program or this store belongs to."""


class DriverBusy(LogError):
    """Another process runs the stages of this log."""


class FencedOut(LogError):
    """Another driver took the log over; nothing of the refused transaction was kept."""


def wall_clock_ms() -> int:
    """Unix time in milliseconds: the default clock of a log, and the only use of the wall clock in it."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to append. Without a partition the key decides (``streams/partitioner.py``); without a key either, the
    partition with the fewest records takes it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


@runtime_checkable
class LogAppender(Protocol):
    """The publisher's view of a log."""

    def append(self, batch: Sequence[NewRecord]) -> list[Position]:
        """Append in order, durably, all or nothing; where each record now stands.

        Raises:
            UnknownTopic: a topic or partition that the log does not have; nothing is appended.
        """
        ...


@runtime_checkable
class LogReader(Protocol):
    """The reader's view of a log. Readers never block writers and need no lock."""

    @property
    def log_id(self) -> str:
        """The log's identity, given when it was created."""
        ...

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has. Raises UnknownTopic."""
        ...

    def read(self, topic: str, partition: int, offset: int, limit: int, max_bytes: int = MAX_READ_BYTES) -> list[Record]:
        """Up to ``limit`` records from ``offset`` on, in order; at least one where there is one, whatever its size."""
        ...

    def start_offsets(self, topic: str) -> dict[int, int]:
        """The first offset that can be read, by partition."""
        ...

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset that the next record will get, by partition."""
        ...

    def changes(self) -> Change:
        """A token of what the log holds now."""
        ...

    def wait(self, seen: Change, timeout_s: float) -> Change:
        """Block until the log differs from ``seen`` or the time is over; the token of what it holds then."""
        ...


@runtime_checkable
class GroupOffsets(Protocol):
    """How far named groups of subscribers have read. Committed explicitly; the log takes nothing for granted."""

    def committed(self, group: str) -> dict[Partition, int]:
        """The next offset to read, by partition, of a group; empty for a group that never committed."""
        ...

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Record durably that a group goes on from these offsets; going back is allowed."""
        ...


class ReadableLog(LogReader, GroupOffsets, Protocol):
    """What a subscriber needs."""


@runtime_checkable
class OwnsOffsets(Protocol):
    """An optional part of a sink: its store commits input offsets in the same transaction as the effects.

    A driver calls ``bind`` and then ``next_offsets`` once, before the first batch. It starts each partition at the *lesser* of
    the store's offset and its own:

    - the store is behind (it was restored from a backup, or is empty): the records in between are delivered again, and their
      outcomes are dropped, for they were counted and answered when they were first delivered;
    - the store is ahead (a crash between its commit and the driver's): the records in between are delivered again, and their
      outcomes are taken. So a sink must answer a record below its own offset as it did the first time — the same refusals, the
      same counts — and apply it not once more.

    A store whose offset lies beyond the log's end belongs to another log: the driver refuses to start.
    """

    def bind(self, log_id: str) -> None:
        """Take note of the log that is going to be folded into the store.

        Raises:
            LogMismatch: the store was filled from another log.
        """
        ...

    def next_offsets(self) -> Mapping[Partition, int] | None:
        """The next offset that the store needs, by partition; a partition left out needs 0. None: the store does not know,
        and the driver's own offsets count."""
        ...
