"""EmbeddedLog: topics, partitions, offsets, keys and headers in one SQLite file.

Several processes open the same file at once and publish or read as they like; SQLite's WAL lets readers and a writer pass each
other, and ``BEGIN IMMEDIATE`` queues writers. Within a process one object serves any number of threads: writers take turns on
one connection, each read borrows a connection from a pool.

Running the stages is for one process at a time; see ``lead`` and ``streams/embedded/lease.py``.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from schemas.topics import TOPICS, Topic
from streams.embedded import schema
from streams.embedded.lease import DriverLease
from streams.embedded.packing import pack_headers, unpack_headers
from streams.embedded.tallies import Lag, StageTally, read_lags, read_tallies
from streams.log import MAX_READ_BYTES, Change, LogError, NewRecord, Partition, UnknownTopic, wall_clock_ms
from streams.partitioner import partition_for
from streams.record import Record
from workers.stage import Position

_FIRST_WAIT_S = 0.001
_LONGEST_WAIT_S = 0.020
"""A waiting reader looks into the file every 1 ms at first, then ever more seldom up to this; appends of the same process wake it
at once. One look costs about 10 µs."""


class EmbeddedLog:
    """A log in the file ``path``, created with ``topics`` when it does not exist.

    ``clock_ms`` stamps the records (Unix milliseconds). Close it, or use it as a context manager.

    Raises:
        LogMismatch: the file has one of the topics with another partition count.
        LogError: the file is no log, or was written by a newer version.
    """

    def __init__(self, path: Path | str, topics: Iterable[Topic] = TOPICS, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.path = Path(path)
        self._clock_ms = clock_ms
        schema.ensure(self.path, topics, clock_ms())
        with schema.told(self.path):
            self._writer = schema.connect(self.path)
            (self._log_id,) = self._writer.execute("SELECT value FROM meta WHERE name = 'log_id'").fetchone()
        self._write_lock = threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        self._readers_lock = threading.Lock()
        self._changed = threading.Condition()
        self._commits = 0
        self._closed = False
        self._ids: dict[Partition, int] = {}
        self._counts: dict[str, int] = {}
        self._learn_topics()

    @property
    def log_id(self) -> str:
        """The file's identity, given when it was created."""
        return str(self._log_id)

    def close(self) -> None:
        """Close every connection. A read or write after this raises LogError."""
        with self._write_lock, self._readers_lock:
            self._closed = True
            for connection in (*self._readers, self._writer):
                connection.close()
            self._readers.clear()
        self.notify()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- topics

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has. Raises UnknownTopic."""
        if topic not in self._counts:
            self._learn_topics()
        try:
            return self._counts[topic]
        except KeyError:
            raise UnknownTopic(f"the log {self.path} has no topic {topic}") from None

    def _learn_topics(self) -> None:
        with self._reading() as connection:
            rows = connection.execute("SELECT topic, partition, id FROM partitions").fetchall()
        ids = {(topic, number): identity for topic, number, identity in rows}
        counts: dict[str, int] = {}
        for topic, _ in ids:
            counts[topic] = counts.get(topic, 0) + 1
        self._ids, self._counts = ids, counts

    def _id_of(self, topic: str, partition: int) -> int:
        if not 0 <= partition < self.partitions(topic):
            raise UnknownTopic(f"{topic} has partitions 0 to {self.partitions(topic) - 1}, not {partition}")
        return self._ids[topic, partition]

    # --- appending

    def append(self, batch: Sequence[NewRecord]) -> list[Position]:
        """Append in order, all or nothing, on disk when this returns; where each record now stands.

        Raises:
            UnknownTopic: a topic or partition that the log does not have; nothing is appended.
        """
        with self.writing() as connection:
            return self.insert(connection, batch)

    def insert(self, connection: sqlite3.Connection, batch: Sequence[NewRecord]) -> list[Position]:
        """``append`` inside a transaction that ``writing`` gave."""
        heads: dict[int, int] = dict(connection.execute("SELECT id, next_offset FROM partitions"))
        moved: set[int] = set()
        now = self._clock_ms()
        rows: list[tuple[int, int, bytes | None, bytes | None, bytes | None]] = []
        positions: list[Position] = []
        for record in batch:
            partition = self._partition_of(record, heads)
            identity = self._id_of(record.topic, partition)
            offset = heads[identity]
            heads[identity] = offset + 1
            moved.add(identity)
            rows.append((identity << schema.OFFSET_BITS | offset, now, record.key, record.value, pack_headers(record.headers)))
            positions.append(Position(record.topic, partition, offset))
        connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", rows)
        connection.executemany("UPDATE partitions SET next_offset = ? WHERE id = ?", [(heads[one], one) for one in moved])
        return positions

    def _partition_of(self, record: NewRecord, heads: Mapping[int, int]) -> int:
        if record.partition is not None:
            return record.partition
        count = self.partitions(record.topic)
        if record.key is not None:
            return partition_for(record.key, count)
        return min(range(count), key=lambda number: heads.get(self._ids[record.topic, number], 0))

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: committed and announced at the end, rolled back on an exception.

        Raises:
            LogError: the log is closed, or SQLite cannot write: the disk is full, another process is at it for too long.
        """
        with self._write_lock, schema.told(self.path):
            if self._closed:
                raise LogError(f"the log {self.path} is closed")
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
        self.notify()

    # --- reading

    def read(self, topic: str, partition: int, offset: int, limit: int, max_bytes: int = MAX_READ_BYTES) -> list[Record]:
        """Up to ``limit`` records from ``offset`` on, in order; fewer once their values exceed ``max_bytes``."""
        base = self._id_of(topic, partition) << schema.OFFSET_BITS
        records: list[Record] = []
        size = 0
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT id, timestamp_ms, key, value, headers FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
                (base + max(offset, 0), base + (1 << schema.OFFSET_BITS), limit),
            )
            for identity, timestamp_ms, key, value, headers in rows:
                records.append(Record(topic, partition, identity - base, timestamp_ms, key, value, unpack_headers(headers)))
                size += len(value) if value is not None else 0
                if size >= max_bytes:
                    break
            rows.close()
        return records

    def start_offsets(self, topic: str) -> dict[int, int]:
        """The first offset that can be read, by partition: 0, for this log forgets nothing."""
        return dict.fromkeys(range(self.partitions(topic)), 0)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset that the next record will get, by partition."""
        self.partitions(topic)
        with self._reading() as connection:
            return dict(connection.execute("SELECT partition, next_offset FROM partitions WHERE topic = ?", (topic,)))

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._readers_lock:
            if self._closed:
                raise LogError(f"the log {self.path} is closed")
            connection = self._readers.pop() if self._readers else None
        with schema.told(self.path):
            connection = connection or schema.connect(self.path)
        try:
            with schema.told(self.path):
                yield connection
        finally:
            with self._readers_lock:
                if self._closed:
                    connection.close()
                else:
                    self._readers.append(connection)

    # --- waiting

    def changes(self) -> Change:
        """A token of what the log holds: commits of this process, records of everybody."""
        with self._changed:
            commits = self._commits
        with self._reading() as connection:
            (records,) = connection.execute("SELECT sum(next_offset) FROM partitions").fetchone()
        return commits, records or 0

    def wait(self, seen: Change, timeout_s: float) -> Change:
        """Block until the log differs from ``seen`` or the time is over; the token of what it holds then."""
        deadline = time.monotonic() + timeout_s
        pause = _FIRST_WAIT_S
        while True:
            now = self.changes()
            left = deadline - time.monotonic()
            if now != seen or left <= 0:
                return now
            with self._changed:
                if self._commits == now[0]:
                    self._changed.wait(min(pause, left))
            pause = min(pause * 2, _LONGEST_WAIT_S)

    def notify(self) -> None:
        """Wake whoever waits in this process."""
        with self._changed:
            self._commits += 1
            self._changed.notify_all()

    # --- how far others are

    def committed(self, group: str) -> dict[Partition, int]:
        """The next offset to read, by partition, of a group of subscribers; empty for one that never committed."""
        return self._offsets("group", group)

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Record durably that a group goes on from these offsets; going back is allowed."""
        for topic, partition in offsets:
            self._id_of(topic, partition)
        with self.writing() as connection:
            connection.executemany(
                "INSERT INTO offsets VALUES ('group', ?, ?, ?, ?) ON CONFLICT DO UPDATE SET next_offset = excluded.next_offset",
                [(group, topic, partition, offset) for (topic, partition), offset in offsets.items()],
            )

    def stage_offsets(self, stage: str) -> dict[Partition, int]:
        """The next offset of a stage's inputs, as the driver committed them."""
        return self._offsets("stage", stage)

    def _offsets(self, kind: str, consumer: str) -> dict[Partition, int]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT topic, partition, next_offset FROM offsets WHERE kind = ? AND consumer = ?", (kind, consumer)
            )
            return {(topic, partition): offset for topic, partition, offset in rows}

    def lags(self) -> list[Lag]:
        """How far each stage and each subscriber group is behind, by partition; one consistent view."""
        with self._reading() as connection:
            return read_lags(connection)

    def tallies(self) -> dict[str, StageTally]:
        """What each stage has counted since the log began."""
        with self._reading() as connection:
            return read_tallies(connection)

    def snapshot(self, stage: str, topic: str, partition: int) -> tuple[int, bytes] | None:
        """The last snapshot of a stage's partition: the next offset for that state, and the state."""
        with self._reading() as connection:
            row = connection.execute(
                "SELECT next_offset, state FROM snapshots WHERE stage = ? AND topic = ? AND partition = ?",
                (stage, topic, partition),
            ).fetchone()
        return (int(row[0]), bytes(row[1])) if row else None

    def relay_position(self, source: str) -> int:
        """The highest sequence number of an outbox that is in the log; 0 for none."""
        with self._reading() as connection:
            row = connection.execute("SELECT seq FROM relays WHERE source = ?", (source,)).fetchone()
        return int(row[0]) if row else 0

    def check(self) -> None:
        """Look at every page of the file, which takes as long as reading it.

        Raises:
            LogError: it is damaged.
        """
        with self._reading() as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise LogError(f"the log {self.path} is damaged: {found}", hint=schema.DAMAGED)

    def driver_pid(self) -> int:
        """The process that took the stages last; 0 for none. It may be gone by now."""
        with self._reading() as connection:
            (pid,) = connection.execute("SELECT pid FROM driver").fetchone()
        return int(pid)

    def lead(self) -> DriverLease:
        """Become the one process that runs the stages of this log, until the lease is closed or the process ends.

        Raises:
            DriverBusy: another one does. Publishing and reading need no lease.
        """
        return DriverLease.take(self, self._clock_ms())
