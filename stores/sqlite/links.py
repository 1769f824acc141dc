"""Links between insights, and what the organiser says of each: keywords and a context note.

They are kept beside the insights and change none of them: a link raises no revision and announces nothing. A later operation on
the same pair takes the place of the earlier one. What was forgotten has no links, and no context note quotes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from schemas.operations import LinkInsights, OrganiseInsight, Relation
from stores.sqlite.connection import Connection
from stores.sqlite.filters import microseconds
from stores.sqlite.rows import from_microseconds

Organising = LinkInsights | OrganiseInsight


@dataclass(frozen=True, slots=True)
class Link:
    """``source`` bears ``relation`` to ``target``, how strongly (0 … 1), who said so, when (event time) and why."""

    source: str
    target: str
    relation: Relation
    strength: float
    author: str
    reason: str
    ts: datetime

    def other(self, end: str) -> str:
        """The insight at the other end."""
        return self.target if end == self.source else self.source


@dataclass(frozen=True, slots=True)
class Organised:
    """What the organiser said of an insight. ``basis`` names the state that it looked at, so that nothing is said twice."""

    insight_id: str
    keywords: tuple[str, ...]
    context_note: str | None
    basis: str
    ts: datetime


_PUT_LINK = """
    INSERT INTO links (source_id, target_id, relation, strength, author, reason, ts_us) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (source_id, target_id) DO UPDATE SET relation = excluded.relation, strength = excluded.strength,
        author = excluded.author, reason = excluded.reason, ts_us = excluded.ts_us
"""
_PUT_ORGANISED = """
    INSERT INTO organised (insight_id, keywords, context_note, cites, basis, ts_us) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (insight_id) DO UPDATE SET keywords = excluded.keywords, context_note = excluded.context_note,
        cites = excluded.cites, basis = excluded.basis, ts_us = excluded.ts_us
"""
_COLUMNS = "source_id, target_id, relation, strength, author, reason, ts_us"
_OF = f"""
    SELECT {_COLUMNS} FROM links WHERE source_id IN (SELECT value FROM json_each(:ids))
    UNION SELECT {_COLUMNS} FROM links WHERE target_id IN (SELECT value FROM json_each(:ids))
    ORDER BY source_id, target_id
"""  # noqa: S608 - constants


def put_organised(connection: Connection, operations: Sequence[Organising]) -> None:
    """Apply links and what was organised, in order. Inside a transaction."""
    for one in operations:
        when = microseconds(one.ts)
        if isinstance(one, OrganiseInsight):
            keywords, cites = orjson.dumps(one.keywords).decode(), orjson.dumps(one.cites).decode()
            connection.execute(_PUT_ORGANISED, (one.insight_id, keywords, one.context_note, cites, one.basis, when))
        elif one.removed:
            connection.execute("DELETE FROM links WHERE source_id = ? AND target_id = ?", (one.insight_id, one.target_id))
        else:
            row = (one.insight_id, one.target_id, one.relation, one.strength, one.author, one.reason, when)
            connection.execute(_PUT_LINK, row)


def forget_links(connection: Connection, insight_id: str) -> None:
    """Take an insight out of links, and the words of it out of what is said of others. Inside a transaction."""
    one = {"id": insight_id}
    connection.execute("DELETE FROM links WHERE source_id = :id OR target_id = :id", one)
    connection.execute("DELETE FROM organised WHERE insight_id = :id", one)
    connection.execute("UPDATE organised SET context_note = NULL, cites = '[]' WHERE instr(cites, :id)", one)


def links_of(connection: Connection, insight_ids: Iterable[str]) -> tuple[Link, ...]:
    """Every link with one of the insights at either end, by source and target."""
    rows = connection.execute(_OF, {"ids": orjson.dumps(sorted(set(insight_ids))).decode()})
    return tuple(_link(row) for row in rows)


def strongest_links(connection: Connection, limit: int, relation: str | None = None) -> tuple[Link, ...]:
    """The strongest links, of one relation or of all; equal ones by source and target."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM links WHERE :relation IS NULL OR relation = :relation"  # noqa: S608 - constants
        " ORDER BY strength DESC, source_id, target_id LIMIT :limit",
        {"relation": relation, "limit": limit},
    )
    return tuple(_link(row) for row in rows)


def organised(connection: Connection, insight_id: str) -> Organised | None:
    """What was said of an insight; None while nothing was."""
    sql = "SELECT insight_id, keywords, context_note, basis, ts_us FROM organised WHERE insight_id = ?"
    rows = connection.execute(sql, (insight_id,))
    return None if not rows else _organised(rows[0])


def bases(connection: Connection) -> dict[str, str]:
    """The state that each organised insight was in, by id."""
    return dict(connection.execute("SELECT insight_id, basis FROM organised"))


def link_counts(connection: Connection) -> dict[str, int]:
    """How many links there are, by relation."""
    return dict(connection.execute("SELECT relation, count(*) FROM links GROUP BY relation ORDER BY relation"))


def link_lines(connection: Connection) -> Iterator[dict[str, Any]]:
    """Every link and everything organised, sorted by id, for the fingerprint."""
    for row in connection.execute("SELECT source_id, target_id, relation, strength FROM links ORDER BY source_id, target_id"):
        yield {"link": list(row)}
    for row in connection.execute("SELECT insight_id, keywords, context_note, basis FROM organised ORDER BY insight_id"):
        yield {"organised": list(row)}


def _link(row: Sequence[Any]) -> Link:
    source, target, relation, strength, author, reason, ts_us = row
    return Link(source, target, relation, strength, author, reason, from_microseconds(ts_us))


def _organised(row: Sequence[Any]) -> Organised:
    return Organised(row[0], tuple(orjson.loads(row[1])), row[2], row[3], from_microseconds(row[4]))
