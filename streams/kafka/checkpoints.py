"""Checkpoints: the state of a stage's partition, with the offset that it stands at, on a compacted topic.

A checkpoint is a record under ``app/stage/topic/partition``: the state compressed in the value; offset, counts and the log's id in
the headers. Any checkpoint of the same log is a good one — the fold goes on from its offset and comes to the same state — so a
member that was taken for dead may write an old one late: the one with the highest offset is taken, and if compaction has left only
the old one, more is fed again, no more.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from schemas.settings import Settings
from schemas.topics import CHECKPOINTS
from streams.embedded.tallies import StageTally
from streams.kafka.client import client_arguments
from streams.kafka.topics import CHECKPOINT_MAX_BYTES
from streams.log import NewRecord, Partition

if TYPE_CHECKING:
    from aiokafka import ConsumerRecord

FORMAT = b"1"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State after every record below ``offset``, and what those records were counted as."""

    offset: int
    state: bytes
    tally: StageTally


def checkpoint_record(app: str, stage: str, where: Partition, log_id: str, checkpoint: Checkpoint) -> NewRecord | None:
    """A checkpoint as a record; None for a state that is too large for the topic even when compressed."""
    value = zlib.compress(checkpoint.state, 1)
    if len(value) > CHECKPOINT_MAX_BYTES - 64 * 1024:
        return None
    headers = (
        ("format", FORMAT),
        ("log", log_id.encode()),
        ("offset", str(checkpoint.offset).encode()),
        ("tally", orjson.dumps(list(checkpoint.tally.rows()))),
    )
    return NewRecord(CHECKPOINTS.name, _key(app, stage, where), value, headers)


async def load_checkpoints(
    settings: Settings, stage: str, wheres: Collection[Partition], log_id: str
) -> dict[Partition, Checkpoint]:
    """The newest checkpoint of each partition that has one."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    wanted = {_key(settings.kafka_app, stage, where): where for where in wheres}
    found: dict[Partition, Checkpoint] = {}
    consumer = AIOKafkaConsumer(**client_arguments(settings), enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partitions = [TopicPartition(CHECKPOINTS.name, number) for number in range(CHECKPOINTS.partitions)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for record in records:
                    where = wanted.get(record.key)
                    checkpoint = _read(record, log_id) if where is not None else None
                    if where is not None and checkpoint and (where not in found or checkpoint.offset >= found[where].offset):
                        found[where] = checkpoint
    finally:
        await consumer.stop()
    return found


def _key(app: str, stage: str, where: Partition) -> bytes:
    return f"{app}/{stage}/{where[0]}/{where[1]}".encode()


def _read(record: ConsumerRecord, log_id: str) -> Checkpoint | None:
    """The checkpoint that a record holds; None for a tombstone, another log's, another format's or a damaged one."""
    headers = dict(record.headers)
    if record.value is None or headers.get("format") != FORMAT or headers.get("log") != log_id.encode():
        return None
    tally = StageTally()
    try:
        for kind, name, count in orjson.loads(headers["tally"]):
            tally.put(kind, name, count)
        return Checkpoint(int(headers["offset"]), zlib.decompress(record.value), tally)
    except (KeyError, ValueError, TypeError, zlib.error):
        return None
