"""The outbox relay: a store's announcements into the log, each exactly once.

A store writes what it wants announced into an outbox, in the transaction of the change itself. The relay reads the outbox from
where *the log* says it stands, appends, and moves that place in the same log transaction. The store's own "sent" mark comes
last and only tidies up: a crash before it repeats the mark, not the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from streams.embedded.lease import DriverLease
from streams.embedded.log import EmbeddedLog
from streams.headers import event_headers
from streams.log import NewRecord
from streams.tracing import handed_on
from workers.stage import Emission


@runtime_checkable
class Outbox(Protocol):
    """A store's row of announcements.

    Sequence numbers rise from 1 in the order of the changes and are never given twice. A store that starts to number anew (a
    rebuilt one whose changes did not come in the same order) takes another name, or the relay would skip what it has not sent.
    """

    name: str

    def pending(self, after: int, limit: int) -> Sequence[tuple[int, Emission]]:
        """Up to ``limit`` announcements with a sequence number over ``after``, in order."""
        ...

    def mark_sent(self, upto: int) -> None:
        """Everything up to this number is in the log and may be forgotten."""
        ...


def to_record(emission: Emission, source: str) -> NewRecord:
    """An emission as a record: its key decides the partition, CloudEvents headers say what it is and which trace goes on in it."""
    trace = handed_on(emission.trace, source)
    headers = event_headers(emission.topic, emission.message_id, emission.ts_ms, source=source, traceparent=trace)
    return NewRecord(emission.topic.name, emission.key.encode(), emission.message.to_wire(), headers)


class Relay:
    """Moves one outbox into the embedded log. Used by one thread at a time, with the driver's lease."""

    def __init__(self, outbox: Outbox, *, batch: int = 256) -> None:
        self.outbox = outbox
        self._batch = batch
        self._position: int | None = None

    def step(self, log: EmbeddedLog, lease: DriverLease, reached: Callable[[str], None]) -> int:
        """Append one batch of what is pending; how many records that were.

        ``reached`` is called with the name of each step of the protocol, for tests that stop there.
        """
        if self._position is None:
            self._position = log.relay_position(self.outbox.name)
            if self._position:
                self.outbox.mark_sent(self._position)
        rows = self.outbox.pending(self._position, self._batch)
        if not rows:
            return 0
        upto = rows[-1][0]
        with lease.transaction() as transaction:
            transaction.append([to_record(emission, self.outbox.name) for _, emission in rows])
            transaction.move_relay(self.outbox.name, upto)
            reached("relay-in-transaction")
        reached("relay-appended")
        self._position = upto
        self.outbox.mark_sent(upto)
        reached("relay-marked")
        return len(rows)
