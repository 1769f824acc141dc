"""Who changed what, across insights, the latest first; and how many insights there are of each kind."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from stores.sqlite.connection import Connection
from stores.sqlite.filters import INSIGHT_WHERE, SIGNAL_WHERE, InsightFilter, SignalFilter, from_cursor, page_size, to_cursor
from stores.sqlite.rows import Changed, from_microseconds

_LIST = "audit"
_CHANGES = """
    SELECT insight_id, revision, op_id, kind, ts_us, author, reason, confidence_before, confidence_after FROM history
    WHERE (:author IS NULL OR author = :author) AND (:kind IS NULL OR kind = :kind)
    AND (:id IS NULL OR (-ts_us, insight_id, -revision) > (-:ts, :id, -:revision))
    ORDER BY ts_us DESC, insight_id, revision DESC LIMIT :limit
"""
FACETS = ("category", "status", "tool", "chain", "metric")
# Of constants; what is asked for is a parameter.
_COUNTS = {name: f"SELECT {name}, count(*) FROM insights WHERE {INSIGHT_WHERE} GROUP BY {name}" for name in FACETS}  # noqa: S608
_AUTHORS = "SELECT author, count(*) FROM history GROUP BY author"
_SIGNALS = f"SELECT count(*) FROM signals WHERE {SIGNAL_WHERE}"  # noqa: S608
_KINDS = "SELECT kind, count(*) FROM history GROUP BY kind"


def changes(
    connection: Connection, author: str | None, kind: str | None, limit: int, cursor: str | None
) -> tuple[tuple[Changed, ...], str | None]:
    """A page of applied operations, the latest event first, and the cursor that goes on.

    Raises:
        BadQuery: limit not in 1 … 1000, or a cursor of another list.
    """
    ts, after, revision = from_cursor(cursor, _LIST, (int, str, int)) if cursor else (None, None, None)
    params = {"author": author, "kind": kind, "ts": ts, "id": after, "revision": revision, "limit": page_size(limit) + 1}
    rows = connection.execute(_CHANGES, params)
    items = tuple(_changed(row) for row in rows[:limit])
    last = rows[limit - 1] if len(rows) > limit else None
    return items, None if last is None else to_cursor(_LIST, last[4], last[0], last[1])


def _changed(row: Sequence[Any]) -> Changed:
    insight_id, revision, op_id, kind, ts_us, author, reason, before, after = row
    known = None if before is None else Decimal(before)
    return Changed(insight_id, revision, op_id, kind, from_microseconds(ts_us), author, reason, known, Decimal(after))


def count_signals(connection: Connection, where: SignalFilter) -> int:
    """How many signals there are.

    Raises:
        BadQuery: a time without a zone.
    """
    return int(connection.one(_SIGNALS, where.params()))


def change_facets(connection: Connection) -> dict[str, dict[str, int]]:
    """How many operations each author and each kind has, the most frequent first."""
    return {"author": _ordered(connection, _AUTHORS, {}), "kind": _ordered(connection, _KINDS, {})}


def insight_facets(connection: Connection, where: InsightFilter) -> dict[str, dict[str, int]]:
    """How many of the wanted insights have each value of ``FACETS``, the most frequent first; what has none is left out.

    Raises:
        BadQuery: a time without a zone.
    """
    with connection.snapshot():
        return {name: _ordered(connection, sql, where.params()) for name, sql in _COUNTS.items()}


def _ordered(connection: Connection, sql: str, params: dict[str, object]) -> dict[str, int]:
    found: dict[str, int] = dict(connection.execute(sql, params))
    return dict(sorted(((name, n) for name, n in found.items() if name), key=lambda pair: (-pair[1], pair[0])))
