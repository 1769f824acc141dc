"""Reading episodes, from any process.

The store is a row of **segments**, each a LanceDB table of some 32,000 episodes; the last takes new rows, the others are closed.
The reason is compaction: LanceDB rewrites a whole table to merge in a few new fragments (its target is a million rows a fragment,
and Python cannot set it), so in one table the price of a new row grows with all rows before it, and so does the memory of every
compaction. A segment bounds both. Searches ask each segment and merge.

Scores of text are BM25 with each segment's own word counts; segments are large enough that these hardly differ.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import orjson

from schemas.episodes import Episode
from stores.episodes.browse import Place, facets, latest
from stores.episodes.candidates import CandidateSearch
from stores.episodes.engine import connect, new_session
from stores.episodes.errors import EpisodeStoreError
from stores.episodes.filters import EVERYTHING, EpisodeFilter, expression, with_id_prefix, with_ids
from stores.episodes.fusion import DEFAULT_RECIPE, RECIPES
from stores.episodes.hits import Candidate, Hit, rescored, to_hit
from stores.episodes.layout import REBUILD, Header, header_stamp, read_header
from stores.episodes.mirror import EpisodeMirror
from stores.episodes.rows import REMEMBERED, WHOLE, canonical, to_episode
from stores.episodes.segment import TRIES, Segment

T = TypeVar("T")
Vector = npt.NDArray[np.float32]
EmbedderInfo = tuple[str, int]
"""An embedder's model id and dimension."""

MAX_HITS = 1000
_DEPTH = 50
_ANY = EpisodeFilter()


class Embedder(Protocol):
    """What embeds a question."""

    def embed(self, texts: Sequence[str]) -> Vector:
        """Normalised vectors, one row a text."""
        ...


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Size of the store; ``disk_bytes`` includes indexes and versions not yet removed."""

    rows: int
    segments: int
    fragments: int
    data_bytes: int
    disk_bytes: int


class EpisodeStore:
    """Episodes for reading; always the newest version of whatever a writer has committed. Safe to share between threads."""

    def __init__(self, folder: Path, header: Header) -> None:
        self._folder = folder
        self._header = header
        self._stamp: tuple[int, int] | None = None  # of no header yet: what was just read may have been replaced meanwhile
        session = new_session()
        self._connection = connect(folder, session)
        self._candidates = CandidateSearch(folder, session)
        self._opened: dict[str, Segment] = {}

    @classmethod
    def open(cls, folder: Path, info: EmbedderInfo | None = None) -> Self:
        """Open a store for reading.

        Raises:
            EpisodeStoreError: there is none, or it was made with another model or dimension than ``info`` says.
        """
        header = read_header(folder)
        check_made_by(folder, header, info)
        return cls(folder, header)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the tables."""
        self._candidates.close()
        self._opened.clear()

    @property
    def model_id(self) -> str:
        """The model whose vectors these are."""
        return self._header.model_id

    @property
    def dimension(self) -> int:
        """The vectors' dimension."""
        return self._header.dimension

    def count(self) -> int:
        """Episodes kept, retracted and pending ones included. Costs a fifth of a millisecond a segment."""
        return self._ask(lambda segments: sum(segment.count() for segment in segments))

    def get(self, episode_id: str) -> Episode | None:
        """An episode by its id, whatever its status."""
        where = with_ids([episode_id])
        found = self._ask(lambda segments: next((row for one in segments for row in one.first(where, WHOLE)), None))
        return None if found is None else to_episode(found)

    def brief(self, ids: Sequence[str]) -> dict[str, tuple[datetime, float]]:
        """Event time and importance of those of the episodes that are kept, by id."""
        wanted = sorted(set(ids))
        if not wanted:
            return {}
        columns = ("id", "ts", "importance")
        rows = self._ask(lambda segments: [row for one in segments for row in one.first(with_ids(wanted), columns, len(wanted))])
        return {row["id"]: (row["ts"].astimezone(UTC), float(row["importance"])) for row in rows}

    def find(self, prefix: str) -> Episode | None:
        """The one episode whose id starts with ``prefix``; None where there is none or more than one."""
        where = with_id_prefix(prefix)
        if where is None:
            return None
        found = self._ask(lambda segments: [row for one in segments for row in one.first(where, WHOLE, limit=2)])
        return to_episode(found[0]) if len(found) == 1 else None

    def latest(self, wanted: EpisodeFilter = _ANY, *, limit: int = 50, after: Place | None = None) -> list[Hit]:
        """The latest events first, those after a place of this order; the score is 0.

        Raises:
            ValueError: ``limit`` is not in 1 … 1000, or the filter has a moment without a zone.
        """
        _check_limit(limit)
        return [to_hit(0.0, row) for row in self._ask(lambda segments: latest(segments, wanted, limit, after))]

    def facets(self, wanted: EpisodeFilter = _ANY) -> dict[str, dict[str, int]]:
        """How many of the wanted episodes each tool, chain, pair, action and status has, the most frequent first."""
        return self._ask(lambda segments: facets(segments, wanted))

    def keys(self) -> dict[str, int]:
        """How many episodes that may teach each record key has, the most first."""
        counts: Counter[str] = Counter()
        for one in self._ask(lambda segments: [segment.counted(expression(_ANY), ("key",))["key"] for segment in segments]):
            counts.update(one)
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    def of_key(self, key: str, limit: int) -> list[Episode]:
        """The latest episodes of a record key that may teach, at most ``limit``, in the order of (time, id)."""
        where = expression(EpisodeFilter(key=key))
        columns = ("id", "ts", *WHOLE)
        found = self._ask(lambda segments: [row for one in segments for row in one.ordered(where, columns, limit)])
        newest = heapq.nsmallest(limit, found, key=lambda row: (-row["ts"].timestamp(), row["id"]))
        return [to_episode(row) for row in sorted(newest, key=lambda row: (row["ts"], row["id"]))]

    def search_text(self, text: str, wanted: EpisodeFilter = _ANY, *, limit: int = 10) -> list[Hit]:
        """The best by BM25 over sentences and reflections. Any text is a valid query; one without words finds nothing.

        Raises:
            ValueError: ``limit`` is not in 1 … 1000, or the filter has a moment without a zone.
        """
        _check_limit(limit)
        where = expression(wanted)
        return self._best(lambda one: one.by_text(text, where, limit), lambda row: float(row["_score"]), limit)

    def search_vector(self, vector: Vector, wanted: EpisodeFilter = _ANY, *, limit: int = 10) -> list[Hit]:
        """The nearest by cosine, exactly; the score is the cosine.

        Raises:
            ValueError: see :meth:`search_text`, or the vector is of another dimension, zero or not finite.
        """
        _check_limit(limit)
        query = self._checked(vector)
        where = expression(wanted)
        return self._best(lambda one: one.by_vector(query, where, limit), lambda row: 1.0 - float(row["_distance"]), limit)

    def search(
        self, text: str, embedder: Embedder, wanted: EpisodeFilter = _ANY, *, limit: int = 10, recipe: str = DEFAULT_RECIPE
    ) -> list[Hit]:
        """The best by words and by meaning, put together by a recipe of ``fusion.RECIPES``.

        Raises:
            ValueError: see :meth:`search_text`; or an unknown recipe.
        """
        if recipe not in RECIPES:
            raise ValueError(f"recipes are {', '.join(RECIPES)}")
        _check_limit(limit)
        depth = min(MAX_HITS, max(_DEPTH, 5 * limit))
        (vector,) = getattr(embedder, "embed_query", embedder.embed)([text])
        legs = [self.search_text(text, wanted, limit=depth), self.search_vector(vector, wanted, limit=depth)]
        hits = {hit.id: hit for leg in legs for hit in leg}
        fused = RECIPES[recipe]([{hit.id: hit.score for hit in leg} for leg in legs])
        return [rescored(hits[one], score) for one, score in fused[:limit]]

    def candidates(
        self,
        text: str,
        vector: Vector | None,
        wanted: EpisodeFilter = _ANY,
        *,
        limit: int = 50,
        mirror: EpisodeMirror | None = None,
    ) -> list[Candidate]:
        """The best by words and the nearest, each with both scores, in no order. ``mirror`` finds the nearest in memory.

        Raises:
            ValueError: see :meth:`search_text` and :meth:`search_vector`.
        """
        _check_limit(limit)
        query = None if vector is None else self._checked(vector)
        return self._ask(lambda segments: self._candidates.find(segments, text, query, wanted, limit, mirror))

    def _checked(self, vector: Vector) -> Vector:
        query = np.asarray(vector, dtype=np.float32)
        if query.shape != (self.dimension,) or not np.isfinite(query).all() or not query.any():
            raise ValueError(f"a query vector has {self.dimension} finite numbers, not all zero")
        return query

    def fingerprint_parts(self) -> Iterator[bytes]:
        """A line of canonical JSON for each episode, ordered by id: its id and the SHA-256 of its remembered content."""

        def digests(segments: Sequence[Segment]) -> list[tuple[str, str]]:
            return sorted((row["id"], sha256(canonical(row)).hexdigest()) for one in segments for row in one.scan(REMEMBERED))

        for one, digest in self._ask(digests):
            yield orjson.dumps({"id": one, "sha256": digest})

    def traces(self, episode_id: str, words: str = "") -> dict[str, int]:
        """Where an episode's words are left, by place: the text indexes, and the files themselves, older versions included.

        ``words`` is a phrase of its text; without one only rows that are searched are looked for.
        """
        found = [hit for hit in self.search_text(words, EVERYTHING, limit=MAX_HITS) if hit.id == episode_id] if words else []
        files = _files(self._folder) if words else ()
        return {"text": len(found), "files": sum(words.encode() in _bytes(file) for file in files)}

    def stats(self) -> StoreStats:
        """How large the store is."""
        disk = sum(_size(file) for file in _files(self._folder))
        return self._ask(
            lambda segments: StoreStats(
                rows=sum(one.count() for one in segments),
                segments=len(segments),
                fragments=sum(one.fragments() for one in segments),
                data_bytes=sum(one.bytes() for one in segments),
                disk_bytes=disk,
            )
        )

    def _best(
        self, ask: Callable[[Segment], list[dict[str, Any]]], score: Callable[[dict[str, Any]], float], limit: int
    ) -> list[Hit]:
        rows = self._ask(lambda segments: [(score(row), row) for one in segments for row in ask(one)])
        best = heapq.nsmallest(limit, rows, key=lambda pair: (-pair[0], pair[1]["id"]))
        return [to_hit(found, row) for found, row in best]

    def _ask(self, question: Callable[[Sequence[Segment]], T]) -> T:
        """An answer out of every segment. A table that was written anew meanwhile, because something in it was forgotten, is gone
        with its answer: then all are asked again."""
        for _ in range(TRIES - 1):
            names = self._names()
            try:
                return question([self._segment(name) for name in names])
            except (RuntimeError, OSError, ValueError, EpisodeStoreError) as error:
                if names != self._names():
                    continue
                if str(error).startswith("lance error"):
                    raise EpisodeStoreError(
                        f"the episodes at {self._folder} cannot be read: {str(error)[:200]}", hint=REBUILD
                    ) from error
                raise
        return question(self._segments())

    def _segments(self) -> list[Segment]:
        """Every segment that the header names now, the newest first."""
        return [self._segment(name) for name in self._names()]

    def _names(self) -> tuple[str, ...]:
        stamp = header_stamp(self._folder)
        if stamp != self._stamp:
            self._header, self._stamp = read_header(self._folder), stamp
            self._opened = {name: one for name, one in self._opened.items() if name in self._header.segments}
        return self._header.segments[::-1]

    def _segment(self, name: str) -> Segment:
        opened = self._opened.get(name)
        if opened is None:
            try:
                opened = self._opened[name] = Segment(name, self._connection.open_table(name), self._folder)
            except (OSError, ValueError, RuntimeError) as error:
                raise EpisodeStoreError(
                    f"the table {name} at {self._folder} cannot be opened: {str(error)[:200]}", hint=REBUILD
                ) from None
        return opened


def check_made_by(folder: Path, header: Header, info: EmbedderInfo | None) -> None:
    """Refuse a store whose vectors another model made.

    Raises:
        EpisodeStoreError: it was.
    """
    if info is not None and info != (header.model_id, header.dimension):
        raise EpisodeStoreError(
            f"the episodes at {folder} were embedded by {header.model_id}, not by {info[0]}",
            hint="set the model back, or name another folder: vectors of two models cannot be compared",
        )


def _files(folder: Path) -> Iterator[Path]:
    """Every file under a folder, while a writer adds and removes some."""
    for parent, _, names in os.walk(folder):
        yield from (file for name in names if not (file := Path(parent, name)).is_symlink())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # removed meanwhile
        return 0


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # removed meanwhile
        return b""


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_HITS:
        raise ValueError(f"a limit lies in 1 … {MAX_HITS}")
