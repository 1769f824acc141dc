"""MemoryUsed: what the memory handed out, what of it was used, and how it ended. The ranker learns from it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, FiniteFloat

from schemas.base import Contract
from schemas.types import Label, Moment

MemoryId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[!-~]+$")]


class MemoryUsed(Contract):
    """One use of the memory by one agent. ``recalled`` were handed out, ``used`` went into a decision; used ones count as recalled.

    ``event_id`` is the tool execution that came of it, ``ended`` how that went. ``use_id`` makes it idempotent. ``scores``
    are those that ``recalled`` were found with, without what a ranker learned, in the same order; none where they are not known.
    """

    wire_name: ClassVar[str] = "memory-used"

    use_id: str = Field(min_length=1, max_length=64)
    agent_id: Label
    ts: Moment
    recalled: tuple[MemoryId, ...] = Field(default=(), max_length=100)
    scores: tuple[FiniteFloat, ...] = Field(default=(), max_length=100)
    used: tuple[MemoryId, ...] = Field(default=(), max_length=100)
    event_id: Label | None = None
    ended: Literal["success", "failure", "unknown"] = "unknown"

    @property
    def all_recalled(self) -> tuple[str, ...]:
        """Everything that was handed out, each once, in order."""
        return tuple(dict.fromkeys((*self.recalled, *self.used)))
