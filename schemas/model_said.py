"""ModelSaid: everything that a language model was asked and said, and what became of it. A rebuild reads this and calls nobody."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.base import Contract, Part
from schemas.types import Label, Moment

MAX_ASKED = 60_000
MAX_SAID = 60_000

Purpose = Literal["claims", "words", "lesson", "briefing", "test"]


class Judgement(Part):
    """One proposal of an answer, as JSON text, and the verdict on it. ``op_id`` is the operation that came of it, if any."""

    proposal: str = Field(max_length=2000)
    accepted: bool
    reason: str = Field(max_length=500)
    detail: str = Field(default="", max_length=1000)
    op_id: str | None = None


class ModelSaid(Contract):
    """One question to a model and its answer.

    ``subject`` is the record key or the insight that it was about. ``prompt`` names the versioned prompt, ``prompt_sha256`` its
    text. ``asked`` is what was sent, ``raw`` what came back, unchanged but for its length. ``look`` counts the questions for claims
    about this subject: it decides how much of the error rate the proposals may spend (``alpha``); ``rows`` are the subject's
    episodes at that time. ``ts`` is when it was asked. ``request`` is the id of a caller's request, where one asked for it.
    """

    wire_name: ClassVar[str] = "model-said"

    said_id: str
    ts: Moment
    purpose: Purpose
    subject: str = Field(max_length=512)
    prompt: Label
    prompt_sha256: str = Field(min_length=64, max_length=64)
    model: Label
    asked: str = Field(max_length=MAX_ASKED)
    outcome: Literal["answered", "unavailable", "unusable"]
    raw: str = Field(default="", max_length=MAX_SAID)
    cut: bool = False
    problem: str | None = Field(default=None, max_length=1000)
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    look: int = Field(default=0, ge=0)
    rows: int = Field(default=0, ge=0)
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.0
    judgements: tuple[Judgement, ...] = Field(default=(), max_length=64)
    dry_run: bool = False
    request: str | None = Field(default=None, max_length=64)

    @property
    def tokens(self) -> int:
        """What it cost."""
        return self.prompt_tokens + self.completion_tokens
