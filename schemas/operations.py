"""Insight operations: the only way an insight changes. A closed union by ``kind``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, TypeAdapter

from schemas.base import Contract
from schemas.claims import Category, Claim, Evidence
from schemas.types import Label, Moment


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
    """The same rule with a shifted threshold or a materially different effect: new words, same confidence."""

    kind: Literal["EDIT"] = "EDIT"
    text: str = Field(min_length=1, max_length=2000)
    claim: Claim | None = None
    evidence: Evidence | None = None


class ArchiveInsight(_Operation):
    """Out of context; kept."""

    kind: Literal["ARCHIVE"] = "ARCHIVE"


InsightOperation = Annotated[
    AddInsight | UpvoteInsight | DownvoteInsight | EditInsight | ArchiveInsight, Field(discriminator="kind")
]
OPERATION: TypeAdapter[AddInsight | UpvoteInsight | DownvoteInsight | EditInsight | ArchiveInsight] = TypeAdapter(InsightOperation)
