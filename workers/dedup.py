"""Dedup on write: when is a sentence that is about to be kept one that is kept already?

Two sentences about the same subject, both of real or both of simulated executions, are duplicates where **all** of this holds:

1. the kept one is among the ``NEAREST`` five by cosine, and within ``THRESHOLD``: 0.95, or 0.85 (from where on a cosine counts as
   reinforcement) where both have the same words in another order;
2. every value is equal: numbers with units, addresses, chains, tokens and names, days, sides, quantities, polarity, and the roles
   that order gives (``workers/values.py``);
3. where both state a claim, it is the same claim (``workers/contradiction.py``). A mined claim's duplicate has its id anyway, so
   what is left here is its complement: "higher from 0.01 up" is "lower under 0.01".

The one that is kept stays, with the greater importance of the two; what is merged into it gives it its counters too (ACE's merge
sums them). A mined insight stays before a note, because it has evidence. Nothing falls between thresholds: what is retrieved and
not merged is kept, whatever its cosine.

The verdict says which comparison decided, and what each of the others differed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.claims import Claim
from schemas.insights import Insight, InsightStatus
from stores.places import is_simulated
from workers.contradiction import Relation, claims
from workers.values import Values, differences, values

THRESHOLD = 0.95
REINFORCED_FROM = 0.85
NEAREST = 5


@dataclass(frozen=True, slots=True)
class Candidate:
    """An insight that stands near, and the cosine between the words."""

    insight: Insight
    similarity: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One candidate, judged: whether it is the same, and why (not), in words for people."""

    insight_id: str
    similarity: float
    same: bool
    why: str


@dataclass(frozen=True, slots=True)
class DedupVerdict:
    """``duplicate`` is what the sentence repeats; None: keep it. ``comparisons`` are in the order in which they were made."""

    duplicate: Insight | None
    similarity: float | None
    comparisons: tuple[Comparison, ...]

    @property
    def why(self) -> str:
        """Which comparison decided."""
        if not self.comparisons:
            return f"nothing about the same subject stands at {REINFORCED_FROM} or nearer"
        told = [one for one in self.comparisons if one.same] or self.comparisons
        return "; ".join(f"{one.insight_id[:8]} at {one.similarity:.3f}: {one.why}" for one in told)


def judge(
    text: str, key: str, candidates: Sequence[Candidate], claim: Claim | None = None, *, simulated: bool = False
) -> DedupVerdict:
    """Whether a sentence about ``key`` is one of the candidates again. Those that are not active, about another key, or simulated
    where it is not (or the other way round) do not count.

    The nearest is compared first; equal ones come by id.
    """
    said = values(text)
    comparisons: list[Comparison] = []
    for one in nearest(candidates, key, simulated=simulated):
        why = _unlike(said, one, claim)
        comparisons.append(Comparison(one.insight.id, one.similarity, not why, why or "says the same, and every value is equal"))
        if not why:
            return DedupVerdict(one.insight, one.similarity, tuple(comparisons))
    return DedupVerdict(None, None, tuple(comparisons))


def nearest(
    candidates: Sequence[Candidate], key: str, least: float = REINFORCED_FROM, *, simulated: bool = False
) -> list[Candidate]:
    """The five nearest active candidates about a key, from ``least`` on. About a simulated key everything is simulated."""
    near = [
        one
        for one in candidates
        if one.insight.status is InsightStatus.ACTIVE
        and one.insight.key == key
        and (one.insight.simulated == simulated or is_simulated(key))
    ]
    ordered = sorted(near, key=lambda one: (-one.similarity, one.insight.id))[:NEAREST]
    return [one for one in ordered if one.similarity >= least]


def same_words(one: Values, other: Values) -> bool:
    """Whether two sentences have the same words, whatever their order and grammar."""
    return Counter(one.content) == Counter(other.content)


def survivor(one: Insight, other: Insight) -> tuple[Insight, Insight]:
    """Of two duplicates the one that stays and the one that goes: evidence before none, then the older, then by id."""
    first, second = sorted((one, other), key=lambda insight: (insight.evidence is None, insight.created_ts, insight.id))
    return first, second


def _unlike(said: Values, one: Candidate, claim: Claim | None) -> str:
    """In what a candidate is another statement; empty where it is the same."""
    known = values(one.insight.text)
    unequal = differences(said, known)
    if unequal:
        return f"differs in {', '.join(sorted(unequal))}"
    if one.similarity < THRESHOLD and not same_words(said, known):
        return f"it is under {THRESHOLD}, in other words"
    if claim is not None and one.insight.claim is not None and claims(claim, one.insight.claim) is not Relation.SAME:
        return "another claim"
    return ""
