"""What the log itself tells: counts since it began, offsets and lags. They survive a restart, so the counters do not begin anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Protocol

from gateway.metrics import catalogue
from gateway.metrics.collector import Sample
from gateway.metrics.health import look
from schemas.topics import TOPICS
from streams.embedded.tallies import OUTCOMES, Lag, StageTally
from streams.log import Partition
from streams.record import Record

MOST_REASONS = 60
"""Reasons of rejection that get a label a stage; later ones are counted together. Ours are some forty."""
OTHER = "other"


class WatchedLog(Protocol):
    """What is asked of a log."""

    def tallies(self) -> dict[str, StageTally]:
        """What each stage has counted."""
        ...

    def lags(self) -> list[Lag]:
        """How far each consumer is behind."""
        ...

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Where each partition ends."""
        ...

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """Records."""
        ...


class LogPart:
    """Counts, offsets and lags. ``stages`` are those that this process runs, ``in_process`` says what they have in hand."""

    name = "log"

    def __init__(
        self,
        log: WatchedLog,
        in_process: Callable[[], Mapping[str, int]],
        last_commits: Callable[[], Mapping[str, float]],
        started_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._log = log
        self._in_process = in_process
        self._last_commits = last_commits
        self._started_s = started_s
        self._clock = clock
        self._reasons: dict[str, set[str]] = {}

    def samples(self) -> Iterator[Sample]:
        """What it is now."""
        now = self._clock()
        in_process = self._in_process()
        lags = self._log.lags()
        yield from self._counts(in_process)
        yield from self._offsets(lags, now)
        for stage, count in in_process.items():
            yield Sample(catalogue.IN_PROCESS, (stage,), count)
        for stage, one in look(lags, in_process, self._last_commits(), self._started_s, now).items():
            yield Sample(catalogue.STALLED, (stage,), one.stalled_s)

    def _counts(self, stages: Collection[str]) -> Iterator[Sample]:
        """Zeros included: a counter that is born at one has no increase that anybody could see."""
        tallies = self._log.tallies()
        for stage in dict.fromkeys((*stages, *tallies)):
            tally = tallies.get(stage, StageTally())
            yield Sample(catalogue.RECEIVED, (stage,), tally.received)
            for outcome in OUTCOMES:
                yield Sample(catalogue.OUTCOMES, (stage, outcome), getattr(tally, outcome))
            for topic, count in tally.emitted.items():
                yield Sample(catalogue.EMITTED, (stage, topic), count)
            for reason, count in self._bounded(stage, tally.reasons).items():
                yield Sample(catalogue.REJECTED, (stage, reason), count)

    def _bounded(self, stage: str, reasons: Mapping[str, int]) -> dict[str, int]:
        """First come, first served: a reason that once has a label keeps it, so that no counter ever falls."""
        known = self._reasons.setdefault(stage, set())
        counts: dict[str, int] = {}
        for reason, count in reasons.items():
            if reason not in known and len(known) < MOST_REASONS:
                known.add(reason)
            label = reason if reason in known else OTHER
            counts[label] = counts.get(label, 0) + count
        return counts

    def _offsets(self, lags: list[Lag], now: float) -> Iterator[Sample]:
        for topic in TOPICS:
            for partition, end in self._log.end_offsets(topic.name).items():
                yield Sample(catalogue.END_OFFSET, (topic.name, str(partition)), end)
        newest: dict[Partition, float | None] = {}
        for lag in lags:
            labels = (lag.consumer, lag.topic, str(lag.partition))
            yield Sample(catalogue.LAG, labels, lag.records)
            yield Sample(catalogue.OFFSET, labels, lag.next_offset)
            if not lag.records:
                yield Sample(catalogue.LAG_SECONDS, labels, 0)
                yield Sample(catalogue.LAG_EVENT_TIME, labels, 0)
                continue
            if lag.oldest_ms is not None:
                yield Sample(catalogue.LAG_SECONDS, labels, max(0.0, now - lag.oldest_ms / 1000))
            where = (lag.topic, lag.partition)
            if where not in newest:
                newest[where] = self._event_time(where, lag.end_offset - 1)
            first, last = self._event_time(where, lag.next_offset), newest[where]
            if first is not None and last is not None:
                yield Sample(catalogue.LAG_EVENT_TIME, labels, max(0.0, last - first))

    def _event_time(self, where: Partition, offset: int) -> float | None:
        """The event time that a record's headers give; None for one that gives none: it is not known, and not zero."""
        records = self._log.read(*where, offset, 1)
        try:
            return datetime.fromisoformat(records[0].header("ce_time") or "").timestamp() if records else None
        except ValueError:
            return None
