"""The embedded log's file: how it is created, opened and migrated.

One row of ``records`` is one record. Its rowid holds the partition and the offset, ``partitions.id << 40 | offset``, so that a
partition is one contiguous range of the table's B-tree: a read is one seek and a scan, an append needs no index. Offsets are
dense: ``partitions.next_offset`` is the only counter and moves in the transaction that appends.

A new file is made complete under another name and linked into place, so that two processes that open the same path at once
never meet half a schema (SQLite answers "locked" at once to two that switch a new file to WAL).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from schemas.topics import Topic
from streams.log import LogError, LogMismatch

OFFSET_BITS = 40
BUSY_TIMEOUT_S = 30.0

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE topics (name TEXT PRIMARY KEY, partitions INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE partitions (
        id INTEGER PRIMARY KEY, topic TEXT NOT NULL REFERENCES topics, partition INTEGER NOT NULL,
        next_offset INTEGER NOT NULL DEFAULT 0, UNIQUE (topic, partition));
    CREATE TABLE records (id INTEGER PRIMARY KEY, timestamp_ms INTEGER NOT NULL, key BLOB, value BLOB, headers BLOB);
    CREATE TABLE offsets (
        kind TEXT NOT NULL, consumer TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, next_offset INTEGER NOT NULL,
        PRIMARY KEY (kind, consumer, topic, partition)) WITHOUT ROWID;
    CREATE TABLE snapshots (
        stage TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, next_offset INTEGER NOT NULL, state BLOB NOT NULL,
        PRIMARY KEY (stage, topic, partition));
    CREATE TABLE tallies (
        stage TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL,
        PRIMARY KEY (stage, kind, name)) WITHOUT ROWID;
    CREATE TABLE relays (source TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE driver (
        id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL, pid INTEGER NOT NULL, since_ms INTEGER NOT NULL);
    INSERT INTO driver VALUES (1, 0, 0, 0);
    """,
)
"""Statements by schema version, from 1. A version once released never changes; a change is a new entry."""

DAMAGED = "restore a backup into a new folder (defi-brain restore)"
_HINTS = {
    "locked": "another process holds it in a long transaction; try again",
    "full": "make room on the disk; nothing of what was being appended is kept",
    "I/O error": "is the disk full, or broken? nothing of what was being appended is kept",
    "readonly": "correct the owner or mode of the file and its folder",
    "unable to open": "check the path and its permissions",
    "not a database": "name another file: this is no log",
    "no such table": "name another file: this is no log of this program",
    "malformed": DAMAGED,
}
"""What to do, by words of SQLite's messages."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection to an existing log file, usable from any one thread at a time; every commit is on disk when it returns."""
    connection = sqlite3.connect(
        f"file:{_uri_path(path)}?mode=rw", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=2000")
    connection.execute("PRAGMA journal_size_limit=67108864")
    connection.execute("PRAGMA cache_size=-4096")
    return connection


def _uri_path(path: Path) -> str:
    return str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def ensure(path: Path, topics: Iterable[Topic], now_ms: int) -> None:
    """Make the file if there is none, bring its schema up to date, and add the topics that it lacks.

    Raises:
        LogMismatch: a topic is recorded with another partition count.
        LogError: the file is not a log, or was written by a newer version.
    """
    with told(path):
        if not path.exists():
            refuse_orphan(path)
            _create(path, now_ms)
        with closing(connect(path)) as connection:
            _migrate(connection, path, now_ms)
            _add_topics(connection, path, tuple(topics))


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What SQLite raises about the log at ``path``, in words that say what to do.

    Raises:
        LogError: SQLite could not do what was asked of it.
    """
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        hint = next((hint for words, hint in _HINTS.items() if words in text), None)
        raise LogError(f"the log {path}: {text}", hint=hint) from error


def refuse_orphan(path: Path) -> None:
    """A database's write-ahead file outlives a kill. Where the database itself has gone since, SQLite would write that file's pages
    into whatever takes its place.

    Raises:
        LogError: there is such a file.
    """
    left = Path(f"{path}-wal")
    if left.exists() and not path.exists():
        raise LogError(
            f"{path} is gone, but {left.name}, which holds its last changes, is still there",
            hint="put the file back beside it, or move both away together",
        )


def _create(path: Path, now_ms: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        connection = sqlite3.connect(draft, isolation_level=None)
        connection.execute("PRAGMA page_size=8192")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE migrations (version INTEGER PRIMARY KEY, applied_ms INTEGER NOT NULL)")
        _migrate(connection, draft, now_ms)
        connection.execute("INSERT INTO meta VALUES ('log_id', ?)", (str(uuid4()),))
        connection.close()
        with suppress(FileExistsError):
            os.link(draft, path)
        _sync_folder(path.parent)
    finally:
        for leftover in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm")):
            leftover.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """The new name survives a power cut only when the folder is written too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _migrate(connection: sqlite3.Connection, path: Path, now_ms: int) -> None:
    if _version(connection) < len(MIGRATIONS):
        connection.execute("BEGIN IMMEDIATE")
        for version in range(_version(connection) + 1, len(MIGRATIONS) + 1):
            for statement in MIGRATIONS[version - 1].split(";"):
                connection.execute(statement)
            connection.execute("INSERT INTO migrations VALUES (?, ?)", (version, now_ms))
        connection.execute("COMMIT")
    if _version(connection) > len(MIGRATIONS):
        raise LogError(
            f"{path} has schema version {_version(connection)}; this program knows {len(MIGRATIONS)}",
            hint="use the newer program that wrote it",
        )


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchone()
    return int(version)


def _add_topics(connection: sqlite3.Connection, path: Path, topics: tuple[Topic, ...]) -> None:
    recorded: dict[str, int] = dict(connection.execute("SELECT name, partitions FROM topics"))
    for topic in topics:
        count = recorded.get(topic.name, topic.partitions)
        if count != topic.partitions:
            raise LogMismatch(
                f"{path} has {topic.name} with {count} partitions, this program with {topic.partitions}",
                hint="a topic keeps its partition count for life: use the program that made the log, or start a new log",
            )
    missing = [topic for topic in topics if topic.name not in recorded]
    if not missing:
        return
    connection.execute("BEGIN IMMEDIATE")
    for topic in missing:
        connection.execute("INSERT INTO topics VALUES (?, ?) ON CONFLICT DO NOTHING", (topic.name, topic.partitions))
        connection.executemany(
            "INSERT INTO partitions (topic, partition) VALUES (?, ?) ON CONFLICT DO NOTHING",
            [(topic.name, number) for number in range(topic.partitions)],
        )
    connection.execute("COMMIT")
