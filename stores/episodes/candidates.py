"""The best by words and the nearest, out of every table at once.

LanceDB's synchronous interface goes to its event loop and back five times a query, which takes longer than the search by words
itself. Here all tables are asked over the asynchronous one, in one trip; and only for the numbers of rows at first. The content
of those that are among the best of all tables is read in a second trip.

A ``where`` makes LanceDB read the filter's columns of a whole table, at twice the price of the search. So where a mirror
(``mirror.py``) says what passes, the filter is applied to the answer: as many more rows are asked for as that should take, and
only where it was not enough, or where little passes, LanceDB applies it. The answer is the same either way.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from stores.episodes.engine import connect_async
from stores.episodes.filters import EpisodeFilter, expression
from stores.episodes.hits import Candidate, Hit, to_hit
from stores.episodes.mirror import EpisodeMirror, Look, Passing
from stores.episodes.rows import SHOWN
from stores.episodes.segment import TRIES, WORDS, Segment

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Vector = npt.NDArray[np.float32]
Scored = list[tuple[int, float]]
"""Numbers of rows with their scores, best first."""

TOLD = ("reflection", "log_offset", "_rowid")
"""What is read of a row whose other columns a mirror has."""

CLOSED = "the episodes are closed"
COMMON = 0.1
"""The share of a table from which on more rows are asked for and filtered afterwards."""
SPARE = 2
"""How many times as many rows as needed are then asked for: what passes may be rarer among the best."""


class CandidateSearch:
    """Candidates out of tables that are asked at once, on a thread of its own. Safe to share between threads."""

    def __init__(self, folder: Path, session: Any) -> None:
        self._folder = folder
        self._session = session
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._starting = threading.Lock()
        self._connection: Any = None
        self._tables: dict[str, Any] = {}

    def close(self) -> None:
        """Let go of the tables. What is being asked fails, and so does what is asked afterwards."""
        with self._starting:
            self._closed = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None
            self._tables.clear()

    def find(
        self,
        segments: Sequence[Segment],
        text: str,
        query: Vector | None,
        wanted: EpisodeFilter,
        limit: int,
        mirror: EpisodeMirror | None,
    ) -> list[Candidate]:
        """The best by words and the nearest to ``query``, each with both scores, in no order; see ``EpisodeStore.candidates``."""
        for gone in self._tables.keys() - {one.name for one in segments}:
            self._tables.pop(gone, None)
        where = expression(wanted)
        look = None if mirror is None else mirror.look(segments, wanted)
        searched = {one.name: words for one in segments if (words := one.searched(text)) is not None}
        asked = self._begin(self._by_text(searched, where, limit, look)) if searched else None
        if query is None:
            near = []
        elif mirror is None or look is None:
            near = _nearest(segments, query, where, limit)
        else:
            near = mirror.nearest(look, query, limit)
        rows: dict[str, dict[int, float | None]] = {}
        for score, name, row in heapq.nlargest(limit, _answer(asked) if asked is not None else ()):
            rows.setdefault(name, {})[row] = score
        for name, row in near:
            rows.setdefault(name, {}).setdefault(row, None)
        return self._shown(rows, query, mirror, look)

    # --- words

    async def _by_text(
        self, searched: Mapping[str, str], where: Any, limit: int, look: Look | None
    ) -> Iterable[tuple[float, str, int]]:
        passing = {name: None if look is None else look.tables[name] for name in searched}
        best = (self._best(name, words, where, limit, passing[name]) for name, words in searched.items())
        found = await asyncio.gather(*best)
        return [(score, name, row) for name, scored in zip(searched, found, strict=True) for row, score in scored]

    async def _best(self, name: str, words: str, where: Any, limit: int, passing: Passing | None) -> Scored:
        if passing is None:
            return await self._numbers(name, words, where, limit)
        if not len(passing):
            return []
        if passing.share >= COMMON:
            more = limit if passing.share == 1.0 else ceil(SPARE * limit / passing.share)
            found = await self._numbers(name, words, None, more)
            kept = _passing(found, passing)
            if len(kept) >= limit or len(found) < more:
                return kept[:limit]
        return _passing(await self._numbers(name, words, where, limit), passing)

    async def _numbers(self, name: str, words: str, where: Any, limit: int) -> Scored:
        from lancedb.query import MatchQuery

        def query(table: Any) -> Any:
            found = table.query().nearest_to_text(MatchQuery(words, WORDS))
            found = found if where is None else found.where(where)
            return found.limit(limit).select(["_score"]).with_row_id()

        answer = await self._rows(name, query)
        return list(zip(answer.column("_rowid").to_pylist(), answer.column("_score").to_pylist(), strict=True))

    # --- content

    def _shown(
        self,
        rows: Mapping[str, Mapping[int, float | None]],
        query: Vector | None,
        mirror: EpisodeMirror | None,
        look: Look | None,
    ) -> list[Candidate]:
        """The content of rows, by table and number, with both scores; those that are gone meanwhile are left out."""
        hits: dict[str, dict[int, Hit]] = {name: {} for name in rows}
        cosines: dict[str, dict[int, float]] = {name: {} for name in rows}
        if mirror is not None and look is not None:
            for name, scores in rows.items():
                hits[name] = mirror.recall(look, name, list(scores))
                cosines[name] = {} if query is None else mirror.cosines(look, name, list(scores), query)
            for name, table in self._read(_absent(rows, hits), TOLD).items():
                told = zip(table.column("log_offset").to_pylist(), table.column("reflection").to_pylist(), strict=True)
                hits[name] |= mirror.show(look, name, dict(zip(table.column("_rowid").to_pylist(), told, strict=True)))
        columns = [*SHOWN, "_rowid", *(["vector"] if query is not None else [])]
        for name, table in self._read(_absent(rows, hits), columns).items():
            if query is not None:
                cosines[name] |= _cosines(table, query)
                table = table.drop_columns(["vector"])
            hits[name] |= {row.pop("_rowid"): to_hit(0.0, row) for row in table.to_pylist()}
        return [
            Candidate(hits[name][row], cosines[name].get(row), score)
            for name, scores in rows.items()
            for row, score in scores.items()
            if row in hits[name]
        ]

    def _read(self, rows: Mapping[str, list[int]], columns: Sequence[str]) -> dict[str, pa.Table]:
        """Columns of rows, by table and number."""

        async def read(name: str, taken: list[int]) -> pa.Table:
            return await self._rows(name, lambda table: table.take_row_ids(taken).select(list(columns)))

        async def together() -> list[pa.Table]:
            return await asyncio.gather(*(read(name, taken) for name, taken in rows.items()))

        return dict(zip(rows, _answer(self._begin(together())), strict=True)) if rows else {}

    # --- asking

    def _begin(self, question: Coroutine[Any, Any, T]) -> Future[T]:
        with self._starting:
            if self._closed:
                question.close()
                raise RuntimeError(CLOSED)
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=(self._loop,), name="episodes-search", daemon=True).start()
            return asyncio.run_coroutine_threadsafe(question, self._loop)

    async def _rows(self, name: str, query: Any) -> pa.Table:
        """A query's rows. A read that outlives its version, which compaction then removed, is done again on the newest."""
        table = await self._table(name)
        for _ in range(TRIES - 1):
            try:
                return await query(table).to_arrow()
            except RuntimeError as error:
                if "Not found" not in str(error):
                    raise
        return await query(table).to_arrow()

    async def _table(self, name: str) -> Any:
        if self._connection is None:
            self._connection = await connect_async(self._folder, self._session)
        if name not in self._tables:
            self._tables[name] = await self._connection.open_table(name)
        return self._tables[name]


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left))
    finally:
        loop.close()


def _answer(asked: Future[T]) -> T:
    try:
        return asked.result()
    except CancelledError:
        raise RuntimeError(CLOSED) from None


def _passing(found: Scored, passing: Passing) -> Scored:
    kept = passing.kept([row for row, _ in found])
    return [(row, score) for row, score in found if row in kept]


def _absent(rows: Mapping[str, Mapping[int, float | None]], hits: Mapping[str, Mapping[int, Hit]]) -> dict[str, list[int]]:
    absent = {name: [row for row in scores if row not in hits[name]] for name, scores in rows.items()}
    return {name: wanted for name, wanted in absent.items() if wanted}


def _nearest(segments: Sequence[Segment], query: Vector, where: Any, limit: int) -> list[tuple[str, int]]:
    scored = ((cosine, one.name, row) for one in segments for row, cosine in one.rows_by_vector(query, where, limit))
    return [(name, row) for _, name, row in heapq.nlargest(limit, scored)]


def _cosines(table: pa.Table, query: Vector) -> dict[int, float]:
    if not table.num_rows:
        return {}
    matrix = table.column("vector").combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(table.num_rows, -1)
    direction = query.astype(np.float64) / np.linalg.norm(query.astype(np.float64))
    found = np.vecdot(matrix.astype(np.float64), direction).tolist()
    return dict(zip(table.column("_rowid").to_pylist(), found, strict=True))
