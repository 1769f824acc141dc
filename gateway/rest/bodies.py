"""What callers send. Unknown fields are refused: a misspelt filter must not widen an answer."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from schemas.claims import Category
from schemas.insights import FeedbackType, Priority
from schemas.types import moment
from schemas.usage import MemoryId
from stores.recall.filters import EVERY_KIND, RecallFilters
from stores.recall.memories import Kind

MAX_QUERY = 200_000

RequestId = Annotated[
    str,
    Field(min_length=1, max_length=128, pattern=r"^[!-~]+$", description="one id an intention, kept on retry", examples=["5f2c0d"]),
]
InsightId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[!-~]+$")]


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("text with a NUL character is refused")
    return text


def _moment(value: Any) -> datetime:
    """Text only: a bare number, or "2026", would be read as seconds of 1970."""
    if isinstance(value, datetime):
        return moment(value)[0]
    if not isinstance(value, str):
        raise ValueError("a time is text, RFC 3339 with a zone: 2026-01-01T00:00:00Z")
    return moment(value)[0]


When = Annotated[datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
Words = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_storable)]
Reason = Annotated[str, Field(max_length=1900), AfterValidator(_storable)]
Key = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_storable)]
Share = Annotated[Decimal, Field(ge=0, le=1, max_digits=12, decimal_places=6)]


class Body(BaseModel):
    """A request's body."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Filters(Body):
    """All conditions must hold; what is left out does not count. Times are event times and need a zone."""

    kinds: Annotated[frozenset[Kind], Field(min_length=1)] = EVERY_KIND
    tool: str | None = Field(None, max_length=128)
    chain: str | None = Field(None, max_length=64)
    pair: str | None = Field(None, max_length=256)
    categories: frozenset[Category] = frozenset()
    regime: str | None = Field(None, max_length=64)
    min_confidence: Share | None = None
    since: When | None = None
    until: When | None = None
    include_simulated: bool = True

    def wanted(self) -> RecallFilters:
        """As recall takes them."""
        return RecallFilters(**{name: getattr(self, name) for name in type(self).model_fields})


class RecallBody(Body):
    """A question. ``now`` is the time of the decision, ``as_of`` leaves out what was not known then, ``regime`` is preferred."""

    query: str = Field(max_length=MAX_QUERY, examples=["large swap on a thin pool"])
    filters: Filters = Filters()
    limit: int | None = Field(None, ge=1, le=100)
    now: When | None = None
    as_of: When | None = None
    regime: str | None = Field(None, max_length=64)


class ReasonBody(Body):
    """A change of an insight, with why."""

    request_id: RequestId
    reason: Reason = ""


class AdjustBody(ReasonBody):
    """A confidence, or how much to move it; exactly one of the two."""

    confidence: Share | None = None
    delta: Annotated[Decimal, Field(ge=-1, le=1, max_digits=12, decimal_places=6)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.confidence is None) == (self.delta is None):
            raise ValueError("give a confidence or a delta, and not both")
        return self


class DirectiveBody(Body):
    """An operator's directive."""

    request_id: RequestId
    text: Words
    feedback_type: FeedbackType
    priority: Priority = "medium"
    expires_at: When | None = None
    reason: Reason = ""


class NoteBody(Body):
    """An agent's note. ``key`` says what it is about (``tool:chain:pair``, ``*`` for anything); ``corrects`` names a note."""

    request_id: RequestId
    text: Words
    category: Category = Category.GENERAL
    key: Key = "*"
    importance: float = Field(0.0, ge=0, le=1)
    corrects: InsightId | None = None
    reason: Reason = ""


class UseBody(Body):
    """Which memories went into a decision."""

    request_id: RequestId
    used: Annotated[tuple[MemoryId, ...], Field(max_length=100)] = ()
    recall_id: InsightId | None = None
    recalled: Annotated[tuple[MemoryId, ...], Field(max_length=100)] = ()
    event_id: Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_storable)] | None = None
    ended: Literal["success", "failure", "unknown"] = "unknown"


class ValuationBody(Body):
    """What a portfolio is worth, in the valuation contract (``schemas/json/portfolio-valuation.v1.json``)."""

    valuation: dict[str, Any]


class ExecutionBody(Body):
    """What a tool did, in the tool-execution contract (``schemas/json/tool-execution.v1.json``)."""

    request_id: RequestId
    execution: dict[str, Any]
