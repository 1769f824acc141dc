"""What a note that an agent writes does to the notes that are there: the second document's confidence events, as a pure function.

==========  =============================================================================  ====================================
event       when                                                                           confidence
==========  =============================================================================  ====================================
new         nothing near it says the same or the opposite                                  the note: 1.0
reinforced  a note says the same (``workers/dedup.py``): it goes on, and nothing is added  that note: +0.05
supported   the nearest note is at 0.85 or more, equal in every value, in other words:     that note: +0.05; the note: 1.0
            both are kept
updated     the same sentence of the same author with another measured value               that note: +0.025, in the new words
superseded  another author's note is contradicted: that one is archived and points here    that note: −0.10; the new one: 1.0
contested   the same, but at least three others had confirmed that note: both stay, until  that note: −0.10; the new one: 1.0
            as many have confirmed the new one; then it supersedes
replaced    the author's own note is contradicted: the same as superseded                  that note: −0.20; the new one: 1.0
echo        the same as reinforced, but the memory itself had handed that note over        nothing (law 9)
known       a learned insight or a directive says the same                                 nothing: it has its own evidence
==========  =============================================================================  ====================================

A cosine does not see what matters in trades: "0.50 %" and "5.00 %" stand at 0.957, a rule and its negation at 0.969. So the cosine
only says what to look at; numbers with their units, identifiers, chains, names, sides, order and polarity decide (``values``).

Retiring a note needs more than unequal values, or mentioning a pool would retire what is known of it: see
``workers/contradiction.py``. A bare number may be a name (trade 17), so only a number with a unit counts as a measured value. There
is no gap between thresholds: whatever is not one of the other events is new, and is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from schemas.insights import MOST_CONFIRMING, Archived, Insight, InsightStatus, Note
from schemas.operations import RememberNote
from workers import dedup
from workers.contradiction import Relation, sentences, steady
from workers.dedup import REINFORCED_FROM, Candidate
from workers.values import differences, values

__all__ = ["Candidate", "Event", "Remembered", "Verdict", "decide", "remember"]

NEW_CONFIDENCE = Decimal(1)
REINFORCED_STEP = Decimal("0.05")
UPDATED_STEP = Decimal("0.025")
SUPERSEDED_STEP = Decimal("-0.10")
REPLACED_STEP = Decimal("-0.20")
LEAST = 0.45
"""The least cosine of what may be the same thing owned and gone; links look no further either."""


class Event(StrEnum):
    """What became of a note."""

    NEW = "new"
    REINFORCED = "reinforced"
    SUPPORTED = "supported"
    UPDATED = "updated"
    SUPERSEDED = "superseded"
    CONTESTED = "contested"
    REPLACED = "replaced"
    ECHO = "echo"
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The event, the insight that it concerns besides the new one, and why, in words for people."""

    event: Event
    other: Insight | None
    similarity: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """A verdict with its effects: insights before (None: there was none) and after."""

    verdict: Verdict
    changes: tuple[tuple[Insight | None, Insight], ...]


def remember(
    note: RememberNote, candidates: Sequence[Candidate], corrected: Insight | None = None, contested: Insight | None = None
) -> Remembered:
    """What a note does. ``candidates`` are active; ``corrected`` is the note that it says it corrects.

    ``contested`` is what the note that says the same contests, where it contests something; it gives way once no more confirmed it.
    """
    verdict = decide(note, candidates, corrected)
    other = verdict.other
    if other is None:
        return Remembered(verdict, ((None, _made(note)),))
    match verdict.event:
        case Event.REINFORCED:
            after = _moved(note, other, REINFORCED_STEP, reinforced=1)
            return Remembered(verdict, ((other, after), *_won(note, after, contested)))
        case Event.SUPPORTED:
            after = _moved(note, other, REINFORCED_STEP, reinforced=1)
            return Remembered(verdict, ((other, after), (None, _made(note)), *_won(note, after, contested)))
        case Event.UPDATED:
            moved = _moved(note, other, UPDATED_STEP, updated=1)
            return Remembered(verdict, ((other, moved.model_copy(update={"text": note.text, "edits": other.edits + 1})),))
        case Event.ECHO:
            return Remembered(verdict, ((other, _moved(note, other, Decimal(0), echoes=1)),))
        case Event.SUPERSEDED | Event.REPLACED:
            step = SUPERSEDED_STEP if verdict.event is Event.SUPERSEDED else REPLACED_STEP
            return Remembered(verdict, ((other, _retired(note, other, step, note.insight_id)), (None, _made(note))))
        case Event.CONTESTED:
            doubted = _stepped(other, SUPERSEDED_STEP)
            return Remembered(verdict, ((other, doubted), (None, _made(note, contests=other.id))))
        case Event.KNOWN:
            return Remembered(verdict, ())
        case Event.NEW:
            return Remembered(verdict, ((None, _made(note)),))


def _won(note: RememberNote, after: Insight, contested: Insight | None) -> tuple[tuple[Insight, Insight], ...]:
    """What a note contests gives way once the note is confirmed as often."""
    if contested is None or contested.note is None or contested.status is not InsightStatus.ACTIVE or after.note is None:
        return ()
    if after.note.contests != contested.id or len(after.note.confirmed_by) < len(contested.note.confirmed_by):
        return ()
    return ((contested, _retired(note, contested, SUPERSEDED_STEP, after.id)),)


def decide(note: RememberNote, candidates: Sequence[Candidate], corrected: Insight | None = None) -> Verdict:
    """The event that applies. Candidates about another subject do not count, nor do those that are not active.

    One that says the same goes before one that says the opposite, the nearest before the others, and what merely supports comes
    last.
    """
    if corrected is not None:
        return _correction(note, corrected, None, "the author says which note this one corrects")
    same = dedup.judge(note.text, note.key, candidates, simulated=note.simulated)
    if same.duplicate is not None:
        return _agreement(note, same.duplicate, same.similarity, same.comparisons[-1].why)
    near = dedup.nearest(candidates, note.key, LEAST, simulated=note.simulated)
    for one in near:
        conflict = _conflict(note, one)
        if conflict is not None:
            return conflict
    for one in near:
        if one.similarity >= REINFORCED_FROM and _supports(note, one.insight):
            return Verdict(Event.SUPPORTED, one.insight, one.similarity, "every value is equal, in other words: both are kept")
    return Verdict(Event.NEW, None, None, same.why)


def _agreement(note: RememberNote, other: Insight, similarity: float | None, why: str) -> Verdict:
    """The event where an insight says the same."""
    if other.note is None:
        return Verdict(Event.KNOWN, other, similarity, "a learned insight or a directive says the same")
    if other.id in note.recalled:
        return Verdict(Event.ECHO, other, similarity, "the memory itself had handed this note to the author")
    return Verdict(Event.REINFORCED, other, similarity, why)


def _supports(note: RememberNote, other: Insight) -> bool:
    """Whether a near note is backed by this one: equal in every value, and not what the author had been handed (law 9)."""
    return other.note is not None and other.id not in note.recalled and not differences(values(note.text), values(other.text))


def _conflict(note: RememberNote, one: Candidate) -> Verdict | None:
    """The event where a candidate says something that cannot hold beside the note."""
    other = one.insight
    if other.note is None:
        return None
    said, known = values(note.text), values(other.text)
    own = other.author == note.author
    relation = sentences(said, known, same_author=own)
    if relation is Relation.GONE:
        return _correction(note, other, one.similarity, "what one says is owned, the other says is gone")
    if one.similarity < REINFORCED_FROM or relation is Relation.OTHER:
        return None
    if relation is Relation.OPPOSITE:
        unequal = " and ".join(sorted(differences(said, known)))
        return _correction(note, other, one.similarity, f"the same sentence with the opposite {unequal}")
    why = f"the same sentence of {'the same' if own else 'another'} author with another measured value"
    return Verdict(Event.UPDATED, other, one.similarity, why) if own else _correction(note, other, one.similarity, why)


def _correction(note: RememberNote, other: Insight, similarity: float | None, why: str) -> Verdict:
    if other.author == note.author:
        return Verdict(Event.REPLACED, other, similarity, why)
    if steady(other) and note.corrects != other.id:
        return Verdict(Event.CONTESTED, other, similarity, f"{why}; but {_others(other)} others had confirmed it")
    return Verdict(Event.SUPERSEDED, other, similarity, why)


def _others(other: Insight) -> int:
    return len(other.note.confirmed_by) if other.note else 0


def _made(note: RememberNote, contests: str | None = None) -> Insight:
    return Insight(
        id=note.insight_id,
        text=note.text,
        category=note.category,
        confidence=NEW_CONFIDENCE,
        revision=1,
        key=note.key,
        label=note.label,
        note=Note(contests=contests),
        importance=note.importance,
        created_ts=note.ts,
        validated_ts=note.ts,
        author=note.author,
        simulated=note.simulated,
    )


def _moved(note: RememberNote, other: Insight, step: Decimal, *, reinforced: int = 0, updated: int = 0, echoes: int = 0) -> Insight:
    was = other.note or Note()
    counts: dict[str, object] = {
        "reinforced": was.reinforced + reinforced,
        "updated": was.updated + updated,
        "echoes": was.echoes + echoes,
    }
    if updated:  # who confirmed the words that it had did not confirm these
        counts["confirmed_by"] = ()
    elif reinforced and note.author != other.author:
        counts["confirmed_by"] = tuple(dict.fromkeys((*was.confirmed_by, note.author)))[:MOST_CONFIRMING]
    changes: dict[str, object] = {
        "revision": other.revision + 1,
        "confidence": min(Decimal(1), max(Decimal(0), other.confidence + step)),
        "note": was.model_copy(update=counts),
    }
    if not echoes:
        changes["validated_ts"] = max(other.validated_ts, note.ts)
        changes["importance"] = max(other.importance, note.importance)
    return other.model_copy(update=changes)


def _stepped(other: Insight, step: Decimal) -> Insight:
    return other.model_copy(update={"revision": other.revision + 1, "confidence": max(Decimal(0), other.confidence + step)})


def _retired(note: RememberNote, other: Insight, step: Decimal, by: str) -> Insight:
    was = other.note or Note()
    return _stepped(other, step).model_copy(
        update={
            "status": InsightStatus.ARCHIVED,
            "archived": Archived(cause="superseded", ts=note.ts, by=by),
            "note": was.model_copy(update={"superseded_by": by}),
        }
    )
