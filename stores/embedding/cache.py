"""Each distinct text is embedded once: a content-addressed cache before an embedder, in memory and in a file.

A vector is found under the SHA-256 of the model's id, the role (document or query) and the text, so a cache can be shared by
models and never gives one model's vector for another's. The file is SQLite: several processes may use it at once, and a process
that dies loses at most what it was writing. Its content can always be made again, so nothing in it is trusted: a row whose length
or checksum is wrong is a miss and is replaced, and a file that is not a database any more is set aside and begun anew.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Key = bytes

LOGGER = logging.getLogger(__name__)

MEMORY = 4096
"""Vectors kept in memory: 6 MB at 384 dimensions."""
LIMIT = 200_000
"""Vectors kept in the file: 350 MB at 384 dimensions; the oldest leave first."""
_ASK_AT_ONCE = 500
_SLACK = 1000
_SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL, crc INTEGER NOT NULL)"


class _Inner(Protocol):
    model_id: str
    dimension: int

    def embed(self, texts: Sequence[str]) -> Vectors: ...
    def embed_query(self, texts: Sequence[str]) -> Vectors: ...


class CachedEmbedder:
    """An embedder that remembers. ``path=None`` remembers in memory only. Safe to share between threads.

    ``hits`` and ``misses`` count distinct texts of each call: ``misses`` is how many were really embedded.
    """

    def __init__(self, inner: _Inner, path: Path | None, *, memory: int = MEMORY, limit: int = LIMIT) -> None:
        self.model_id = inner.model_id
        self.dimension = inner.dimension
        self.hits = 0
        self.misses = 0
        self._inner = inner
        self._memory: OrderedDict[Key, bytes] = OrderedDict()
        self._capacity = memory
        self._lock = threading.Lock()
        self._file = _open_file(path, 4 * inner.dimension, limit) if path is not None else None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of documents, in order; bit-identical to the inner embedder's."""
        return self._through("document", texts, self._inner.embed)

    def embed_query(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions, in order; bit-identical to the inner embedder's."""
        return self._through("query", texts, self._inner.embed_query)

    def close(self) -> None:
        """Close the file. The cache goes on in memory."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def forget(self, texts: Sequence[str]) -> None:
        """Take the vectors of texts out of memory and file, whatever their role. Another process's memory lasts until it ends."""
        keys = [self._key(role, text) for role in ("document", "query") for text in texts]
        with self._lock:
            for key in keys:
                self._memory.pop(key, None)
            if self._file is not None:
                self._file.drop(keys)

    def _key(self, role: str, text: str) -> Key:
        prefix = f"{self.model_id}\x00{role}\x00".encode()
        return hashlib.sha256(prefix + text.encode("utf-8", "surrogatepass")).digest()

    def _through(self, role: str, texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors]) -> Vectors:
        keys = [self._key(role, text) for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        found = self._known(wanted)
        missing = {key: text for key, text in wanted.items() if key not in found}
        if missing:
            # Outside the lock: embedding is the slow part, and two threads that embed the same text get the same vector.
            made = np.ascontiguousarray(embed(list(missing.values())), dtype="<f4")
            fresh = {key: row.tobytes() for key, row in zip(missing, made, strict=True)}
            self._keep(fresh)
            found |= fresh
        with self._lock:
            self.hits += len(wanted) - len(missing)
            self.misses += len(missing)
        if not keys:
            return np.empty((0, self.dimension), dtype=np.float32)
        return (
            np.frombuffer(b"".join(found[key] for key in keys), dtype="<f4").reshape(len(keys), self.dimension).astype(np.float32)
        )

    def _known(self, wanted: dict[Key, str]) -> dict[Key, bytes]:
        with self._lock:
            found = {key: self._memory[key] for key in wanted if key in self._memory}
            for key in found:
                self._memory.move_to_end(key)
            if self._file is not None and len(found) < len(wanted):
                stored = self._file.get([key for key in wanted if key not in found])
                self._remember(stored)
                found |= stored
            return found

    def _keep(self, fresh: dict[Key, bytes]) -> None:
        with self._lock:
            self._remember(fresh)
            if self._file is not None:
                self._file.put(fresh)

    def _remember(self, vectors: dict[Key, bytes]) -> None:
        self._memory.update(vectors)
        while len(self._memory) > self._capacity:
            self._memory.popitem(last=False)


def _open_file(path: Path, size: int, limit: int) -> _File | None:
    try:
        return _File(path, size, limit)
    except (OSError, sqlite3.OperationalError) as error:
        LOGGER.warning("vectors are remembered in memory only: %s cannot be used (%s)", path, error)
        return None


class _File:
    """The cache's file. Used under the cache's lock.

    Reading and writing never raise for what the file holds: the worst that a broken cache may cost is time.
    """

    def __init__(self, path: Path, size: int, limit: int) -> None:
        self._path = path
        self._size = size
        self._limit = limit
        self._since_pruned = _SLACK
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = self._open()

    def get(self, keys: Sequence[Key]) -> dict[Key, bytes]:
        """What is stored of these, whole and sound."""
        found: dict[Key, bytes] = {}
        for start in range(0, len(keys), _ASK_AT_ONCE):
            part = keys[start : start + _ASK_AT_ONCE]
            marks = ",".join("?" * len(part))
            try:
                rows = self._connection.execute(f"SELECT key, vector, crc FROM vectors WHERE key IN ({marks})", part).fetchall()  # noqa: S608 - only question marks
            except sqlite3.OperationalError:  # locked for longer than we care to wait
                return found
            except sqlite3.DatabaseError:
                self._begin_anew()
                return {}
            found |= {key: vector for key, vector, crc in rows if self._sound(vector, crc)}
        return found

    def _sound(self, vector: object, crc: object) -> bool:
        return isinstance(vector, bytes) and len(vector) == self._size and crc32(vector) == crc

    def put(self, vectors: dict[Key, bytes]) -> None:
        """Store, replacing what was there; the oldest leave when there are too many."""
        rows = [(key, vector, crc32(vector)) for key, vector in vectors.items()]
        try:
            with self._connection:
                self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
            self._since_pruned += len(rows)
            if self._since_pruned >= _SLACK:
                self._since_pruned = 0
                self._prune()
        except sqlite3.OperationalError:
            return
        except sqlite3.DatabaseError:
            self._begin_anew()

    def drop(self, keys: Sequence[Key]) -> None:
        """Delete, and write zeros where it stood."""
        try:
            with self._connection:
                self._connection.executemany("DELETE FROM vectors WHERE key = ?", [(key,) for key in keys])
        except sqlite3.OperationalError:
            return
        except sqlite3.DatabaseError:
            self._begin_anew()

    def close(self) -> None:
        self._connection.close()

    def _prune(self) -> None:
        with self._connection:
            (count,) = self._connection.execute("SELECT count(*) FROM vectors").fetchone()
            self._connection.execute(
                "DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors ORDER BY rowid LIMIT ?)",
                (max(0, count - self._limit),),
            )

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            self._set_aside()
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=2.0, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("PRAGMA secure_delete=ON")
            with connection:
                connection.execute(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _begin_anew(self) -> None:
        self._connection.close()
        self._set_aside()
        self._connection = self._connect()

    def _set_aside(self) -> None:
        """Rename, not delete: another process may have the file open, and someone may want to know what happened to it."""
        with suppress(FileNotFoundError):
            os.replace(self._path, self._path.with_name(self._path.name + ".damaged"))
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
