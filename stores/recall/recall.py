"""Recall: a question, and the few memories that bear on it.

1. Each source gives its best by words and by vectors, filters first.
2. What is under the cosine gate is dropped.
3. A recipe fuses the sources' scores (``fusion``).
4. What the best insights are linked with joins the candidates (``ties``). A walk over all their links may put what is connected
   before what is merely alike (``graph``). It decides the order; the scores stay the recipe's, handed out in the new order, so
   that they mean the same with and without it.
5. Recency and the regime are added, by event time. What was learned in the regime that its market is in now is preferred; when that
   regime is over the preference is too, and it comes back with it.
6. What experience says of the best, where a ranker has earned its say (``preference``), is mixed in.
7. The whole is graded. A result that most likely answers nothing is withheld: noise in an agent's context costs more than nothing.

Words of different stores are measured by different rulers (each BM25 has its own collection). So a store's lexical scores are
scaled to its best one, and that is worth the share of the question's words it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from stores.recall.filters import RecallFilters, zoned
from stores.recall.fusion import RECIPES, Fused, ranked
from stores.recall.grading import JUDGED, Grade, Judged, grade, probability, signals
from stores.recall.graph import LinkGraph, Links
from stores.recall.memories import Kind, Memory
from stores.recall.names import spoken_of, subject_of
from stores.recall.preference import Preference
from stores.recall.regimes import Regimes, likeness, present_of, reason, tagged
from stores.recall.result import RecallHit, RecallResult, Why
from stores.recall.sources import Candidate, Embedder, Found, Question, Source
from stores.recall.text import MAX_CHARS, Query, query_terms, words
from stores.recall.ties import Tied, Ties, follow
from stores.recall.triples import NAME, named_in
from stores.recall.tuning import RecallTuning, recency
from stores.sqlite.regimes import Timelines

EVERYTHING = RecallFilters()
_RERANKED = 10
"""Of those beyond what is asked for, how many at least may still come in by experience."""


@dataclass(frozen=True, slots=True)
class _Scored:
    candidate: Candidate
    fused: Fused
    relevance: float
    walk: float | None
    via: str | None = None


@dataclass(frozen=True, slots=True)
class _Boosted:
    """``score``: the relevance and all boosts. ``worth``: how much it has of ``present``, the regime that its market is in."""

    scored: _Scored
    memory: Memory
    boosts: dict[str, float]
    score: float
    present: str | None
    worth: float


class Recall:
    """Answers questions from episodes and insights; either may be None. Safe to share between threads if its sources are."""

    def __init__(
        self,
        episodes: Source | None,
        insights: Source | None,
        embedder: Embedder,
        tuning: RecallTuning | None = None,
        preference: Preference | None = None,
        regimes: Regimes | None = None,
    ) -> None:
        self._sources = tuple(source for source in (episodes, insights) if source is not None)
        self._embedder = embedder
        self.tuning = tuning or RecallTuning()
        self.preference = preference
        self._regimes = regimes
        self._ties = insights if isinstance(insights, Ties) else None

    def holds(self, memory_id: str, words: str = "") -> int:
        """How many memories of this id, or with these words, the sources keep in memory."""
        held = [one for source in self._sources for one in getattr(source, "held", list)()]
        return sum(
            one.id == memory_id or bool(words and words in getattr(one, "text", getattr(one, "reflection", ""))) for one in held
        )

    def timelines(self) -> Timelines:
        """The regimes as they are told now; none without a place to look them up."""
        return self._regimes.timelines() if self._regimes is not None else Timelines()

    def recall(
        self,
        query: str,
        filters: RecallFilters = EVERYTHING,
        limit: int | None = None,
        *,
        now: datetime,
        as_of: datetime | None = None,
        regime: str | None = None,
        tuning: RecallTuning | None = None,
    ) -> RecallResult:
        """The best memories for a question, best first. Any text is a question; one without a letter or digit finds nothing.

        ``now`` is the event time of the decision that the memories are for; ``as_of`` leaves out what was not known then;
        ``regime`` is the present one, for who knows it better than the timelines do: it is preferred, while a filter on one is
        strict. ``tuning`` replaces the instance's.

        Raises:
            BadRecall: a limit under 1, or a time without a zone.
        """
        tuned = tuning or self.tuning
        count = tuned.limit(limit)
        zoned(now, "now")
        zoned(as_of, "as_of")
        text = _readable(query)
        asked = query_terms(text)
        if not asked.terms:
            return RecallResult((), Grade.INCORRECT if tuned.grading else Grade.UNGRADED, 0.0 if tuned.grading else None)
        vector = self._embedder.embed_query([text])[0]
        timelines = self.timelines()
        question = Question(text, vector, filters, tuned.depth, as_of, timelines)
        found = [source.find(question) for source in self._sources]
        scored = self._scored(asked, question, found, tuned)
        moment = now if as_of is None else min(now, as_of)
        boosted = [_boosted(one, tuned, moment, regime, timelines) for one in scored]
        boosted.sort(key=lambda one: (-one.score, one.memory.id))
        hits = [_hit(one, tuned) for one in boosted[: max(2 * count, count + _RERANKED)]]
        if as_of is None:
            hits = self._preferred(hits, now)
        return _graded(text, scored, hits, count, tuned, sum(one.unknown for one in found))

    def _preferred(self, hits: list[RecallHit], now: datetime) -> list[RecallHit]:
        """The best in the order that experience gives them."""
        found = self.preference.prefer([(hit.memory, hit.score) for hit in hits], now) if self.preference and hits else None
        if found is None:
            return hits
        told = [replace(hit, score=found[hit.id].score, why=replace(hit.why, learned=found[hit.id])) for hit in hits]
        return sorted(told, key=lambda hit: (-hit.score, hit.id))

    def _scored(self, asked: Query, question: Question, found: Sequence[Found], tuned: RecallTuning) -> list[_Scored]:
        candidates = {
            one.memory.id: one
            for answer in found
            for one in answer.candidates
            if one.cosine is None or one.cosine >= tuned.min_score
        }
        best = ranked(RECIPES[tuned.recipe](_by_source(asked, candidates), {}))
        if not tuned.graph or not best:
            return [_Scored(candidates[key], hit, hit.score, None) for key, hit in best]
        tied = self._tied([candidates[key].memory for key, _ in best], question)
        if tied.candidates:
            candidates |= {one.memory.id: one for one in tied.candidates if one.cosine is None or one.cosine >= tuned.min_score}
            best = ranked(RECIPES[tuned.recipe](_by_source(asked, candidates), {}))
        relevance = {key: hit.score for key, hit in best}
        visits = _walk(question.text, [candidates[key].memory for key, _ in best], relevance, tied)
        order = sorted(best, key=lambda one: (-visits[one[0]], -one[1].score, one[0]))
        return [
            _Scored(candidates[key], hit, ceded.score, visits[key], tied.via.get(key))
            for (key, hit), (_, ceded) in zip(order, best, strict=True)
        ]

    def _tied(self, best: Sequence[Memory], question: Question) -> Tied:
        """What links lead to from the best insights, and the links among all that was found."""
        insights = [memory.id for memory in best if memory.kind is Kind.INSIGHT]
        return follow(self._ties, insights, question) if self._ties is not None and insights else Tied()


def _readable(query: str) -> str:
    """What of a query is embedded and searched: its beginning, valid Unicode, without NUL."""
    return query[:MAX_CHARS].encode("utf-8", "replace").decode().replace("\x00", " ")


def _by_source(asked: Query, candidates: Mapping[str, Candidate]) -> dict[str, dict[str, float]]:
    """Scores by source. A cosine that is not at hand counts as the least one that is: the vector search would have found more."""
    least = min((one.cosine for one in candidates.values() if one.cosine is not None), default=0.0)
    dense = {key: least if one.cosine is None else one.cosine for key, one in candidates.items()}
    lexical: dict[str, float] = {}
    for kind in Kind:
        scores = {key: one.lexical for key, one in candidates.items() if one.memory.kind is kind and one.lexical is not None}
        if not scores:
            continue
        best = max(scores, key=lambda key: (scores[key], key))
        worth = asked.share(set(words(candidates[best].memory.indexed))) / scores[best] if scores[best] > 0.0 else 0.0
        lexical |= {key: score * worth for key, score in scores.items()}
    return {"dense": dense, "lexical": lexical}


def _walk(text: str, memories: Sequence[Memory], relevance: Mapping[str, float], tied: Tied) -> dict[str, float]:
    entities = {memory.id: memory.entities for memory in memories}
    told = {memory.id: memory.text for memory in memories if memory.stated}
    spoken = {key: [f"{NAME}:{subject}" for subject in subjects] for key, subjects in spoken_of(told).items()}
    facts = [(triple.subject.name, triple.object.name) for memory in memories for triple in memory.triples]
    facts += [(f"{NAME}:{own}", name) for key, text in told.items() if (own := subject_of(text)) for name in spoken[key]]
    links = Links(
        mentions={key: [*(one.name for one in mentioned), *spoken.get(key, ())] for key, mentioned in entities.items()},
        facts=facts,
        between=[(memory.id, cited) for memory in memories for cited in memory.cites],
        ties=tied.links,
    )
    named = named_in(text, {entity for mentioned in entities.values() for entity in mentioned})
    asked = f" {' '.join(words(text))} "
    subjects = {name for names in spoken.values() for name in names if f" {name.partition(':')[2]} " in asked}
    return LinkGraph(links).rank(relevance, [*(entity.name for entity in named), *sorted(subjects)])


def _boosted(one: _Scored, tuned: RecallTuning, now: datetime, regime: str | None, timelines: Timelines) -> _Boosted:
    memory = tagged(one.candidate.memory, timelines, now)
    boosts = {}
    if tuned.boost_recent:
        boosts["recency"] = tuned.boost_weight * recency(memory.ts, now, tuned.boost_halflife)
    present = regime or present_of(memory, timelines, now)
    worth = likeness(memory, present) if present else 0.0
    if worth > 0.0:
        boosts["regime"] = tuned.regime_weight * worth
    return _Boosted(one, memory, boosts, one.relevance + sum(boosts.values()), present, worth)


def _hit(boosted: _Boosted, tuned: RecallTuning) -> RecallHit:
    one, memory, score = boosted.scored, boosted.memory, boosted.score
    cosine = one.candidate.cosine
    why = Why(
        recipe=tuned.recipe,
        sources={"dense": cosine, "lexical": one.candidate.lexical},
        parts=one.fused.parts,
        relevance=one.relevance,
        walk=one.walk,
        boosts=boosted.boosts,
        via=one.via,
        gate=f"cosine {cosine:.3f} >= {tuned.min_score:g}" if cosine is not None else "found by words; its cosine is not at hand",
        score=score,
        regime=reason(memory, boosted.present, boosted.worth) if boosted.present and boosted.worth > 0.0 else "",
    )
    return RecallHit(memory.id, memory.kind, memory.text, score, memory.ts, why, memory)


def _graded(
    text: str, scored: Sequence[_Scored], hits: Sequence[RecallHit], count: int, tuned: RecallTuning, unknown: int
) -> RecallResult:
    shown = tuple(hits[:count])
    if not tuned.grading:
        return RecallResult(shown, Grade.UNGRADED, unknown=unknown)
    judged = [
        Judged(one.candidate.memory.indexed if place < JUDGED else "", one.candidate.cosine, one.candidate.lexical)
        for place, one in enumerate(scored)
    ]
    if not judged:
        return RecallResult((), Grade.INCORRECT, 0.0, unknown=unknown)
    found = signals(text, judged)
    chance = probability(found)
    verdict = grade(chance)
    if verdict is Grade.INCORRECT:
        return RecallResult((), verdict, chance, found, withheld=len(shown), unknown=unknown)
    return RecallResult(shown, verdict, chance, found, unknown=unknown)
