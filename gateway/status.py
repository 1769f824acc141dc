"""A survey of a brain at rest or at work: counts and lags, read without disturbing it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.composition import layout
from schemas.settings import Settings
from schemas.topics import RECORDS_REJECTED
from stores.episodes import EpisodeStore
from stores.sqlite import InsightStore
from streams.embedded.log import EmbeddedLog

STAGES = ("embed", "episodes", "signals", "distil", "breakers", "writer")


@dataclass(frozen=True, slots=True)
class StageStatus:
    """One stage: ``received == processed + duplicates + late + rejected``; ``lag`` in records."""

    name: str
    received: int
    processed: int
    duplicates: int
    late: int
    rejected: int
    lag: int


@dataclass(frozen=True, slots=True)
class Status:
    """Everything ``status`` shows. ``driver_pid`` is 0 when no process ever ran the stages."""

    stages: dict[str, StageStatus]
    episodes: int
    insights: int
    signals: int
    dead_letters: int
    log_bytes: int
    driver_pid: int


def survey(log: EmbeddedLog, settings: Settings) -> Status:
    """Look at the log and at both stores, where they exist."""
    where = layout(settings)
    tallies = log.tallies()
    lags: dict[str, int] = {}
    for lag in log.lags():
        if lag.kind == "stage":
            lags[lag.consumer] = lags.get(lag.consumer, 0) + lag.records
    stages = {
        name: StageStatus(name, one.received, one.processed, one.duplicates, one.late, one.rejected, lags.get(name, 0))
        for name in STAGES
        if (one := tallies.get(name))
    }
    episodes = insights = signals = 0
    if where.episodes.is_dir():
        with EpisodeStore.open(where.episodes) as episode_store:
            episodes = episode_store.count()
    if where.insights.is_file():
        with InsightStore.open(where.insights) as insight_store:
            insights, signals = insight_store.counts()
    return Status(
        stages=stages,
        episodes=episodes,
        insights=insights,
        signals=signals,
        dead_letters=sum(log.end_offsets(RECORDS_REJECTED.name).values()),
        log_bytes=settings.log_path.stat().st_size,
        driver_pid=log.driver_pid(),
    )
