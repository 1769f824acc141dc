"""What the ranker learns from, as the store has it: uses of the memory with who was shown what, and the operator's marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from schemas.operations import TeachRanker
from stores.sqlite.connection import Connection
from stores.sqlite.filters import microseconds
from stores.sqlite.rows import from_microseconds


@dataclass(frozen=True, slots=True)
class Mark:
    """An operator's word to the ranker, when (event time), by whom and why."""

    action: Literal["train", "reset"]
    ts: datetime
    author: str
    reason: str


def put_marks(connection: Connection, operations: Sequence[TeachRanker]) -> None:
    """Keep marks. Inside a transaction."""
    connection.executemany(
        "INSERT INTO ranker_marks (op_id, action, ts_us, author, reason) VALUES (?, ?, ?, ?, ?)",
        [(one.op_id, one.action, microseconds(one.ts), one.author, one.reason) for one in operations],
    )


def marks(connection: Connection) -> tuple[Mark, ...]:
    """Every mark, the earliest first."""
    rows = connection.execute("SELECT action, ts_us, author, reason FROM ranker_marks ORDER BY ts_us, op_id")
    return tuple(Mark(action, from_microseconds(ts_us), author, reason) for action, ts_us, author, reason in rows)


def mark_lines(connection: Connection) -> Iterator[dict[str, Any]]:
    """Every mark, sorted by id, for the fingerprint."""
    for row in connection.execute("SELECT op_id, action, ts_us FROM ranker_marks ORDER BY op_id"):
        yield {"ranker": list(row)}
