"""One stage at work on the embedded log: read, decode, handle, commit.

A **step** takes a batch, lets the stage handle it, and commits outputs, dead letters, input offsets and counts in one transaction,
with a snapshot of stateful stages now and then. What happened before the commit is forgotten by a crash, what the commit holds is
done; there is nothing in between for a stage whose effects are all in the log. A sink's effects are in its store before the
commit, so a crash between the two delivers the batch again.

Two offsets are kept a partition: ``committed``, up to where outcomes are in the log, and ``next``, up to where *this* stage object
has been fed. They differ after a restart only: a stateful stage is fed again from its snapshot, a sink from where its store
stands. Outcomes of records under ``committed`` are thrown away, for they were taken the first time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from schemas.topics import Topic
from streams.batch import Fed, accounted, checked
from streams.embedded.feed import Feed
from streams.embedded.lease import DriverLease
from streams.embedded.log import EmbeddedLog
from streams.embedded.tallies import StageTally
from streams.log import LogMismatch, NewRecord, OwnsOffsets, Partition
from streams.relay import Relay, to_record
from workers.stage import Delivery, Emission, Outcome, Stage, StatefulStage

LOGGER = logging.getLogger(__name__)

Hook = Callable[[str, str], None]
"""Called with a stage's name and a step of the commit protocol: ``handled``, ``in-transaction``, ``committed``, ``snapshot``,
``relay-in-transaction``, ``relay-appended``, ``relay-marked``. Tests end the process there."""


@dataclass(frozen=True, slots=True)
class StageSlot:
    """A stage and how it is to be run: ``stage``, or for a stateful one ``factory``, called with each partition's number.

    ``threaded`` gives it a thread of its own, for stages that compute outside the interpreter (embedding) or wait for a store;
    the others take turns on the driver's thread. ``batch`` overrides the driver's batch size. ``relay`` moves the outbox of the
    stage's store into the log, on the stage's own thread, after each batch.
    """

    stage: Stage | None = None
    factory: Callable[[int], StatefulStage] | None = None
    batch: int | None = None
    threaded: bool = False
    relay: Relay | None = None

    def __post_init__(self) -> None:
        if (self.stage is None) == (self.factory is None):
            raise ValueError("a slot has a stage or a factory of stages")


@dataclass(frozen=True, slots=True)
class Progress:
    """What a step did: the counts of its batch and what it emitted; ``relayed`` announcements moved from the store's outbox.

    ``deliveries`` are the records that decoded. ``handle_s`` is how long the stage worked on them, ``commit_s`` how long the
    transaction took, both by the wall. ``replayed`` records were fed again after a restart, with nothing counted or emitted.
    """

    stage: str
    tally: StageTally
    emissions: Sequence[Emission] = ()
    relayed: int = 0
    deliveries: Sequence[Delivery] = ()
    handle_s: float = 0.0
    commit_s: float = 0.0
    replayed: int = 0


class StageWorker:
    """Runs one slot. Used by one thread at a time.

    Raises, when it is made:
        LogMismatch: the sink's store belongs to another log.
        ValueError: a stateful stage has more than one input.
    """

    def __init__(
        self,
        slot: StageSlot,
        log: EmbeddedLog,
        lease: DriverLease,
        *,
        batch_records: int,
        checkpoint_records: int,
        on_progress: Callable[[Progress], None],
        reached: Hook,
    ) -> None:
        self._log = log
        self._lease = lease
        self._relay = slot.relay
        self._factory = slot.factory
        self._stages: dict[int, StatefulStage] = {}
        self._stage: Stage = slot.stage or self._make(0)
        self.name = self._stage.name
        self.inputs: tuple[Topic, ...] = tuple(self._stage.inputs)
        self.threaded = slot.threaded
        self.busy = True
        self.in_hand = 0
        """Records taken from the log and not committed yet. Other threads may look at it."""
        self._batch = slot.batch or batch_records
        self._checkpoint = checkpoint_records
        self._on_progress = on_progress
        self._reached = reached
        self._turn = 0
        self._topics: dict[Partition, Topic] = {
            (topic.name, partition): topic for topic in self.inputs for partition in range(log.partitions(topic.name))
        }
        known = log.stage_offsets(self.name)
        self._committed = {where: known.get(where, 0) for where in self._topics}
        self._next = dict(self._committed)
        self._unsaved: dict[Partition, int] = {}
        self._resume()
        with lease.transaction() as transaction:  # a stage that has read nothing yet has a lag all the same
            transaction.advance(self.name, self._committed)

    # --- starting

    def _make(self, partition: int) -> StatefulStage:
        assert self._factory is not None
        stage = self._stages[partition] = self._factory(partition)
        if len(stage.inputs) != 1:
            raise ValueError(f"the stateful stage {stage.name} has {len(stage.inputs)} inputs; it must have one")
        return stage

    def _resume(self) -> None:
        if self._factory is not None:
            for where in self._topics:
                self._restore(where)
        elif isinstance(self._stage, OwnsOffsets):
            self._stage.bind(self._log.log_id)
            own = self._stage.next_offsets()
            if own is not None:
                self._follow_store(own)

    def _restore(self, where: Partition) -> None:
        topic, partition = where
        stage = self._stages.get(partition) or self._make(partition)
        offset, state = self._log.snapshot(self.name, topic, partition) or (0, None)
        if state is not None:
            try:
                stage.restore(state)
            except ValueError as error:
                LOGGER.warning(
                    "%s: the snapshot of %s/%d is refused (%s); folding from the start", self.name, topic, partition, error
                )
                self._make(partition)
                offset = 0
        self._next[where] = offset
        self._unsaved[where] = self._committed[where] - offset

    def _follow_store(self, own: Mapping[Partition, int]) -> None:
        for where in self._topics:
            topic, partition = where
            needed, end = own.get(where, 0), self._log.end_offsets(topic)[partition]
            if needed > end:
                raise LogMismatch(
                    f"the store of {self.name} has read {topic}/{partition} up to {needed}, but {self._log.path} ends at {end}: "
                    "it belongs to another log",
                    hint="use the log that filled the store, or rebuild the store from this one",
                )
            self._next[where] = min(needed, self._committed[where])

    # --- working

    def step(self, feed: Feed) -> bool:
        """Take one batch; whether there was anything to do.

        Raises whatever the stage raises; nothing of the batch is committed then, and the worker is of no use any more.
        """
        replaying = [where for where in self._topics if self._next[where] < self._committed[where]]
        batch = self._gather(feed, replaying or self._news(), replaying=bool(replaying))
        if batch:
            self.in_hand = len(batch)
            self.busy = True  # not before: a look that finds nothing must not make the driver think that there is something
        if replaying:
            self._handle(batch)
            self._feed_on(batch)
            self._on_progress(Progress(self.name, StageTally(), replayed=len(batch)))
        elif batch:
            self._live(batch)
        self.in_hand = 0
        relayed = self._drain()
        self.busy = bool(batch) or relayed > 0
        return self.busy

    def _news(self) -> list[Partition]:
        ends = {topic.name: self._log.end_offsets(topic.name) for topic in self.inputs}
        return [where for where in self._topics if self._next[where] < ends[where[0]][where[1]]]

    def _gather(self, feed: Feed, wheres: Sequence[Partition], *, replaying: bool) -> list[Fed]:
        """A batch over the partitions, each time from another one on, so that a full one does not starve the rest."""
        self._turn += 1
        turn = self._turn % len(wheres) if wheres else 0
        batch: list[Fed] = []
        for where in (*wheres[turn:], *wheres[:turn]):
            limit = self._batch - len(batch)
            if replaying:
                limit = min(limit, self._committed[where] - self._next[where])
            if limit > 0:
                batch += feed.take(self._topics[where], where[1], self._next[where], limit)
        return batch

    def _live(self, batch: list[Fed]) -> None:
        began = time.perf_counter()
        outcomes = self._handle(batch)
        handled = time.perf_counter()
        self._reached(self.name, "handled")
        tally, letters = accounted(self.name, batch, outcomes)
        emissions = [emission for outcome in outcomes for emission in outcome.emissions]
        records = [*(to_record(emission, self.name) for emission in emissions), *letters]
        offsets = self._feed_on(batch)
        due = [where for where in offsets if self._unsaved.get(where, 0) >= self._checkpoint]
        committing = time.perf_counter()
        self._commit(records, offsets, tally, due)
        committed = time.perf_counter()
        deliveries = [fed.delivery for fed in batch if fed.delivery is not None]
        handle_s, commit_s = handled - began, committed - committing
        self._on_progress(Progress(self.name, tally, emissions, deliveries=deliveries, handle_s=handle_s, commit_s=commit_s))

    def _handle(self, batch: list[Fed]) -> list[Outcome]:
        deliveries = [fed.delivery for fed in batch if fed.delivery is not None]
        if not self._stages:
            return [checked(self._stage, self._stage.handle(deliveries), deliveries)] if deliveries else []
        shares: dict[int, list[Delivery]] = {}
        for delivery in deliveries:
            shares.setdefault(delivery.position.partition, []).append(delivery)
        return [
            checked(self._stages[partition], self._stages[partition].handle(share), share) for partition, share in shares.items()
        ]

    def _feed_on(self, batch: list[Fed]) -> dict[Partition, int]:
        """Move ``next`` behind the batch; the new offsets of the partitions it touched."""
        offsets: dict[Partition, int] = {}
        for fed in batch:
            where = (fed.record.topic, fed.record.partition)
            offsets[where] = fed.record.offset + 1
        for where, offset in offsets.items():
            if where in self._unsaved and self._next[where] >= self._committed[where]:
                self._unsaved[where] += offset - self._next[where]
            self._next[where] = offset
        return offsets

    # --- committing

    def _commit(
        self, records: Sequence[NewRecord], offsets: Mapping[Partition, int], tally: StageTally, due: Sequence[Partition]
    ) -> None:
        states = {where: self._stages[where[1]].snapshot() for where in due}
        with self._lease.transaction() as transaction:
            transaction.append(records)
            transaction.advance(self.name, offsets)
            transaction.count(self.name, tally)
            for (topic, partition), state in states.items():
                transaction.save_snapshot(self.name, topic, partition, self._next[topic, partition], state)
            self._reached(self.name, "in-transaction")
        self._committed.update(offsets)
        self._unsaved.update(dict.fromkeys(states, 0))
        self._reached(self.name, "committed")
        if states:
            self._reached(self.name, "snapshot")

    def save(self) -> None:
        """Save the state of each partition that has moved since its last snapshot, so that a restart is quick."""
        due = [where for where, count in self._unsaved.items() if count and self._next[where] == self._committed[where]]
        if due:
            self._commit((), {}, StageTally(), due)

    def _drain(self) -> int:
        """Move the store's announcements into the log; how many."""
        if self._relay is None:
            return 0
        moved = 0
        while count := self._relay.step(self._log, self._lease, lambda point: self._reached(self.name, point)):
            moved += count
        if moved:
            self._on_progress(Progress(self.name, StageTally(), (), moved))
        return moved
