"""A survey of a brain at rest or at work: counts and lags, read without disturbing it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.composition import layout
from gateway.kafka import AnyLog, members, readers
from schemas.settings import Settings
from schemas.topics import RECORDS_REJECTED
from stores.episodes import EpisodeStore
from stores.sqlite import InsightStore
from streams.embedded.log import EmbeddedLog
from streams.embedded.tallies import StageTally
from streams.kafka.log import KafkaLog

STAGES = ("embed", "episodes", "signals", "distil", "levels", "breakers", "writer")


@dataclass(frozen=True, slots=True)
class StageStatus:
    """One stage: ``received == processed + duplicates + late + rejected``; ``lag`` in records.

    A cluster keeps no counts: there, ``received`` is how many records the group has behind it, what became of them is None (see
    metrics and dead letters), and ``members`` is how many workers are in the group: None for a stage that owns its store.
    """

    name: str
    received: int
    processed: int | None
    duplicates: int | None
    late: int | None
    rejected: int | None
    lag: int
    members: int | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """Everything ``status`` shows. ``driver_pid`` is 0 when no process ever ran the stages; on a cluster it is None, like the size
    of the log."""

    stages: dict[str, StageStatus]
    episodes: int
    insights: int
    signals: int
    dead_letters: int
    log_bytes: int | None
    driver_pid: int | None


def survey(log: AnyLog, settings: Settings) -> Status:
    """Look at the log and at both stores, where they exist."""
    embedded = isinstance(log, EmbeddedLog)
    stages = _on_the_log(log) if isinstance(log, EmbeddedLog) else _on_the_cluster(log, settings)
    episodes, insights, signals = _kept(settings)
    starts = log.start_offsets(RECORDS_REJECTED.name)
    return Status(
        stages=stages,
        episodes=episodes,
        insights=insights,
        signals=signals,
        dead_letters=sum(end - starts[partition] for partition, end in log.end_offsets(RECORDS_REJECTED.name).items()),
        log_bytes=settings.log_path.stat().st_size if embedded else None,
        driver_pid=log.driver_pid() if isinstance(log, EmbeddedLog) else None,
    )


def _on_the_log(log: EmbeddedLog) -> dict[str, StageStatus]:
    """Every stage that was ever run, also one that nothing has come for yet."""
    tallies = log.tallies()
    lags: dict[str, int] = {}
    for lag in log.lags():
        if lag.kind == "stage":
            lags[lag.consumer] = lags.get(lag.consumer, 0) + lag.records
    return {
        name: StageStatus(name, one.received, one.processed, one.duplicates, one.late, one.rejected, lags.get(name, 0))
        for name in STAGES
        if (one := tallies.get(name, StageTally() if name in lags else None))
    }


def _on_the_cluster(log: AnyLog, settings: Settings) -> dict[str, StageStatus]:
    assert isinstance(log, KafkaLog)
    behind = log.lags(readers())
    joined = members(settings)
    starts = {lag.topic: log.start_offsets(lag.topic) for lag in behind}
    found = {}
    for name in STAGES:
        mine = [lag for lag in behind if lag.consumer == name]
        read = sum(lag.next_offset - starts[lag.topic][lag.partition] for lag in mine)
        waiting = sum(lag.records for lag in mine)
        found[name] = StageStatus(name, read, None, None, None, None, waiting, joined.get(name))
    return found


def _kept(settings: Settings) -> tuple[int, int, int]:
    """Episodes, insights and signals in the stores of this data folder."""
    where = layout(settings)
    episodes = insights = signals = 0
    if where.episodes.is_dir():
        with EpisodeStore.open(where.episodes) as episode_store:
            episodes = episode_store.count()
    if where.insights.is_file():
        with InsightStore.open(where.insights) as insight_store:
            insights, signals = insight_store.counts()
    return episodes, insights, signals
