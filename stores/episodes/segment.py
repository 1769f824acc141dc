"""One LanceDB table of the store, and all that is said to LanceDB about it.

A table is searchable from its first row on: the text index is made with the first rows (made on an empty table it would cover
nothing), and rows that came after it was last brought up to date are searched one by one until it is again.

The text index keeps tokens of any length (LanceDB drops those over 40 characters, and an address has 42), does not stem (USDS is
not USD), keeps stop words ("not" turns a sentence round), and keeps no positions (with them LanceDB 0.32 and later may fail to
compact). Row ids are stable: without them every compaction rewrites the whole text index to renumber it, which doubles its price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stores.episodes.filters import with_ids
from stores.episodes.merge import Kept
from stores.episodes.rows import JUDGED, SHOWN, to_kept

if TYPE_CHECKING:
    import pyarrow as pa

TEXT_LIMIT = 4000
"""Characters of a query's text that are searched for: each word costs, and nobody means more."""
WORDS = "words"
"""The column that is searched for words."""


TRIES = 5

NEW_TABLE = {"new_table_enable_stable_row_ids": "true"}
"""Storage options that a table is made with."""


def _rows(query: Callable[[], Any]) -> list[dict[str, Any]]:
    """A query's rows. A read that outlives its version, which compaction then removed, is done again on the newest."""
    for _ in range(TRIES - 1):
        try:
            return list(query().to_arrow().to_pylist())
        except RuntimeError as error:
            if "Not found" not in str(error):
                raise
    return list(query().to_arrow().to_pylist())


class Segment:
    """A table. ``rows`` are plain dictionaries of column values."""

    def __init__(self, name: str, table: Any, folder: Path) -> None:
        self.name = name
        self._versions = folder / f"{name}.lance" / "_versions"
        self._table = table
        self._text_index = False

    # --- reading

    def count(self) -> int:
        """Rows now."""
        return int(self._table.count_rows())

    def scan(self, columns: Sequence[str], where: Any = None) -> Iterator[dict[str, Any]]:
        """Every row that fits, in batches, so that memory does not grow with the table."""
        query = self._table.search().select(list(columns))
        if where is not None:
            query = query.where(where)
        for batch in query.to_batches(batch_size=1024):
            yield from batch.to_pylist()

    def stamp(self) -> int:
        """Changes whenever the table does; a look at its folder costs microseconds."""
        return self._versions.stat().st_mtime_ns

    def recorded_after(self, ends: Mapping[int, int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Rows, with their ``_rowid``, whose last record stands after ``ends``, the last known offset by partition of the log."""
        from lancedb.expr import col, lit

        query = self._table.search().select(list(columns)).with_row_id(True)
        if ends:
            beyond = [col("log_partition") > lit(max(ends))]
            for partition in range(max(ends) + 1):
                beyond.append((col("log_partition") == lit(partition)) & (col("log_offset") > lit(ends.get(partition, -1))))
            query = query.where(reduce(lambda left, right: left | right, beyond))
        yield from query.to_batches(batch_size=1024)

    def kept(self, ids: list[str]) -> dict[str, Kept]:
        """What is kept under these ids, by one query."""
        rows = _rows(lambda: self._table.search().where(with_ids(ids)).select(list(JUDGED)).limit(len(ids)))
        return {row["id"]: to_kept(row) for row in rows}

    def first(self, where: Any, columns: Sequence[str], limit: int = 1) -> list[dict[str, Any]]:
        """Up to ``limit`` rows that fit."""
        return _rows(lambda: self._table.search().where(where).select(list(columns)).limit(limit))

    def ordered(self, where: Any, columns: Sequence[str], limit: int) -> list[dict[str, Any]]:
        """Up to ``limit`` rows that fit, the latest event first and of equal times by id."""
        from lancedb.query import ColumnOrdering

        order = [ColumnOrdering(column_name="ts", ascending=False), ColumnOrdering(column_name="id")]

        def query() -> Any:
            found = self._table.search() if where is None else self._table.search().where(where)
            return found.order_by(order).select(list(columns)).limit(limit)

        return _rows(query)

    def counted(self, where: Any, columns: Sequence[str]) -> dict[str, dict[str, int]]:
        """How many rows that fit have each value of each column."""
        query = self._table.search().select(list(columns))
        table = (query if where is None else query.where(where)).to_arrow()
        return {name: {row["values"]: row["counts"] for row in table.column(name).value_counts().to_pylist()} for name in columns}

    def by_text(self, text: str, where: Any, limit: int) -> list[dict[str, Any]]:
        """The best by BM25 over sentence and reflection, with ``_score``. Any text will do; one without a word finds nothing."""
        from lancedb.query import MatchQuery

        words = self.searched(text)
        if words is None:
            return []
        return self._best(lambda: self._table.search(MatchQuery(words, WORDS), query_type="fts"), "_score", where, limit)

    def rows_by_vector(self, vector: npt.NDArray[np.float32], where: Any, limit: int) -> list[tuple[int, float]]:
        """The numbers of the nearest rows, and their cosines."""

        def query() -> Any:
            found = self._near(vector) if where is None else self._near(vector).where(where)
            return found.limit(limit).select(["_distance"]).with_row_id(True)

        return [(int(row["_rowid"]), 1.0 - float(row["_distance"])) for row in _rows(query)]

    def searched(self, text: str) -> str | None:
        """What of a text is searched for; None where there is no word in it, or nothing to search."""
        words = text.encode("utf-8", "replace").decode().replace("\x00", " ")[:TEXT_LIMIT]
        return words if any(ch.isalnum() for ch in words) and self._has_text_index() else None

    def _near(self, vector: npt.NDArray[np.float32]) -> Any:
        return self._table.search(vector, vector_column_name="vector").distance_type("cosine")

    def by_vector(self, vector: npt.NDArray[np.float32], where: Any, limit: int) -> list[dict[str, Any]]:
        """The nearest rows by cosine, exactly, with ``_distance``."""
        return self._best(lambda: self._near(vector), "_distance", where, limit)

    def _best(self, search: Callable[[], Any], score: str, where: Any, limit: int) -> list[dict[str, Any]]:
        def query() -> Any:
            found = search() if where is None else search().where(where)
            return found.limit(limit).select([*SHOWN, score])

        return _rows(query)

    def ends(self) -> dict[int, int]:
        """The offset after the last that left a trace here, by partition of the log."""
        ends: dict[int, int] = {}
        for batch in self._table.search().select(["log_partition", "log_offset"]).to_batches(batch_size=8192):
            partitions, offsets = (batch.column(name).to_numpy() for name in ("log_partition", "log_offset"))
            for partition in np.unique(partitions):
                last = int(offsets[partitions == partition].max())
                ends[int(partition)] = max(last + 1, ends.get(int(partition), 0))
        return ends

    def fragments(self) -> int:
        """Data files that the newest version consists of."""
        return int(self._table.stats()["fragment_stats"]["num_fragments"])

    def bytes(self) -> int:
        """Size of the newest version's data."""
        return int(self._table.stats()["total_bytes"])

    # --- writing, by the one writer

    def add(self, rows: pa.Table) -> None:
        """Append rows, all or nothing. The ids must be new."""
        self._table.add(rows)

    def replace(self, rows: pa.Table) -> None:
        """Replace the rows that have the same ids, all or nothing."""
        self._table.merge_insert("id").when_matched_update_all().execute(rows)

    def whole(self) -> Iterator[pa.RecordBatch]:
        """Every row as it is, in batches."""
        yield from self._table.search().to_batches(batch_size=4096)

    def make_text_index(self) -> None:
        """Make the text index where it is missing and there are rows."""
        if not self._has_text_index() and self.count():
            from lancedb.index import FTS

            options = FTS(max_token_length=None, with_position=False, stem=False, remove_stop_words=False)
            self._table.create_index(WORDS, config=options)

    def make_id_index(self) -> None:
        """Index the ids: for a table that takes no more rows but is asked about every batch's."""
        if "id_idx" not in self._indexes():
            from lancedb.index import BTree

            self._table.create_index("id", config=BTree())

    def optimize(self, keep: timedelta, *, remove_strays: bool = False) -> None:
        """Merge fragments, bring indexes up to date, remove versions older than ``keep``.

        ``remove_strays`` also removes what no version refers to, as a killed writer leaves it; nobody may be writing meanwhile.
        """
        self._table.optimize(cleanup_older_than=keep, delete_unverified=remove_strays)

    def _has_text_index(self) -> bool:
        """Asked of the table until it is there; nobody ever drops it."""
        self._text_index = self._text_index or f"{WORDS}_idx" in self._indexes()
        return self._text_index

    def _indexes(self) -> set[str]:
        return {index.name for index in self._table.list_indices()}
