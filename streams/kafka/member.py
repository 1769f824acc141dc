"""A stage at work on Kafka, without Faust: ``getmany``, handle, send, commit.

The steps of a batch, and what a death between two of them leaves behind:

1. *handled*: the stage has seen the batch. A sink's store has its effects; it knows them again by id or by offset.
2. *sent*: emissions and dead letters stand in the log, under ids that follow from the input. Sent again they are duplicates, and
   whoever reads them drops those.
3. *committed*: the group's offset moves on. It is advice: it says below which offset outcomes have been sent, not where the state
   or the store stands.
4. *snapshot*: now and then the state goes to the checkpoint topic.

Two offsets are kept a partition: ``committed``, below which outcomes are in the log, and ``next``, up to where *this* object has
been fed. They differ after a restart or a rebalance only: a fold is fed again from its checkpoint, a sink from where its store
stands. Outcomes of records below ``committed`` are thrown away.

Rebalances come in the middle of anything, in another task. A lock is held while a batch is worked on, so that partitions are
taken away only between batches; whoever fetched before the change and gets the lock after it throws the records away and seeks
back to where each partition's feed stands.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schemas.settings import Settings
from schemas.topics import BY_NAME, Topic
from streams.batch import Fed, accounted, decoded
from streams.embedded.tallies import StageTally
from streams.embedded.worker import Progress
from streams.kafka.client import client_arguments, group_of
from streams.kafka.log import as_record, require_cluster
from streams.kafka.produce import producer_arguments, send_all
from streams.kafka.standing import Standing
from streams.log import LogMismatch, NewRecord, Partition
from streams.record import Record
from streams.relay import to_record
from workers.stage import Outcome

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

LOGGER = logging.getLogger(__name__)

Hook = Callable[[str, str], None]
"""Called with a stage's name and a step: ``handled``, ``sent``, ``committed``, ``snapshot``, ``relay-sent``, ``relay-marked``."""

FETCH_WAIT_MS = 200
FETCH_BYTES = 1024 * 1024
MAX_POLL_S = 300.0
"""A member that has not asked for records for so long leaves the group; a slow batch asks with its partitions paused."""
PAUSE_AFTER_S = 5.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every member is given. ``on_progress`` hears of each batch; ``reached`` is for tests.

    ``standings`` is filled by the members, each under its stage's name, with times of ``clock`` (Unix seconds).
    """

    settings: Settings
    on_progress: Callable[[Progress], None] = lambda progress: None
    reached: Hook = lambda stage, step: None
    standings: dict[str, Standing] = field(default_factory=dict)
    clock: Callable[[], float] = time.time

    def standing(self, name: str) -> Standing:
        """A stage's standing, new where it has none."""
        return self.standings.setdefault(name, Standing(self.clock()))


@dataclass(slots=True)
class Feed:
    """Where a partition stands; see the module."""

    next: int
    committed: int
    unsaved: int = 0
    tally: StageTally = field(default_factory=StageTally)


class Member:
    """The common part of folds and sinks. ``run`` works until ``stop``; it raises what the stage or the cluster raises."""

    def __init__(self, name: str, inputs: Sequence[Topic], around: Surroundings, batch: int) -> None:
        self.name = name
        self.inputs = tuple(inputs)
        self.feeds: dict[Partition, Feed] = {}
        self._around = around
        self._standing = around.standing(name)
        self._batch = batch
        self._lock = asyncio.Lock()
        self._generation = 0
        self._stopping = asyncio.Event()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"stage-{name}")
        self._log_id = ""
        self._consumer: AIOKafkaConsumer
        self._producer: AIOKafkaProducer

    # --- what folds and sinks do differently

    async def _begin(self) -> None:
        """Take up partitions: subscribe to them, or assign them."""
        raise NotImplementedError

    def _shares(self, batch: Sequence[Fed]) -> list[Sequence[Fed]]:
        """What of a batch is handled together."""
        return [batch]

    def _handle(self, share: Sequence[Fed]) -> Outcome:
        """Give a share to the stage; runs in the member's own thread."""
        raise NotImplementedError

    async def _after(self, wheres: Collection[Partition]) -> None:
        """After a batch is committed."""

    async def _end(self) -> None:
        """Before the clients are closed, after the last batch."""

    # --- life

    async def run(self) -> None:
        """Work until ``stop`` is called."""
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        self._log_id = await require_cluster(self._around.settings)
        self._producer = AIOKafkaProducer(**producer_arguments(self._around.settings))
        self._consumer = AIOKafkaConsumer(**consumer_arguments(self._around.settings, self.name))
        await self._producer.start()
        try:
            await self._consumer.start()
            try:
                await self._begin()
                while not self._stopping.is_set():
                    await self._turn()
                async with self._lock:
                    await self._end()
            finally:
                await self._consumer.stop()
        finally:
            await self._producer.stop()
            self._executor.shutdown(wait=False)

    def stop(self) -> None:
        """Finish the batch at hand, then end."""
        self._stopping.set()

    # --- working

    async def _turn(self) -> None:
        generation = self._generation
        found = await self._consumer.getmany(timeout_ms=FETCH_WAIT_MS, max_records=self._batch)
        async with self._lock:
            if generation != self._generation:
                self._seek_back()
                return
            records = [as_record(record) for share in found.values() for record in share]
            old, new = self._split(records)
            if old:
                await self._in_thread(self._refeed, old)
                self._around.on_progress(Progress(self.name, StageTally(), replayed=len(old)))
            if new:
                await self._live(new)
            elif not records:
                await self._after(())

    def _split(self, records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
        """Records whose outcomes are in the log already, and the others."""
        old: list[Record] = []
        new: list[Record] = []
        for record in records:
            feed = self.feeds[record.topic, record.partition]
            if record.offset >= feed.next:
                (old if record.offset < feed.committed else new).append(record)
        return old, new

    def _refeed(self, records: Sequence[Record]) -> None:
        self._account(self._worked(records))

    def _worked(self, records: Sequence[Record]) -> list[tuple[Sequence[Fed], Outcome]]:
        batch = [decoded(BY_NAME[record.topic], record) for record in records]
        return [(share, self._handle(share)) for share in self._shares(batch)]

    def _account(self, work: Sequence[tuple[Sequence[Fed], Outcome]]) -> tuple[StageTally, list[NewRecord]]:
        """Count, and move the feeds on; the counts of the batch and its dead letters."""
        whole, letters = StageTally(), []
        for share, outcome in work:
            tally, more = accounted(self.name, share, [outcome])
            whole.add(tally)
            letters += more
            for fed in share:
                feed = self.feeds[fed.record.topic, fed.record.partition]
                feed.next = fed.record.offset + 1
                feed.unsaved += 1
            feed.tally.add(tally)
        return whole, letters

    async def _live(self, records: Sequence[Record]) -> None:
        name = self.name
        started = time.perf_counter()
        self._standing.in_hand = len(records)
        work = await self._in_thread(self._worked, records)
        handled = time.perf_counter()
        self._around.reached(name, "handled")
        tally, letters = self._account(work)
        emissions = [emission for _, outcome in work for emission in outcome.emissions]
        await send_all(self._producer, [*(to_record(emission, name) for emission in emissions), *letters])
        self._around.reached(name, "sent")
        wheres = {(record.topic, record.partition) for record in records}
        for where in wheres:
            self.feeds[where].committed = self.feeds[where].next
        await self._commit({where: self.feeds[where].committed for where in wheres})
        self._around.reached(name, "committed")
        self._standing.in_hand = 0
        deliveries = [fed.delivery for share, _ in work for fed in share if fed.delivery is not None]
        taken = time.perf_counter() - handled
        self._around.on_progress(Progress(name, tally, emissions, 0, deliveries, handled - started, taken))
        await self._after(wheres)

    async def _commit(self, offsets: Mapping[Partition, int]) -> None:
        """Move the group on. It is advice, so a member that is being replaced only says that it could not."""
        from aiokafka import TopicPartition
        from aiokafka.errors import KafkaError

        try:
            await self._consumer.commit({TopicPartition(*where): offset for where, offset in offsets.items()})
        except KafkaError as error:
            LOGGER.warning("%s could not commit its offsets (%r); what was sent may be sent again", self.name, error)

    async def _check_bounds(self) -> None:
        """Refuse a log that does not hold what is to be read next.

        Raises:
            LogMismatch: it is shorter, or retention has removed records that were not read yet.
        """
        from aiokafka import TopicPartition

        tps = [TopicPartition(*where) for where in self.feeds]
        starts, ends = await self._consumer.beginning_offsets(tps), await self._consumer.end_offsets(tps)
        for where, feed in self.feeds.items():
            start, end = starts[TopicPartition(*where)], ends[TopicPartition(*where)]
            known = max(feed.next, feed.committed)
            name = f"{where[0]}/{where[1]}"
            if known > end:
                raise LogMismatch(
                    f"{self.name} has read {name} up to {known}, but the topic ends at {end}: it belongs to another log",
                    hint="use the cluster that filled the store, or rebuild the store from this one",
                )
            if feed.next < start and known > 0:
                raise LogMismatch(
                    f"{self.name} goes on at {feed.next} of {name}, but retention has removed what is before {start}",
                    hint="restore the topic, or rebuild from what is left into an empty folder and under another kafka_app",
                )
            feed.next = max(feed.next, start)

    def _seek_back(self) -> None:
        from aiokafka import TopicPartition

        assigned = self._consumer.assignment()
        for where, feed in self.feeds.items():
            if TopicPartition(*where) in assigned:
                self._consumer.seek(TopicPartition(*where), feed.next)

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run the stage's own work outside the event loop: heartbeats go on. When it takes long, partitions are paused and
        asked for all the same, so that the group does not take a slow store for a dead one."""
        running = asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)
        paused: set[Any] = set()
        while not (await asyncio.wait({running}, timeout=PAUSE_AFTER_S))[0]:
            paused |= self._consumer.assignment()
            self._consumer.pause(*self._consumer.assignment())
            with suppress(TimeoutError):  # in a rebalance it waits for the end of it, and the rebalance for us
                await asyncio.wait_for(self._consumer.getmany(timeout_ms=0), 1.0)
        self._consumer.resume(*(paused & self._consumer.assignment()))
        return running.result()


def consumer_arguments(settings: Settings, name: str) -> dict[str, Any]:
    """The keyword arguments of a member's consumer. Offsets are never reset on a guess: each partition is sought explicitly."""
    instance = {"group_instance_id": f"{name}-{settings.kafka_instance}"} if settings.kafka_instance else {}
    return {
        **client_arguments(settings),
        **instance,
        "group_id": group_of(settings, name),
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": round(settings.kafka_session_s * 1000),
        "heartbeat_interval_ms": round(settings.kafka_session_s * 1000 / 6),
        "max_poll_interval_ms": round(MAX_POLL_S * 1000),
        "rebalance_timeout_ms": round(MAX_POLL_S * 1000),
        "max_partition_fetch_bytes": FETCH_BYTES,
        "fetch_max_bytes": 8 * FETCH_BYTES,
    }
