"""Insight operations: the only way an insight changes. A closed union by ``kind``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, FiniteFloat, StrictBool, StrictInt, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from schemas.base import Contract, Part
from schemas.claims import Category, Claim, Evidence
from schemas.insights import ArchiveCause, Confidence, FeedbackType, Priority
from schemas.types import ExactDecimal, Label, Moment, Text


class _Operation(Contract):
    """What every operation says: which insight, when (event time), who and why. ``op_id`` makes it idempotent."""

    wire_name: ClassVar[str] = "insight-operation"

    op_id: str
    insight_id: str
    ts: Moment
    author: Label
    reason: str = Field(max_length=2000)


class AddInsight(_Operation):
    """A new insight, confidence 0.6 (specification, part 1 §6)."""

    kind: Literal["ADD"] = "ADD"
    text: str = Field(min_length=1, max_length=2000)
    category: Category
    key: str
    label: Label
    claim: Claim | None = None
    evidence: Evidence | None = None
    importance: Annotated[float, Field(ge=0, le=1)] = 0.0
    simulated: bool = False


class UpvoteInsight(_Operation):
    """New evidence of the same sign: +0.10."""

    kind: Literal["UPVOTE"] = "UPVOTE"
    evidence: Evidence | None = None


class DownvoteInsight(_Operation):
    """New evidence of the opposite sign, or an operator's disagreement: −0.15."""

    kind: Literal["DOWNVOTE"] = "DOWNVOTE"
    evidence: Evidence | None = None


class EditInsight(_Operation):
    """The same rule with a shifted threshold or a materially different effect: new words, same confidence.

    Words without evidence of their own name the digest of the evidence they are about (``of_evidence``), and apply to no other.
    """

    kind: Literal["EDIT"] = "EDIT"
    text: str = Field(min_length=1, max_length=2000)
    claim: Claim | None = None
    evidence: Evidence | None = None
    of_evidence: str | None = None


class ArchiveInsight(_Operation):
    """Out of context; kept. ``cause`` says what may bring it back (``workers/ledger.py``); ``by`` is what took its place.

    With ``of_revision`` it applies to that revision alone: what changed since was decided about something else.
    """

    kind: Literal["ARCHIVE"] = "ARCHIVE"
    cause: ArchiveCause = "stated"
    by: str | None = None
    of_revision: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.cause == "merged" and self.by in (None, self.insight_id):
            raise PydanticCustomError("merged", "what is merged names another insight that it went into")
        return self


class RestoreInsight(_Operation):
    """Back in context. With ``cause`` only if it was archived for that; what was merged does not come back."""

    kind: Literal["RESTORE"] = "RESTORE"
    cause: ArchiveCause | None = None


class AdjustInsight(_Operation):
    """An operator sets the confidence, or moves it by ``delta``; exactly one of the two. Kept within 0 … 1."""

    kind: Literal["ADJUST"] = "ADJUST"
    confidence: Confidence | None = None
    delta: Annotated[ExactDecimal, Field(ge=-1, le=1)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.confidence is None) == (self.delta is None):
            raise PydanticCustomError("adjustment", "an adjustment has a confidence or a delta, and not both")
        return self


class SubmitDirective(_Operation):
    """What the operator wants, from ``ts`` until ``expires_at``: confidence 1.0, moved by nothing (specification, Dashboard)."""

    kind: Literal["DIRECTIVE"] = "DIRECTIVE"
    text: Text
    feedback_type: FeedbackType
    priority: Priority = "medium"
    expires_at: Moment | None = None
    key: str = Field(default="*", min_length=1, max_length=256)
    label: Label = "operator directive"

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.expires_at is not None and self.expires_at <= self.ts:
            raise PydanticCustomError("expired", "a directive expires after it is submitted, or never")
        return self


class Similar(Part):
    """An insight that stood near a note when it was written, and the cosine between them."""

    insight_id: str
    similarity: Annotated[FiniteFloat, Field(ge=-1, le=1)]


class RememberNote(_Operation):
    """What an agent writes down. ``insight_id`` is the id it gets if it turns out to be new (``workers/notes.py`` decides).

    ``similar`` is what stood near when it was written, the nearest first. It was measured once and is part of the record, so a
    rebuild decides the same whatever its machine's floats are like. ``recalled`` are those that the memory itself had handed to
    the author: saying them again is no evidence (law 9). ``corrects`` names a note that this one puts right.
    """

    kind: Literal["REMEMBER"] = "REMEMBER"
    text: Text
    category: Category = Category.GENERAL
    key: str = Field(default="*", min_length=1, max_length=256)
    label: Label = "agent note"
    importance: Annotated[float, Field(ge=0, le=1)] = 0.0
    simulated: bool = False
    similar: tuple[Similar, ...] = Field(default=(), max_length=32)
    recalled: tuple[str, ...] = Field(default=(), max_length=32)
    corrects: str | None = None

    @model_validator(mode="after")
    def _own_category(self) -> Self:
        if self.category is Category.OPERATOR_DIRECTIVE:
            raise PydanticCustomError("directive_category", "a note is no directive; an operator submits those")
        return self


class ForgetInsight(_Operation):
    """Deleted: from rows, text, vectors and history. Its id stays known as forgotten, so that nothing brings it back."""

    kind: Literal["FORGET"] = "FORGET"


class TuneRecall(_Operation):
    """An operator changes how recall scores and cuts, or takes all such changes back. It concerns no insight.

    ``changes`` are settings of recall by name; the writer checks them (``stores/recall/tuned.py``).
    """

    kind: Literal["TUNE"] = "TUNE"
    insight_id: str = "recall-tuning"
    changes: dict[
        Annotated[str, Field(max_length=64)], StrictBool | StrictInt | FiniteFloat | Annotated[str, Field(max_length=64)]
    ] = Field(default_factory=dict, max_length=32)
    reset: bool = False

    @model_validator(mode="after")
    def _something(self) -> Self:
        if bool(self.changes) == self.reset:
            raise PydanticCustomError("tuning", "tuning changes some settings or resets them all, and not both")
        return self


Relation = Literal["SUPPORTS", "EXTENDS", "CONTRASTS", "RELATED", "PREREQUISITE"]


class LinkInsights(_Operation):
    """``insight_id`` bears ``relation`` to ``target_id``; a later one takes its place, and ``removed`` takes it away.

    It changes neither insight. Who measured likeness to find it put that into the record: a rebuild measures nothing.
    """

    kind: Literal["LINK"] = "LINK"
    target_id: str
    relation: Relation
    strength: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    removed: bool = False

    @model_validator(mode="after")
    def _two(self) -> Self:
        if self.target_id == self.insight_id:
            raise PydanticCustomError("self_link", "an insight is not linked with itself")
        return self


class OrganiseInsight(_Operation):
    """What the organiser says of an insight: up to six keywords, and a note that puts it beside others.

    ``basis`` names the state of the insight that this rests on. ``cites`` are the insights whose words the note quotes: where one
    of them is forgotten, the note goes.
    """

    kind: Literal["ORGANISE"] = "ORGANISE"
    keywords: tuple[Annotated[str, Field(min_length=1, max_length=64)], ...] = Field(default=(), max_length=6)
    context_note: str | None = Field(default=None, max_length=1200)
    cites: tuple[str, ...] = Field(default=(), max_length=16)
    basis: str = Field(min_length=1, max_length=64)


class TeachRanker(_Operation):
    """An operator makes the ranker learn from what was used so far, or forget it. Concerns no insight: ``insight_id`` is a name."""

    kind: Literal["RANKER"] = "RANKER"
    insight_id: str = "ranker"
    action: Literal["train", "reset"]


_Any = (
    AddInsight
    | UpvoteInsight
    | DownvoteInsight
    | EditInsight
    | ArchiveInsight
    | RestoreInsight
    | AdjustInsight
    | SubmitDirective
    | RememberNote
    | ForgetInsight
    | TuneRecall
    | LinkInsights
    | OrganiseInsight
    | TeachRanker
)
InsightOperation = Annotated[_Any, Field(discriminator="kind")]
OPERATION: TypeAdapter[_Any] = TypeAdapter(InsightOperation)
