"""The two stores as sources: episodes in LanceDB, insights in SQLite.

Filters go down to the stores as typed values, so they apply before the best are taken. What a store cannot filter by (the regime
that a claim is bound to) is checked here, on twice as many candidates. A question's stop words are left out before it is asked.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np

from schemas.claims import Category
from stores.episodes import EpisodeFilter, EpisodeStore
from stores.episodes import Hit as EpisodeHit
from stores.episodes.filters import Span, just_after
from stores.episodes.mirror import SHOWN_ROWS, EpisodeMirror
from stores.recall.filters import RecallFilters
from stores.recall.history import beliefs_at
from stores.recall.memories import Kind, Memory, of_insight
from stores.recall.regimes import spans_of
from stores.recall.sources import Candidate, Embedder, Found, Question, memory_source
from stores.recall.text import query_terms
from stores.recall.triples import outcome_facts, place_facts, stated
from stores.sqlite import InsightFilter, InsightStore, Link


class EpisodeSource:
    """Episodes of a store: final ones that were not retracted. With ``as_of``: those executed by then."""

    def __init__(self, store: EpisodeStore, *, mirrored: bool = False) -> None:
        """``mirrored`` keeps what choosing the nearest needs in memory (``stores/episodes/mirror.py``): for who asks often."""
        self._store = store
        self._mirror = EpisodeMirror(store.dimension) if mirrored else None
        self._made: OrderedDict[str, tuple[EpisodeHit, Memory]] = OrderedDict()
        self._dropped = 0
        self._lock = threading.Lock()

    def held(self) -> list[EpisodeHit | Memory]:
        """Everything that is kept in memory of episodes' content."""
        with self._lock:
            made = [memory for _, memory in self._made.values()]
        return [*made, *(self._mirror.shown() if self._mirror is not None else ())]

    def find(self, question: Question) -> Found:
        """The best by BM25 and the nearest, exactly; each with its cosine."""
        if Kind.EPISODE not in question.filters.kinds or question.filters.categories:
            return Found()
        wanted = _episode_filter(question)
        telling, depth = _telling(question.text), question.depth
        before = self._mirror.dropped if self._mirror is not None else 0
        found = self._store.candidates(telling, question.vector, wanted, limit=depth, mirror=self._mirror)
        if self._mirror is None:
            return Found(tuple(Candidate(of_hit(one.hit), one.cosine, one.lexical) for one in found))
        with self._lock:
            if self._mirror.dropped != self._dropped:  # something may have been forgotten
                self._made.clear()
                self._dropped = self._mirror.dropped
            kept = self._dropped == before
            return Found(tuple(Candidate(self._memory(one.hit, keep=kept), one.cosine, one.lexical) for one in found))

    def _memory(self, hit: EpisodeHit, *, keep: bool) -> Memory:
        """The memory of a hit; made once for what the mirror shows again."""
        made = self._made.get(hit.id)
        if made is not None and made[0] is hit:
            return made[1]
        memory = of_hit(hit)
        if keep:
            self._made[hit.id] = (hit, memory)
            while len(self._made) > SHOWN_ROWS:
                self._made.popitem(last=False)
        return memory


class InsightSource:
    """Active insights of a store. With ``as_of``: those that were active then, as they were then.

    The embedder must be the store's; only ``as_of`` needs it, for the words of that time (a cached one has them).
    """

    def __init__(self, store: InsightStore, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder

    def find(self, question: Question) -> Found:
        """The best by BM25 and the nearest, exactly."""
        if Kind.INSIGHT not in question.filters.kinds:
            return Found()
        return self._then(question) if question.as_of is not None else self._now(question)

    def links(self, insight_ids: Iterable[str]) -> Sequence[Link]:
        """See :class:`stores.recall.ties.Ties`."""
        return self._store.links(insight_ids)

    def candidate(self, insight_id: str, question: Question) -> Candidate | None:
        """See :class:`stores.recall.ties.Ties`."""
        (standing,) = self._store.standing([insight_id]) or (None,)
        if standing is None or standing.vector is None or question.as_of is not None:
            return None
        memory = of_insight(standing.insight)
        cosine = None if question.vector is None else float(np.vecdot(standing.vector, question.vector))
        return Candidate(memory, cosine, None) if question.passes(memory) else None

    def _now(self, question: Question) -> Found:
        filters = question.filters
        depth = question.depth * 2 if filters.regime is not None else question.depth
        wanted = _insight_filter(filters)
        with self._store.snapshot():
            words = self._store.search_text(_telling(question.text), depth, wanted)
            near = () if question.vector is None else self._store.knn(question.vector, depth, wanted)
        lexical, cosine = {hit.insight.id: hit.score for hit in words}, {hit.insight.id: hit.score for hit in near}
        memories = {hit.insight.id: of_insight(hit.insight) for hit in (*near, *words)}
        return Found(
            tuple(
                Candidate(memory, cosine.get(key), lexical.get(key)) for key, memory in memories.items() if question.passes(memory)
            )
        )

    def _then(self, question: Question) -> Found:
        if question.as_of is None:
            return Found()
        beliefs = beliefs_at(self._store, question.as_of)
        memories = [memory for insight in beliefs.insights if question.passes(memory := of_insight(insight))]
        vectors = self._embedder.embed([memory.text for memory in memories]) if memories else ()
        source = memory_source(self._embedder.dimension, zip(memories, vectors, strict=True))
        found = source.find(Question(question.text, question.vector, RecallFilters(), question.depth))
        return Found(found.candidates, unknown=beliefs.unknown)


def of_hit(hit: EpisodeHit) -> Memory:
    """A found episode as a memory. The search does not carry its whole event, so routers and pools are in its text only."""
    facts = place_facts(hit.key, hit.label) + outcome_facts(hit.key, hit.label, hit.status, hit.regime)
    return Memory(
        id=hit.id,
        kind=Kind.EPISODE,
        text=hit.reflection,
        ts=hit.ts,
        tool=hit.tool,
        chain=hit.chain,
        pair=hit.pair,
        label=hit.label,
        outcome=hit.status,
        regime=hit.regime,
        importance=hit.importance,
        simulated=hit.simulated,
        triples=stated(facts, hit.ts, hit.id),
        sentence=hit.sentence,
    )


def _episode_filter(question: Question) -> EpisodeFilter:
    filters = question.filters
    ends = [end for end in (filters.until, question.as_of and just_after(question.as_of)) if end is not None]
    return EpisodeFilter(
        tool=filters.tool,
        chain=filters.chain,
        pair=filters.pair,
        regime=filters.regime,
        spans=_spans(question),
        simulated=None if filters.include_simulated else False,
        since=filters.since,
        until=min(ends) if ends else None,
    )


def _spans(question: Question) -> tuple[Span, ...]:
    """When the markets that are asked about were in the regime that is asked for."""
    filters = question.filters
    if filters.regime is None or question.timelines is None:
        return ()
    return spans_of(
        question.timelines,
        filters.regime,
        {"tool": filters.tool, "chain": filters.chain, "pair": filters.pair},
        simulated=None if filters.include_simulated else False,
        known_by=question.as_of,
    )


def _insight_filter(filters: RecallFilters) -> InsightFilter:
    wanted = filters.categories or (frozenset() if filters.directives else frozenset(Category) - {Category.OPERATOR_DIRECTIVE})
    return InsightFilter(
        categories=tuple(sorted(wanted)),
        min_confidence=filters.min_confidence,
        tool=filters.tool,
        chain=filters.chain,
        pair=filters.pair,
        include_simulated=filters.include_simulated,
        validated_from=filters.since,
        validated_until=filters.until,
    )


def _telling(text: str) -> str:
    return " ".join(query_terms(text).terms)
