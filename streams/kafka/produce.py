"""How everything of ours is produced: whole record batches, one at a time a partition, acknowledged by all replicas.

Sending record by record would let the order break: when a record fails and the next one does not, sending again puts the first
behind the second, and a stage that folds a key in order would fold another order than the embedded log has. A record batch is
appended whole or not at all, and the next one of its partition is sent only when it stands. So what a partition holds after a
failure is a prefix of what was to be sent, and sending all of it again only repeats records, which carry the same ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from schemas.settings import Settings
from schemas.topics import BY_NAME
from streams.kafka.client import client_arguments
from streams.log import LogError, NewRecord, Partition
from streams.partitioner import partition_for
from workers.stage import Position

if TYPE_CHECKING:
    from aiokafka import AIOKafkaProducer

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""Most bytes of one record that is sent; what a topic takes is the topic's ``max.message.bytes``."""
BATCH_BYTES = 512 * 1024
"""A record batch is closed when it holds this much; a larger record has a batch of its own."""
TIMEOUT_MS = 120_000
"""How long a batch is sent again while brokers are away: a broker that is restarted is waited for."""


def producer_arguments(settings: Settings) -> dict[str, Any]:
    """The keyword arguments of our producers: idempotent, acknowledged by all replicas."""
    return {
        **client_arguments(settings),
        "enable_idempotence": True,
        "acks": "all",
        "max_request_size": MAX_REQUEST_BYTES,
        "max_batch_size": BATCH_BYTES,
        "request_timeout_ms": TIMEOUT_MS,
        "linger_ms": 0,
    }


def partition_of(record: NewRecord) -> int:
    """The partition that a record goes to: the one it names, its key's, or the only one."""
    count = BY_NAME[record.topic].partitions
    if record.partition is not None:
        return record.partition
    if record.key is not None:
        return partition_for(record.key, count)
    if count > 1:
        raise LogError(f"a record of {record.topic} without a key names its partition")
    return 0


async def send_all(producer: AIOKafkaProducer, batch: Sequence[NewRecord]) -> list[Position]:
    """Send a batch, in order within each partition; where each record now stands, when all of them do.

    Raises:
        aiokafka.errors.KafkaError: the first refusal. Each partition then holds a prefix of what it was to get.
    """
    shares: dict[Partition, list[int]] = {}
    for index, record in enumerate(batch):
        shares.setdefault((record.topic, partition_of(record)), []).append(index)
    positions: list[Position | None] = [None] * len(batch)
    results = await asyncio.gather(
        *(_send_share(producer, where, indexes, batch, positions) for where, indexes in shares.items()), return_exceptions=True
    )
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [position for position in positions if position is not None]


async def _send_share(
    producer: AIOKafkaProducer,
    where: Partition,
    indexes: Sequence[int],
    batch: Sequence[NewRecord],
    positions: list[Position | None],
) -> None:
    """One partition's records, record batch by record batch."""
    topic, partition = where
    waiting = list(indexes)
    while waiting:
        builder = producer.create_batch()
        taken = 0
        for index in waiting:
            record = batch[index]
            if builder.append(timestamp=None, key=record.key, value=record.value, headers=list(record.headers)) is None:
                break
            taken += 1
        if not taken:
            raise LogError(f"a record of {len(batch[waiting[0]].value or b'')} bytes does not fit a record batch")
        standing = await (await producer.send_batch(builder, topic, partition=partition))
        for place, index in enumerate(waiting[:taken]):
            positions[index] = Position(topic, partition, standing.offset + place)
        waiting = waiting[taken:]
