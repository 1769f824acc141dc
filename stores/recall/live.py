"""Insights in memory, kept up to date by the updates that the log publishes: the hot path of recall.

Loaded once from the store, then changed by each :class:`~schemas.insights.InsightUpdate`. A revision that was seen does nothing, so
updates may overlap with what was loaded. Looking back in time goes to the store, which has the history.
"""

from __future__ import annotations

from schemas.insights import Insight, InsightStatus, InsightUpdate
from stores.recall.memories import Kind, of_insight
from stores.recall.mirror import Vector
from stores.recall.sources import Embedder, Found, MemorySource, Question
from stores.recall.stored import InsightSource
from stores.sqlite import InsightStore

_PAGE = 500


class LiveInsights:
    """Active insights, to search. The embedder must be the store's; a cached one makes loading cheap."""

    def __init__(self, store: InsightStore, embedder: Embedder) -> None:
        self._stored = InsightSource(store, embedder)
        self._embedder = embedder
        self._memories = MemorySource(embedder.dimension)
        self._load(store)

    def __len__(self) -> int:
        return len(self._memories)

    def _load(self, store: InsightStore) -> None:
        cursor: str | None = None
        while True:
            page = store.list(limit=_PAGE, cursor=cursor)
            vectors = self._embedder.embed([insight.text for insight in page.items]) if page.items else ()
            for insight, vector in zip(page.items, vectors, strict=True):
                self._memories.put(of_insight(insight), vector)
            cursor = page.cursor
            if cursor is None:
                return

    def apply(self, update: InsightUpdate) -> bool:
        """Take a change in; whether it was news. What is archived is gone from words and vectors."""
        insight = update.insight
        if insight.status is not InsightStatus.ACTIVE:
            return self._memories.remove(insight.id, insight.revision)
        return self._memories.put(of_insight(insight), self._vector(insight))

    def _vector(self, insight: Insight) -> Vector:
        known = self._memories.get(insight.id)
        vector = self._memories.vector(insight.id) if known is not None and known.text == insight.text else None
        return self._embedder.embed([insight.text])[0] if vector is None else vector

    def find(self, question: Question) -> Found:
        """The candidates, from memory; with ``as_of``, from the store's history."""
        if Kind.INSIGHT not in question.filters.kinds:
            return Found()
        return self._stored.find(question) if question.as_of is not None else self._memories.find(question)
