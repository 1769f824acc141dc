"""Nearest insights by vector, exactly, with or without sqlite-vec.

``vectors`` is a plain table and the truth; a vec0 table follows it where the connection has sqlite-vec. Both are written in the
same transaction. ``vector_state.seq`` counts the changes and ``vec0_seq`` says up to which one vec0 has followed, so a writer
without sqlite-vec may work on the same file: the next one with it sees the gap and rebuilds.

Searching takes vec0 where it is up to date and else a matrix of all vectors, kept in memory and read anew when ``seq`` has moved.
Either way a filter is applied *before* the k nearest are taken. Filters live in SQL alone: vec0 gets the row numbers that pass
(``n IN (SELECT …)``, which it pushes down), so a vote touches no vector table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stores.sqlite.connection import REBUILD, Connection
from stores.sqlite.errors import BadQuery, StoreError
from stores.sqlite.filters import INSIGHT_WHERE

Vector = npt.NDArray[np.float32]

MAX_K = 4_096
"""sqlite-vec's limit; the matrix keeps to it, so that no query works on one machine only."""

_PUT = "INSERT INTO vectors (n, vector) VALUES (?, ?) ON CONFLICT (n) DO UPDATE SET vector = excluded.vector"
_PASSING = f"SELECT n FROM insights WHERE {INSIGHT_WHERE}"  # noqa: S608 (a constant)
_KNN = "SELECT n, distance FROM insights_vec WHERE embedding MATCH :vector AND k = :k ORDER BY distance"
_KNN_FILTERED = _KNN.replace("ORDER BY", f"AND n IN ({_PASSING}) ORDER BY")


def check_k(k: int) -> None:
    """How many results may be asked for.

    Raises:
        BadQuery: not in 1 … 4096.
    """
    if isinstance(k, bool) or not 1 <= k <= MAX_K:
        raise BadQuery(f"k is {k}", hint=f"1 to {MAX_K}")


class VectorIndex:
    """The vectors of one store's active insights. ``dimension`` is the store's."""

    def __init__(self, connection: Connection, dimension: int) -> None:
        self._connection = connection
        self.dimension = dimension
        self._matrix: tuple[int, npt.NDArray[np.int64], Vector] | None = None

    def checked(self, vector: npt.ArrayLike) -> Vector:
        """A vector of norm 1, as float32.

        Raises:
            BadQuery: another dimension, NaN or infinity, or all zeros: sqlite-vec would take some of these silently.
        """
        row = np.ascontiguousarray(vector, dtype=np.float32)
        if row.shape != (self.dimension,):
            raise BadQuery(f"a vector of shape {row.shape} in a store of dimension {self.dimension}", hint="embed with its model")
        norm = float(np.linalg.norm(row.astype(np.float64)))
        if not np.isfinite(norm) or norm < 1e-6:
            raise BadQuery("a vector with NaN, infinity or nothing but zeros has no direction")
        return row if abs(norm - 1.0) < 1e-5 else (row / norm).astype(np.float32)

    def put(self, n: int, vector: npt.ArrayLike) -> None:
        """Set a row's vector, inside a transaction."""
        data = self.checked(vector).tobytes()
        self._connection.execute(_PUT, (n, data))
        if self._connection.has_vec0:
            self._connection.execute("DELETE FROM insights_vec WHERE n = ?", (n,))
            self._connection.execute("INSERT INTO insights_vec (n, embedding) VALUES (?, ?)", (n, data))
        self._count()

    def drop(self, n: int) -> None:
        """Forget a row's vector, inside a transaction; none is fine."""
        if self._connection.changed("DELETE FROM vectors WHERE n = ?", (n,)) == 0:
            return
        if self._connection.has_vec0:
            self._connection.execute("DELETE FROM insights_vec WHERE n = ?", (n,))
        self._count()

    def has(self, n: int) -> bool:
        """Whether a row has a vector."""
        return self._connection.one("SELECT 1 FROM vectors WHERE n = ?", (n,)) is not None

    def _count(self) -> None:
        if self._connection.has_vec0:
            self._connection.execute("UPDATE vector_state SET seq = seq + 1, vec0_seq = seq + 1")
        else:
            self._connection.execute("UPDATE vector_state SET seq = seq + 1")

    def catch_up(self) -> bool:
        """Make the vec0 table, or make it anew where it has fallen behind; whether that was needed. For writers."""
        if not self._connection.has_vec0 or self._up_to_date():
            return False
        with self._connection.transaction():
            self._connection.execute("DROP TABLE IF EXISTS insights_vec")
            self._connection.execute(
                "CREATE VIRTUAL TABLE insights_vec USING vec0"
                f" (n INTEGER PRIMARY KEY, embedding FLOAT[{int(self.dimension)}] distance_metric=cosine)"
            )
            self._connection.executemany(
                "INSERT INTO insights_vec (n, embedding) VALUES (?, ?)", self._connection.execute("SELECT n, vector FROM vectors")
            )
            self._connection.execute("UPDATE vector_state SET vec0_seq = seq")
        return True

    def _up_to_date(self) -> bool:
        return bool(self._connection.one("SELECT seq IS vec0_seq FROM vector_state"))

    def nearest(self, vector: npt.ArrayLike, k: int, where: dict[str, Any] | None) -> list[tuple[int, float]]:
        """Up to ``k`` row numbers with their cosine similarity, best first; ``where`` holds a filter's parameters.

        Equal similarities come in the order of row numbers; which of several equal ones are the last of ``k`` is open.

        Raises:
            BadQuery: the vector is refused, or k is not in 1 … 4096.
        """
        check_k(k)
        query = self.checked(vector)
        if self._connection.has_vec0 and self._up_to_date():
            params = {"vector": query.tobytes(), "k": k, **(where or {})}
            rows = self._connection.execute(_KNN if where is None else _KNN_FILTERED, params)
            found = [(int(n), 1.0 - float(distance)) for n, distance in rows]
        else:
            found = self._by_matrix(query, k, where)
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))

    def _by_matrix(self, query: Vector, k: int, where: dict[str, Any] | None) -> list[tuple[int, float]]:
        numbers, matrix = self._loaded()
        scores = matrix @ query
        if where is not None:
            passing = np.fromiter((row[0] for row in self._connection.execute(_PASSING, where)), dtype=np.int64)
            kept = np.isin(numbers, passing, assume_unique=True)
            numbers, scores = numbers[kept], scores[kept]
        if len(numbers) == 0:
            return []
        best = np.argsort(-scores, kind="stable")[:k] if k >= len(scores) else np.argpartition(-scores, k)[:k]
        return [(int(numbers[place]), float(scores[place])) for place in best]

    def _loaded(self) -> tuple[npt.NDArray[np.int64], Vector]:
        with self._connection.snapshot():
            seq = int(self._connection.one("SELECT seq FROM vector_state"))
            if self._matrix is None or self._matrix[0] != seq:
                rows = self._connection.execute("SELECT n, vector FROM vectors ORDER BY n")
                numbers = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
                flat = np.frombuffer(b"".join(row[1] for row in rows), dtype=np.float32)
                if flat.size != len(rows) * self.dimension:
                    raise StoreError("a stored vector has another length than the store's dimension", hint=REBUILD)
                loaded = (seq, numbers, flat.reshape(len(rows), self.dimension))
                if self._connection.writing:  # what is read here may be rolled back, and its number given to something else
                    self._matrix = None
                    return loaded[1:]
                self._matrix = loaded
        return self._matrix[1:]
