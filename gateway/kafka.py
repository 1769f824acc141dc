"""The brain on Kafka: which parts each worker opens, and running them.

A worker opens only what its stages need: the folds need nothing but the cluster, the embed worker the model, the sinks a store.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol

from gateway.composition import breakers_stage, distil_stage, layout, open_embedder, open_log
from schemas.errors import BrainError
from schemas.settings import Settings
from schemas.topics import EPISODES_RECORDED, PORTFOLIO_VALUED, TOOLS_EXECUTED, Topic
from stores.episodes import WritableEpisodeStore
from stores.sqlite import WritableInsightStore
from streams.embedded.tallies import Lag
from streams.embedded.worker import Progress, StageSlot
from streams.kafka.app import create_app, run_app, run_until_idle
from streams.kafka.lag import lags
from streams.kafka.log import KafkaLog
from streams.log import LogAppender, ReadableLog
from streams.relay import Relay
from streams.stages.embed import ReflectEmbed
from streams.stages.episodes import EpisodeSink
from streams.stages.writer import InsightWriter
from workers.signals import SignalsStage

INPUTS: dict[str, tuple[Topic, ...]] = {
    "embed": (TOOLS_EXECUTED,),
    "episodes": (EPISODES_RECORDED,),
    "signals": (EPISODES_RECORDED,),
    "distil": (EPISODES_RECORDED,),
    "breakers": (PORTFOLIO_VALUED,),
    "writer": InsightWriter.inputs,
}
"""The workers, by the name of their stage, with what each reads."""
WORKERS = tuple(INPUTS)


class AnyLog(LogAppender, ReadableLog, Protocol):
    """What both logs do."""


@contextmanager
def open_any_log(settings: Settings) -> Iterator[AnyLog]:
    """The log that the settings name, whichever broker serves it.

    Raises:
        BrainError: there is no embedded log yet, or the cluster cannot be reached or lacks our topics.
    """
    if settings.on_kafka:
        with KafkaLog(settings) as cluster:
            yield cluster
    else:
        with open_log(settings) as log:
            yield log


class _Reader:
    """A stage's name and inputs, which is all that its lag needs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs = INPUTS[name]


@contextmanager
def open_slots(settings: Settings, workers: Sequence[str] = WORKERS) -> Iterator[list[StageSlot]]:
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
        slots: list[StageSlot] = []
        if {"embed", "episodes", "writer"} & set(workers):
            embedder = stack.enter_context(open_embedder(settings))
            info = (embedder.model_id, embedder.dimension)
        for name in dict.fromkeys(workers):
            if name == "embed":
                slots.append(StageSlot(ReflectEmbed(embedder, round(settings.max_future_s * 1000))))
            elif name == "episodes":
                slots.append(StageSlot(EpisodeSink(stack.enter_context(WritableEpisodeStore.open(where.episodes, info)))))
            elif name == "signals":
                slots.append(StageSlot(factory=lambda partition: SignalsStage(partition, settings)))
            elif name == "distil":
                slots.append(StageSlot(factory=lambda partition: distil_stage(settings)))
            elif name == "breakers":
                slots.append(StageSlot(factory=lambda partition: breakers_stage(settings)))
            else:
                insights = stack.enter_context(WritableInsightStore.open(where.insights, info))
                writer = InsightWriter(insights, embedder)
                slots.append(StageSlot(writer, relay=Relay(writer.outbox)))
        yield slots


def run_workers(
    settings: Settings,
    workers: Sequence[str] = WORKERS,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    *,
    until_idle: bool = False,
) -> None:
    """Run workers until SIGINT or SIGTERM, or until the whole pipeline (other processes' workers too) has read all there is.

    Raises:
        LogError, LogMismatch: the cluster cannot be reached, or has other topics than ours.
        StageFailed: a stage could not go on.
    """

    async def work(slots: Sequence[StageSlot]) -> None:
        app = create_app(settings, slots, on_progress=on_progress)
        if until_idle:
            await run_until_idle(app, settings, [_Reader(name) for name in WORKERS])
            return
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await run_app(app, settings, stop)

    with open_slots(settings, workers) as slots:
        asyncio.run(work(slots))


def pipeline_lags(settings: Settings) -> list[Lag]:
    """How far each worker's group is behind."""
    return asyncio.run(lags(settings, [_Reader(name) for name in WORKERS]))
