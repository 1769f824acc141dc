"""Workers on Kafka, watched: a thread asks the cluster every few seconds, and scrapes and health look at what it last said.

So neither ever waits for a broker. When the cluster has not answered for a while, nothing is said of lags rather than something
old: the process is then not ready, but alive, for a restart would bring no broker back.

A process tells of the partitions that it has been given, and of no others: over all processes each partition is told once, and a
worker that is one too many is idle, not behind. Counts of records are the process's own, since it began.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gateway.metrics import catalogue
from gateway.metrics.collector import Sample
from schemas.errors import BrainError
from schemas.settings import Settings
from streams.embedded.tallies import Lag, StageTally
from streams.embedded.worker import Progress
from streams.kafka.lag import Reads
from streams.kafka.log import KafkaLog
from streams.kafka.standing import Standing
from streams.log import LogError, Partition
from streams.record import Record

LOGGER = logging.getLogger(__name__)

EVERY_S = 2.0
STALE_S = 20.0
"""An answer of the cluster that is older than this is no answer."""
_CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the cluster said: lags of partitions that were ours, ends, the records at both ends of what is not read yet."""

    at_s: float
    lags: Sequence[Lag] = ()
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    records: Mapping[tuple[str, int, int], Record] = field(default_factory=dict)


class ClusterWatch:
    """The watched log of ``log_part`` and a part of its own. ``standings`` is what the application fills.

    ``take`` is given each progress; ``start`` begins to ask the cluster, ``close`` ends it.
    """

    name = "cluster"

    def __init__(
        self,
        settings: Settings,
        stages: Sequence[Reads],
        standings: Mapping[str, Standing],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._stages = tuple(stages)
        self._standings = standings
        self._clock = clock
        self._tallies = {stage.name: StageTally() for stage in stages}
        self._lock = threading.Lock()
        self._seen = Seen(float("-inf"))
        self._asked_s = clock()
        self._moved: dict[str, tuple[Mapping[Partition, int], float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cluster-watch", daemon=True)

    # --- asking

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def close(self) -> None:
        """Ask no more. A question that is on its way is waited for a little."""
        self._stop.set()
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with KafkaLog(self._settings) as log:
                    while not self._stop.is_set():
                        self.look(log)
                        self._stop.wait(EVERY_S)
            except BrainError as error:
                LOGGER.warning("the cluster cannot be asked for lags: %s", error)
                self._stop.wait(EVERY_S)

    def look(self, log: KafkaLog) -> None:
        """Ask once."""
        mine = [lag for lag in log.lags(self._stages) if (lag.topic, lag.partition) in self._held(lag.consumer)]
        records: dict[tuple[str, int, int], Record] = {}
        for lag in mine:
            if lag.records:
                for offset in (lag.next_offset, lag.end_offset - 1):
                    place = (lag.topic, lag.partition, offset)
                    if place not in records and (found := log.read(*place, 1)):
                        records[place] = found[0]
        dated = [replace(lag, oldest_ms=_arrival(records, lag)) for lag in mine]
        ends: dict[str, dict[int, int]] = {}
        for lag in mine:
            ends.setdefault(lag.topic, {})[lag.partition] = lag.end_offset
        now = self._clock()
        for stage in self._stages:
            offsets = {(lag.topic, lag.partition): lag.next_offset for lag in mine if lag.consumer == stage.name}
            if stage.name not in self._moved or self._moved[stage.name][0] != offsets:
                self._moved[stage.name] = (offsets, now)
        self._seen = Seen(now, dated, ends, records)

    def _held(self, stage: str) -> frozenset[Partition]:
        standing = self._standings.get(stage)
        return (standing.partitions if standing else None) or frozenset()

    # --- what the log part asks

    def take(self, progress: Progress) -> None:
        """Count a step's records."""
        with self._lock:
            self._tallies[progress.stage].add(progress.tally)

    def tallies(self) -> dict[str, StageTally]:
        """What each stage of this process has counted since it began."""
        with self._lock:
            copies = {name: StageTally() for name in self._tallies}
            for name, tally in self._tallies.items():
                copies[name].add(tally)
        return copies

    def _fresh(self) -> Seen:
        seen = self._seen
        return seen if self._clock() - seen.at_s <= STALE_S else Seen(seen.at_s)

    def lags(self) -> list[Lag]:
        """The lags on this process's partitions; none when the cluster does not answer."""
        return list(self._fresh().lags)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Where this process's partitions of a topic end."""
        return dict(self._fresh().ends.get(topic, {}))

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """The record at a place, where it was looked at."""
        found = self._fresh().records.get((topic, partition, offset))
        return [found] if found is not None else []

    # --- health and samples

    def in_process(self) -> dict[str, int]:
        """Records in hand by stage."""
        return {stage.name: standing.in_hand if (standing := self._standings.get(stage.name)) else 0 for stage in self._stages}

    def unready(self) -> list[str]:
        """Why this process cannot be ready: the cluster is silent, or a stage has not been given partitions."""
        now = self._clock()
        problems = []
        if self._seen.at_s < self._asked_s:
            problems.append("the cluster has not been asked yet")
        elif now - self._seen.at_s > STALE_S:
            problems.append(f"the cluster has not answered for {now - self._seen.at_s:.0f} s")
        for stage in self._stages:
            standing = self._standings.get(stage.name)
            if standing is None or (standing.partitions is None and not standing.rebalances):
                problems.append(f"{stage.name} has not been given its partitions yet")
            elif standing.partitions is None and now - standing.since_s > self._settings.health_behind_s:
                problems.append(f"{stage.name} has been in a rebalance for {now - standing.since_s:.0f} s")
        return problems

    def samples(self) -> Iterator[Sample]:
        """Rebalances, partitions and the age of commits.

        Raises:
            LogError: the cluster does not answer.
        """
        now = self._clock()
        if now - max(self._seen.at_s, self._asked_s) > STALE_S:
            raise LogError(f"the cluster has not answered for {now - max(self._seen.at_s, self._asked_s):.0f} s")
        for stage in self._stages:
            standing = self._standings.get(stage.name)
            yield Sample(catalogue.REBALANCES, (stage.name,), standing.rebalances if standing else 0)
            yield Sample(catalogue.ASSIGNED, (stage.name,), len(self._held(stage.name)))
            if stage.name in self._moved:
                yield Sample(catalogue.COMMIT_AGE, (stage.name,), max(0.0, now - self._moved[stage.name][1]))


def _arrival(records: Mapping[tuple[str, int, int], Record], lag: Lag) -> int | None:
    """When the first record that a lag counts arrived."""
    first = records.get((lag.topic, lag.partition, lag.next_offset))
    return None if first is None else first.timestamp_ms
