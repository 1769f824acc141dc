"""Sinks on Kafka: one process owns a store, and the store says where to go on.

A sink assigns itself every partition of its inputs; there is no group membership to lose. Membership could not keep a second
process, or one that was stopped and wakes up, away from a file; the store's lock and its fence do. The group's offsets are
committed all the same: lag is read from them, and below them outcomes have been sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from streams.batch import Fed, checked
from streams.embedded.tallies import StageTally
from streams.embedded.worker import Progress
from streams.kafka.member import Feed, Member, Surroundings
from streams.kafka.produce import send_all
from streams.log import OwnsOffsets, Partition
from streams.relay import Outbox, to_record
from workers.stage import Outcome, Stage

OUTBOX_RECORDS = 256


class Sink(Member):
    """Runs one sink, and empties its store's outbox into the log after each batch."""

    def __init__(self, stage: Stage, outbox: Outbox | None, around: Surroundings, batch: int) -> None:
        super().__init__(stage.name, stage.inputs, around, batch)
        self._stage = stage
        self._outbox = outbox

    async def _begin(self) -> None:
        from aiokafka import TopicPartition

        tps = [TopicPartition(topic.name, number) for topic in self.inputs for number in range(topic.partitions)]
        self._consumer.assign(tps)
        own = await self._in_thread(self._own_offsets)
        for tp in tps:
            where = (tp.topic, tp.partition)
            committed = await self._consumer.committed(tp) or 0
            self.feeds[where] = Feed(committed if own is None else own.get(where, 0), committed)
        await self._check_bounds()
        for feed in self.feeds.values():
            feed.next = min(feed.next, feed.committed)
        await self._check_bounds()
        self._seek_back()
        self._standing.give(self.feeds, self._around.clock(), rebalanced=False)
        await self._drain()

    def _own_offsets(self) -> Mapping[Partition, int] | None:
        if not isinstance(self._stage, OwnsOffsets):
            return None
        self._stage.bind(self._log_id)
        return self._stage.next_offsets()

    def _handle(self, share: Sequence[Fed]) -> Outcome:
        deliveries = [fed.delivery for fed in share if fed.delivery is not None]
        return checked(self._stage, self._stage.handle(deliveries), deliveries) if deliveries else Outcome()

    async def _after(self, wheres: Collection[Partition]) -> None:
        await self._drain()

    async def _drain(self) -> None:
        """Announce what the store holds ready. A death before it is marked announces it again under the same ids."""
        if self._outbox is None:
            return
        relayed = 0
        while rows := await self._in_thread(self._outbox.pending, 0, OUTBOX_RECORDS):
            await send_all(self._producer, [to_record(emission, self._outbox.name) for _, emission in rows])
            self._around.reached(self.name, "relay-sent")
            await self._in_thread(self._outbox.mark_sent, rows[-1][0])
            self._around.reached(self.name, "relay-marked")
            relayed += len(rows)
        if relayed:
            self._around.on_progress(Progress(self.name, StageTally(), (), relayed))
