"""What an operation does to an insight: the specification's ExpeL arithmetic, as a pure function.

=========  ==========================================================  ==========================
operation  what changes besides the revision                           confidence
=========  ==========================================================  ==========================
ADD        makes the insight                                           0.60
UPVOTE     counter, evidence if there is any, time of validation       +0.10, up to 1
DOWNVOTE   the same                                                    −0.15, down to 0
EDIT       text, claim and evidence if there are any, counter, time    unchanged
ARCHIVE    status                                                      unchanged
ADJUST     nothing                                                     set, or moved; within 0 … 1
DIRECTIVE  makes an operator's directive                               1
FORGET     everything but the id goes                                  0
=========  ==========================================================  ==========================

What a REMEMBER does depends on what else is known, see ``workers/notes.py``. A directive is the operator's word: it can be archived
or forgotten, and nothing else applies to it. To what is forgotten nothing applies.

Confidence is a Decimal, so ten votes up and down end where they should and not at 0.7500000000000001. Losing all of it does
not remove an insight: it stays, with its history, where nobody is shown it.

An archived insight still takes votes and edits — its evidence goes on — but nothing here brings it back; an ADD for it is
refused like any ADD of what exists. The time of validation never goes back, so late evidence does not make an insight look
older than it is. An insight's id is its claim's, so an operation whose claim belongs to another insight is refused: accepting
it would put evidence about one thing under the name of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, assert_never

from schemas.claims import Category, Claim
from schemas.insights import Directive, Insight, InsightStatus
from schemas.operations import (
    AddInsight,
    AdjustInsight,
    ArchiveInsight,
    DownvoteInsight,
    EditInsight,
    ForgetEpisode,
    ForgetInsight,
    LinkInsights,
    OrganiseInsight,
    RememberNote,
    SubmitDirective,
    TeachRanker,
    TuneRecall,
    UpvoteInsight,
)

Change = UpvoteInsight | DownvoteInsight | EditInsight | ArchiveInsight | AdjustInsight | ForgetInsight
Single = AddInsight | SubmitDirective | Change
"""Operations whose effect follows from their own insight alone."""
Beside = LinkInsights | OrganiseInsight | TeachRanker | ForgetEpisode
"""Operations that leave every insight as it is."""
Operation = Single | RememberNote | TuneRecall | Beside

FORGOTTEN_TEXT = "(forgotten)"
ADD_CONFIDENCE = Decimal("0.60")
UPVOTE_STEP = Decimal("0.10")
DOWNVOTE_STEP = Decimal("-0.15")
_FLOOR, _CEILING = Decimal(0), Decimal(1)


@dataclass(frozen=True, slots=True)
class Rejected:
    """An operation that cannot apply. ``reason`` is a stable code: ``already_exists``, ``unknown_insight``, ``claim_mismatch``,
    ``forgotten``, ``directive_fixed``, ``cannot_correct``."""

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
    return insight.model_copy(update={"revision": insight.revision + 1, **_changes(insight, operation)})


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
    insight: Insight, operation: UpvoteInsight | DownvoteInsight | EditInsight | ArchiveInsight | AdjustInsight
) -> dict[str, Any]:
    if isinstance(operation, ArchiveInsight):
        return {"status": InsightStatus.ARCHIVED}
    if isinstance(operation, AdjustInsight):
        wanted = operation.confidence
        return {"confidence": _moved(insight, operation.delta or _FLOOR) if wanted is None else wanted}
    changes: dict[str, Any] = {"validated_ts": max(insight.validated_ts, operation.ts)}
    if operation.evidence is not None:
        changes["latest"] = operation.evidence
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


def _moved(insight: Insight, step: Decimal) -> Decimal:
    return min(_CEILING, max(_FLOOR, insight.confidence + step))
