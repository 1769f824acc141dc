"""WindowClosed: what one window of one record key saw, on its way to the levels above the key (ADR 0007)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Self

from pydantic import Field, FiniteFloat, model_validator
from pydantic_core import PydanticCustomError

from schemas.base import Contract
from schemas.events import Action
from schemas.types import Count, Label, Name

Millis = Annotated[int, Field(strict=True)]
Column = tuple[FiniteFloat | None, ...]
MAX_ROWS = 200
"""Observations in one record; of a busier window every n-th is sent."""
MAX_FAILED = 5
"""Sample of failed episodes a kind of error."""


class WindowClosed(Contract):
    """The observations of one event-time window of one key, as columns of equal length, in the order of (time, id).

    An observation is in exactly one window record. Times are Unix milliseconds; ``end_ms`` is exclusive. ``source`` is the
    partition of the episodes topic that it comes from, ``sequence`` counts that partition's records without gaps, and
    ``watermark_ms`` is the end of what that partition has sent: windows that end by then are complete, unless a key of it is filled
    in from the past.

    ``episodes`` counts all of the window, ``thinned`` those that are not among the columns for their number; ``failures`` counts
    by kind of error over all of them, with the ids of some in ``failed``. ``cuts`` says since when each metric of the key counts
    after a drift alarm: earlier observations no longer speak about it.
    """

    wire_name: ClassVar[str] = "window-closed"

    id: str
    key: str
    tool: Name
    label: Label
    action: Action
    simulated: bool = False
    source: Count
    sequence: Count
    start_ms: Millis
    end_ms: Millis
    watermark_ms: Millis | None = None
    episodes: Count
    thinned: Count = 0
    ids: tuple[str, ...] = Field(default=(), max_length=MAX_ROWS)
    ts_ms: tuple[Millis, ...] = Field(default=(), max_length=MAX_ROWS)
    metrics: dict[Name, Column] = Field(default_factory=dict)
    numbers: dict[Name, Column] = Field(default_factory=dict)
    labels: dict[Name, tuple[bool | str | None, ...]] = Field(default_factory=dict)
    failures: dict[Name, Count] = Field(default_factory=dict)
    failed: dict[Name, Annotated[tuple[str, ...], Field(max_length=MAX_FAILED)]] = Field(default_factory=dict)
    cuts: dict[Name, Millis] = Field(default_factory=dict)

    @property
    def ts(self) -> datetime:
        """Event time: the window's end."""
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.end_ms)

    @model_validator(mode="after")
    def _even(self) -> Self:
        rows = len(self.ids)
        columns = [self.ts_ms, *self.metrics.values(), *self.numbers.values(), *self.labels.values()]
        if any(len(column) != rows for column in columns) or rows + self.thinned != self.episodes:
            raise PydanticCustomError("uneven_window", "a window's columns are as long as its list of ids")
        return self
