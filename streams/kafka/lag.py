"""How far each stage's group is behind on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from schemas.settings import Settings
from schemas.topics import Topic
from streams.embedded.tallies import Lag
from streams.kafka.client import client_arguments, group_of, patiently
from streams.kafka.topics import admin_client
from streams.log import Partition

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer


class Reads(Protocol):
    """Whatever has a name and inputs: a stage."""

    name: str
    inputs: tuple[Topic, ...]


async def lags(settings: Settings, stages: Sequence[Reads]) -> list[Lag]:
    """The lag of each stage on each partition of its inputs; see :func:`lags_seen_by`."""
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(**client_arguments(settings), enable_auto_commit=False)
    await consumer.start()
    try:
        return await lags_seen_by(consumer, settings, stages)
    finally:
        await consumer.stop()


async def lags_seen_by(consumer: AIOKafkaConsumer, settings: Settings, stages: Sequence[Reads]) -> list[Lag]:
    """The lags, with a consumer that is there already; a stage that never committed has all before it.

    Offsets are read before the ends of the partitions. So when every lag is 0, all that was in the inputs before the call has gone
    through every stage, unless somebody publishes meanwhile.
    """
    from aiokafka import TopicPartition

    committed: dict[str, dict[Partition, int]] = {}
    async with admin_client(settings) as admin:
        for stage in stages:
            found = await patiently(partial(admin.list_consumer_group_offsets, group_of(settings, stage.name)))
            committed[stage.name] = {(tp.topic, tp.partition): at.offset for tp, at in found.items()}
    topics = {topic.name: topic for stage in stages for topic in stage.inputs}
    tps = [TopicPartition(topic.name, number) for topic in topics.values() for number in range(topic.partitions)]
    ends = {(tp.topic, tp.partition): end for tp, end in (await consumer.end_offsets(tps)).items()}
    starts = {(tp.topic, tp.partition): start for tp, start in (await consumer.beginning_offsets(tps)).items()}
    return [
        Lag("stage", stage.name, *where, max(committed[stage.name].get(where, 0), starts[where]), ends[where], None)
        for stage in stages
        for where in ends
        if where[0] in {topic.name for topic in stage.inputs}
    ]


async def members(settings: Settings, stages: Sequence[Reads]) -> dict[str, int]:
    """How many members each stage's group has now. A stage that owns its store is in no group: it has none, running or not."""
    found: dict[str, int] = {}
    async with admin_client(settings) as admin:
        for stage in stages:  # one group a request: aiokafka 0.14 reads the answer to version 3 as version 2, which fits one only
            (answer,) = await patiently(partial(admin.describe_consumer_groups, [group_of(settings, stage.name)]))
            found[stage.name] = sum(len(row[5]) for row in answer.groups)
    return found
