"""The composition root: settings in, the parts of a running brain out. The only place that knows all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import BrainError
from schemas.settings import Settings
from stores.embedding import CachedEmbedder, open_model
from stores.episodes import EpisodeStore, WritableEpisodeStore
from stores.sqlite import InsightStore, WritableInsightStore
from streams.embedded.driver import EmbeddedDriver
from streams.embedded.log import EmbeddedLog
from streams.embedded.worker import Progress, StageSlot
from streams.relay import Relay
from streams.stages.embed import ReflectEmbed
from streams.stages.episodes import EpisodeSink
from streams.stages.writer import InsightWriter
from workers.breakers.portfolio import Limits
from workers.breakers.stage import BreakersStage
from workers.distil.learning import Learning
from workers.distil.stage import DistilStage
from workers.levels.stage import LevelsStage
from workers.ports import Embedder
from workers.signals import SignalsStage

NO_BRAIN = "run defi-brain demo or ingest first, or name another folder with --data-dir or DEFI_BRAIN_DATA_DIR"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are inside the data folder."""

    root: Path

    @property
    def insights(self) -> Path:
        """The SQLite store."""
        return self.root / "defi-brain.db"

    @property
    def episodes(self) -> Path:
        """LanceDB's folder."""
        return self.root / "episodes"

    @property
    def vectors(self) -> Path:
        """The embedding cache."""
        return self.root / "vectors.db"

    @property
    def keys(self) -> Path:
        """The API keys."""
        return self.root / "keys.db"


def layout(settings: Settings) -> Layout:
    """The layout of the settings' data folder."""
    return Layout(settings.data_dir)


def ensure_begun(settings: Settings) -> None:
    """Is there a brain already?

    Raises:
        BrainError: there is no embedded log in the settings' place. A cluster is asked when it is opened.
    """
    if not settings.on_kafka and not settings.log_path.is_file():
        raise BrainError(f"there is no log at {settings.log_path}", hint=NO_BRAIN)


@contextmanager
def open_log(settings: Settings, *, create: bool = False) -> Iterator[EmbeddedLog]:
    """The embedded log of the settings.

    Raises:
        BrainError: there is none yet and ``create`` is not set.
    """
    if settings.on_kafka:
        raise BrainError(f"{settings.broker} is a Kafka cluster; this command reads the embedded log")
    if not create:
        ensure_begun(settings)
    settings.log_path.parent.mkdir(parents=True, exist_ok=True)
    with EmbeddedLog(settings.log_path) as log:
        yield log


@contextmanager
def open_embedder(settings: Settings) -> Iterator[Embedder]:
    """The embedding model behind its cache; loaded when first asked for a text that the cache lacks."""
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    model = open_model(
        settings.model_dir,
        dimension=settings.model_dimension,
        threads=settings.model_threads or os.cpu_count() or 1,
        batch=settings.model_batch,
    )
    if not settings.embedding_cache:
        yield model
        return
    cached = CachedEmbedder(model, layout(settings).vectors)
    try:
        yield cached
    finally:
        cached.close()


@contextmanager
def open_insights(settings: Settings) -> Iterator[InsightStore]:
    """The insights, for reading.

    Raises:
        BrainError: there are none yet.
    """
    path = layout(settings).insights
    if not path.is_file():
        raise BrainError(f"there are no insights at {path}", hint=NO_BRAIN)
    with InsightStore.open(path) as store:
        yield store


@contextmanager
def open_episodes(settings: Settings) -> Iterator[EpisodeStore]:
    """The episodes, for reading.

    Raises:
        BrainError: there are none yet.
    """
    path = layout(settings).episodes
    if not path.is_dir():
        raise BrainError(f"there are no episodes at {path}", hint=NO_BRAIN)
    with EpisodeStore.open(path) as store:
        yield store


@dataclass(frozen=True, slots=True)
class Sinks:
    """The two stores open for writing, and their stages."""

    episodes: WritableEpisodeStore
    insights: WritableInsightStore
    episode_sink: EpisodeSink
    writer: InsightWriter


@contextmanager
def open_sinks(where: Layout, embedder: Embedder) -> Iterator[Sinks]:
    """Both stores, created where missing, with this process as their one writer.

    Raises:
        BrainError: another process writes them, or another model made them.
    """
    with ExitStack() as stack:
        info = (embedder.model_id, embedder.dimension)
        insights = stack.enter_context(WritableInsightStore.open(where.insights, info))
        episodes = stack.enter_context(WritableEpisodeStore.open(where.episodes, info))
        yield Sinks(episodes, insights, EpisodeSink(episodes), InsightWriter(insights, embedder))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A brain at work on the embedded log."""

    log: EmbeddedLog
    driver: EmbeddedDriver
    sinks: Sinks
    embedder: Embedder


@contextmanager
def open_pipeline(settings: Settings, on_progress: Callable[[Progress], None] | None = None) -> Iterator[Pipeline]:
    """Every stage, wired to the embedded log, ready to run.

    Raises:
        BrainError: another process runs this log's stages or writes its stores, or another model made them.
    """
    with ExitStack() as stack:
        log = stack.enter_context(open_log(settings, create=True))
        log.lead().close()  # who runs this log's stages also writes its stores: say the former, of which callers know what to do
        embedder = stack.enter_context(open_embedder(settings))
        sinks = stack.enter_context(open_sinks(layout(settings), embedder))
        driver = EmbeddedDriver(
            log,
            stage_slots(settings, embedder, sinks),
            batch_records=settings.batch_records,
            checkpoint_records=settings.checkpoint_records,
            on_progress=on_progress,
        )
        stack.enter_context(driver)
        yield Pipeline(log, driver, sinks, embedder)


def stage_slots(settings: Settings, embedder: Embedder, sinks: Sinks) -> list[StageSlot]:
    """The stages as the embedded driver runs them."""
    return [
        StageSlot(ReflectEmbed(embedder, round(settings.max_future_s * 1000), settings.followed), threaded=True),
        StageSlot(sinks.episode_sink, threaded=True),
        StageSlot(factory=lambda partition: SignalsStage(partition, settings)),
        StageSlot(factory=lambda partition: distil_stage(settings)),
        StageSlot(factory=lambda partition: levels_stage(settings)),
        StageSlot(factory=lambda partition: breakers_stage(settings)),
        StageSlot(sinks.writer, threaded=True, relay=Relay(sinks.writer.outbox)),
    ]


def breakers_stage(settings: Settings) -> BreakersStage:
    """The breakers as the settings want them, for one partition.

    Raises:
        BrainError: thresholds that do not rise.
    """
    try:
        limits = Limits(
            settings.breaker_warn_bps, settings.breaker_halt_bps, settings.breaker_stop_bps, settings.breaker_hysteresis_bps
        )
    except ValueError as error:
        raise BrainError(f"settings breaker_*: {error}", hint="see defi-brain config show --sources") from None
    return BreakersStage(limits, round(settings.max_future_s * 1000))


def levels_stage(settings: Settings) -> LevelsStage:
    """What is above the record keys, as the settings want it: one instance for everything."""
    return LevelsStage(Learning.of(settings), patience_days=settings.patience_days)


def distil_stage(settings: Settings) -> DistilStage:
    """The distiller as the settings want it, for one partition."""
    return DistilStage(Learning.of(settings), lateness_hours=settings.lateness_hours)
