"""Uses of the memory and verdicts on notes: what is kept of them, and reading it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from schemas.usage import MemoryUsed
from stores.sqlite.connection import Connection
from stores.sqlite.filters import TALLIES, from_cursor, microseconds, page_size, to_cursor
from stores.sqlite.rows import Place, from_microseconds


@dataclass(frozen=True, slots=True)
class UseCount:
    """How often a memory was handed out, how often it was used, and when last."""

    recalled: int
    used: int
    last: datetime


@dataclass(frozen=True, slots=True)
class Tally:
    """How decisions ended that a memory went into: ``helpful`` well, ``harmful`` badly.

    Each occasion counts once: the execution that came of it, however often it is reported, or else the use itself.
    """

    helpful: int
    harmful: int

    @property
    def problematic(self) -> bool:
        """Whether it harms as often as it helps, or more (ACE: harmful ≥ helpful > 0)."""
        return self.harmful >= self.helpful > 0


@dataclass(frozen=True, slots=True)
class NoteVerdict:
    """What became of a note. ``insight_id`` is the one that holds it now; ``other_id`` the one that stood near."""

    op_id: str
    event: str
    insight_id: str | None
    other_id: str | None
    similarity: float | None
    why: str


def put_uses(connection: Connection, uses: Sequence[tuple[MemoryUsed, Place]]) -> None:
    """Keep uses; an id that is there stays as it is. Inside a transaction."""
    for use, place in uses:
        when = microseconds(use.ts)
        sql = (
            "INSERT INTO uses (use_id, agent_id, ts_us, topic, partition, position, json) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING"
        )
        if connection.changed(sql, (use.use_id, use.agent_id, when, *place, use.to_wire().decode())) != 1:
            continue
        used = set(use.used)
        connection.executemany(
            "INSERT INTO used_memories (memory_id, use_id, used, ts_us) VALUES (?, ?, ?, ?)",
            [(memory, use.use_id, int(memory in used), when) for memory in use.all_recalled],
        )
        if use.ended != "unknown":
            occasion = f"event {use.event_id}" if use.event_id else f"use {use.use_id}"
            connection.executemany(
                "INSERT INTO outcomes (memory_id, occasion, ended) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                [(memory, occasion, use.ended) for memory in sorted(used)],
            )


_TALLIES_OF = f"""
    {TALLIES} WHERE memory_id IN (SELECT value FROM json_each(:ids))
        OR memory_id IN (SELECT insight_id FROM merged WHERE into_id IN (SELECT value FROM json_each(:ids)))
    GROUP BY root
"""  # noqa: S608 - constants


def tallies(connection: Connection, memory_ids: Iterable[str]) -> dict[str, Tally]:
    """How decisions ended that used each memory, those that were merged into it included; none: left out."""
    rows = connection.execute(_TALLIES_OF, {"ids": orjson.dumps(sorted(set(memory_ids))).decode()})
    return {root: Tally(helpful, harmful) for root, helpful, harmful in rows}


def put_merged(connection: Connection, insight_id: str, into: str | None) -> None:
    """Keep what an insight was merged into; None: it is not. What was merged into it before goes along. Inside a transaction."""
    connection.execute("DELETE FROM merged WHERE insight_id = ?", (insight_id,))
    if into is not None:
        connection.execute("INSERT INTO merged (insight_id, into_id) VALUES (?, ?)", (insight_id, into))
        connection.execute("UPDATE merged SET into_id = ? WHERE into_id = ?", (into, insight_id))


def put_verdicts(connection: Connection, verdicts: Sequence[NoteVerdict]) -> None:
    """Keep verdicts on notes. Inside a transaction."""
    connection.executemany(
        "INSERT INTO verdicts (op_id, event, insight_id, other_id, similarity, why) VALUES (?, ?, ?, ?, ?, ?)",
        [(one.op_id, one.event, one.insight_id, one.other_id, one.similarity, one.why) for one in verdicts],
    )


def verdict_counts(connection: Connection) -> dict[str, int]:
    """How often each thing became of a note, by event."""
    return dict(connection.execute("SELECT event, count(*) FROM verdicts GROUP BY event ORDER BY event"))


def verdict_on(connection: Connection, op_id: str) -> NoteVerdict | None:
    """The verdict on a note, by its operation; None while there is none."""
    rows = connection.execute("SELECT op_id, event, insight_id, other_id, similarity, why FROM verdicts WHERE op_id = ?", (op_id,))
    return NoteVerdict(*rows[0]) if rows else None


def uses_at(connection: Connection, use_ids: Iterable[str]) -> dict[str, Place]:
    """Where each of the uses that are kept stood, by id."""
    sql = "SELECT use_id, topic, partition, position FROM uses WHERE use_id IN (SELECT value FROM json_each(?))"
    return {row[0]: (row[1], row[2], row[3]) for row in connection.execute(sql, (orjson.dumps(sorted(set(use_ids))).decode(),))}


def use_counts(connection: Connection, memory_ids: Iterable[str], since: datetime | None = None) -> dict[str, UseCount]:
    """How often each memory was handed out and used, from ``since`` (event time) on; those that never were are left out."""
    sql = (
        "SELECT memory_id, count(*), sum(used), max(ts_us) FROM used_memories"
        " WHERE memory_id IN (SELECT value FROM json_each(?)) AND ts_us >= ? GROUP BY memory_id"
    )
    first = 0 if since is None else microseconds(since)
    wanted = orjson.dumps(sorted(set(memory_ids))).decode()
    return {row[0]: UseCount(row[1], row[2], from_microseconds(row[3])) for row in connection.execute(sql, (wanted, first))}


def handed_to(connection: Connection, agent_id: str, memory_ids: Iterable[str]) -> set[str]:
    """Those of the memories that an agent was given, as far as it reported so."""
    sql = (
        "SELECT DISTINCT memory_id FROM used_memories JOIN uses USING (use_id)"
        " WHERE memory_id IN (SELECT value FROM json_each(?)) AND agent_id = ?"
    )
    return {found for (found,) in connection.execute(sql, (orjson.dumps(sorted(set(memory_ids))).decode(), agent_id))}


def page_of_uses(
    connection: Connection, agent_id: str | None, limit: int, cursor: str | None
) -> tuple[tuple[MemoryUsed, ...], str | None]:
    """A page of uses, the latest first, and the cursor after it.

    Raises:
        BadQuery: limit not in 1 … 1000, or a cursor of another list.
    """
    ts, after = from_cursor(cursor, "uses", (int, str)) if cursor else (None, None)
    rows = connection.execute(
        "SELECT json, ts_us, use_id FROM uses WHERE (:agent IS NULL OR agent_id = :agent)"
        " AND (:id IS NULL OR (ts_us, use_id) < (:ts, :id)) ORDER BY ts_us DESC, use_id DESC LIMIT :limit",
        {"agent": agent_id, "ts": ts, "id": after, "limit": page_size(limit) + 1},
    )
    items = tuple(MemoryUsed.model_validate_json(row[0]) for row in rows[:limit])
    return items, to_cursor("uses", *rows[limit - 1][1:]) if len(rows) > limit else None


def use_lines(connection: Connection) -> Iterator[dict[str, Any]]:
    """Every use, the tally of every memory, and every verdict on a note, each sorted by id, for the fingerprint."""
    last = ""
    while rows := connection.execute("SELECT use_id, json FROM uses WHERE use_id > ? ORDER BY use_id LIMIT 500", (last,)):
        yield from ({"use": orjson.loads(row[1])} for row in rows)
        last = rows[-1][0]
    for row in connection.execute(f"{TALLIES} GROUP BY root ORDER BY root"):
        yield {"tally": list(row)}
    last = ""
    while rows := connection.execute(
        "SELECT op_id, event, insight_id, other_id FROM verdicts WHERE op_id > ? ORDER BY op_id LIMIT 500", (last,)
    ):
        yield from ({"verdict": list(row)} for row in rows)
        last = rows[-1][0]
