"""Stateful stages on Kafka: a group shares the partitions, and a partition's state follows it by way of its checkpoint."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

from streams.batch import Fed, checked
from streams.embedded.tallies import StageTally
from streams.kafka.checkpoints import Checkpoint, checkpoint_record, load_checkpoints
from streams.kafka.member import Feed, Member, Surroundings
from streams.kafka.produce import send_all
from streams.log import Partition
from workers.stage import Outcome, StatefulStage

LOGGER = logging.getLogger(__name__)


class Fold(Member):
    """Runs one stateful stage; ``factory`` makes it anew for a partition's number."""

    def __init__(self, factory: Callable[[int], StatefulStage], around: Surroundings, batch: int) -> None:
        first = factory(0)
        if len(first.inputs) != 1:
            raise ValueError(f"the stateful stage {first.name} has {len(first.inputs)} inputs; it must have one")
        super().__init__(first.name, first.inputs, around, batch)
        self._factory = factory
        self._stages: dict[Partition, StatefulStage] = {}
        self._broken: BaseException | None = None
        self._uncommitted: dict[Partition, int] = {}

    # --- partitions come and go

    async def _begin(self) -> None:
        self._consumer.subscribe([topic.name for topic in self.inputs], listener=_listener(self))

    async def revoked(self) -> None:
        """Partitions are about to be taken away: save their states first, so that the next owner has little to feed again."""
        async with self._lock:
            self._generation += 1
            self._standing.take(self._around.clock())
            try:
                await self._save(self.feeds)
            except Exception as error:
                LOGGER.warning("%s: the last checkpoint before a rebalance failed (%r)", self.name, error)
            self._drop()

    async def assigned(self, wheres: Collection[Partition]) -> None:
        """Partitions are ours: take up their states and seek to where those stand."""
        async with self._lock:
            self._drop()
            try:
                await self._take_up(wheres)
                self._standing.give(wheres, self._around.clock())
            except BaseException as error:
                self._broken = error  # a listener's errors are logged and forgotten: the loop has to raise it
                raise
            finally:
                self._generation += 1

    def _drop(self) -> None:
        self.feeds.clear()
        self._stages.clear()
        self._uncommitted.clear()

    async def _take_up(self, wheres: Collection[Partition]) -> None:
        from aiokafka import TopicPartition

        if not wheres:
            return
        saved = await load_checkpoints(self._around.settings, self.name, wheres, self._log_id)
        for where in wheres:
            committed = await self._consumer.committed(TopicPartition(*where))
            checkpoint = saved.get(where) or _nothing()
            if committed is None:  # the group was forgotten; what a checkpoint covers has been sent
                committed = checkpoint.offset
                self._uncommitted[where] = committed
            elif committed < checkpoint.offset:  # moved back, to send again what is behind the checkpoint
                checkpoint = _nothing()
            offset, tally = await asyncio.to_thread(self._restore, where, checkpoint)
            self.feeds[where] = Feed(offset, committed, max(0, committed - offset), tally)
        await self._check_bounds()
        self._seek_back()
        LOGGER.info("%s has %s", self.name, {where[1]: (feed.next, feed.committed) for where, feed in self.feeds.items()})

    def _restore(self, where: Partition, checkpoint: Checkpoint) -> tuple[int, StageTally]:
        stage = self._stages[where] = self._factory(where[1])
        if checkpoint.offset:
            try:
                stage.restore(checkpoint.state)
            except ValueError as error:
                LOGGER.warning("%s: the checkpoint of %s/%d is refused (%s); folding from the start", self.name, *where, error)
                self._stages[where] = self._factory(where[1])
                return 0, StageTally()
        return checkpoint.offset, checkpoint.tally

    # --- work

    async def _turn(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._uncommitted:
            async with self._lock:
                await self._commit({where: offset for where, offset in self._uncommitted.items() if where in self.feeds})
                self._uncommitted.clear()
        await super()._turn()

    def _shares(self, batch: Sequence[Fed]) -> list[Sequence[Fed]]:
        shares: dict[Partition, list[Fed]] = {}
        for fed in batch:
            shares.setdefault((fed.record.topic, fed.record.partition), []).append(fed)
        return list(shares.values())

    def _handle(self, share: Sequence[Fed]) -> Outcome:
        stage = self._stages[share[0].record.topic, share[0].record.partition]
        deliveries = [fed.delivery for fed in share if fed.delivery is not None]
        return checked(stage, stage.handle(deliveries), deliveries) if deliveries else Outcome()

    # --- checkpoints

    async def _after(self, wheres: Collection[Partition]) -> None:
        every = self._around.settings.checkpoint_records
        due = [where for where in wheres if self.feeds[where].unsaved >= every]
        if due:
            await self._save(due)
            self._around.reached(self.name, "snapshot")

    async def _end(self) -> None:
        await self._save(self.feeds)

    async def _save(self, wheres: Collection[Partition]) -> None:
        """Write the checkpoints of partitions that have moved since their last one and whose outcomes are all sent."""
        records = []
        saved = []
        for where in wheres:
            feed = self.feeds[where]
            if not feed.unsaved or feed.next < feed.committed:
                continue
            state = await self._in_thread(self._stages[where].snapshot)
            checkpoint = Checkpoint(feed.next, state, feed.tally)
            record = checkpoint_record(self._around.settings.kafka_app, self.name, where, self._log_id, checkpoint)
            if record is None:
                LOGGER.warning("%s: the state of %s/%d is too large for a checkpoint", self.name, *where)
                continue
            records.append(record)
            saved.append(feed)
        await send_all(self._producer, records)
        for feed in saved:
            feed.unsaved = 0


def _nothing() -> Checkpoint:
    """Where a partition stands that has no checkpoint."""
    return Checkpoint(0, b"", StageTally())


def _listener(fold: Fold) -> Any:
    """The fold's listener for aiokafka, whose base class is only there with the extra."""
    from aiokafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
            if revoked:
                await fold.revoked()

        async def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
            await fold.assigned([(tp.topic, tp.partition) for tp in assigned])

    return Listener()
