"""A cluster as a log (``streams/log.py``), for the parts of the program that are not asyncio: publisher, subscriber, mirror.

An event loop runs in a thread of its own and holds the aiokafka clients; each method hands it a coroutine and waits. Reading uses
one consumer without a group: it is assigned every partition that was ever asked for and goes on reading where it stands, so
that reading a partition from front to back costs no seek.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from schemas.identity import content_id
from schemas.settings import Settings
from schemas.topics import BY_NAME, TOPICS, Cleanup, Topic
from streams.embedded.tallies import Lag
from streams.kafka.client import client_arguments, patiently, require_extra
from streams.kafka.lag import Reads, lags_seen_by
from streams.kafka.metadata import topic_ids
from streams.kafka.produce import producer_arguments, send_all
from streams.kafka.topics import admin_client, require
from streams.log import MAX_READ_BYTES, Change, LogError, NewRecord, Partition, UnknownTopic
from streams.record import Record
from workers.stage import Position

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord

T = TypeVar("T")

POLL_S = 0.1
"""How often ``wait`` asks the brokers for the ends of the partitions."""
READ_PATIENCE_S = 30.0
"""How long a read waits for records that the broker says are there."""


class KafkaLog:
    """LogAppender, LogReader and GroupOffsets over a Kafka cluster. Close it, or use it in a ``with``.

    Raises:
        LogError: the cluster cannot be reached.
        LogMismatch: it lacks our topics, or one has another partition count.
    """

    def __init__(self, settings: Settings) -> None:
        require_extra()
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kafka-log", daemon=True)
        self._thread.start()
        self._clients = _Clients(settings)
        try:
            self._log_id: str = self._run(require_cluster(settings))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the clients and end the thread. Closing twice does no harm."""
        if not self._loop.is_closed():
            self._run(self._clients.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        from aiokafka.errors import KafkaError

        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
        except KafkaError as error:
            raise LogError(f"Kafka: {error or type(error).__name__}") from error

    @property
    def log_id(self) -> str:
        """From the ids of the topics that are kept for ever: a topic that was replaced by another of its name makes another log."""
        return self._log_id

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has. Raises UnknownTopic."""
        return _known(topic).partitions

    def append(self, batch: Sequence[NewRecord]) -> list[Position]:
        """Append in order, acknowledged by all replicas; where each record now stands.

        Kafka keeps the order within a partition. When it fails in the middle, what went before stands: append the batch again,
        repeated records carry the same ids and count as duplicates.

        Raises:
            UnknownTopic: a topic or partition that the log does not have; nothing is appended.
            LogError: the brokers would not take the batch; a record may be over the topic's ``max.message.bytes``.
        """
        for record in batch:
            self._check(record.topic, record.partition or 0)
        return self._run(self._clients.append(batch))

    def read(self, topic: str, partition: int, offset: int, limit: int, max_bytes: int = MAX_READ_BYTES) -> list[Record]:
        """Up to ``limit`` records from ``offset`` on, in order; what retention has removed is skipped."""
        self._check(topic, partition)
        return self._run(self._clients.read(topic, partition, offset, limit, max_bytes))

    def start_offsets(self, topic: str) -> dict[int, int]:
        """The first offset that can be read, by partition."""
        return self._run(self._clients.bounds([_known(topic)], "beginning_offsets"))[topic]

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset that the next record will get, by partition."""
        return self._run(self._clients.bounds([_known(topic)], "end_offsets"))[topic]

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """The offset of the first record that arrived at or after a moment, by partition; the end where there is none."""
        return self._run(self._clients.offsets_at(_known(topic), timestamp_ms))

    def changes(self) -> Change:
        """A token of what the log holds now: how many records were ever appended to it."""
        ends = self._run(self._clients.bounds(TOPICS, "end_offsets"))
        return sum(sum(by_partition.values()) for by_partition in ends.values()), len(TOPICS)

    def wait(self, seen: Change, timeout_s: float) -> Change:
        """Block until the log differs from ``seen`` or the time is over; the token of what it holds then."""
        deadline = time.monotonic() + timeout_s
        while (now := self.changes()) == seen and time.monotonic() < deadline:
            time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))
        return now

    def lags(self, stages: Sequence[Reads]) -> list[Lag]:
        """How far stages are behind; when the first record that one has not read arrived is not among it."""
        return self._run(self._clients.lags(stages))

    def committed(self, group: str) -> dict[Partition, int]:
        """The next offset to read, by partition, of a group; empty for a group that never committed."""
        return self._run(self._clients.committed(group))

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Record durably that a group goes on from these offsets; going back is allowed.

        Raises:
            LogError: the group has running members, which commit for themselves.
        """
        self._run(self._clients.commit(group, offsets))

    @staticmethod
    def _check(topic: str, partition: int) -> None:
        count = _known(topic).partitions
        if not 0 <= partition < count:
            raise UnknownTopic(f"{topic} has partitions 0 to {count - 1}, not {partition}")


def _known(topic: str) -> Topic:
    if topic not in BY_NAME:
        raise UnknownTopic(f"the log has no topic {topic}")
    return BY_NAME[topic]


def as_record(record: ConsumerRecord) -> Record:
    """What aiokafka read, as ours."""
    return Record(
        record.topic, record.partition, record.offset, record.timestamp, record.key, record.value, tuple(record.headers or ())
    )


async def require_cluster(settings: Settings) -> str:
    """The cluster's log id (see :attr:`KafkaLog.log_id`), if it is there and has our topics.

    Raises:
        LogError: it cannot be reached.
        LogMismatch: it lacks a topic, or one has another partition count.
    """
    async with admin_client(settings) as admin:
        await require(admin)
        kept = sorted(topic.name for topic in TOPICS if topic.cleanup is Cleanup.KEEP)
        ids = await topic_ids(admin._client, kept)
    return content_id("kafka-log", *(f"{name}={ids[name]}" for name in kept))


class _Clients:
    """The aiokafka clients, used only inside the log's own event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producer: AIOKafkaProducer | None = None
        self._consumer: AIOKafkaConsumer | None = None
        self._committer: tuple[str, AIOKafkaConsumer] | None = None
        self._standing: dict[Any, int] = {}
        self._reading = asyncio.Lock()

    async def close(self) -> None:
        for client in (self._producer, self._consumer, self._committer and self._committer[1]):
            if client is not None:
                await client.stop()
        self._producer = self._consumer = self._committer = None
        left = asyncio.all_tasks() - {asyncio.current_task()}  # what a client whose start failed has left behind
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def append(self, batch: Sequence[NewRecord]) -> list[Position]:
        from aiokafka import AIOKafkaProducer

        if self._producer is None:
            producer = AIOKafkaProducer(**producer_arguments(self._settings))
            await producer.start()
            self._producer = producer
        try:
            return await send_all(self._producer, await self._placed(batch))
        except BaseException:
            # An idempotent producer that has had a batch refused has lost count and is refused everything from then on.
            producer, self._producer = self._producer, None
            await producer.stop()
            raise

    async def _placed(self, batch: Sequence[NewRecord]) -> list[NewRecord]:
        """The batch with a partition for each record that has neither one nor a key: the one with the fewest records."""
        ends: dict[str, dict[int, int]] = {}
        placed = []
        for record in batch:
            if record.key is None and record.partition is None:
                if record.topic not in ends:
                    ends |= await self.bounds([_known(record.topic)], "end_offsets")
                partition = min(ends[record.topic], key=lambda number: (ends[record.topic][number], number))
                ends[record.topic][partition] += 1
                placed.append(replace(record, partition=partition))
            else:
                placed.append(record)
        return placed

    async def _reader(self) -> AIOKafkaConsumer:
        from aiokafka import AIOKafkaConsumer

        if self._consumer is None:
            consumer = AIOKafkaConsumer(**client_arguments(self._settings), enable_auto_commit=False, auto_offset_reset="none")
            await consumer.start()
            self._consumer = consumer
        return self._consumer

    async def read(self, topic: str, partition: int, offset: int, limit: int, max_bytes: int) -> list[Record]:
        from aiokafka import TopicPartition

        tp = TopicPartition(topic, partition)
        async with self._reading:
            consumer = await self._reader()
            end = (await consumer.end_offsets([tp]))[tp]
            first = (await consumer.beginning_offsets([tp]))[tp] if self._standing.get(tp) != offset else offset
            offset = max(offset, first)
            if offset >= end or limit < 1:
                return []
            await self._stand_at(consumer, tp, offset)
            records = await self._fetch(consumer, tp, end, limit)
            kept = _within(records, max_bytes)
            if len(kept) < len(records):
                self._standing.pop(tp)  # it stands behind what we hand out: the next read seeks
            else:
                self._standing[tp] = await consumer.position(tp)
            return kept

    async def _stand_at(self, consumer: AIOKafkaConsumer, tp: Any, offset: int) -> None:
        """Make the consumer's next record of the partition the one at ``offset``."""
        if tp not in consumer.assignment():
            consumer.assign([*consumer.assignment(), tp])
            for other in consumer.assignment():
                self._standing.pop(other, None)
                consumer.pause(other)
        if self._standing.get(tp) != offset:
            consumer.seek(tp, offset)
            self._standing[tp] = offset

    async def _fetch(self, consumer: AIOKafkaConsumer, tp: Any, end: int, limit: int) -> list[Record]:
        """The next records; none when only gaps (of compaction or of transactions) are left before ``end``."""
        deadline = time.monotonic() + READ_PATIENCE_S
        consumer.resume(tp)
        try:
            while True:
                found = await consumer.getmany(tp, timeout_ms=200, max_records=limit)
                if found.get(tp):
                    return [as_record(record) for record in found[tp]]
                if await consumer.position(tp) >= end:
                    return []
                if time.monotonic() > deadline:
                    raise LogError(
                        f"{tp.topic} partition {tp.partition} has records before {end}, but the broker does not send them"
                    )
        finally:
            consumer.pause(tp)

    async def bounds(self, topics: Sequence[Topic], which: str) -> dict[str, dict[int, int]]:
        from aiokafka import TopicPartition

        consumer = await self._reader()
        wanted = [TopicPartition(topic.name, partition) for topic in topics for partition in range(topic.partitions)]
        found: dict[Any, int] = await getattr(consumer, which)(wanted)
        by_topic: dict[str, dict[int, int]] = {topic.name: {} for topic in topics}
        for tp, offset in found.items():
            by_topic[tp.topic][tp.partition] = offset
        return by_topic

    async def offsets_at(self, topic: Topic, timestamp_ms: int) -> dict[int, int]:
        from aiokafka import TopicPartition

        consumer = await self._reader()
        wanted = {TopicPartition(topic.name, partition): timestamp_ms for partition in range(topic.partitions)}
        ends = (await self.bounds([topic], "end_offsets"))[topic.name]
        found = await consumer.offsets_for_times(wanted)
        return {tp.partition: at.offset if at is not None else ends[tp.partition] for tp, at in found.items()}

    async def lags(self, stages: Sequence[Reads]) -> list[Lag]:
        return await lags_seen_by(await self._reader(), self._settings, stages)

    async def committed(self, group: str) -> dict[Partition, int]:
        async with admin_client(self._settings) as admin:
            offsets = await patiently(partial(admin.list_consumer_group_offsets, group))
        return {(tp.topic, tp.partition): found.offset for tp, found in offsets.items() if found.offset >= 0}

    async def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Kept open for the group that committed last: a subscriber commits after every update."""
        from aiokafka import AIOKafkaConsumer, TopicPartition

        if self._committer is not None and self._committer[0] != group:
            old, self._committer = self._committer[1], None
            await old.stop()
        if self._committer is None:
            consumer = AIOKafkaConsumer(**client_arguments(self._settings), group_id=group, enable_auto_commit=False)
            await consumer.start()
            self._committer = group, consumer
        chosen = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
        committer = self._committer[1]
        committer.assign(list(chosen))
        committer.pause(*chosen)
        await committer.commit(chosen)


def _within(records: list[Record], max_bytes: int) -> list[Record]:
    """The first records, up to the one whose value takes the sum to ``max_bytes``."""
    total = 0
    for count, record in enumerate(records, 1):
        total += len(record.value or b"")
        if total >= max_bytes:
            return records[:count]
    return records
