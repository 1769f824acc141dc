"""Subscriber: insight updates out of the log, in order per insight, each once; from any process that can read it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from schemas.codec import ContractError, decode
from schemas.insights import InsightUpdate
from schemas.topics import INSIGHTS_UPDATED, Topic
from streams.log import Partition, ReadableLog

_READ_RECORDS = 256
_STOP_CHECK_S = 0.25


class Subscriber:
    """Follows a topic of insight updates.

    Updates of one insight come in the order of their revision; a revision that was seen is dropped. ``skipped`` counts records
    that hold no update (their bytes stay in the log).

    With a ``group`` it goes on where the group last committed; ``commit`` records what has been handed out so far. Without one, or
    for a group that never committed, ``from_start`` says whether the past is read too.
    """

    def __init__(
        self, log: ReadableLog, topic: Topic = INSIGHTS_UPDATED, *, group: str | None = None, from_start: bool = True
    ) -> None:
        self._log = log
        self._topic = topic
        self._group = group
        self._stopped = threading.Event()
        self._ready: deque[tuple[Partition, int, InsightUpdate]] = deque()
        self._revisions: dict[str, int] = {}
        self.skipped = 0
        first = log.start_offsets(topic.name) if from_start else log.end_offsets(topic.name)
        known = log.committed(group) if group is not None else {}
        self._read = {partition: known.get((topic.name, partition), offset) for partition, offset in first.items()}
        self._given: dict[Partition, int] = {}
        self._committed = dict(self._read)

    def updates(self, timeout_s: float | None = None) -> Iterator[InsightUpdate]:
        """Updates as they come; ends after ``stop``, or when ``timeout_s`` pass without one (0: what is there now)."""
        while not self._stopped.is_set():
            if not self._ready and not self._fetch(timeout_s):
                return
            partition, offset, update = self._ready.popleft()
            self._given[partition] = offset + 1
            yield update

    def __iter__(self) -> Iterator[InsightUpdate]:
        return self.updates()

    def commit(self) -> None:
        """Record durably that the group has got everything handed out so far, and what there was to skip behind it.

        Raises:
            ValueError: the subscriber has no group.
        """
        if self._group is None:
            raise ValueError("a subscriber without a group has nowhere to commit")
        waiting = {where for where, _, _ in self._ready}
        read = {(self._topic.name, partition): offset for partition, offset in self._read.items()}
        done = {where: self._given.get(where, 0) if where in waiting else offset for where, offset in read.items()}
        moved = {where: offset for where, offset in done.items() if offset > self._committed[where[1]]}
        if moved:
            self._log.commit(self._group, moved)
            self._committed |= {partition: offset for (_, partition), offset in moved.items()}

    def stop(self) -> None:
        """End the iteration, also from another thread or a signal handler."""
        self._stopped.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _fetch(self, timeout_s: float | None) -> bool:
        """Wait for updates; whether there are any."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._stopped.is_set():
            seen = self._log.changes()
            self._take()
            if self._ready:
                return True
            left = _STOP_CHECK_S if deadline is None else min(_STOP_CHECK_S, deadline - time.monotonic())
            if left <= 0:
                return False
            self._log.wait(seen, left)
        return False

    def _take(self) -> None:
        for partition, offset in self._read.items():
            for record in self._log.read(self._topic.name, partition, offset, _READ_RECORDS):
                self._read[partition] = record.offset + 1
                try:
                    update: InsightUpdate = decode(self._topic.carries, record.value)
                except ContractError:
                    self.skipped += 1
                    continue
                if update.revision > self._revisions.get(update.insight.id, 0):
                    self._revisions[update.insight.id] = update.revision
                    self._ready.append(((self._topic.name, partition), record.offset, update))
