"""Episodes in memory, but for their reflections: vectors, and what filters read and hits show.

LanceDB needs some 10 ms of each core for 32,000 vectors, and 5 ms to answer anything at all. Whoever asks often keeps this beside
it: for each episode its row's number in the table, its time, its few words as codes, and which vector it has. Vectors are those of
a sentence with numbers in named bands, so many episodes share one: each distinct vector is kept and compared once, exactly.

The mirror follows the tables: it looks at each table's folder before it answers, and reads what came after the last place in the
log that it knows. Where a table is gone, or has another number of rows (an episode was forgotten), everything is read anew.

Of episodes at the same distance the latest are taken. What was shown of episodes lately is kept too, as long as it is still so.

A :class:`Look` is what passes a filter at one moment. The search by words takes it too: a ``where`` makes LanceDB read the filter's
columns of a whole table, which costs more than the search itself.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.events import Status
from stores.episodes.filters import EpisodeFilter
from stores.episodes.hits import Hit
from stores.episodes.segment import Segment
from stores.heap import release

Vector = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

CODED = ("key", "tool", "chain", "pair", "action", "status", "regime", "label", "sentence")
FILTERED = ("key", "tool", "chain", "pair", "action", "status")
FLAGS = ("failed", "simulated", "retracted")
COLUMNS = ("id", "ts", "importance", "places", "log_partition", "log_offset", "vector", *CODED, *FLAGS)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_ROWS = 64
SHOWN_ROWS = 4_096
"""Episodes whose content is kept for the next time: some 12 MB."""


_Index = tuple[npt.NDArray[np.int64], npt.NDArray[np.intp]]


class Passing:
    """Which rows of one table pass a filter: ``places`` are where they stand in ``table``."""

    def __init__(self, table: _Rows, mask: Bools) -> None:
        self.table = table
        self.places = np.flatnonzero(mask)
        self._mask = mask
        self._numbers, self._order = table.index()

    def __len__(self) -> int:
        return len(self.places)

    @property
    def share(self) -> float:
        """How much of the table passes, 0 … 1."""
        return len(self.places) / len(self._mask) if len(self._mask) else 0.0

    def found(self, rows: Sequence[int]) -> dict[int, int]:
        """Where rows stand, by their numbers; those that are not known are left out."""
        wanted = np.asarray(rows, dtype=np.int64)
        if not len(self._numbers):
            return {}
        near = np.minimum(np.searchsorted(self._numbers, wanted), len(self._numbers) - 1)
        here = self._numbers[near] == wanted
        return dict(zip(wanted[here].tolist(), self._order[near[here]].tolist(), strict=True))

    def kept(self, rows: Sequence[int]) -> set[int]:
        """Those of the rows, by their numbers, that pass."""
        return {row for row, place in self.found(rows).items() if self._mask[place]}


class _Rows:
    """Columns of one table, growing. ``stamp`` is the table's folder when it was last read."""

    def __init__(self) -> None:
        kinds: dict[str, Any] = {
            "row": np.int64,
            "offset": np.int64,
            "vector": np.int32,
            "ts": np.int64,
            "importance": np.float64,
            "id": "S36",
        }
        kinds |= dict.fromkeys(CODED, np.int32) | dict.fromkeys(FLAGS, np.bool_)
        self.count = 0
        self.stamp: object = None
        self.ends: dict[int, int] = {}
        self._columns = {name: np.zeros(_FIRST_ROWS, dtype=kind) for name, kind in kinds.items()}
        self._index: _Index | None = None

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._columns[name][: self.count]

    def append(self, cells: dict[str, Any]) -> None:
        """Add a row."""
        if self.count == len(self._columns["row"]):
            self._columns = {name: np.concatenate([cells, np.zeros_like(cells)]) for name, cells in self._columns.items()}
        self.count += 1
        self.put(self.count - 1, cells)

    def put(self, place: int, cells: dict[str, Any]) -> None:
        """Replace a row."""
        self._index = None
        for name, cell in cells.items():
            self._columns[name][place] = cell

    def index(self) -> _Index:
        """The rows' numbers, rising, and where each stands. A row that is replaced gets a new number and keeps its place."""
        if self._index is None:
            order = np.argsort(self["row"], kind="stable")
            self._index = self["row"][order], order
        return self._index


@dataclass(slots=True)
class _Vectors:
    """Distinct vectors, each once."""

    matrix: Vector
    count: int = 0
    places: dict[bytes, int] = field(default_factory=dict)

    def place(self, vector: Vector) -> int:
        """Where a vector is, added if need be."""
        name = blake2b(vector.tobytes(), digest_size=16).digest()
        place = self.places.get(name)
        if place is None:
            if self.count == len(self.matrix):
                self.matrix = np.concatenate([self.matrix, np.zeros_like(self.matrix)])
            place = self.places[name] = self.count
            self.matrix[place] = vector
            self.count += 1
        return place


@dataclass(frozen=True, slots=True)
class Look:
    """What passes a filter at one moment, by table; it stays what it is when the mirror reads everything anew."""

    tables: Mapping[str, Passing]
    vectors: _Vectors
    words: Mapping[str, Sequence[str | None]]


class EpisodeMirror:
    """The episodes of a store's tables, for the nearest. Safe to share between threads."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._lock = threading.Lock()
        self._vectors = _Vectors(np.zeros((_FIRST_ROWS, dimension), dtype=np.float32))
        self._codes: dict[str, dict[str | None, int]] = {name: {None: 0} for name in CODED}
        self._words: dict[str, list[str | None]] = {name: [None] for name in CODED}
        self._tables: dict[str, _Rows] = {}
        self._shown: OrderedDict[tuple[str, int, int], Hit] = OrderedDict()
        self.dropped = 0
        """Rises when everything was read anew, and what was kept before was thrown away."""

    def __len__(self) -> int:
        return sum(rows.count for rows in self._tables.values())

    def look(self, segments: Sequence[Segment], wanted: EpisodeFilter) -> Look:
        """What passes the filter now, in each table, once the mirror knows all that the tables hold."""
        with self._lock:
            self._follow(segments)
            known = {segment.name: self._tables[segment.name] for segment in segments}
            passing = {name: Passing(rows, self._passes(rows, wanted)) for name, rows in known.items()}
            return Look(passing, self._vectors, self._words)

    def nearest(self, look: Look, query: Vector, limit: int) -> list[tuple[str, int]]:
        """The nearest of those that pass, by table and row's number: best first, exactly, and of equal ones the latest."""
        with self._lock:
            direction = (query / np.linalg.norm(query.astype(np.float64))).astype(np.float32)
            cosines = np.vecdot(look.vectors.matrix[: look.vectors.count], direction)
            best: list[tuple[float, int, bytes, str, int]] = []
            for name, passing in look.tables.items():
                rows, kept = passing.table, passing.places
                vectors = rows["vector"] if len(kept) == rows.count else rows["vector"][kept]
                found = cosines[vectors]
                if len(best) == limit:  # what is farther than all of these is none of the best
                    near = np.flatnonzero(found >= -best[-1][0])
                    kept, found = kept[near], found[near]
                if len(found) > limit:
                    chosen = np.flatnonzero(found >= np.partition(found, -limit)[-limit])
                    chosen = chosen[np.lexsort((rows["id"][kept[chosen]], -rows["ts"][kept[chosen]], -found[chosen]))[:limit]]
                    kept, found = kept[chosen], found[chosen]
                for place, cosine in zip(kept.tolist(), found.tolist(), strict=True):
                    best.append((-cosine, -int(rows["ts"][place]), rows["id"][place], name, int(rows["row"][place])))
                best = sorted(best)[:limit]
        return [(name, row) for _, _, _, name, row in best]

    def cosines(self, look: Look, name: str, rows: Sequence[int], query: Vector) -> dict[int, float]:
        """The exact cosines of a table's rows, by their numbers; of those that are not here, none."""
        direction = query.astype(np.float64) / np.linalg.norm(query.astype(np.float64))
        with self._lock:
            places, table = look.tables[name].found(rows), look.tables[name].table
            matrix = look.vectors.matrix[table["vector"][list(places.values())]].astype(np.float64)
        return dict(zip(places, np.vecdot(matrix, direction).tolist(), strict=True))

    def recall(self, look: Look, name: str, rows: Sequence[int]) -> dict[int, Hit]:
        """What was shown of a table's rows before and is still so, by their numbers."""
        with self._lock:
            table = look.tables[name].table
            names = {row: (name, row, int(table["offset"][place])) for row, place in look.tables[name].found(rows).items()}
            known = {row: self._shown[name] for row, name in names.items() if name in self._shown}
            for row in known:
                self._shown.move_to_end(names[row])
            return known

    def show(self, look: Look, name: str, told: Mapping[int, tuple[int, str]]) -> dict[int, Hit]:
        """A table's rows as they are shown, by their numbers, out of the offset of their last record and their reflection; kept for
        the next time. Those that are not known, or of another record than that, are left out."""
        with self._lock:
            table, shown = look.tables[name].table, {}
            for row, place in look.tables[name].found(list(told)).items():
                offset, reflection = told[row]
                if offset == table["offset"][place]:
                    shown[row] = self._hit(table, look.words, place, reflection)
            if self._tables.get(name) is table:  # or something in it may have been forgotten since
                self._shown |= {(name, row, told[row][0]): hit for row, hit in shown.items()}
            while len(self._shown) > SHOWN_ROWS:
                self._shown.popitem(last=False)
            return shown

    @staticmethod
    def _hit(table: _Rows, words: Mapping[str, Sequence[str | None]], place: int, reflection: str) -> Hit:
        cells: dict[str, Any] = {name: words[name][table[name][place]] for name in CODED}
        cells |= {name: bool(table[name][place]) for name in FLAGS}
        return Hit(
            score=0.0,
            id=table["id"][place].decode(),
            ts=_EPOCH + int(table["ts"][place]) * _MICROSECOND,
            importance=float(table["importance"][place]),
            reflection=reflection,
            **cells,
        )

    def shown(self) -> list[Hit]:
        """Everything that is kept of what was shown."""
        with self._lock:
            return list(self._shown.values())

    # --- filters

    def _passes(self, rows: _Rows, wanted: EpisodeFilter) -> Bools:
        mask = np.ones(rows.count, dtype=np.bool_)
        for name in FILTERED:
            value = getattr(wanted, name)
            if value is not None:
                mask &= rows[name] == self._code(name, value)
        if wanted.regime is not None:
            mask &= self._in_regime(rows, wanted)
        for name in ("failed", "simulated"):
            flag = getattr(wanted, name)
            if flag is not None:
                mask &= rows[name] == flag
        if wanted.since is not None:
            mask &= rows["ts"] >= _microseconds(wanted.since)
        if wanted.until is not None:
            mask &= rows["ts"] < _microseconds(wanted.until)
        if wanted.min_importance is not None:
            mask &= rows["importance"] >= wanted.min_importance
        if not wanted.retracted:
            mask &= ~rows["retracted"]
        if not wanted.pending and wanted.status is None:
            mask &= rows["status"] != self._code("status", Status.PENDING)
        return mask

    def _in_regime(self, rows: _Rows, wanted: EpisodeFilter) -> Bools:
        """Recorded with the regime, or at a time when its market was in it."""
        mask: Bools = rows["regime"] == self._code("regime", wanted.regime)
        for span in wanted.spans:
            inside = (rows["key"] == self._code("key", span.key)) & (rows["simulated"] == span.simulated)
            inside &= rows["ts"] >= _microseconds(span.since)
            mask |= inside if span.until is None else inside & (rows["ts"] < _microseconds(span.until))
        return mask

    def _code(self, name: str, value: object) -> int:
        """The code of a word in a column; -1, which no row has, where it was never there."""
        return self._codes[name].get(str(value), -1)

    # --- following

    def _follow(self, segments: Sequence[Segment]) -> None:
        if self._tables.keys() - {segment.name for segment in segments} or not all(self._up_to_date(one) for one in segments):
            self._clear()  # something was taken out
            for segment in segments:
                self._up_to_date(segment)

    def _up_to_date(self, segment: Segment) -> bool:
        """Read what came into a table; whether that is all that happened to it."""
        rows = self._tables.setdefault(segment.name, _Rows())
        stamp = segment.stamp()
        if stamp == rows.stamp:
            return True
        self._read(segment, rows)
        if segment.count() != rows.count:
            self._read(segment, rows)  # what was written meanwhile
        rows.stamp = stamp
        return segment.count() == rows.count

    def _clear(self) -> None:
        """Forget everything: tables, vectors, and what was shown."""
        self._vectors = _Vectors(np.zeros((_FIRST_ROWS, self._dimension), dtype=np.float32))
        self._tables.clear()
        self._shown.clear()
        self._codes = {name: {None: 0} for name in CODED}
        self._words = {name: [None] for name in CODED}
        self.dropped += 1

    def _read(self, segment: Segment, rows: _Rows) -> None:
        ends, anew = dict(rows.ends), not rows.count
        for batch in segment.recorded_after(rows.ends, COLUMNS):
            matrix = batch.column("vector").flatten().to_numpy(zero_copy_only=False).reshape(batch.num_rows, -1)
            plain = batch.drop_columns(["vector"]).to_pylist()
            for row, vector in zip(plain, matrix, strict=True):
                self._take(rows, row, np.ascontiguousarray(vector, dtype=np.float32), known=not anew)
                partition = row["log_partition"]
                ends[partition] = max(ends.get(partition, -1), row["log_offset"])
        if anew:
            release()  # a whole table came through the heap
        rows.ends = ends

    def _take(self, rows: _Rows, row: dict[str, Any], vector: Vector, *, known: bool) -> None:
        """``known``: the row may be one that is here already, as it was before."""
        cells = {
            "row": row["_rowid"],
            "offset": row["log_offset"],
            "vector": self._vectors.place(vector),
            "ts": _microseconds(row["ts"]),
            "importance": row["importance"],
            "id": row["id"].encode(),
            **{name: row[name] for name in FLAGS},
            **{name: self._coded(name, row[name]) for name in CODED},
        }
        late = known and " " in row["places"]  # of more than one record
        here = np.flatnonzero(rows["id"] == cells["id"]).tolist() if late else []
        if here:
            rows.put(here[0], cells)
        else:
            rows.append(cells)

    def _coded(self, name: str, word: str | None) -> int:
        code = self._codes[name].get(word)
        if code is None:
            code = self._codes[name][word] = len(self._words[name])
            self._words[name].append(word)
        return code


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
