"""Insight: a falsifiable claim in words, with its evidence and a confidence; and the update that announces a change to it."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.base import Contract
from schemas.claims import Category, Claim, Evidence
from schemas.types import ExactDecimal, Label, Moment

Confidence = Annotated[ExactDecimal, Field(ge=Decimal(0), le=Decimal(1))]


class InsightStatus(StrEnum):
    """Archived is out of context, never deleted."""

    ACTIVE = "active"
    ARCHIVED = "archived"


class Insight(Contract):
    """One thing the brain believes, and how much.

    ``revision`` counts applied operations, from 1 (ADD). Times are event times. ``evidence`` is what the words rest on: every
    number in them is in it (law 7). ``latest`` is what the last vote rested on, which may say otherwise. ``claim`` and
    ``evidence`` are absent only on what people state themselves.
    """

    wire_name: ClassVar[str] = "insight"

    id: str
    text: str = Field(min_length=1, max_length=2000)
    category: Category
    confidence: Confidence
    status: InsightStatus = InsightStatus.ACTIVE
    revision: int = Field(ge=1)
    key: str
    label: Label
    claim: Claim | None = None
    evidence: Evidence | None = None
    latest: Evidence | None = None
    importance: Annotated[float, Field(ge=0, le=1)] = 0.0
    upvotes: int = 0
    downvotes: int = 0
    edits: int = 0
    created_ts: Moment
    validated_ts: Moment
    author: Label
    simulated: bool = False


OperationKind = Literal["ADD", "UPVOTE", "DOWNVOTE", "EDIT", "ARCHIVE"]


class InsightUpdate(Contract):
    """An insight after an operation. In order per insight: ``revision`` rises by one each time."""

    wire_name: ClassVar[str] = "insight-update"

    insight: Insight
    revision: int = Field(ge=1)
    operation_id: str
    kind: OperationKind
    reason: str
    ts: Moment
