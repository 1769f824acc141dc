"""Contracts to rows and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from schemas.claims import Evidence
from schemas.codec import CONTRACTS
from schemas.insights import Insight, InsightStatus
from schemas.signals import Signal
from stores.sqlite.filters import microseconds, ppm

Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""


@dataclass(frozen=True, slots=True)
class Changed:
    """One applied operation: on which insight, what kind, when (event time), who and why. ``confidence_before`` is None for ADD."""

    insight_id: str
    revision: int
    op_id: str
    kind: str
    ts: datetime
    author: str
    reason: str
    confidence_before: Decimal | None
    confidence_after: Decimal


@dataclass(frozen=True, slots=True)
class HistoryEntry(Changed):
    """An applied operation with all that is kept of it. ``evidence`` is what the operation itself brought.

    ``changes`` are the insight's fields that it changed, as JSON values (see :func:`changed_fields`); None where they are not kept:
    of what was forgotten, and of what an earlier version wrote.
    """

    evidence: Evidence | None
    changes: dict[str, Any] | None = None

    @property
    def text(self) -> str | None:
        """The words that the operation gave the insight; None where it left them, or where they are not kept."""
        return None if self.changes is None else self.changes.get("text")

    def row(self) -> tuple[Any, ...]:
        """For the ``history`` table."""
        before = None if self.confidence_before is None else plain_decimal(self.confidence_before)
        evidence = None if self.evidence is None else self.evidence.model_dump_json(exclude_none=True)
        changes = None if self.changes is None else json.dumps(self.changes, ensure_ascii=False, separators=(",", ":"))
        words = (self.author, self.reason, before, plain_decimal(self.confidence_after), evidence, changes)
        return (self.insight_id, self.revision, self.op_id, self.kind, microseconds(self.ts), *words)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A message that the writer committed and the relay has yet to publish. ``seq`` rises; ``value`` is the record's value.
    ``trace`` is the ``traceparent`` of the operation behind it."""

    seq: int
    topic: str
    key: str
    message_id: str
    ts_ms: int
    value: bytes
    trace: str | None = None


def insight_columns(insight: Insight) -> dict[str, Any]:
    """The ``insights`` row of an insight, by column."""
    tool, chain, pair = [*insight.key.split(":", 2), "", ""][:3]
    return {
        "id": insight.id,
        "revision": insight.revision,
        "category": str(insight.category),
        "status": str(insight.status),
        "confidence_ppm": ppm(insight.confidence),
        "key": insight.key,
        "tool": tool,
        "chain": chain,
        "pair": pair,
        "metric": insight.claim.metric if insight.claim else "",
        "simulated": int(insight.simulated),
        "created_us": microseconds(insight.created_ts),
        "validated_us": microseconds(insight.validated_ts),
    }


def about(insight: Insight) -> str:
    """What an insight is about, for searching by address, label or category."""
    return f"{insight.label} {insight.category} {insight.key}"


def insight_of(json: str) -> Insight:
    """The insight of a row."""
    return Insight.model_validate_json(json)


def signal_of(json: str) -> Signal:
    """The signal of a row."""
    signal: Signal = CONTRACTS["signal"].validate_json(json)
    return signal


def history_of(row: Sequence[Any]) -> HistoryEntry:
    """The entry of a ``history`` row."""
    insight_id, revision, op_id, kind, ts_us, author, reason, before, after, evidence, changes = row
    return HistoryEntry(
        insight_id,
        revision,
        op_id,
        kind,
        from_microseconds(ts_us),
        author,
        reason,
        None if before is None else Decimal(before),
        Decimal(after),
        None if evidence is None else Evidence.model_validate_json(evidence),
        None if changes is None else json.loads(changes),
    )


_BROUGHT = "operation"
"""Stands for the operation's own evidence, which its history entry has anyway."""


def changed_fields(before: Insight | None, after: Insight, evidence: Evidence | None) -> dict[str, Any] | None:
    """What an operation that brought ``evidence`` changed, as JSON values by field; None for what was forgotten."""
    if after.status is InsightStatus.FORGOTTEN:
        return None
    was = {} if before is None else before.model_dump(mode="json")
    changed = {name: value for name, value in after.model_dump(mode="json").items() if name not in was or was[name] != value}
    for name in ("evidence", "latest"):
        if name in changed and evidence is not None and getattr(after, name) == evidence:
            changed[name] = _BROUGHT
    return changed


def insight_after(entries: Sequence[HistoryEntry]) -> Insight | None:
    """The insight as these operations, its first ones in order, had made it; None where what they changed is not kept."""
    state: dict[str, Any] = {}
    for entry in entries:
        if entry.changes is None:
            return None
        brought = None if entry.evidence is None else entry.evidence.model_dump(mode="json")
        state |= {name: brought if value == _BROUGHT else value for name, value in entry.changes.items()}
    return Insight.model_validate(state) if state else None


HISTORY = "insight_id, revision, op_id, kind, ts_us, author, reason, confidence_before, confidence_after, evidence, changes"
"""The columns of :func:`history_of`, in order."""


def from_microseconds(value: int) -> datetime:
    """The moment that ``filters.microseconds`` wrote."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)


def plain_decimal(value: Decimal) -> str:
    """A decimal as the contracts write it: ``0.70`` is ``0.7``."""
    return format(value.normalize(), "f") if value else "0"
