"""The decoded log: what the stages of one process read.

Several stages read the episodes, and decoding one costs more than most of them do with it. So a topic with more than one reader is
decoded once: the first stage to come by leaves each decoded record on the partition's shelf, the last one to come by takes it
away, and what nobody fetches falls off the far end. Decoded records are frozen values, so threads may share them.

What is shared is always what the bytes say, never the object that a stage emitted: a restart, which has only the bytes, must see
the same.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.topics import Topic
from streams.batch import Fed, decoded
from streams.embedded.log import EmbeddedLog
from streams.log import Partition

SHELF_RECORDS = 512
SHELF_BYTES = 8 * 1024 * 1024
"""Of values; a shelf of records as large as they may be would otherwise fill the memory while one stage is behind."""


@dataclass(slots=True)
class _Shelf:
    """Decoded records of a partition by offset, each with how many readers have yet to come by; ``size`` is their values' bytes."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    held: dict[int, tuple[Fed, int]] = field(default_factory=dict)
    size: int = 0

    def put(self, fed: Fed, readers: int) -> None:
        """Leave a record for so many readers."""
        self.drop(fed.record.offset)
        self.held[fed.record.offset] = (fed, readers)
        self.size += len(fed.record.value or b"")

    def drop(self, offset: int) -> None:
        """Take a record away; none is fine."""
        entry = self.held.pop(offset, None)
        if entry is not None:
            self.size -= len(entry[0].record.value or b"")


class Feed:
    """Reads and decodes for every stage of a driver. ``readers`` says how many of them read each topic."""

    def __init__(self, log: EmbeddedLog, readers: Mapping[str, int], *, shelf_records: int = SHELF_RECORDS) -> None:
        self._log = log
        self._readers = readers
        self._shelf_records = shelf_records
        self._shelves: dict[Partition, _Shelf] = {
            (topic, partition): _Shelf()
            for topic, count in readers.items()
            if count > 1
            for partition in range(log.partitions(topic))
        }

    def take(self, topic: Topic, partition: int, offset: int, limit: int) -> list[Fed]:
        """Up to ``limit`` decoded records from ``offset`` on, in order."""
        shelf = self._shelves.get((topic.name, partition))
        if shelf is None:
            return self._read(topic, partition, offset, limit)
        with shelf.lock:  # a second reader waits for the first one's decoding instead of repeating it
            taken = self._off_the_shelf(shelf, offset, limit)
            if len(taken) < limit:
                fresh = self._read(topic, partition, offset + len(taken), limit - len(taken))
                self._onto_the_shelf(shelf, fresh, self._readers[topic.name] - 1)
                taken += fresh
        return taken

    def _read(self, topic: Topic, partition: int, offset: int, limit: int) -> list[Fed]:
        return [decoded(topic, record) for record in self._log.read(topic.name, partition, offset, limit)]

    def _off_the_shelf(self, shelf: _Shelf, offset: int, limit: int) -> list[Fed]:
        taken: list[Fed] = []
        while len(taken) < limit and (entry := shelf.held.get(offset + len(taken))):
            fed, readers = entry
            if readers > 1:
                shelf.held[fed.record.offset] = (fed, readers - 1)
            else:
                shelf.drop(fed.record.offset)
            taken.append(fed)
        return taken

    def _onto_the_shelf(self, shelf: _Shelf, fresh: list[Fed], readers: int) -> None:
        for fed in fresh:
            shelf.put(fed, readers)
        while len(shelf.held) > self._shelf_records or shelf.size > SHELF_BYTES:
            shelf.drop(next(iter(shelf.held)))
