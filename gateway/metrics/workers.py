"""Workers on Kafka with their metrics port: what ``worker`` and ``up`` open there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gateway.composition import layout
from gateway.metrics.cluster import ClusterWatch
from gateway.metrics.collector import Cached, Part
from gateway.metrics.meter import Meter
from gateway.metrics.observe import InfoPart, Observation, serve
from gateway.metrics.protection_part import PortfoliosPart
from gateway.metrics.stores_part import EmbedderPart, EpisodesPart, FilesPart, InsightsPart
from gateway.metrics.wiring import STORES_KEEP_S
from schemas.settings import Settings
from stores.embedding import CachedEmbedder
from stores.episodes import WritableEpisodeStore
from stores.sqlite.connection import describe_backend
from streams.embedded.worker import Progress
from streams.kafka.lag import Reads
from streams.kafka.standing import Standing
from workers.ports import Embedder


@contextmanager
def serve_workers(
    settings: Settings,
    stages: Sequence[Reads],
    standings: Mapping[str, Standing],
    embedder: Embedder | None,
    episodes: WritableEpisodeStore | None,
    on_progress: Callable[[Progress], None],
) -> Iterator[Callable[[Progress], None]]:
    """The metrics port of the settings; yields what is to hear of each progress. ``standings`` is what the application fills.

    Raises:
        BrainError: the address cannot be had.
    """
    watch = ClusterWatch(settings, stages, standings)

    def then(progress: Progress) -> None:
        watch.take(progress)
        on_progress(progress)

    meter = Meter(then)
    with ExitStack() as stack:
        parts: list[Part] = [watch, *_stores(settings, stages, episodes, stack)]
        parts.append(InfoPart(embedder.model_id if embedder is not None else "none", describe_backend()))
        if isinstance(embedder, CachedEmbedder):
            parts.append(EmbedderPart(embedder))
        stall_s, behind_s = settings.health_stall_s, settings.health_behind_s
        observation = Observation(watch, watch, meter, parts, stall_s=stall_s, behind_s=behind_s, unready=watch.unready)
        stack.enter_context(serve(observation, settings))
        watch.start()
        stack.callback(watch.close)
        yield meter.take


def _stores(settings: Settings, stages: Sequence[Reads], episodes: WritableEpisodeStore | None, stack: ExitStack) -> list[Part]:
    """The stores that this process has; others tell of theirs."""
    where = layout(settings)
    names = {stage.name for stage in stages}
    files: dict[str, Path] = {}
    parts: list[Part] = []
    if "writer" in names:
        files["insights"] = where.insights
        insights = InsightsPart(where.insights)
        stack.callback(insights.close)
        portfolios = PortfoliosPart(where.insights)
        stack.callback(portfolios.close)
        parts += [insights, portfolios]
    if "embed" in names:
        files["vectors"] = where.vectors
    if episodes is not None:
        parts.append(EpisodesPart(episodes))
    return [Cached(part, STORES_KEEP_S) for part in (FilesPart(settings.data_dir, files), *parts)]
