"""The meter: takes the driver's progress and remembers what no store can tell, above all how long things took.

``take`` runs on the driver's threads between two batches, so it does little: a few additions, and two histograms a batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gateway.metrics import catalogue
from gateway.metrics.collector import Sample
from gateway.metrics.distribution import AGE_S, EVENT_AGE_S, WORK_S, Distribution
from schemas.events import ToolExecution
from streams.embedded.worker import Progress
from workers.stage import Delivery


@dataclass(slots=True)
class _Seen:
    """What is remembered of one stage."""

    handle: Distribution = field(default_factory=lambda: Distribution(WORK_S))
    commit: Distribution = field(default_factory=lambda: Distribution(WORK_S))
    record_age: Distribution = field(default_factory=lambda: Distribution(AGE_S))
    event_age: Distribution = field(default_factory=lambda: Distribution(EVENT_AGE_S))
    last_commit_s: float | None = None
    event_time_s: float | None = None
    replayed: int = 0
    relayed: int = 0


class Meter:
    """Fed by the driver, read by a scrape; safe to share between threads.

    ``then`` is called with each progress after it was noted. ``clock`` is the wall's, in Unix seconds: an age is a matter of now.
    """

    name = "meter"

    def __init__(self, then: Callable[[Progress], None] | None = None, clock: Callable[[], float] = time.time) -> None:
        self._then = then
        self._clock = clock
        self._lock = threading.Lock()
        self._stages: dict[str, _Seen] = {}
        self.started_s = clock()

    def take(self, progress: Progress) -> None:
        """Note a step: the driver's ``on_progress``."""
        now = self._clock()
        with self._lock:
            seen = self._stages.setdefault(progress.stage, _Seen())
            seen.last_commit_s = now
            seen.replayed += progress.replayed
            seen.relayed += progress.relayed
            if progress.tally.received:
                seen.handle.add([progress.handle_s])
                seen.commit.add([progress.commit_s])
            if progress.deliveries:
                self._ages(seen, progress.deliveries, now)
        if self._then is not None:
            self._then(progress)

    def _ages(self, seen: _Seen, deliveries: Sequence[Delivery], now: float) -> None:
        times = [_event_time(delivery.message).timestamp() for delivery in deliveries]
        seen.record_age.add([now - delivery.timestamp_ms / 1000 for delivery in deliveries])
        seen.event_age.add([now - moment for moment in times])
        seen.event_time_s = max(times) if seen.event_time_s is None else max(seen.event_time_s, *times)

    def last_commits(self) -> dict[str, float]:
        """When each stage last did something, in Unix seconds; absent for one that did nothing yet."""
        with self._lock:
            return {name: seen.last_commit_s for name, seen in self._stages.items() if seen.last_commit_s is not None}

    def samples(self) -> Iterator[Sample]:
        """What was noted."""
        with self._lock:
            found = [sample for name, seen in self._stages.items() for sample in _samples(name, seen)]
        yield from found


def _event_time(message: ToolExecution | object) -> datetime:
    """Every contract that a stage reads has an event time; an execution's is when it was executed."""
    moment: datetime = message.ts_executed if isinstance(message, ToolExecution) else message.ts  # type: ignore[attr-defined]
    return moment


def _samples(stage: str, seen: _Seen) -> Iterator[Sample]:
    labels = (stage,)
    yield Sample(catalogue.HANDLE, labels, seen.handle.shape())
    yield Sample(catalogue.COMMIT, labels, seen.commit.shape())
    yield Sample(catalogue.RECORD_AGE, labels, seen.record_age.shape())
    yield Sample(catalogue.EVENT_AGE, labels, seen.event_age.shape())
    yield Sample(catalogue.REPLAYED, labels, seen.replayed)
    yield Sample(catalogue.RELAYED, labels, seen.relayed)
    if seen.last_commit_s is not None:
        yield Sample(catalogue.LAST_COMMIT, labels, seen.last_commit_s)
    if seen.event_time_s is not None:
        yield Sample(catalogue.EVENT_TIME, labels, seen.event_time_s)
