"""What became of what was sent, what is used, and what is left of something: the reading side of statements and uses.

Mixed into :class:`~stores.sqlite.store.InsightStore`, which owns the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, TypeVar

import orjson

from schemas.signals import RegimeModel
from schemas.usage import MemoryUsed
from stores.sqlite.audit import change_facets, changes, count_signals, insight_facets
from stores.sqlite.connection import Connection
from stores.sqlite.filters import InsightFilter, SignalFilter, microseconds
from stores.sqlite.links import Link, Organised, bases, link_counts, links_of, organised, strongest_links
from stores.sqlite.ranking import Mark, Trail, marks, progress, trails, uses_in_order, uses_until
from stores.sqlite.regimes import Stretch, regime_model, signals_read, stretches
from stores.sqlite.rows import HISTORY, Changed, HistoryEntry, Place, from_microseconds, history_of
from stores.sqlite.text import folded
from stores.sqlite.tunings import Tuned, tuned
from stores.sqlite.uses import (
    NoteVerdict,
    Tally,
    UseCount,
    handed_to,
    page_of_uses,
    tallies,
    use_counts,
    verdict_counts,
    verdict_on,
)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A part of a list; ``cursor`` goes on after it and is None at the end."""

    items: tuple[Item, ...]
    cursor: str | None


def through(ask: Callable[[str | None], Page[Item]]) -> Iterator[Item]:
    """Every item of a list, page after page. ``ask`` gives the page that goes on at a cursor; None: the first one."""
    cursor: str | None = None
    while True:
        page = ask(cursor)
        yield from page.items
        cursor = page.cursor
        if cursor is None:
            return


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of an operation or use: ``pending``, ``applied``, or ``refused`` with a reason and detail."""

    state: Literal["pending", "applied", "refused"]
    reason: str = ""
    detail: str = ""
    place: Place | None = None


PENDING = Fate("pending")


_OF = "n IN (SELECT n FROM insights WHERE id = :id)"
# Of constants; what is asked for is a parameter.
_TRACES = {
    "rows": "SELECT count(*) FROM insights WHERE id = :id AND status <> 'forgotten'",
    "documents": f"SELECT count(*) FROM documents WHERE {_OF} AND json ->> '$.status' <> 'forgotten'"  # noqa: S608
    " OR :words <> '' AND (instr(json, :words) OR instr(folded, :folded))",
    "text": "SELECT count(*) FROM insights_text WHERE rowid IN (SELECT n FROM insights WHERE id = :id)",
    "vectors": f"SELECT count(*) FROM vectors WHERE {_OF}",  # noqa: S608
    "notes": f"SELECT count(*) FROM notes WHERE {_OF}",  # noqa: S608
    "history": "SELECT count(*) FROM history WHERE insight_id = :id"
    " AND (kind <> 'FORGET' AND (reason <> '' OR evidence NOTNULL) OR changes NOTNULL)"
    " OR :words <> '' AND instr(coalesce(changes, ''), :words)",
    "merged": "SELECT count(*) FROM merged WHERE insight_id = :id OR into_id = :id",
    "links": "SELECT count(*) FROM links WHERE source_id = :id OR target_id = :id",
    "organised": "SELECT count(*) FROM organised WHERE insight_id = :id OR instr(cites, :id)"
    " OR :words <> '' AND instr(coalesce(context_note, ''), :words)",
    "announcements": "SELECT count(*) FROM outbox WHERE key = :id",
}
_TRACE_VEC0 = f"SELECT count(*) FROM insights_vec WHERE {_OF}"  # noqa: S608


class Inquiries:
    """Reads that answer for single operations, uses and insights."""

    _connection: Connection

    def changed_by(self, op_id: str) -> tuple[HistoryEntry, ...]:
        """What an operation changed: none while it is not applied, or where it changed nothing."""
        rows = self._connection.execute(
            f"SELECT {HISTORY} FROM history WHERE op_id = ? ORDER BY insight_id",  # noqa: S608 - a constant
            (op_id,),
        )
        return tuple(history_of(row) for row in rows)

    def fate(self, op_id: str, place: Place) -> Fate:
        """What became of the operation that was sent to a place in the log."""
        return self._fate("SELECT topic, partition, position FROM processed WHERE op_id = ?", op_id, place)

    def fate_of_use(self, use_id: str, place: Place) -> Fate:
        """What became of the use that was sent to a place in the log."""
        return self._fate("SELECT topic, partition, position FROM uses WHERE use_id = ?", use_id, place)

    def _fate(self, sql: str, name: str, place: Place) -> Fate:
        with self._connection.snapshot():
            rows = self._connection.execute(sql, (name,))
            if rows:
                return Fate("applied", place=(rows[0][0], rows[0][1], rows[0][2]))
            refused = self._connection.execute(
                "SELECT reason, detail FROM refused WHERE topic = ? AND partition = ? AND position = ?", place
            )
            if refused:
                return Fate("refused", refused[0][0], refused[0][1], place)
            read = self._connection.one("SELECT next_offset FROM offsets WHERE topic = ? AND partition = ?", place[:2])
        return (
            Fate("refused", "unreadable", "the writer could not read it; see the dead letters")
            if (read or 0) > place[2]
            else PENDING
        )

    def applied_place(self, op_id: str) -> Place | None:
        """Where the operation of this id was first seen; None where none was."""
        rows = self._connection.execute("SELECT topic, partition, position FROM processed WHERE op_id = ?", (op_id,))
        return (rows[0][0], rows[0][1], rows[0][2]) if rows else None

    def note_verdicts(self) -> dict[str, int]:
        """How often each thing became of a note, by event."""
        return verdict_counts(self._connection)

    def note_verdict(self, op_id: str) -> NoteVerdict | None:
        """What became of a note, by its operation."""
        return verdict_on(self._connection, op_id)

    def handed_to(self, agent_id: str, memory_ids: Iterable[str]) -> set[str]:
        """Those of the memories that an agent was given, as far as it reported so."""
        return handed_to(self._connection, agent_id, memory_ids)

    def stretches(self, key: str | None = None) -> tuple[Stretch, ...]:
        """The regimes that one key, or every key, has been in, by key and in the order of time."""
        return stretches(self._connection, key)

    def signals_read(self) -> int:
        """How far the signals' topic is in the store; rises with every signal."""
        return signals_read(self._connection)

    def regime_model(self, model_id: str) -> RegimeModel | None:
        """The model that told a regime."""
        return regime_model(self._connection, model_id)

    def next_offset(self, topic: str, partition: int) -> int:
        """The offset up to which a partition of the log is in this store."""
        return int(
            self._connection.one("SELECT next_offset FROM offsets WHERE topic = ? AND partition = ?", (topic, partition)) or 0
        )

    def uses(self, agent_id: str | None = None, *, limit: int = 50, cursor: str | None = None) -> Page[MemoryUsed]:
        """A page of uses of the memory, the latest first.

        Raises:
            BadQuery: limit not in 1 … 1000, or a cursor of another list.
        """
        return Page(*page_of_uses(self._connection, agent_id, limit, cursor))

    def use_counts(self, memory_ids: Iterable[str], since: datetime | None = None) -> dict[str, UseCount]:
        """How often each memory was handed out and used; those that never were are left out."""
        return use_counts(self._connection, memory_ids, since)

    def tallies(self, memory_ids: Iterable[str]) -> dict[str, Tally]:
        """How decisions ended that used each memory, those that were merged into it included; none: left out."""
        return tallies(self._connection, memory_ids)

    def first_drift(self, key: str, level: str, metrics: Iterable[str], after: datetime, *, simulated: bool) -> datetime | None:
        """When the first drift alarm after a moment came, on one of these metrics of a key; None where none did.

        Alarms of a simulated market count only where ``simulated`` is set.
        """
        found = self._connection.one(
            "SELECT min(ts_us) FROM signals WHERE key = :key AND level = :level"
            " AND metric IN (SELECT value FROM json_each(:metrics)) AND ts_us > :after"
            " AND simulated <= :simulated AND json ->> '$.kind' = 'drift'",
            {
                "key": key,
                "level": level,
                "metrics": orjson.dumps(sorted(metrics)).decode(),
                "after": microseconds(after),
                "simulated": int(simulated),
            },
        )
        return None if found is None else from_microseconds(found)

    def last_drifts(self) -> dict[tuple[str, str], datetime]:
        """When the last drift alarm came, of each key and level."""
        rows = self._connection.execute(
            "SELECT key, level, max(ts_us) FROM signals WHERE json ->> '$.kind' = 'drift' GROUP BY key, level"
        )
        return {(key, level): from_microseconds(at) for key, level, at in rows}

    def tuned(self) -> dict[str, Tuned]:
        """Recall's settings that differ from the defaults, by name."""
        return tuned(self._connection)

    def changes(
        self, author: str | None = None, kind: str | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Changed]:
        """A page of the operations that were applied to any insight, the latest event first.

        Raises:
            BadQuery: limit not in 1 … 1000, or a cursor of another list.
        """
        return Page(*changes(self._connection, author, kind, limit, cursor))

    def change_facets(self) -> dict[str, dict[str, int]]:
        """How many operations each author and each kind has."""
        return change_facets(self._connection)

    def count_signals(self, where: SignalFilter) -> int:
        """How many signals there are.

        Raises:
            BadQuery: a time without a zone.
        """
        return count_signals(self._connection, where)

    def facets(self, where: InsightFilter) -> dict[str, dict[str, int]]:
        """How many of the wanted insights each category, status, tool, chain and metric has.

        Raises:
            BadQuery: a time without a zone.
        """
        return insight_facets(self._connection, where)

    def links(self, insight_ids: Iterable[str]) -> tuple[Link, ...]:
        """Every link with one of the insights at either end, by source and target; archived ones' too."""
        return links_of(self._connection, insight_ids)

    def strongest_links(self, limit: int, relation: str | None = None) -> tuple[Link, ...]:
        """The strongest links, of one relation or of all."""
        return strongest_links(self._connection, limit, relation)

    def link_counts(self) -> dict[str, int]:
        """How many links there are, by relation."""
        return link_counts(self._connection)

    def organised(self, insight_id: str) -> Organised | None:
        """Keywords and context note of an insight; None while it was not organised."""
        return organised(self._connection, insight_id)

    def organised_bases(self) -> dict[str, str]:
        """The state in which each insight was last organised, by id."""
        return bases(self._connection)

    def ranker_marks(self) -> tuple[Mark, ...]:
        """When the ranker was told to learn or to forget, the earliest first."""
        return marks(self._connection)

    def uses_until(self, moment: datetime | None = None) -> int:
        """How many uses are dated until a moment; all of them without one."""
        return uses_until(self._connection, moment)

    def uses_in_order(self, first: int, count: int) -> list[MemoryUsed]:
        """Uses by event time and id: so many, from an index on."""
        return uses_in_order(self._connection, first, count)

    def trails(self, insight_ids: Iterable[str]) -> dict[str, Trail]:
        """What was known of insights when; what was forgotten has no trail."""
        return trails(self._connection, insight_ids)

    def forgotten(self) -> int:
        """How many insights were forgotten."""
        return int(self._connection.one("SELECT count(*) FROM insights WHERE status = 'forgotten'"))

    def progress(self) -> tuple[tuple[str, int, int], ...]:
        """Offsets of the log that the store has read up to: while they stay, nothing in it changes."""
        return progress(self._connection)

    def traces(self, insight_id: str, words: str = "") -> dict[str, int]:
        """Where anything of an insight is left, by place; all zeros but ``announcements`` prove that it is gone.

        ``words`` is a phrase of its text: rows that hold it anywhere count too. ``announcements`` are on their way to the log.
        """
        db = self._connection
        looks = _TRACES | ({"vec0": _TRACE_VEC0} if db.has_vec0 else {})
        with db.snapshot():
            params = {"id": insight_id, "words": words, "folded": folded(words)}
            return {place: int(db.one(sql, params)) for place, sql in looks.items()}
