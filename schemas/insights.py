"""Insight: a falsifiable claim in words, with its evidence and a confidence; and the update that announces a change to it.

What people and agents state themselves is kept beside what was learned, in the same form but without a claim: an operator's
directive has a :class:`Directive`, an agent's note a :class:`Note`.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.base import Contract, Part
from schemas.claims import Category, Claim, Evidence
from schemas.types import ExactDecimal, Label, Moment

Confidence = Annotated[ExactDecimal, Field(ge=Decimal(0), le=Decimal(1))]

FeedbackType = Literal["strategy_preference", "decision_correction", "market_context", "goal_adjustment"]
Priority = Literal["low", "medium", "high"]
ArchiveCause = Literal["stated", "explained", "expired", "merged", "superseded"]
"""Why something is archived: somebody said so; a newer claim explains it; its time is over; it is the same as another insight; or
another one contradicts it and holds."""


class InsightStatus(StrEnum):
    """Archived is out of context, never deleted. Forgotten is deleted: only the id and the number of changes are left."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    FORGOTTEN = "forgotten"


class Archived(Part):
    """Why and since when (event time) an insight is out of context. ``by`` is what took its place, where something did."""

    cause: ArchiveCause
    ts: Moment
    by: str | None = None


class Directive(Part):
    """What makes an insight an operator's directive. Its confidence is 1 and nothing moves it."""

    feedback_type: FeedbackType
    priority: Priority
    expires_at: Moment | None = None
    submitted_at: Moment

    def in_force(self, now: Moment) -> bool:
        """Whether it has not expired yet."""
        return self.expires_at is None or now < self.expires_at


MOST_CONFIRMING = 16


class Note(Part):
    """What makes an insight an agent's note. ``reinforced`` counts the times that it was said again by somebody who had not got it
    from here; ``echoes`` the times that it was merely repeated (law 9). ``confirmed_by`` are those of them who are not its
    author, the first so many, since its words are these. ``superseded_by`` is the note that took its place; ``contests`` one that
    says otherwise and was confirmed too often to give way to a single contrary word.
    """

    reinforced: int = 0
    confirmed_by: tuple[Label, ...] = Field(default=(), max_length=MOST_CONFIRMING)
    updated: int = 0
    echoes: int = 0
    superseded_by: str | None = None
    contests: str | None = None


class Insight(Contract):
    """One thing the brain believes, and how much.

    ``revision`` counts applied operations, from 1 (ADD). Times are event times. ``evidence`` is what the words rest on: every
    number in them is in it (law 7). ``latest`` is what the last vote rested on, which may say otherwise. ``claim`` and
    ``evidence`` are absent only on what people state themselves: ``directive`` or ``note`` says which that is.
    """

    wire_name: ClassVar[str] = "insight"

    id: str
    text: str = Field(min_length=1, max_length=2000)
    category: Category
    confidence: Confidence
    status: InsightStatus = InsightStatus.ACTIVE
    archived: Archived | None = None
    revision: int = Field(ge=1)
    key: str
    label: Label
    claim: Claim | None = None
    evidence: Evidence | None = None
    latest: Evidence | None = None
    directive: Directive | None = None
    note: Note | None = None
    importance: Annotated[float, Field(ge=0, le=1)] = 0.0
    upvotes: int = 0
    downvotes: int = 0
    edits: int = 0
    created_ts: Moment
    validated_ts: Moment
    author: Label
    simulated: bool = False


OperationKind = Literal["ADD", "UPVOTE", "DOWNVOTE", "EDIT", "ARCHIVE", "RESTORE", "ADJUST", "DIRECTIVE", "REMEMBER", "FORGET"]


class InsightUpdate(Contract):
    """An insight after an operation. In order per insight: ``revision`` rises by one each time.

    A forgotten insight comes as a tombstone: its id and revision, the status, and no words of its own.
    """

    wire_name: ClassVar[str] = "insight-update"

    insight: Insight
    revision: int = Field(ge=1)
    operation_id: str
    kind: OperationKind
    reason: str
    ts: Moment
