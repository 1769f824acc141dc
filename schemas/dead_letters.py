"""DeadLetter: a record that could not be processed, with its original bytes and the reason (law 5)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from schemas.base import Contract
from schemas.types import Moment


class DeadLetter(Contract):
    """The original key and value untouched, where they stood, which stage refused them and why.

    ``reason`` is a stable code (``not_json``, ``future_dated``, ``price_off_reference``, …); ``detail`` one line for people.
    ``first_failed_at`` is the record's log timestamp, so that a replay says the same.
    """

    wire_name: ClassVar[str] = "dead-letter"

    id: str
    topic: str
    partition: int = Field(ge=0)
    offset: int = Field(ge=0)
    timestamp_ms: int
    stage: str
    reason: str
    detail: str = Field(max_length=2000)
    error_class: str
    attempt: int = Field(default=1, ge=1)
    first_failed_at: Moment
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
