"""The brain on Kafka: which parts each worker opens, and running them.

A worker opens only what its stages need: the folds need nothing but the cluster, the embed worker the model, the sinks a store.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from gateway.composition import breakers_stage, distil_stage, layout, levels_stage, open_embedder, open_log
from gateway.tracing import traced
from schemas.errors import BrainError
from schemas.settings import Settings
from schemas.topics import EPISODES_RECORDED, PORTFOLIO_VALUED, TOOLS_EXECUTED, WINDOWS_CLOSED, Topic
from stores.episodes import WritableEpisodeStore
from stores.episodes.layout import WriterLock as EpisodeLock
from stores.sqlite import WritableInsightStore
from stores.sqlite.fence import WriterLock as InsightLock
from streams.embedded.tallies import Lag
from streams.embedded.worker import Progress, StageSlot
from streams.kafka.app import create_app, run_app, run_until_idle
from streams.kafka.client import servers_of
from streams.kafka.lag import Reads, lags
from streams.kafka.lag import members as group_members
from streams.kafka.log import KafkaLog
from streams.kafka.standing import Standing
from streams.log import LogAppender, ReadableLog
from streams.relay import Relay
from streams.stages.embed import ReflectEmbed
from streams.stages.episodes import EpisodeSink
from streams.stages.writer import InsightWriter
from workers.ports import Embedder
from workers.signals import SignalsStage

INPUTS: dict[str, tuple[Topic, ...]] = {
    "embed": (TOOLS_EXECUTED,),
    "episodes": (EPISODES_RECORDED,),
    "signals": (EPISODES_RECORDED,),
    "distil": (EPISODES_RECORDED,),
    "levels": (WINDOWS_CLOSED,),
    "breakers": (PORTFOLIO_VALUED,),
    "writer": InsightWriter.inputs,
}
"""The workers, by the name of their stage, with what each reads."""
WORKERS = tuple(INPUTS)
SHARED = ("embed", "signals", "distil", "levels", "breakers")
"""Those that share their partitions with others of their kind; the other two own a store."""


class AnyLog(LogAppender, ReadableLog, Protocol):
    """What both logs do."""


@contextmanager
def open_any_log(settings: Settings, *, create: bool = False) -> Iterator[AnyLog]:
    """The log that the settings name, whichever broker serves it.

    Raises:
        BrainError: there is no embedded log yet and ``create`` is not set, or the cluster cannot be reached or lacks our topics.
    """
    if settings.on_kafka:
        with KafkaLog(settings) as cluster:
            yield cluster
    else:
        with open_log(settings, create=create) as log:
            yield log


class _Reader:
    """A stage's name and inputs, which is all that its lag needs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs = INPUTS[name]


def readers(workers: Sequence[str] = WORKERS) -> list[Reads]:
    """What lags are asked by: the workers' names with what they read."""
    return [_Reader(name) for name in workers]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a process of workers has open: its slots, and what they share with those who watch them."""

    slots: list[StageSlot]
    embedder: Embedder | None = None
    episodes: WritableEpisodeStore | None = None
    insights: WritableInsightStore | None = None


@contextmanager
def open_parts(settings: Settings, workers: Sequence[str] = WORKERS) -> Iterator[Parts]:
    """The slots of some workers, with the stores and the model that they need.

    Raises:
        BrainError: an unknown worker, a store that another process writes, or one that another model made.
    """
    unknown = [name for name in workers if name not in INPUTS]
    if unknown or not workers:
        raise BrainError(f"there is no worker {', '.join(unknown) or 'named'}", hint=f"the workers are {', '.join(WORKERS)}")
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    where = layout(settings)
    with ExitStack() as stack:
        embedder: Embedder | None = None
        info: tuple[str, int] | None = None
        if {"embed", "episodes", "writer"} & set(workers):
            embedder = stack.enter_context(open_embedder(settings))
            info = (embedder.model_id, embedder.dimension)
        episodes = stack.enter_context(WritableEpisodeStore.open(where.episodes, info)) if "episodes" in workers else None
        insights = stack.enter_context(WritableInsightStore.open(where.insights, info)) if "writer" in workers else None

        def slot(name: str) -> StageSlot:
            if name == "signals":
                return StageSlot(factory=lambda partition: SignalsStage(partition, settings))
            if name == "distil":
                return StageSlot(factory=lambda partition: distil_stage(settings))
            if name == "levels":
                return StageSlot(factory=lambda partition: levels_stage(settings))
            if name == "breakers":
                return StageSlot(factory=lambda partition: breakers_stage(settings))
            if name == "episodes" and episodes is not None:
                return StageSlot(EpisodeSink(episodes))
            assert embedder is not None
            if name == "writer" and insights is not None:
                writer = InsightWriter(insights, embedder)
                return StageSlot(writer, relay=Relay(writer.outbox))
            return StageSlot(ReflectEmbed(embedder, round(settings.max_future_s * 1000), settings.followed))

        yield Parts([slot(name) for name in dict.fromkeys(workers)], embedder, episodes, insights)


@contextmanager
def open_slots(settings: Settings, workers: Sequence[str] = WORKERS) -> Iterator[list[StageSlot]]:
    """The slots alone; see :func:`open_parts`."""
    with open_parts(settings, workers) as parts:
        yield parts.slots


def run_workers(
    settings: Settings,
    workers: Sequence[str] = WORKERS,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    *,
    until_idle: bool = False,
) -> None:
    """Run workers until SIGINT or SIGTERM, or until the whole pipeline (other processes' workers too) has read all there is.

    With ``metrics_port`` they are watched on it meanwhile.

    Raises:
        LogError, LogMismatch: the broker is not Kafka, the cluster cannot be reached, or it has other topics than ours.
        StageFailed: a stage could not go on.
        BrainError: see :func:`open_parts`; or the metrics port cannot be had.
    """
    servers_of(settings)

    async def work(parts: Parts, watched: Watched) -> None:
        app = create_app(settings, parts.slots, on_progress=watched.on_progress, standings=watched.standings)
        if until_idle:
            await run_until_idle(app, settings, readers())
            return
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await run_app(app, settings, stop)

    with (
        traced(settings, on_progress) as take,
        open_parts(settings, workers) as parts,
        _watched(settings, workers, parts, take or on_progress) as watched,
    ):
        asyncio.run(work(parts, watched))


@dataclass(frozen=True, slots=True)
class Watched:
    """What an application is given so that it can be watched."""

    on_progress: Callable[[Progress], None]
    standings: dict[str, Standing]


@contextmanager
def _watched(
    settings: Settings, workers: Sequence[str], parts: Parts, on_progress: Callable[[Progress], None]
) -> Iterator[Watched]:
    """The metrics port that the settings ask for, open within the block."""
    standings: dict[str, Standing] = {}
    if not settings.metrics_port:
        yield Watched(on_progress, standings)
        return
    from gateway.metrics.workers import serve_workers

    stages = [one for one in readers() if one.name in workers]
    with serve_workers(settings, stages, standings, parts.embedder, parts.episodes, on_progress) as take:
        yield Watched(take, standings)


def require_kafka(settings: Settings, hint: str) -> None:
    """Is the broker a Kafka cluster? ``hint`` says what to do instead.

    Raises:
        BrainError: it is the embedded log.
    """
    if not settings.on_kafka:
        raise BrainError(f"this works on Kafka, and the broker is {settings.broker or 'the embedded log'}", hint=hint)


def pipeline_lags(settings: Settings) -> list[Lag]:
    """How far each worker's group is behind."""
    return asyncio.run(lags(settings, readers()))


def ensure_unwritten(settings: Settings) -> None:
    """Are the stores of this data folder free to be written? Asked of their locks alone: nothing is opened, nobody fenced out.

    Raises:
        BrainError: another process writes one.
    """
    where = layout(settings)
    if where.insights.is_file():
        InsightLock(where.insights).release()
    if where.episodes.is_dir():
        lock = EpisodeLock.acquire(where.episodes)
        lock.release(in_order=not lock.killed_before)


def members(settings: Settings) -> dict[str, int]:
    """How many workers are in each stage's group now. Stages that own a store are in no group and are left out."""
    return asyncio.run(group_members(settings, readers(SHARED)))


def running_elsewhere(settings: Settings) -> list[str]:
    """The workers that run now in some process, of those that are in a group."""
    return [name for name, count in members(settings).items() if count]
