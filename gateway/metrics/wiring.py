"""``open_pipeline`` of the composition root, observed: what ``up`` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from gateway.breaking import Breaker
from gateway.composition import Pipeline, layout, open_pipeline
from gateway.llm.wiring import model_breaker
from gateway.metrics.collector import Cached, Part
from gateway.metrics.meter import Meter
from gateway.metrics.observe import InfoPart, Observation, serve
from gateway.metrics.protection_part import CircuitsPart, PortfoliosPart
from gateway.metrics.stores_part import EmbedderPart, EpisodesPart, FilesPart, InsightsPart
from gateway.tracing import traced
from schemas.settings import Settings
from stores.embedding import CachedEmbedder
from streams.embedded.worker import Progress

STORES_KEEP_S = 5.0
"""The stores are counted at most this often, however many scrape."""


@contextmanager
def open_observed(
    settings: Settings,
    on_progress: Callable[[Progress], None] | None = None,
    breakers: Sequence[Breaker] = (),
    more: Sequence[Part] = (),
) -> Iterator[Pipeline]:
    """A pipeline with the metrics port that the settings ask for; without one it is ``open_pipeline``.

    ``breakers`` and ``more`` are shown, too.

    Raises:
        BrainError: see ``open_pipeline``; or the port cannot be had.
    """
    with ExitStack() as stack:
        take = stack.enter_context(traced(settings, on_progress))
        if not settings.metrics_port:
            yield stack.enter_context(open_pipeline(settings, take))
            return
        meter = Meter(take)
        pipeline = stack.enter_context(open_pipeline(settings, meter.take))
        insights = InsightsPart(layout(settings).insights)
        stack.callback(insights.close)
        portfolios = PortfoliosPart(layout(settings).insights)
        stack.callback(portfolios.close)
        parts = [Cached(part, STORES_KEEP_S) for part in (*_stores(settings, pipeline, insights), portfolios)]
        observation = observe(pipeline, meter, settings, [*parts, *more], breakers)
        stack.enter_context(serve(observation, settings))
        yield pipeline


def observe(
    pipeline: Pipeline, meter: Meter, settings: Settings, stores: Sequence[Part], breakers: Sequence[Breaker] = ()
) -> Observation:
    """The pipeline under observation."""
    parts: list[Part] = [
        *stores,
        InfoPart(pipeline.embedder.model_id, pipeline.sinks.insights.backend),
        CircuitsPart([*breakers] or [model_breaker(settings)]),
    ]
    if isinstance(pipeline.embedder, CachedEmbedder):
        parts.append(EmbedderPart(pipeline.embedder))
    stall_s, behind_s = settings.health_stall_s, settings.health_behind_s
    return Observation(pipeline.log, pipeline.driver, meter, parts, stall_s=stall_s, behind_s=behind_s)


def _stores(settings: Settings, pipeline: Pipeline, insights: InsightsPart) -> list[Part]:
    where = layout(settings)
    files = {"log": settings.log_path, "insights": where.insights, "vectors": where.vectors}
    return [FilesPart(settings.data_dir, files), insights, EpisodesPart(pipeline.sinks.episodes)]
