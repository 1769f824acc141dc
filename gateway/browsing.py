"""Leafing through everything, for people: what is there, page by page, with counts; and who changed what.

Mixed into :class:`~gateway.service.BrainService`, which owns the stores. Every method takes the caller first and checks its tier.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gateway.keys import Caller, Tier
from gateway.regimes import RegimeReads
from stores.episodes import EpisodeFilter, EpisodeStore, Place
from stores.episodes import Hit as EpisodeHit
from stores.sqlite import Changed, InsightFilter, InsightStore, Page, SignalFilter, UseCount


class Browsing(RegimeReads):
    """Reads for the operator's pages."""

    _insights: InsightStore
    _episodes: EpisodeStore | None

    def latest_episodes(
        self, caller: Caller, wanted: EpisodeFilter, limit: int, after: Place | None = None
    ) -> Sequence[EpisodeHit]:
        """Episodes of the latest events first, those after a place of that order.

        Raises:
            ValueError: the limit is not in 1 … 1000, or a time has no zone.
        """
        caller.need(Tier.READ)
        return (
            () if self._episodes is None else self._tagged(self._episodes.latest(self._narrowed(wanted), limit=limit, after=after))
        )

    def episode_facets(self, caller: Caller, wanted: EpisodeFilter) -> dict[str, dict[str, int]]:
        """How many episodes have each tool, chain, pair, action and status."""
        caller.need(Tier.READ)
        return {} if self._episodes is None else self._episodes.facets(self._narrowed(wanted))

    def neighbours(self, caller: Caller, episode_id: str, limit: int = 5) -> Sequence[EpisodeHit]:
        """The episodes whose sentence means most nearly the same; none where the episode is not there."""
        caller.need(Tier.READ)
        found = self._episodes.get(episode_id) if self._episodes is not None else None
        if found is None or self._episodes is None:
            return ()
        near = self._episodes.search_vector(np.frombuffer(found.vector, dtype="<f4"), limit=limit + 1)
        return [hit for hit in near if hit.id != episode_id][:limit]

    def insight_facets(self, caller: Caller, where: InsightFilter) -> dict[str, dict[str, int]]:
        """How many insights have each category, status, tool, chain and metric."""
        caller.need(Tier.READ)
        return self._insights.facets(where)

    def changes(
        self, caller: Caller, author: str | None = None, kind: str | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Changed]:
        """A page of the operations that were applied, the latest event first.

        Raises:
            BadQuery: limit not in 1 … 1000, or a cursor of another list.
        """
        caller.need(Tier.READ)
        return self._insights.changes(author, kind, limit=limit, cursor=cursor)

    def change_facets(self, caller: Caller) -> dict[str, dict[str, int]]:
        """How many operations each author and each kind has."""
        caller.need(Tier.READ)
        return self._insights.change_facets()

    def count_signals(self, caller: Caller, where: SignalFilter) -> int:
        """How many signals there are."""
        caller.need(Tier.READ)
        return self._insights.count_signals(where)

    def use_count(self, caller: Caller, memory_id: str) -> UseCount | None:
        """How often a memory was handed out and used; None where it never was."""
        caller.need(Tier.READ)
        return self._insights.use_counts([memory_id]).get(memory_id)
