"""Which of the episodes that were found are still in context: those past their time are left out of what is recalled.

An episode's age is counted to the market's time, not to the clock on the wall: a market that is replayed from years ago is not old.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from stores.episodes import EpisodeStore
from stores.recall.memories import Kind
from stores.recall.result import RecallHit
from stores.sqlite import InsightStore, Order
from workers.retention import episode_expires_at

LOOK_AGAIN_S = 5.0
"""How old the market's time may be that ages are counted to; the shortest life is a week."""


class Ageing:
    """The market's time, looked up now and then, and what it makes of episodes."""

    def __init__(self, insights: InsightStore, episodes: EpisodeStore | None, monotonic: Callable[[], float]) -> None:
        self._insights = insights
        self._episodes = episodes
        self._monotonic = monotonic
        self._known: tuple[float, datetime | None] | None = None

    def in_context(self, hits: Sequence[RecallHit], now: datetime, regime: str | None) -> list[RecallHit]:
        """The hits without episodes past their time by ``now``. Those of the caller's regime stay."""
        if not any(hit.kind is Kind.EPISODE for hit in hits):
            return list(hits)
        market = self._market()
        moment = now if market is None else min(now, market)
        used = self._insights.use_counts(hit.id for hit in hits if hit.kind is Kind.EPISODE)

        def stays(hit: RecallHit) -> bool:
            if hit.kind is not Kind.EPISODE or (regime is not None and hit.memory.regime == regime):
                return True
            count = used.get(hit.id)
            ends = episode_expires_at(hit.memory.tool, hit.memory.importance, hit.ts, count.used if count else 0)
            return ends is None or ends > moment

        return [hit for hit in hits if stays(hit)]

    def _market(self) -> datetime | None:
        at = self._monotonic()
        if self._known is None or at - self._known[0] > LOOK_AGAIN_S:
            self._known = (at, event_time(self._insights, self._episodes))
        return self._known[1]


def event_time(insights: InsightStore, episodes: EpisodeStore | None) -> datetime | None:
    """The market's time: that of its latest episode, or of what was last validated where there is none."""
    latest = episodes.latest(limit=1) if episodes is not None else []
    if latest:
        return latest[0].ts
    page = insights.list(order=Order.RECENT, limit=1)
    return page.items[0].validated_ts if page.items else None
