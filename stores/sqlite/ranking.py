"""What the ranker learns from, as the store has it: uses of the memory with who was shown what, and the operator's marks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import orjson

from schemas.operations import TeachRanker
from schemas.usage import MemoryUsed
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


@dataclass(frozen=True, slots=True)
class Trail:
    """What was known of an insight when: its importance now, and by event time each validation and confidence."""

    importance: float
    steps: tuple[tuple[datetime, float, bool], ...]
    """Moment, confidence from then on, and whether it counts as a validation; in the order of revisions."""

    def at(self, moment: datetime) -> tuple[datetime, float]:
        """The last validation and the confidence at a moment; the first ones, for a moment before them."""
        known = [step for step in self.steps if step[0] <= moment] or self.steps[:1]
        validations = [ts for ts, _, validates in known if validates]
        return max(validations, default=known[0][0]), known[-1][1]


def uses_until(connection: Connection, moment: datetime | None) -> int:
    """How many uses are dated until a moment; all of them for None."""
    if moment is None:
        return int(connection.one("SELECT count(*) FROM uses"))
    return int(connection.one("SELECT count(*) FROM uses WHERE ts_us <= ?", (microseconds(moment),)))


def uses_in_order(connection: Connection, first: int, count: int) -> list[MemoryUsed]:
    """Uses by event time and id, so many from an index on."""
    sql = "SELECT json FROM uses JOIN (SELECT use_id FROM uses ORDER BY ts_us, use_id LIMIT ? OFFSET ?) USING (use_id)"
    rows = connection.execute(f"{sql} ORDER BY ts_us, use_id", (count, first))
    return [MemoryUsed.model_validate_json(text) for (text,) in rows]


def trails(connection: Connection, insight_ids: Iterable[str]) -> dict[str, Trail]:
    """The trails of insights that are kept; what was forgotten has none."""
    wanted = orjson.dumps(sorted(set(insight_ids))).decode()
    rows = connection.execute(
        "SELECT id, json ->> '$.importance', ts_us, confidence_after, kind FROM insights JOIN documents USING (n)"
        " JOIN history ON insight_id = id WHERE id IN (SELECT value FROM json_each(?)) AND status <> 'forgotten'"
        " ORDER BY id, history.revision",
        (wanted,),
    )
    steps: dict[str, list[tuple[datetime, float, bool]]] = {}
    importance: dict[str, float] = {}
    for one, weight, ts_us, confidence, kind in rows:
        importance[one] = float(weight or 0.0)
        steps.setdefault(one, []).append((from_microseconds(ts_us), float(confidence), kind not in _NO_VALIDATION))
    return {one: Trail(importance[one], tuple(told)) for one, told in steps.items()}


def progress(connection: Connection) -> tuple[tuple[str, int, int], ...]:
    """How far the store has read the log, by topic and partition: while this stays, nothing here changes."""
    return tuple((topic, partition, offset) for topic, partition, offset in connection.execute(_PROGRESS))


_NO_VALIDATION = frozenset({"ARCHIVE", "RESTORE", "ADJUST"})
_PROGRESS = "SELECT topic, partition, next_offset FROM offsets ORDER BY topic, partition"
