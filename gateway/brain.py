"""The composition root of the gateway: settings in, a service out, with the pipeline beside it unless somebody else runs it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import cast

from gateway.briefing import briefing
from gateway.composition import Pipeline, layout, open_embedder, open_episodes, open_insights, open_log
from gateway.llm.briefing import briefing_by_model
from gateway.llm.service import Bounds
from gateway.metrics.observe import watched_alone
from gateway.metrics.recall_part import RecallPart
from gateway.metrics.wiring import open_observed
from gateway.organiser import organiser_beside
from gateway.ranking import LearnedRanking
from gateway.service import BrainService, PipelineState
from gateway.upkeep import upkeep_beside
from gateway.writing import Log
from schemas.errors import BrainError
from schemas.settings import Settings
from stores.episodes import EpisodeStore
from stores.recall.live import LiveInsights
from stores.recall.recall import Recall
from stores.recall.regimes import Regimes
from stores.recall.sources import Embedder
from stores.recall.stored import EpisodeSource, InsightSource
from stores.recall.tuning import RecallTuning
from stores.sqlite import InsightStore
from streams.kafka.log import KafkaLog
from streams.log import DriverBusy
from workers.ranker import RankerSettings

LOGGER = logging.getLogger(__name__)
HOUSEKEEPING_S = 30.0


def utc_now() -> datetime:
    """The wall clock, for what comes without an event time of its own."""
    return datetime.now(UTC)


class _Running:
    """The pipeline in a thread of its own. Tells how it does; a pipeline that fails does not take the readers with it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._stop = threading.Event()
        self.state: PipelineState = "here"
        self._thread = threading.Thread(target=self._run, args=(pipeline,), name="pipeline", daemon=True)
        self._thread.start()

    def _run(self, pipeline: Pipeline) -> None:
        try:
            pipeline.driver.run(self._stop)
            self.state = "stopped"
        except BaseException:
            self.state = "failed"
            raise

    def stop(self) -> None:
        """End it after the batches in hand."""
        self._stop.set()
        self._thread.join()


class _Housekeeping:
    """What has to be done as time passes: directives end when their date is over."""

    def __init__(self, service: BrainService, every_s: float) -> None:
        self._service = service
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                self._service.expire_directives()
            except BrainError as error:  # a store or log that is busy is there again at the next turn
                LOGGER.warning("directives were not looked through: %s", error)

    def stop(self) -> None:
        """End it."""
        self._stop.set()
        self._thread.join()


def recall_tuning(settings: Settings) -> RecallTuning:
    """Recall as the settings want it, before what operators changed.

    Raises:
        BadRecall: the limits are out of order.
    """
    return RecallTuning(
        min_score=settings.recall_min_score,
        max_results=settings.recall_max_results,
        default_limit=settings.recall_default_limit,
        boost_recent=settings.recall_boost_recent,
        boost_halflife=settings.recall_boost_halflife,
        boost_weight=settings.recall_boost_weight,
    )


def ranker_settings(settings: Settings) -> RankerSettings:
    """The ranker as the settings want it."""
    return RankerSettings(
        train_every=settings.ranker_train_every,
        rate=settings.ranker_rate,
        blend=settings.ranker_blend,
        min_samples=settings.ranker_min_samples,
        window_days=settings.ranker_window_days,
    )


def _recall(
    settings: Settings,
    insights: InsightStore,
    episodes: EpisodeStore | None,
    embedder: Embedder,
    ranking: LearnedRanking,
    *,
    to_stay: bool,
) -> Recall:
    """Recall over both stores. ``to_stay``: what it reads most is kept in memory."""
    return Recall(
        EpisodeSource(episodes, mirrored=to_stay) if episodes else None,
        LiveInsights(insights, embedder) if to_stay else InsightSource(insights, embedder),
        embedder,
        recall_tuning(settings),
        regimes=Regimes(insights),
        preference=ranking,
    )


@contextmanager
def open_service(settings: Settings, *, pipeline: bool = True, clock: Callable[[], datetime] = utc_now) -> Iterator[BrainService]:
    """The service over the settings' data folder, which is made if need be.

    With ``pipeline`` this process also runs the stages, unless another one does, and keeps in memory what recall reads most: it is
    here to stay. Without, there must be stores to read.

    Raises:
        BrainError: there is no brain and no pipeline to make one, or it was made with another model.
    """
    with ExitStack() as stack:
        asked = RecallPart()
        state: Callable[[], PipelineState] = lambda: "elsewhere"  # noqa: E731
        embedder: Embedder | None = None
        log: Log | None = None
        if pipeline and not settings.on_kafka:
            try:
                opened = stack.enter_context(open_observed(settings, more=[asked]))
            except DriverBusy:
                pass
            else:
                log, embedder = opened.log, cast(Embedder, opened.embedder)
                running = _Running(opened)
                stack.callback(running.stop)
                state = lambda: running.state  # noqa: E731
        if log is None:
            log = stack.enter_context(KafkaLog(settings)) if settings.on_kafka else stack.enter_context(open_log(settings))
        if embedder is None:
            embedder = cast(Embedder, stack.enter_context(open_embedder(settings)))
        insights = stack.enter_context(open_insights(settings))
        episodes = stack.enter_context(open_episodes(settings)) if layout(settings).episodes.is_dir() else None
        ranking = LearnedRanking(insights, episodes, ranker_settings(settings))
        asked.ranking = ranking.standing
        if pipeline and state() == "elsewhere":
            stack.enter_context(watched_alone(settings, [asked]))
        recall = _recall(settings, insights, episodes, embedder, ranking, to_stay=pipeline)
        service = BrainService(
            log=log,
            insights=insights,
            episodes=episodes,
            recall=recall,
            embedder=embedder,
            clock=clock,
            bounds=Bounds.of(settings),
            pipeline=state,
            on_recall=asked.note,
        )
        if pipeline:
            stack.callback(_Housekeeping(service, HOUSEKEEPING_S).stop)
            stack.enter_context(organiser_beside(settings, log))
            stack.enter_context(upkeep_beside(settings, log, embedder))
        if settings.briefing:
            write = stack.enter_context(briefing_by_model(settings, log)) if pipeline and settings.llm_url else briefing
            kept = service.keep_briefing(first_s=settings.briefing_first_s, every_s=settings.briefing_every_s, write=write)
            stack.callback(kept.stop)
        yield service
