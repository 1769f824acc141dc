"""InsightStore: everything that may be read of the insights, by any number of processes at once.

A reader opens the file read-only and sees, in WAL mode, the last committed state whenever it asks, whatever the writer is doing.
Each method reads one state. The writing side is ``writable.WritableInsightStore``, which adds to this one.

Full-text and vector search cover the active context only: archiving takes an insight out of both indexes, and ``get``,
``list`` and ``history`` still show it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt
import orjson

from schemas.insights import Insight
from schemas.portfolio import PortfolioStanding
from schemas.signals import Signal
from stores.sqlite.connection import Backend, Connection, open_connection
from stores.sqlite.errors import StoreError
from stores.sqlite.filters import (
    INSIGHT_WHERE,
    SIGNAL_WHERE,
    InsightFilter,
    Order,
    SignalFilter,
    from_cursor,
    page_size,
    to_cursor,
)
from stores.sqlite.following import Standing, changed_since, standing, whole
from stores.sqlite.inquiries import Inquiries, Page
from stores.sqlite.links import link_lines
from stores.sqlite.migrations import verify
from stores.sqlite.ranking import mark_lines
from stores.sqlite.regimes import regime_lines
from stores.sqlite.rows import HISTORY, HistoryEntry, history_of, insight_of, plain_decimal, signal_of
from stores.sqlite.standings import standing_lines, standings
from stores.sqlite.text import match_expression, terms, unspaced
from stores.sqlite.tunings import tuning_lines
from stores.sqlite.uses import use_lines
from stores.sqlite.vectors import VectorIndex, check_k

EmbedderInfo = tuple[str, int]
"""An embedder's model id and dimension."""

ACTIVE = InsightFilter()
"""What both indexes hold anyway, so searching with it needs no filtering."""

# The module's statements are put together from constants; what comes from outside is a parameter, always.
_RANK = "CASE WHEN :recent THEN 0 ELSE -confidence_ppm END"
_LIST = f"""
    WITH page AS MATERIALIZED (
        SELECT n, {_RANK} AS rank, -validated_us AS validated, id FROM insights
        WHERE {INSIGHT_WHERE} AND (:id IS NULL OR ({_RANK}, -validated_us, id) > (:rank, :validated, :id))
        ORDER BY rank, validated, id LIMIT :limit
    )
    SELECT json, rank, validated, id FROM page JOIN documents USING (n) ORDER BY rank, validated, id
"""  # noqa: S608
# CROSS JOIN keeps the order: the text index is asked once. With `rowid IN (SELECT …)` SQLite asks it once for every insight.
_TEXT = f"""
    SELECT n, -bm25(insights_text) AS score FROM insights_text CROSS JOIN insights ON n = insights_text.rowid
    WHERE insights_text MATCH :match AND {INSIGHT_WHERE}
    ORDER BY score DESC, n LIMIT :k
"""  # noqa: S608
_SUBSTRING = f"""
    SELECT n FROM insights JOIN documents USING (n) JOIN (SELECT value AS word FROM json_each(:words)) ON instr(folded, word)
    WHERE status = 'active' AND {INSIGHT_WHERE}
    GROUP BY n ORDER BY count(*) DESC, confidence_ppm DESC, n LIMIT :k
"""  # noqa: S608
_BY_CATEGORY = "SELECT category, count(*) FROM insights WHERE status <> 'forgotten' GROUP BY category ORDER BY category"
_SIGNALS = f"""
    SELECT json, ts_us, id FROM signals
    WHERE {SIGNAL_WHERE} AND (:id IS NULL OR (ts_us, id) < (:ts, :id))
    ORDER BY ts_us DESC, id DESC LIMIT :limit
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Hit:
    """An insight that a search found, with its score: higher is better. Text: BM25, or 0 for what only a substring found.
    Vectors: cosine similarity."""

    insight: Insight
    score: float


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What the store holds. ``operations`` were applied; ``refused`` became dead letters; ``outbox`` is not yet published."""

    active: int
    archived: int
    forgotten: int
    by_category: dict[str, int]
    operations: dict[str, int]
    refused: int
    signals: int
    vectors: int
    notes: int
    uses: int
    outbox: int
    epoch: int
    schema_step: int
    model_id: str
    dimension: int
    log_id: str | None
    backend: str


class InsightStore(Inquiries):
    """Insights, their history and the signals, to read. Use as a context manager, or ``close`` it."""

    def __init__(self, connection: Connection) -> None:
        """Over an open, migrated connection; use :meth:`open`."""
        self._connection = connection
        self.model_id, self.dimension = embedder_of(connection)
        self._vectors = VectorIndex(connection, self.dimension)

    @classmethod
    def open(cls, path: Path, embedder_info: EmbedderInfo | None = None, *, backend: Backend | None = None) -> InsightStore:
        """Open a store for reading. Without ``embedder_info`` nothing is checked of the model, and ``knn`` is up to the caller.

        Raises:
            StoreError: there is none, it is of another version, or it was made with another model or dimension.
        """
        if not path.exists():
            raise StoreError(f"there is no insight store at {path}", hint="start `defi-brain up`, or ingest something")
        connection = open_connection(path, readonly=True, backend=backend)
        try:
            verify(connection)
            if embedder_info is not None:
                check_embedder(connection, embedder_info)
            return InsightStore(connection)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Close the file; idempotent."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def backend(self) -> Backend:
        """Which way SQLite was opened."""
        return self._connection.backend

    def snapshot(self) -> AbstractContextManager[None]:
        """Several reads of one state: everything read inside sees the same commit. Other threads of this store wait."""
        return self._connection.snapshot()

    def get(self, insight_id: str) -> Insight | None:
        """The insight, archived or not."""
        text = self._connection.one("SELECT json FROM insights JOIN documents USING (n) WHERE id = ?", (insight_id,))
        return None if text is None else insight_of(text)

    def find(self, prefix: str) -> Insight | None:
        """The one insight whose id is ``prefix`` or begins with it; None where there is none, or more than one."""
        sql = "SELECT json FROM insights JOIN documents USING (n) WHERE substr(id, 1, length(:p)) = :p LIMIT 2"
        rows = self._connection.execute(sql, {"p": prefix})
        return insight_of(rows[0][0]) if len(rows) == 1 else self.get(prefix)

    def list(
        self, where: InsightFilter = ACTIVE, *, order: Order = Order.CONFIDENCE, limit: int = 50, cursor: str | None = None
    ) -> Page[Insight]:
        """A page of insights. What changes its place between two pages may be missed or come twice; nothing else.

        Raises:
            BadQuery: limit not in 1 … 1000, or a cursor of another list.
        """
        rank, validated, after = from_cursor(cursor, order, (int, int, str)) if cursor else (None, None, None)
        params = where.params() | {"recent": order is Order.RECENT, "limit": page_size(limit) + 1}
        rows = self._connection.execute(_LIST, params | {"rank": rank, "validated": validated, "id": after})
        items = tuple(insight_of(row[0]) for row in rows[:limit])
        return Page(items, to_cursor(order, *rows[limit - 1][1:]) if len(rows) > limit else None)

    def history(self, insight_id: str) -> tuple[HistoryEntry, ...]:
        """Every operation that was applied to an insight, in order of revision."""
        return tuple(
            history_of(row)
            for row in self._connection.execute(
                f"SELECT {HISTORY} FROM history WHERE insight_id = ? ORDER BY revision",  # noqa: S608 - a constant
                (insight_id,),
            )
        )

    def search_text(self, query: str, k: int = 10, where: InsightFilter = ACTIVE) -> tuple[Hit, ...]:
        """Active insights by words, best first; any text is a valid query, and one without a letter or digit finds nothing.

        Any of the words may match. Where full text cannot find — scripts without spaces, parts of words — substrings do.

        Raises:
            BadQuery: k not in 1 … 4096.
        """
        check_k(k)
        words = terms(query)
        match = match_expression(words)
        if match is None:
            return ()
        params = where.params() | {"k": k}
        with self._connection.snapshot():
            found: Sequence[tuple[Any, ...]] = self._connection.execute(_TEXT, params | {"match": match})
            if not found or (len(found) < k and unspaced(words)):
                have = {row[0] for row in found}
                rows = self._connection.execute(_SUBSTRING, params | {"words": orjson.dumps(words).decode()})
                found = [*found, *((n, 0.0) for (n,) in rows if n not in have)]
            return self._hits(found[:k])

    def knn(self, vector: npt.ArrayLike, k: int = 10, where: InsightFilter = ACTIVE) -> tuple[Hit, ...]:
        """The ``k`` active insights whose text is nearest, exactly, best first. The filter applies before the k are taken.

        Raises:
            BadQuery: k not in 1 … 4096, or a vector of another dimension, not finite or zero.
        """
        with self._connection.snapshot():
            return self._hits(self._vectors.nearest(vector, k, None if where == ACTIVE else where.params()))

    def _hits(self, found: Sequence[tuple[Any, ...]]) -> tuple[Hit, ...]:
        numbers = orjson.dumps([n for n, _ in found]).decode()
        sql = "SELECT n, documents.json FROM documents WHERE n IN (SELECT value FROM json_each(?))"
        texts: dict[int, str] = dict(self._connection.execute(sql, (numbers,)))
        return tuple(Hit(insight_of(texts[n]), score) for n, score in found)

    def whole(self) -> Iterator[Standing]:
        """Every active insight with its vector. Read it inside ``snapshot()``."""
        return whole(self._connection)

    def standing(self, insight_ids: Iterable[str]) -> Sequence[Standing]:
        """Insights by their ids, as they are now, with the vectors of the active ones."""
        return standing(self._connection, insight_ids)

    def changed_since(self, topic: str, partition: int, offset: int) -> Sequence[Standing]:
        """Insights that operations from an offset on changed, as they are now; vectors of the active ones."""
        return changed_since(self._connection, topic, partition, offset)

    def signals(self, where: SignalFilter | None = None, *, limit: int = 50, cursor: str | None = None) -> Page[Signal]:
        """A page of signals, the latest event first.

        Raises:
            BadQuery: limit not in 1 … 1000, or a cursor of another list.
        """
        ts, after = from_cursor(cursor, "signals", (int, str)) if cursor else (None, None)
        params = (where or SignalFilter()).params() | {"ts": ts, "id": after, "limit": page_size(limit) + 1}
        rows = self._connection.execute(_SIGNALS, params)
        items = tuple(signal_of(row[0]) for row in rows[:limit])
        return Page(items, to_cursor("signals", *rows[limit - 1][1:]) if len(rows) > limit else None)

    def standings(self) -> tuple[PortfolioStanding, ...]:
        """How each portfolio stands."""
        return standings(self._connection)

    def counts(self) -> tuple[int, int]:
        """How many insights there are, archived ones included, and how many signals."""
        return self._connection.execute(
            "SELECT (SELECT count(*) FROM insights WHERE status <> 'forgotten'), (SELECT count(*) FROM signals)"
        )[0]

    def stats(self) -> StoreStats:
        """Counts of everything, of one state."""
        db = self._connection
        with db.snapshot():
            status: dict[str, int] = dict(db.execute("SELECT status, count(*) FROM insights GROUP BY status"))
            return StoreStats(
                active=status.get("active", 0),
                archived=status.get("archived", 0),
                forgotten=status.get("forgotten", 0),
                by_category=dict(db.execute(_BY_CATEGORY)),
                operations=dict(db.execute("SELECT kind, count(*) FROM history GROUP BY kind ORDER BY kind")),
                refused=db.one("SELECT count(*) FROM refused"),
                signals=db.one("SELECT count(*) FROM signals"),
                vectors=db.one("SELECT count(*) FROM vectors"),
                notes=db.one("SELECT count(*) FROM notes"),
                uses=db.one("SELECT count(*) FROM uses"),
                outbox=db.one("SELECT count(*) FROM outbox"),
                epoch=db.one("SELECT epoch FROM writer"),
                schema_step=db.one("SELECT max(id) FROM migrations"),
                model_id=self.model_id,
                dimension=self.dimension,
                log_id=db.one("SELECT value FROM meta WHERE name = 'log_id'"),
                backend=db.backend,
            )

    def fingerprint_parts(self) -> Iterator[bytes]:
        """Canonical JSON lines of all insights, signals, uses and verdicts on notes, each sorted by id: the same after any run over
        the same log.

        Nothing in them depends on a clock, on batches, or on how the keys' records were interleaved. Read inside
        ``snapshot()`` while a writer is at work.
        """
        for text in self._in_pages("SELECT id, json FROM insights JOIN documents USING (n) WHERE id > ? ORDER BY id LIMIT 500"):
            yield _insight_line(insight_of(text))
        for text in self._in_pages("SELECT id, json FROM signals WHERE id > ? ORDER BY id LIMIT 500"):
            yield _canonical({"signal": signal_of(text).model_dump(mode="json")})
        for line in use_lines(self._connection):
            yield _canonical(line)
        for line in tuning_lines(self._connection):
            yield _canonical(line)
        for line in standing_lines(self._connection):
            yield _canonical(line)
        for line in regime_lines(self._connection):
            yield _canonical(line)
        for line in link_lines(self._connection):
            yield _canonical(line)
        for line in mark_lines(self._connection):
            yield _canonical(line)

    def _in_pages(self, sql: str) -> Iterator[str]:
        last = ""
        while rows := self._connection.execute(sql, (last,)):
            yield from (text for _, text in rows)
            last = rows[-1][0]


def embedder_of(connection: Connection) -> EmbedderInfo:
    """The embedder that a store was made with."""
    meta: dict[str, str] = dict(connection.execute("SELECT name, value FROM meta"))
    return meta["model_id"], int(meta["dimension"])


def check_embedder(connection: Connection, info: EmbedderInfo) -> None:
    """Does the store belong to this embedder?

    Raises:
        StoreError: no; vectors of two models cannot be compared.
    """
    made = embedder_of(connection)
    if made != info:
        raise StoreError(
            f"{connection.path} was made with {made[0]} ({made[1]} dimensions), not {info[0]} ({info[1]} dimensions)",
            hint="go back to that model, or `defi-brain rebuild --into DIR` with the new one",
        )


def _insight_line(insight: Insight) -> bytes:
    plain = insight.model_dump(mode="json", include=_FINGERPRINTED)
    return _canonical({"insight": plain | {"confidence": plain_decimal(insight.confidence)}})


_FINGERPRINTED = {
    "id", "text", "category", "confidence", "status", "key", "claim", "evidence", "latest", "upvotes", "downvotes", "edits",
    "revision", "directive", "note", "archived",
}  # fmt: skip


def _canonical(value: dict[str, Any]) -> bytes:
    """By the standard library, because a kept unknown field may hold an integer that orjson does not write."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
