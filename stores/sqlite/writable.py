"""WritableInsightStore: the one writer's side of the store.

Everything is written in a :class:`Transaction`, which begins with the fence and ends with the commit: an insight with its text
and vector, its history, the operations' ids, the input offsets and the outgoing messages become true together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy.typing as npt
import orjson

from schemas.identity import said_id
from schemas.insights import Insight, InsightStatus
from schemas.operations import LinkInsights, OrganiseInsight, TeachRanker, TuneRecall
from schemas.portfolio import PortfolioStanding
from schemas.signals import Signal
from schemas.usage import MemoryUsed
from stores.sqlite import fence
from stores.sqlite.connection import REBUILD, Backend, Connection, open_connection
from stores.sqlite.errors import StoreError
from stores.sqlite.filters import microseconds
from stores.sqlite.links import forget_links, put_organised
from stores.sqlite.migrations import migrate
from stores.sqlite.ranking import put_marks
from stores.sqlite.regimes import put_regimes
from stores.sqlite.rows import HISTORY, HistoryEntry, OutboxRow, Place, about, insight_columns, insight_of
from stores.sqlite.standings import put_standings
from stores.sqlite.store import EmbedderInfo, InsightStore, check_embedder
from stores.sqlite.text import folded
from stores.sqlite.tunings import put_tunings
from stores.sqlite.uses import NoteVerdict, put_merged, put_uses, put_verdicts, uses_at
from stores.sqlite.vectors import VectorIndex

Hook = Callable[[str], None]
"""Called with the name of each step as it is done; tests stop the process there."""


@dataclass(frozen=True, slots=True)
class RefusedOperation:
    """An operation that the ledger refused, and where it stood."""

    place: Place
    op_id: str
    reason: str
    detail: str


_PUT_INSIGHT = """
    INSERT INTO insights (id, revision, category, status, confidence_ppm, key, tool, chain, pair, metric, simulated, created_us,
        validated_us)
    VALUES (:id, :revision, :category, :status, :confidence_ppm, :key, :tool, :chain, :pair, :metric, :simulated, :created_us,
        :validated_us)
    ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, category = excluded.category, status = excluded.status,
        confidence_ppm = excluded.confidence_ppm, key = excluded.key, tool = excluded.tool, chain = excluded.chain,
        pair = excluded.pair, metric = excluded.metric, simulated = excluded.simulated, created_us = excluded.created_us,
        validated_us = excluded.validated_us
    RETURNING n
"""
_PUT_DOCUMENT = """
    INSERT INTO documents (n, folded, json) VALUES (?, ?, ?)
    ON CONFLICT (n) DO UPDATE SET folded = excluded.folded, json = excluded.json
"""


class Transaction:
    """What one fenced transaction may write. Made by :meth:`WritableInsightStore.transaction`."""

    def __init__(self, connection: Connection, vectors: VectorIndex) -> None:
        self._connection = connection
        self._vectors = vectors

    def claim_operations(self, operations: Sequence[tuple[str, Place]]) -> None:
        """Record operations as applied, by id and place.

        Raises:
            StoreError: one of them was already there: what is about to be written was planned on an old state.
        """
        for op_id, place in operations:
            sql = "INSERT INTO processed (op_id, topic, partition, position) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
            if self._connection.changed(sql, (op_id, *place)) != 1:
                raise StoreError(
                    f"operation {op_id} was applied in the meantime", hint="another writer is at work; stop one of them"
                )

    def refuse(self, refused: Sequence[RefusedOperation]) -> None:
        """Record refusals, so that they can be told again."""
        self._connection.executemany(
            "INSERT INTO refused (topic, partition, position, op_id, reason, detail) VALUES (?, ?, ?, ?, ?, ?)",
            [(*entry.place, entry.op_id, entry.reason, entry.detail) for entry in refused],
        )

    def put(self, insight: Insight, vector: npt.ArrayLike | None) -> None:
        """Write an insight's present state into the row, the text index and the vector index.

        ``vector`` is that of its text; None where the text did not change. An archived insight leaves both indexes.

        Raises:
            StoreError: an active insight with no vector given and none there.
            BadQuery: the vector is refused.
        """
        n = int(self._connection.one(_PUT_INSIGHT, insight_columns(insight)))
        words, subject = folded(insight.text), folded(about(insight))
        self._connection.execute(_PUT_DOCUMENT, (n, f"{words}\n{subject}", insight.to_wire().decode()))
        self._connection.execute("DELETE FROM insights_text WHERE rowid = ?", (n,))
        self._connection.execute("DELETE FROM notes WHERE n = ?", (n,))
        if insight.status is not InsightStatus.ACTIVE:
            self._vectors.drop(n)
            return
        self._connection.execute("INSERT INTO insights_text (rowid, text, about) VALUES (?, ?, ?)", (n, words, subject))
        if insight.note is not None:
            self._connection.execute("INSERT INTO notes (n, said) VALUES (?, ?)", (n, said_id(insight.key, insight.text)))
        if vector is not None:
            self._vectors.put(n, vector)
        elif not self._vectors.has(n):
            raise StoreError(f"insight {insight.id} is active and has no vector")

    def merge(self, changes: Sequence[tuple[Insight | None, Insight]]) -> None:
        """Keep what was merged into what, by the states before and after each change, in order.

        Change by change and not by the last states: what an insight went into may have gone on into another, or have been
        forgotten, within the same transaction.
        """
        for before, after in changes:
            into = _merged_into(after)
            if into != _merged_into(before):
                put_merged(self._connection, after.id, into)

    def scrub(self, insight_ids: Sequence[str]) -> None:
        """Take the words out of the history of what was forgotten, and out of what the text index keeps of deleted rows."""
        for one in insight_ids:
            self._connection.execute(
                "UPDATE history SET reason = '', evidence = NULL, changes = NULL WHERE insight_id = ? AND kind <> 'FORGET'", (one,)
            )
            self._connection.execute("UPDATE verdicts SET why = '' WHERE insight_id = :id OR other_id = :id", {"id": one})
            self._connection.execute("DELETE FROM merged WHERE :id IN (insight_id, into_id)", {"id": one})
            forget_links(self._connection, one)
        if insight_ids:
            self._connection.execute("INSERT INTO insights_text (insights_text) VALUES ('optimize')")

    def record(self, entries: Sequence[HistoryEntry]) -> None:
        """Add to the history."""
        self._connection.executemany(
            f"INSERT INTO history ({HISTORY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - a constant
            [entry.row() for entry in entries],
        )

    def add_signals(self, signals: Sequence[tuple[Signal, Place]]) -> None:
        """Keep signals; an id that is there stays as it is."""
        self._connection.executemany(
            "INSERT INTO signals (id, ts_us, level, stream, key, metric, simulated, topic, partition, position, json)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            [
                (
                    signal.id, microseconds(signal.ts), signal.level, signal.stream, signal.key, signal.metric,
                    int(signal.simulated), *place, signal.to_wire().decode(),
                )
                for signal, place in signals
            ],
        )  # fmt: skip
        put_regimes(self._connection, (signal for signal, _ in signals))

    def stand(self, standings: Sequence[PortfolioStanding]) -> None:
        """Keep how portfolios stand."""
        put_standings(self._connection, standings)

    def add_uses(self, uses: Sequence[tuple[MemoryUsed, Place]]) -> None:
        """Keep uses of the memory; an id that is there stays as it is."""
        put_uses(self._connection, uses)

    def put_beside(self, operations: Sequence[tuple[LinkInsights | OrganiseInsight | TeachRanker, Place]]) -> None:
        """Keep links, what is organised and the ranker's marks."""
        told = [one for one, _ in operations]
        put_organised(self._connection, [one for one in told if isinstance(one, (LinkInsights, OrganiseInsight))])
        put_marks(self._connection, [one for one in told if isinstance(one, TeachRanker)])

    def tune(self, operations: Sequence[TuneRecall]) -> None:
        """Change settings of recall."""
        put_tunings(self._connection, operations)

    def add_verdicts(self, verdicts: Sequence[NoteVerdict]) -> None:
        """Keep what became of notes."""
        put_verdicts(self._connection, verdicts)

    def advance(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set the next offset to read, by topic and partition. Never goes back."""
        self._connection.executemany(
            "INSERT INTO offsets (topic, partition, next_offset, log_id)"
            " VALUES (?, ?, ?, (SELECT value FROM meta WHERE name = 'log_id'))"
            " ON CONFLICT DO UPDATE SET next_offset = max(next_offset, excluded.next_offset), log_id = excluded.log_id",
            [(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())],
        )

    def send(self, messages: Sequence[tuple[str, str, str, int, bytes, str | None]]) -> None:
        """Put messages — topic, key, message id, event time in ms, value, trace — into the outbox, in order."""
        sql = "INSERT INTO outbox (topic, key, message_id, ts_ms, value, trace) VALUES (?, ?, ?, ?, ?, ?)"
        self._connection.executemany(sql, messages)


class WritableInsightStore(InsightStore):
    """The store, to write: holds the lock and the epoch until closed."""

    def __init__(self, connection: Connection, lock: fence.WriterLock) -> None:
        """Over an open, migrated connection with its lock; use :meth:`open`."""
        super().__init__(connection)
        self._lock = lock
        self._vectors.catch_up()
        self.epoch = fence.take_over(connection)
        self._unclean: int | None = self._last_message()  # who wrote before us may have been killed before its words were gone

    @classmethod
    def open(cls, path: Path, embedder_info: EmbedderInfo | None = None, *, backend: Backend | None = None) -> WritableInsightStore:
        """Open the store for writing, made if need be, brought up to this version's schema. A new one needs ``embedder_info``.

        Raises:
            StoreError: another process writes it, it is of a newer version, or of another model or dimension.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = fence.WriterLock(path)
        connection: Connection | None = None
        try:
            connection = open_connection(path, backend=backend)
            migrate(connection)
            _settle_embedder(connection, embedder_info)
            return WritableInsightStore(connection, lock)
        except BaseException:
            if connection is not None:
                connection.close()
            lock.release()
            raise

    def close(self) -> None:
        """Close the file and let the next writer in; idempotent."""
        super().close()
        self._lock.release()

    @contextmanager
    def transaction(self, step: Hook = lambda _: None) -> Iterator[Transaction]:
        """One fenced transaction. ``step`` hears ``begun`` and ``fenced``.

        Raises:
            FencedOut: another writer took over; nothing is written.
        """
        with self._connection.transaction():
            step("begun")
            fence.check(self._connection, self.epoch)
            step("fenced")
            yield Transaction(self._connection, self._vectors)

    def check_epoch(self) -> None:
        """Whether this is still the store's writer, for answers that write nothing.

        Raises:
            FencedOut: another writer took over.
        """
        fence.look(self._connection, self.epoch)

    def current(self, insight_ids: Iterable[str]) -> dict[str, Insight]:
        """Those of the insights that exist, by id."""
        sql = "SELECT id, json FROM insights JOIN documents USING (n) WHERE id IN (SELECT value FROM json_each(?) AS wanted)"
        return {found: insight_of(json) for found, json in self._connection.execute(sql, (_list(insight_ids),))}

    def claims_about(self, keys: Iterable[str]) -> dict[str, Insight]:
        """The insights with a claim about one of these keys, archived ones included, by id."""
        sql = (
            "SELECT id, json FROM insights JOIN documents USING (n) WHERE key IN (SELECT value FROM json_each(?))"
            " AND metric <> '' AND status <> 'forgotten' ORDER BY id"
        )
        return {found: insight_of(json) for found, json in self._connection.execute(sql, (_list(keys),))}

    def applied_at(self, op_ids: Iterable[str]) -> dict[str, Place]:
        """Where each of the operations that were applied stood, by id."""
        sql = "SELECT op_id, topic, partition, position FROM processed WHERE op_id IN (SELECT value FROM json_each(?))"
        return {row[0]: (row[1], row[2], row[3]) for row in self._connection.execute(sql, (_list(op_ids),))}

    def signals_at(self, signal_ids: Iterable[str]) -> dict[str, Place]:
        """Where each of the signals that are kept stood, by id."""
        sql = "SELECT id, topic, partition, position FROM signals WHERE id IN (SELECT value FROM json_each(?))"
        return {row[0]: (row[1], row[2], row[3]) for row in self._connection.execute(sql, (_list(signal_ids),))}

    def uses_at(self, use_ids: Iterable[str]) -> dict[str, Place]:
        """Where each of the uses that are kept stood, by id."""
        return uses_at(self._connection, use_ids)

    def notes_saying(self, said: Iterable[str]) -> list[str]:
        """Active notes that say one of these (see ``schemas.identity.said_id``), by id."""
        sql = "SELECT id FROM notes JOIN insights USING (n) WHERE said IN (SELECT value FROM json_each(?)) ORDER BY id"
        return [found for (found,) in self._connection.execute(sql, (_list(said),))]

    def refused_from(self, topic: str, partition: int, first: int, last: int) -> dict[Place, RefusedOperation]:
        """The refusals between two offsets (both inclusive), by place."""
        rows = self._connection.execute(
            "SELECT topic, partition, position, op_id, reason, detail FROM refused"
            " WHERE topic = ? AND partition = ? AND position BETWEEN ? AND ?",
            (topic, partition, first, last),
        )
        return {(row[0], row[1], row[2]): RefusedOperation((row[0], row[1], row[2]), *row[3:]) for row in rows}

    def next_offsets(self) -> dict[tuple[str, int], int]:
        """The next offset to read, by topic and partition; absent: nothing was read."""
        rows = self._connection.execute("SELECT topic, partition, next_offset FROM offsets")
        return {(topic, partition): offset for topic, partition, offset in rows}

    def bind(self, log_id: str) -> None:
        """Belong to a log from now on.

        Raises:
            StoreError: the store was filled from another log.
        """
        bound = self._connection.one("SELECT value FROM meta WHERE name = 'log_id'")
        if bound == log_id:
            return
        if bound is not None:
            raise StoreError(
                f"{self._connection.path} was filled from log {bound}, not {log_id}",
                hint=f"put the right log back, or {REBUILD}",
            )
        with self.transaction():
            self._connection.execute("INSERT INTO meta (name, value) VALUES ('log_id', ?)", (log_id,))

    def pending(self, after: int = 0, limit: int = 500) -> list[OutboxRow]:
        """Messages to publish with ``seq`` beyond ``after``, in order."""
        sql = "SELECT seq, topic, key, message_id, ts_ms, value, trace FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?"
        return [OutboxRow(*row) for row in self._connection.execute(sql, (after, limit))]

    def forgot(self) -> None:
        """Something was forgotten, and that is committed: from now on :meth:`clean` has work to do."""
        self._unclean = self._last_message()

    def clean(self) -> bool:
        """Get deleted words out of the write-ahead file, too; whether nothing is left to do.

        Deleting overwrites the database's pages, but their earlier states stand in the write-ahead file until it is emptied, which
        a reader of an earlier state prevents: call again. Announcements from before hold words as well, so they must be sent first.
        """
        if self._unclean is None:
            return True
        if self._connection.empty_wal() and not self._connection.one("SELECT 1 FROM outbox WHERE seq <= ?", (self._unclean,)):
            self._unclean = None
        return self._unclean is None

    def _last_message(self) -> int:
        return int(self._connection.one("SELECT coalesce(max(seq), 0) FROM outbox"))

    def mark_sent(self, upto: int) -> None:
        """Messages up to and with this ``seq`` are published: forget them. Their numbers are never used again.

        Raises:
            FencedOut: another writer took over; nothing is written.
        """
        with self.transaction():
            self._connection.execute("DELETE FROM outbox WHERE seq <= ?", (upto,))


def _settle_embedder(connection: Connection, info: EmbedderInfo | None) -> None:
    if connection.one("SELECT count(*) FROM meta WHERE name = 'model_id'"):
        if info is not None:
            check_embedder(connection, info)
        return
    if info is None:
        raise StoreError(f"{connection.path} is new: say which model's vectors it is to hold")
    with connection.transaction():
        rows = [("model_id", info[0]), ("dimension", str(info[1]))]
        connection.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", rows)


def _merged_into(insight: Insight | None) -> str | None:
    archived = insight.archived if insight is not None else None
    return archived.by if archived is not None and archived.cause == "merged" else None


def _list(values: Iterable[str]) -> str:
    return orjson.dumps(sorted(set(values))).decode()
