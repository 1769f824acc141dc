"""What a record does to the episode that is kept under its id: pure, and the same on every replay.

An id is one event's. Records about it come in the log's order: perhaps pending, then final; perhaps retracted by a chain
reorganisation (``removed``), perhaps mined again in another block. The newest version that changes something is kept::

    kept ↓ / record →        pending      final                       removed      forgotten
    nothing                  INSERTED     INSERTED                    INSERTED     INSERTED
    pending                  DUPLICATE    UPDATED                     UPDATED      UPDATED
    final                    DUPLICATE    DUPLICATE                   UPDATED      UPDATED
    retracted                DUPLICATE    UPDATED if another block    DUPLICATE    UPDATED
    forgotten                DUPLICATE    DUPLICATE                   DUPLICATE    DUPLICATE

Two who report one event under different record keys (one names the pair otherwise) put it into two partitions, and between
partitions a log has no order: the row is then made of the records of the lowest partition alone, whichever came first, so that a
rebuild gives the same row. Only that it was forgotten holds wherever it was said.

Each row remembers the places in the log of the records that made it what it is. A record that stands before the last of them in
its partition has been judged already and comes again, because of a crash between the store's write and the driver's commit: it is
REPLAYED if it is one of them, and a DUPLICATE, as it was the first time, if it is not. So it changes nothing, and the counts come
out the same whether or not somebody was killed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from schemas.events import Status, ToolExecution

FORGOTTEN = "forgotten"
"""Stands in the place of a block's hash in the row of what was forgotten."""


class Effect(StrEnum):
    """What became of a record."""

    INSERTED = "inserted"
    UPDATED = "updated"
    DUPLICATE = "duplicate"
    REPLAYED = "replayed"


class Place(Protocol):
    """Where a record stands in its topic."""

    @property
    def partition(self) -> int:
        """The partition of its topic."""
        ...

    @property
    def offset(self) -> int:
        """How many records stand before it there."""
        ...


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of a row for judging the next record. ``places`` are partitions and offsets, oldest first."""

    pending: bool
    retracted: bool
    block_hash: str | None
    places: tuple[tuple[int, int], ...]


def judge(kept: Kept | None, place: Place, event: ToolExecution, *, forgotten: bool = False) -> Effect:
    """What the record at ``place`` does to what is kept."""
    if kept is None:
        return Effect.INSERTED
    if any(partition == place.partition and offset >= place.offset for partition, offset in kept.places):
        return Effect.REPLAYED if (place.partition, place.offset) in kept.places else Effect.DUPLICATE
    if kept.block_hash == FORGOTTEN:
        return Effect.DUPLICATE
    if forgotten:
        return Effect.UPDATED
    own = min(partition for partition, _ in kept.places)
    if place.partition != own:
        return Effect.UPDATED if place.partition < own else Effect.DUPLICATE
    if event.removed:
        return Effect.DUPLICATE if kept.retracted else Effect.UPDATED
    if event.status is Status.PENDING:
        return Effect.DUPLICATE
    if kept.retracted:
        mined_again = event.block_hash is not None and event.block_hash != kept.block_hash
        return Effect.UPDATED if mined_again else Effect.DUPLICATE
    return Effect.UPDATED if kept.pending else Effect.DUPLICATE


def after(kept: Kept | None, place: Place, event: ToolExecution, *, forgotten: bool = False) -> Kept:
    """What is kept once a record that inserts or updates has been taken."""
    return Kept(
        pending=event.status is Status.PENDING,
        retracted=event.removed,
        block_hash=FORGOTTEN if forgotten else event.block_hash,
        places=(*(kept.places if kept else ()), (place.partition, place.offset)),
    )
