"""Moving a grown-up log to a cluster: record for record into the same partitions, so that every offset stays what it was.

Stages go on from where they were: their groups are set to the offsets that they had. Stateful ones have no checkpoint on the
cluster yet and are fed from the start once, in silence. Times of arrival are the cluster's own from then on. Stores belong to the
log that filled them: on the cluster, workers fill new ones in a new data folder, which come to the same fingerprint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schemas.settings import Settings
from schemas.topics import CHECKPOINTS, TOPICS
from streams.kafka.client import group_of
from streams.kafka.log import KafkaLog
from streams.log import LogMismatch, LogReader, NewRecord, Partition

READ_RECORDS = 500


def mirror(source: LogReader, target: KafkaLog, on_progress: Callable[[int], None] = lambda records: None) -> int:
    """Copy every record that the target lacks; how many. May be repeated, also after it was interrupted: it goes on.

    Nobody may write to either log meanwhile.

    Raises:
        LogMismatch: a partition of the target holds something else than the source does at that place, or the source no longer
            has its first records, so that offsets could not stay what they are.
    """
    copied = 0
    for topic in TOPICS:
        if topic == CHECKPOINTS:
            continue
        starts, ends = source.start_offsets(topic.name), source.end_offsets(topic.name)
        reached = target.end_offsets(topic.name)
        for partition, end in ends.items():
            _check_prefix(source, target, topic.name, partition, reached[partition], starts[partition])
            offset = reached[partition]
            while offset < end:
                records = source.read(topic.name, partition, offset, READ_RECORDS)
                if not records or [record.offset for record in records] != list(range(offset, offset + len(records))):
                    raise LogMismatch(f"{topic.name}/{partition} has gaps after {offset}: offsets could not stay what they are")
                target.append([NewRecord(topic.name, record.key, record.value, record.headers, partition) for record in records])
                offset += len(records)
                copied += len(records)
                on_progress(copied)
    return copied


def hand_over(settings: Settings, target: KafkaLog, offsets: Mapping[str, Mapping[Partition, int]]) -> None:
    """Set each stage's group on the cluster to the offsets that the stage had on the source; ``offsets`` is by stage.

    Raises:
        LogError: a worker of that stage runs.
    """
    for stage, by_partition in offsets.items():
        if by_partition:
            target.commit(group_of(settings, stage), by_partition)


def _check_prefix(source: LogReader, target: KafkaLog, topic: str, partition: int, reached: int, start: int) -> None:
    """The target holds nothing, or what the source holds at the same places: its last record is compared."""
    if start > 0:
        raise LogMismatch(f"{topic}/{partition} starts at {start}: records were removed, so offsets could not stay what they are")
    if reached == 0:
        return
    mine = source.read(topic, partition, reached - 1, 1)
    theirs = target.read(topic, partition, reached - 1, 1)
    same = mine and theirs and (mine[0].key, mine[0].value, mine[0].headers) == (theirs[0].key, theirs[0].value, theirs[0].headers)
    if not same:
        raise LogMismatch(
            f"the cluster's {topic}/{partition} holds other records than the source",
            hint="mirror into new topics, or into those of a mirror that was interrupted",
        )
