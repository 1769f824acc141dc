"""What an operation does to an insight: the specification's ExpeL arithmetic, as a pure function.

=========  ==========================================================  ==========================
operation  what changes besides the revision                           confidence
=========  ==========================================================  ==========================
ADD        makes the insight                                           0.60
UPVOTE     counter, evidence if there is any, time of validation       +0.10, up to 1
DOWNVOTE   the same                                                    −0.15, down to 0
EDIT       text, claim and evidence if there are any, counter, time    unchanged
ARCHIVE    status, and why                                             unchanged
RESTORE    active again, time of validation                            unchanged
ADJUST     nothing                                                     set, or moved; within 0 … 1
DIRECTIVE  makes an operator's directive                               1
FORGET     everything but the id goes                                  0
=========  ==========================================================  ==========================

What a REMEMBER does depends on what else is known, see ``workers/notes.py``. A directive is the operator's word: it can be archived
or forgotten, and nothing else applies to it. To what is forgotten nothing applies.

Confidence is a Decimal, so ten votes up and down end where they should and not at 0.7500000000000001. Losing all of it does
not remove an insight: it stays, with its history, where nobody is shown it.

An archived insight still takes votes and edits: its evidence goes on. What brings it back depends on why it went:

==========  ==============================================================  ===========================================
cause       it went because                                                 it comes back by
==========  ==============================================================  ===========================================
expired     its time was over (``workers/retention.py``)                    an UPVOTE or EDIT with evidence; RESTORE
explained   a newer claim explains it: it was a proxy                       RESTORE: votes only say that the proxy
                                                                            still correlates
superseded  another one contradicts it and holds                            RESTORE; a claim also by evidence that
                                                                            outweighs the other's, which then goes
                                                                            (``streams/stages/planning.py``)
stated      somebody said so, or nobody said why                            RESTORE
merged      it is the same as another insight, where it goes on             nothing; its votes are the other's affair
==========  ==============================================================  ===========================================

A stronger cause stays when a weaker one comes later, so what was explained away does not become merely expired. An ADD for what
exists is refused, archived or not. The time of validation never goes back, so late evidence does not make an insight look
older than it is. An insight's id is its claim's, so an operation whose claim belongs to another insight is refused: accepting
it would put evidence about one thing under the name of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, assert_never

from schemas.claims import Category, Claim
from schemas.insights import MOST_CONFIRMING, ArchiveCause, Archived, Directive, Insight, InsightStatus
from schemas.operations import (
    AddInsight,
    AdjustInsight,
    ArchiveInsight,
    DownvoteInsight,
    EditInsight,
    ForgetInsight,
    LinkInsights,
    OrganiseInsight,
    RememberNote,
    RestoreInsight,
    SubmitDirective,
    TeachRanker,
    TuneRecall,
    UpvoteInsight,
)
from schemas.types import Moment

Change = UpvoteInsight | DownvoteInsight | EditInsight | ArchiveInsight | RestoreInsight | AdjustInsight | ForgetInsight
Single = AddInsight | SubmitDirective | Change
"""Operations whose effect follows from their own insight alone."""
Beside = LinkInsights | OrganiseInsight | TeachRanker
"""Operations that leave every insight as it is."""
Operation = Single | RememberNote | TuneRecall | Beside

FORGOTTEN_TEXT = "(forgotten)"
ADD_CONFIDENCE = Decimal("0.60")
UPVOTE_STEP = Decimal("0.10")
DOWNVOTE_STEP = Decimal("-0.15")
_FLOOR, _CEILING = Decimal(0), Decimal(1)
_WEIGHT: dict[ArchiveCause, int] = {"expired": 0, "stated": 1, "superseded": 2, "explained": 3, "merged": 4}
_BACK = {"status": InsightStatus.ACTIVE, "archived": None}


@dataclass(frozen=True, slots=True)
class Rejected:
    """An operation that cannot apply. ``reason`` is a stable code: ``already_exists``, ``unknown_insight``, ``claim_mismatch``,
    ``forgotten``, ``directive_fixed``, ``cannot_correct``, ``not_archived``, ``archived_otherwise``, ``merged``,
    ``changed_since``, ``cannot_merge``."""

    reason: str
    detail: str


def apply(insight: Insight | None, operation: Single) -> Insight | Rejected:
    """The insight after an operation, or why not.

    ``insight`` is the present state of the insight that the operation names; None where there is none. The caller makes each
    operation arrive once: applying it twice counts it twice.
    """
    claim: Claim | None = getattr(operation, "claim", None)
    if claim is not None and claim.insight_id != operation.insight_id:
        return Rejected("claim_mismatch", f"the claim's own insight is {claim.insight_id}, not {operation.insight_id}")
    if insight is not None and insight.status is InsightStatus.FORGOTTEN:
        return Rejected("forgotten", f"insight {insight.id} was forgotten; {operation.kind} does not bring it back")
    if isinstance(operation, (AddInsight, SubmitDirective)):
        if insight is not None:
            return Rejected("already_exists", f"insight {insight.id} exists ({insight.status}, revision {insight.revision})")
        return _added(operation) if isinstance(operation, AddInsight) else _directed(operation)
    if insight is None:
        return Rejected("unknown_insight", f"{operation.kind} of insight {operation.insight_id}, which was never added")
    if isinstance(operation, ForgetInsight):
        return _forgotten(insight, operation)
    if insight.directive is not None and not isinstance(operation, ArchiveInsight):
        return Rejected("directive_fixed", f"{operation.kind} does not apply to a directive; archive it and submit another")
    if isinstance(operation, ArchiveInsight) and operation.of_revision not in (None, insight.revision):
        return Rejected("changed_since", f"it is about revision {operation.of_revision} of {insight.id}, now {insight.revision}")
    if isinstance(operation, RestoreInsight) and (refused := _unrestorable(insight, operation)) is not None:
        return refused
    if isinstance(operation, EditInsight) and operation.of_evidence not in (None, insight.evidence and insight.evidence.digest):
        return Rejected("changed_since", f"insight {insight.id} rests on other evidence than these words are about")
    return insight.model_copy(update={"revision": insight.revision + 1, **_changes(insight, operation)})


def superseded(insight: Insight, by: str, ts: Moment) -> Insight:
    """An insight that another one contradicts, out of context; the revision is the caller's affair."""
    return insight.model_copy(update={"status": InsightStatus.ARCHIVED, "archived": Archived(cause="superseded", ts=ts, by=by)})


def back(insight: Insight) -> Insight:
    """An insight in context again; the revision is the caller's affair."""
    return insight.model_copy(update=_BACK)


def absorbed(insight: Insight, merged: Insight, ts: Moment) -> Insight | Rejected:
    """An insight after another one was merged into it: the greater importance, and what had confirmed either of them."""
    if insight.status is not InsightStatus.ACTIVE or insight.directive is not None:
        return Rejected("cannot_merge", f"insight {insight.id} is {insight.status} and takes nothing in")
    note = insight.note
    if note is not None and merged.note is not None:
        others = [one for one in (*note.confirmed_by, merged.author, *merged.note.confirmed_by) if one != insight.author]
        confirmed = {"confirmed_by": tuple(dict.fromkeys(others))[:MOST_CONFIRMING]}
        note = note.model_copy(update={"reinforced": note.reinforced + merged.note.reinforced, **confirmed})
    changes = {"importance": max(insight.importance, merged.importance), "note": note}
    return insight.model_copy(update={"revision": insight.revision + 1, "validated_ts": max(insight.validated_ts, ts), **changes})


def _unrestorable(insight: Insight, operation: RestoreInsight) -> Rejected | None:
    if insight.status is not InsightStatus.ARCHIVED:
        return Rejected("not_archived", f"insight {insight.id} is {insight.status}")
    cause = insight.archived.cause if insight.archived else "stated"
    if cause == "merged":
        into = insight.archived.by if insight.archived else None
        return Rejected("merged", f"insight {insight.id} is the same as {into} and goes on there")
    if operation.cause not in (None, cause):
        return Rejected("archived_otherwise", f"insight {insight.id} was archived as {cause}, not as {operation.cause}")
    return None


def _added(operation: AddInsight) -> Insight:
    return Insight(
        id=operation.insight_id,
        text=operation.text,
        category=operation.category,
        confidence=ADD_CONFIDENCE,
        revision=1,
        key=operation.key,
        label=operation.label,
        claim=operation.claim,
        evidence=operation.evidence,
        importance=operation.importance,
        created_ts=operation.ts,
        validated_ts=operation.ts,
        author=operation.author,
        simulated=operation.simulated,
    )


def _directed(operation: SubmitDirective) -> Insight:
    return Insight(
        id=operation.insight_id,
        text=operation.text,
        category=Category.OPERATOR_DIRECTIVE,
        confidence=_CEILING,
        revision=1,
        key=operation.key,
        label=operation.label,
        directive=Directive(
            feedback_type=operation.feedback_type,
            priority=operation.priority,
            expires_at=operation.expires_at,
            submitted_at=operation.ts,
        ),
        created_ts=operation.ts,
        validated_ts=operation.ts,
        author=operation.author,
    )


def _forgotten(insight: Insight, operation: ForgetInsight) -> Insight:
    """Made anew, not copied: nothing that it said or that was said of it is left, kept unknown fields included."""
    return Insight(
        id=insight.id,
        text=FORGOTTEN_TEXT,
        category=Category.GENERAL,
        confidence=_FLOOR,
        status=InsightStatus.FORGOTTEN,
        revision=insight.revision + 1,
        key="-",
        label="-",
        created_ts=operation.ts,
        validated_ts=operation.ts,
        author="-",
    )


def _changes(
    insight: Insight,
    operation: UpvoteInsight | DownvoteInsight | EditInsight | ArchiveInsight | RestoreInsight | AdjustInsight,
) -> dict[str, Any]:
    if isinstance(operation, ArchiveInsight):
        return {"status": InsightStatus.ARCHIVED, "archived": _archived(insight, operation)}
    if isinstance(operation, RestoreInsight):
        note = insight.note and insight.note.model_copy(update={"superseded_by": None})
        return _BACK | {"validated_ts": max(insight.validated_ts, operation.ts), "note": note}
    if isinstance(operation, AdjustInsight):
        wanted = operation.confidence
        return {"confidence": _moved(insight, operation.delta or _FLOOR) if wanted is None else wanted}
    changes: dict[str, Any] = {"validated_ts": max(insight.validated_ts, operation.ts)}
    if operation.evidence is not None:
        changes["latest"] = operation.evidence
        if insight.archived and insight.archived.cause == "expired" and not isinstance(operation, DownvoteInsight):
            changes |= _BACK
    match operation:
        case UpvoteInsight():
            return changes | {"confidence": _moved(insight, UPVOTE_STEP), "upvotes": insight.upvotes + 1}
        case DownvoteInsight():
            return changes | {"confidence": _moved(insight, DOWNVOTE_STEP), "downvotes": insight.downvotes + 1}
        case EditInsight():
            said = {"text": operation.text, "claim": operation.claim or insight.claim, "edits": insight.edits + 1}
            return changes | said | {"evidence": operation.evidence or insight.evidence}
        case _:
            assert_never(operation)


def _archived(insight: Insight, operation: ArchiveInsight) -> Archived:
    was = insight.archived
    if was is not None and _WEIGHT[was.cause] > _WEIGHT[operation.cause]:
        return was
    return Archived(cause=operation.cause, ts=operation.ts, by=operation.by)


def _moved(insight: Insight, step: Decimal) -> Decimal:
    return min(_CEILING, max(_FLOOR, insight.confidence + step))
