"""The right to run a log's stages, and the transaction in which they do it.

Two things keep a second driver out. The flock on ``<log>.lock`` tells the living apart: it goes with the process, however that
ends. The epoch in the file fences off the zombie: each taker raises it, and every transaction of a driver first checks that it
is still its own, so a process that was stopped while another took over (a copied lock file, a file system without locks) commits
nothing more.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from streams.embedded.tallies import StageTally, add_tally
from streams.log import DriverBusy, FencedOut, NewRecord, Partition
from workers.stage import Position


class Leased(Protocol):
    """What a lease needs of the log it is for."""

    path: Path

    def insert(self, connection: sqlite3.Connection, batch: Sequence[NewRecord]) -> list[Position]:
        """Append records in a transaction that :meth:`writing` gave; where each now stands."""
        ...

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """A write transaction: committed at the end of the block, or not at all."""
        ...

    def driver_pid(self) -> int:
        """The process that took the stages last; 0 for none."""
        ...


class DriverTransaction:
    """What one step of a driver changes: outputs, input offsets, counts, snapshots, relay positions; all or nothing."""

    def __init__(self, log: Leased, connection: sqlite3.Connection) -> None:
        self._log = log
        self._connection = connection

    def append(self, batch: Sequence[NewRecord]) -> list[Position]:
        """Append records; see ``EmbeddedLog.append``."""
        return self._log.insert(self._connection, batch) if batch else []

    def advance(self, stage: str, offsets: Mapping[Partition, int]) -> None:
        """Move a stage's input offsets on; never back."""
        self._connection.executemany(
            "INSERT INTO offsets VALUES ('stage', ?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET next_offset = max(next_offset, excluded.next_offset)",
            [(stage, topic, partition, offset) for (topic, partition), offset in offsets.items()],
        )

    def count(self, stage: str, tally: StageTally) -> None:
        """Add to a stage's counts."""
        add_tally(self._connection, stage, tally)

    def save_snapshot(self, stage: str, topic: str, partition: int, next_offset: int, state: bytes) -> None:
        """Replace the snapshot of a stage's partition; ``next_offset`` is the first record that the state has not seen."""
        self._connection.execute(
            "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET next_offset = excluded.next_offset, state = excluded.state",
            (stage, topic, partition, next_offset, state),
        )

    def move_relay(self, source: str, seq: int) -> None:
        """Note that everything of an outbox up to ``seq`` is in the log."""
        self._connection.execute(
            "INSERT INTO relays VALUES (?, ?) ON CONFLICT DO UPDATE SET seq = max(seq, excluded.seq)", (source, seq)
        )


class DriverLease:
    """Held by the process that runs the stages. Close it, or use it as a context manager."""

    def __init__(self, log: Leased, lock: int, epoch: int) -> None:
        self._log = log
        self._lock: int | None = lock
        self.epoch = epoch

    @classmethod
    def take(cls, log: Leased, now_ms: int) -> DriverLease:
        """Lock the log for this process and raise its epoch.

        Raises:
            DriverBusy: another driver holds the lock.
        """
        lock = os.open(f"{log.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DriverBusy(
                    f"process {log.driver_pid()} already runs the stages of {log.path}",
                    hint="stop it, or leave the work to it: publishing and reading need no lock",
                ) from None
            with log.writing() as connection:
                connection.execute("UPDATE driver SET epoch = epoch + 1, pid = ?, since_ms = ?", (os.getpid(), now_ms))
                (epoch,) = connection.execute("SELECT epoch FROM driver").fetchone()
        except BaseException:
            os.close(lock)
            raise
        return cls(log, lock, epoch)

    @contextmanager
    def transaction(self) -> Iterator[DriverTransaction]:
        """A transaction that commits at the end of the block, or not at all.

        Raises:
            FencedOut: another driver has taken the log over.
        """
        with self._log.writing() as connection:
            (epoch,) = connection.execute("SELECT epoch FROM driver").fetchone()
            if self._lock is None or epoch != self.epoch:
                raise FencedOut(
                    f"this driver (epoch {self.epoch}) no longer holds {self._log.path} (epoch {epoch})",
                    hint="another driver took over; stop this process",
                )
            yield DriverTransaction(self._log, connection)

    def close(self) -> None:
        """Let another driver in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
