"""Insights in memory, always as the store has them: the hot path of recall.

Loaded with the first question, with the store's own vectors, and brought up to date at the beginning of each question by what the
store's last operations changed: one look at an offset where nothing did. So who was told that a change is applied also finds it,
what is archived or forgotten is gone from words and vectors at once, and nothing needs a thread or is ever behind. Looking back in
time goes to the store, which has the history.

Who has no store at hand follows the log instead: :meth:`LiveInsights.apply` takes the updates that it publishes. A revision that
was seen does nothing, so both ways may overlap.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from schemas.insights import Insight, InsightStatus, InsightUpdate
from schemas.topics import OPERATIONS
from stores.heap import release
from stores.recall.memories import Kind, Memory, of_insight
from stores.recall.mirror import Vector
from stores.recall.sources import Candidate, Embedder, Found, MemorySource, Question
from stores.recall.stored import InsightSource
from stores.sqlite import InsightStore, Link


class LiveInsights:
    """Active insights, to search. The embedder must be the store's; it is asked for the words of updates and of the past only."""

    def __init__(self, store: InsightStore, embedder: Embedder) -> None:
        self._store = store
        self._stored = InsightSource(store, embedder)
        self._embedder = embedder
        self._memories = MemorySource(store.dimension)
        self._lock = threading.Lock()
        self._offset: int | None = None

    def __len__(self) -> int:
        self.refresh()
        return len(self._memories)

    def __contains__(self, insight_id: object) -> bool:
        return isinstance(insight_id, str) and self._memories.get(insight_id) is not None

    def held(self) -> list[Memory]:
        """Every insight that is kept in memory, as the store has them now."""
        self.refresh()
        return self._memories.held()

    def refresh(self) -> int:
        """Take in what the store's operations changed since the last time; how many insights that were."""
        with self._lock:
            if self._store.next_offset(OPERATIONS.name, 0) == self._offset:
                return 0
            with self._store.snapshot():
                offset = self._store.next_offset(OPERATIONS.name, 0)
                first = self._offset is None
                changed = self._store.whole() if first else self._store.changed_since(OPERATIONS.name, 0, self._offset or 0)
                count = 0
                for standing in changed:
                    count += 1
                    self._take(standing.insight, standing.vector)
            self._offset = offset
            if first:
                release()  # every insight came through the heap
            return count

    def apply(self, update: InsightUpdate) -> bool:
        """Take an update of the log in; whether it was news. What is archived is gone from words and vectors."""
        insight = update.insight
        return self._take(insight, self._vector(insight) if insight.status is InsightStatus.ACTIVE else None)

    def nearest(self, vector: Vector, k: int) -> list[tuple[str, float]]:
        """The nearest insights, by id, with their cosine, best first."""
        self.refresh()
        return self._memories.nearest(vector, k)

    def find(self, question: Question) -> Found:
        """The candidates, from memory; with ``as_of``, from the store's history."""
        if Kind.INSIGHT not in question.filters.kinds:
            return Found()
        if question.as_of is not None:
            return self._stored.find(question)
        self.refresh()
        return self._memories.find(question)

    def links(self, insight_ids: Iterable[str]) -> Sequence[Link]:
        """See :class:`stores.recall.ties.Ties`."""
        return self._store.links(insight_ids)

    def candidate(self, insight_id: str, question: Question) -> Candidate | None:
        """See :class:`stores.recall.ties.Ties`."""
        memory = self._memories.get(insight_id)
        if memory is None or question.as_of is not None or not question.passes(memory):
            return None
        return Candidate(memory, self._memories.cosine(insight_id, question.vector), None)

    def _take(self, insight: Insight, vector: Vector | None) -> bool:
        if insight.status is not InsightStatus.ACTIVE or vector is None:
            return self._memories.remove(insight.id, insight.revision)
        return self._memories.put(of_insight(insight), vector)

    def _vector(self, insight: Insight) -> Vector:
        known = self._memories.get(insight.id)
        vector = self._memories.vector(insight.id) if known is not None and known.text == insight.text else None
        return self._embedder.embed([insight.text])[0] if vector is None else vector
