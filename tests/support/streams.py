"""Helpers for tests of the log, the driver and what stands on them."""

from __future__ import annotations

from streams.log import LogReader
from streams.record import Record


def read_all(log: LogReader, topic: str) -> list[Record]:
    """Every record of a topic, partition by partition, in order."""
    records: list[Record] = []
    for partition, end in sorted(log.end_offsets(topic).items()):
        offset = log.start_offsets(topic)[partition]
        while offset < end:
            got = log.read(topic, partition, offset, 1000)
            if not got:
                break
            records += got
            offset = got[-1].offset + 1
    return records
