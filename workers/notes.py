"""What a note that an agent writes does to the notes that are there: the second document's confidence events, as a pure function.

==========  =============================================================================  ====================================
event       when                                                                           confidence
==========  =============================================================================  ====================================
new         nothing near it says the same or the opposite                                  the note: 1.0
reinforced  a note says the same: cosine ≥ 0.85 and equal in every value                   that note: +0.05
updated     the same sentence of the same author with another measured value               that note: +0.025, in the new words
superseded  another author's note is contradicted: that one is archived and points here    that note: −0.10; the new one: 1.0
replaced    the author's own note is contradicted: the same                                that note: −0.20; the new one: 1.0
echo        the same, but the memory itself had handed that note to the author             nothing (law 9)
known       a learned insight or a directive says the same                                 nothing: it has its own evidence
==========  =============================================================================  ====================================

A cosine does not see what matters in trades: "0.50 %" and "5.00 %" stand at 0.957, a rule and its negation at 0.969. So the cosine
only says what to look at; numbers with their units, identifiers, chains, names, sides and polarity decide (``values``).

Retiring a note needs more than unequal values, or mentioning a pool would retire what is known of it. The two sentences must be
the same but for the values in question (``Values.frame``), or the author must say which note is corrected. A bare number may be
a name (trade 17), so only a number with a unit counts as a measured value. There is no gap between thresholds: whatever is not
one of the other events is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from schemas.insights import Insight, InsightStatus, Note
from schemas.operations import RememberNote
from workers.values import differences, values

SIMILAR_FROM = 0.85
NEW_CONFIDENCE = Decimal(1)
REINFORCED_STEP = Decimal("0.05")
UPDATED_STEP = Decimal("0.025")
SUPERSEDED_STEP = Decimal("-0.10")
REPLACED_STEP = Decimal("-0.20")


class Event(StrEnum):
    """What became of a note."""

    NEW = "new"
    REINFORCED = "reinforced"
    UPDATED = "updated"
    SUPERSEDED = "superseded"
    REPLACED = "replaced"
    ECHO = "echo"
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An insight that stands near the note, and the cosine between their words."""

    insight: Insight
    similarity: float


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


def remember(note: RememberNote, candidates: Sequence[Candidate], corrected: Insight | None = None) -> Remembered:
    """What a note does. ``candidates`` are active; ``corrected`` is the note that it says it corrects."""
    verdict = decide(note, candidates, corrected)
    other = verdict.other
    if other is None:
        return Remembered(verdict, ((None, _made(note)),))
    match verdict.event:
        case Event.REINFORCED:
            return Remembered(verdict, ((other, _moved(note, other, REINFORCED_STEP, reinforced=1)),))
        case Event.UPDATED:
            moved = _moved(note, other, UPDATED_STEP, updated=1)
            return Remembered(verdict, ((other, moved.model_copy(update={"text": note.text, "edits": other.edits + 1})),))
        case Event.ECHO:
            return Remembered(verdict, ((other, _moved(note, other, Decimal(0), echoes=1)),))
        case Event.SUPERSEDED | Event.REPLACED:
            step = SUPERSEDED_STEP if verdict.event is Event.SUPERSEDED else REPLACED_STEP
            return Remembered(verdict, ((other, _retired(note, other, step)), (None, _made(note))))
        case Event.KNOWN:
            return Remembered(verdict, ())
        case Event.NEW:
            return Remembered(verdict, ((None, _made(note)),))


def decide(note: RememberNote, candidates: Sequence[Candidate], corrected: Insight | None = None) -> Verdict:
    """The event that applies. Candidates under the threshold or about another subject do not count.

    One that says the same goes before one that says the opposite, and the nearest before the others.
    """
    if corrected is not None:
        return _correction(note, corrected, None, "the author says which note this one corrects")
    near = [one for one in candidates if one.similarity >= SIMILAR_FROM and one.insight.status is InsightStatus.ACTIVE]
    ordered = sorted(near, key=lambda one: (-one.similarity, one.insight.id))
    passed: list[str] = []
    for judge in (_agreement, _conflict):
        passed.clear()
        for one in ordered:
            verdict = judge(note, one) if one.insight.key == note.key else "it is about something else"
            if isinstance(verdict, Verdict):
                return verdict
            passed.append(f"{one.insight.id[:8]} at {one.similarity:.3f}: {verdict}")
    return Verdict(Event.NEW, None, None, "; ".join(passed) or f"nothing stands at {SIMILAR_FROM} or nearer")


def _agreement(note: RememberNote, one: Candidate) -> Verdict | str:
    """The event where a near candidate says the same, or in what it differs."""
    other = one.insight
    unequal = differences(values(note.text), values(other.text))
    if unequal:
        return f"differs in {', '.join(sorted(unequal))}"
    if other.note is None:
        return Verdict(Event.KNOWN, other, one.similarity, "a learned insight or a directive says the same")
    if other.id in note.recalled:
        return Verdict(Event.ECHO, other, one.similarity, "the memory itself had handed this note to the author")
    return Verdict(Event.REINFORCED, other, one.similarity, "says the same, and every value is equal")


def _conflict(note: RememberNote, one: Candidate) -> Verdict | str:
    """The event where a near candidate is the same sentence with another value, or in what it differs."""
    other = one.insight
    said, known = values(note.text), values(other.text)
    unequal = differences(said, known)
    if other.note is not None and said.frame == known.frame:
        if unequal <= {"polarity", "side"}:
            return _correction(note, other, one.similarity, f"the same sentence with the opposite {' and '.join(sorted(unequal))}")
        if unequal == {"measures"}:
            own = other.author == note.author
            why = f"the same sentence of {'the same' if own else 'another'} author with another measured value"
            return Verdict(Event.UPDATED if own else Event.SUPERSEDED, other, one.similarity, why)
    return f"differs in {', '.join(sorted(unequal))}"


def _correction(note: RememberNote, other: Insight, similarity: float | None, why: str) -> Verdict:
    own = other.author == note.author
    return Verdict(Event.REPLACED if own else Event.SUPERSEDED, other, similarity, why)


def _made(note: RememberNote) -> Insight:
    return Insight(
        id=note.insight_id,
        text=note.text,
        category=note.category,
        confidence=NEW_CONFIDENCE,
        revision=1,
        key=note.key,
        label=note.label,
        note=Note(),
        importance=note.importance,
        created_ts=note.ts,
        validated_ts=note.ts,
        author=note.author,
        simulated=note.simulated,
    )


def _moved(note: RememberNote, other: Insight, step: Decimal, *, reinforced: int = 0, updated: int = 0, echoes: int = 0) -> Insight:
    was = other.note or Note()
    counts = {
        "reinforced": was.reinforced + reinforced,
        "updated": was.updated + updated,
        "echoes": was.echoes + echoes,
    }
    changes: dict[str, object] = {
        "revision": other.revision + 1,
        "confidence": min(Decimal(1), max(Decimal(0), other.confidence + step)),
        "note": was.model_copy(update=counts),
    }
    if not echoes:
        changes["validated_ts"] = max(other.validated_ts, note.ts)
        changes["importance"] = max(other.importance, note.importance)
    return other.model_copy(update=changes)


def _retired(note: RememberNote, other: Insight, step: Decimal) -> Insight:
    was = other.note or Note()
    return other.model_copy(
        update={
            "revision": other.revision + 1,
            "confidence": max(Decimal(0), other.confidence + step),
            "status": InsightStatus.ARCHIVED,
            "note": was.model_copy(update={"superseded_by": note.insight_id}),
        }
    )
