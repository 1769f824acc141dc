"""How SQLite is opened here, and nowhere else.

sqlite-vec is a loadable extension, and not every Python can load one: Debian's ``sqlite3`` can, pyenv's and macOS's cannot.
So three ways are tried in order, and the first that works is used:

1. ``sqlite3``: the standard library with the extension;
2. ``apsw``: its own SQLite, in a wheel for every platform, with the extension;
3. ``numpy``: the standard library without the extension; the store then searches vectors by a matrix product.

All three open the same files: what only the extension can read (a vec0 table) is derived from a plain table and is rebuilt by the
next writer that can. Two copies of SQLite in *one* process must not open the same file — POSIX drops a process's locks when any
descriptor of the file is closed — so within a process the choice is made once and holds for every store.

A connection may be used by several threads: a lock makes them take turns, and a transaction holds it from ``BEGIN`` to
``COMMIT``, so no other thread's statement gets into it.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

from stores.sqlite.errors import BadQuery, StoreError

Row = tuple[Any, ...]
Params = Sequence[Any] | Mapping[str, Any]
Backend = Literal["sqlite3", "apsw", "numpy"]
BACKENDS: tuple[Backend, ...] = ("sqlite3", "apsw", "numpy")

REBUILD = "move it and its -wal file away: the pipeline (defi-brain up) makes it again from the log"
"""What to do about a store that is damaged."""

BUSY_MS = 10_000
"""How long a statement waits for another process's transaction; ours take milliseconds."""


class _Driver(Protocol):
    """What the libraries have in common, which is less than it seems."""

    errors: type[Exception]

    def query(self, sql: str, params: Params) -> Iterator[Row]: ...
    def many(self, sql: str, rows: Sequence[Params]) -> None: ...
    def changes(self) -> int: ...
    def in_transaction(self) -> bool: ...
    def close(self) -> None: ...


class _Standard:
    errors: type[Exception] = sqlite3.Error

    def __init__(self, path: Path | None, readonly: bool, extension: str | None) -> None:
        uri = f"{path.absolute().as_uri()}?mode={'ro' if readonly else 'rwc'}" if path else ":memory:"
        self._raw = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000)
        if extension is not None:
            self._raw.enable_load_extension(True)
            self._raw.load_extension(extension)
            self._raw.enable_load_extension(False)

    def query(self, sql: str, params: Params) -> Iterator[Row]:
        return self._raw.execute(sql, params)

    def many(self, sql: str, rows: Sequence[Params]) -> None:
        self._raw.executemany(sql, rows)

    def changes(self) -> int:
        return int(self._raw.execute("SELECT changes()").fetchone()[0])

    def in_transaction(self) -> bool:
        return self._raw.in_transaction

    def close(self) -> None:
        self._raw.close()


class _Apsw:
    def __init__(self, path: Path | None, readonly: bool, extension: str | None) -> None:
        import apsw

        self.errors: type[Exception] = apsw.Error
        flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        self._raw = apsw.Connection(str(path.absolute()) if path else ":memory:", flags=flags)
        self._raw.set_busy_timeout(BUSY_MS)
        if extension is not None:
            self._raw.enable_load_extension(True)
            self._raw.load_extension(extension)
            self._raw.enable_load_extension(False)

    def query(self, sql: str, params: Params) -> Iterator[Row]:
        return self._raw.execute(sql, params)

    def many(self, sql: str, rows: Sequence[Params]) -> None:
        self._raw.executemany(sql, rows)

    def changes(self) -> int:
        return self._raw.changes()

    def in_transaction(self) -> bool:
        return self._raw.in_transaction

    def close(self) -> None:
        self._raw.close()


class Connection:
    """One open database. ``backend`` says which way it was opened, ``has_vec0`` whether vec0 tables work in it, ``writing`` whether
    a transaction is open that may yet be rolled back."""

    def __init__(self, driver: _Driver, backend: Backend, path: Path, readonly: bool) -> None:
        self._driver = driver
        self._lock = threading.RLock()
        self.backend = backend
        self.path = path
        self.readonly = readonly
        self.has_vec0 = backend != "numpy"
        self.writing = False

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run one statement; all of its rows.

        Raises:
            StoreError: SQLite refused it.
        """
        with self._lock, self._translated():
            return list(self._driver.query(sql, params))

    def executemany(self, sql: str, rows: Sequence[Params]) -> None:
        """Run one statement for each row of parameters.

        Raises:
            StoreError: SQLite refused it.
        """
        with self._lock, self._translated():
            self._driver.many(sql, rows)

    def one(self, sql: str, params: Params = ()) -> Any:
        """The first column of the first row, or None where there is none."""
        rows = self.execute(sql, params)
        return rows[0][0] if rows else None

    def changed(self, sql: str, params: Params = ()) -> int:
        """Run one statement; how many rows it changed."""
        with self._lock, self._translated():
            for _ in self._driver.query(sql, params):
                pass
            return self._driver.changes()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """``BEGIN IMMEDIATE`` … ``COMMIT``, or ``ROLLBACK`` when anything is raised.

        Immediate, because a transaction that starts by reading and then writes fails at once when somebody wrote in between,
        whatever the busy timeout.
        """
        with self._lock:
            self.execute("BEGIN IMMEDIATE")
            self.writing = True
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                if self._driver.in_transaction():
                    self.execute("ROLLBACK")
                raise
            finally:
                self.writing = False

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A read transaction: every statement inside sees the same state. Inside a transaction it is that transaction."""
        with self._lock:
            if self._driver.in_transaction():
                yield
                return
            self.execute("BEGIN")
            try:
                yield
            finally:
                if self._driver.in_transaction():
                    self.execute("ROLLBACK")

    def empty_wal(self) -> bool:
        """Take everything that is committed into the file itself and empty the write-ahead file, which otherwise keeps older states
        of pages until it is written over. False where somebody reads an older state just now, or writes: nobody is waited for.
        """
        with self._lock:
            if self._driver.in_transaction():
                return False
            self.execute("PRAGMA busy_timeout = 0")
            try:
                return bool(self.one("PRAGMA wal_checkpoint(TRUNCATE)") == 0)
            finally:
                self.execute(f"PRAGMA busy_timeout = {BUSY_MS}")

    def close(self) -> None:
        """Close it; idempotent."""
        with self._lock:
            self._driver.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._driver.errors as error:
            raise _explained(error, self.path) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise BadQuery(f"a value that no database holds: {error}", hint="half a surrogate pair, or beyond 64 bits") from error


def open_connection(path: Path, *, readonly: bool = False, backend: Backend | None = None) -> Connection:
    """Open a database file, made if need be unless ``readonly``; ``backend`` None takes the first that works here.

    Raises:
        StoreError: the file cannot be opened, is not a database, or the named backend does not work here.
    """
    chosen: Backend = backend or usable_backends()[0]
    if not _works(chosen):
        raise StoreError(f"SQLite by {backend} does not work in this Python", hint=f"usable here: {', '.join(usable_backends())}")
    try:
        driver = _driver(chosen, path, readonly)
    except Exception as error:
        raise _explained(error, path) from error
    connection = Connection(driver, chosen, path, readonly)
    try:
        _configure(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def usable_backends() -> tuple[Backend, ...]:
    """Those that work in this Python, in order of preference."""
    return tuple(backend for backend in BACKENDS if _works(backend))


def describe_backend() -> str:
    """What ``open_connection`` takes here, with versions, for people."""
    chosen = usable_backends()[0]
    driver = _driver(chosen, None, readonly=False)
    try:
        sqlite = next(driver.query("SELECT sqlite_version()", ()))[0]
        vec = f"sqlite-vec {next(driver.query('SELECT vec_version()', ()))[0]}" if chosen != "numpy" else "no sqlite-vec: by matrix"
    finally:
        driver.close()
    return f"{chosen}, SQLite {sqlite}, {vec}"


def _works(backend: Backend) -> bool:
    """Whether it can load the extension, tried on a database in memory; ``numpy`` needs none."""
    if backend == "numpy":
        return True
    try:
        driver = _driver(backend, None, readonly=False)
    except Exception:
        return False
    driver.close()
    return True


def _driver(backend: Backend, path: Path | None, readonly: bool) -> _Driver:
    if backend == "numpy":
        return _Standard(path, readonly, None)
    import sqlite_vec

    opener = _Apsw if backend == "apsw" else _Standard
    return opener(path, readonly, str(sqlite_vec.loadable_path()))


def _configure(connection: Connection) -> None:
    """``NORMAL`` cannot corrupt in WAL mode; a power loss may undo the last transactions, and with them their offsets, so that
    their records are read again. Deleted rows are overwritten. The last statement reads the file: is it a database at all?"""
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("SELECT count(*) FROM sqlite_schema")


def _explained(error: Exception, path: Path) -> StoreError:
    text = str(error)
    lowered = text.lower()
    if "locked" in lowered or "busy" in lowered:
        return StoreError(f"{path} is busy: {text}", hint="another process holds it in a long transaction; try again")
    if "not a database" in lowered or "malformed" in lowered:
        return StoreError(f"{path} is damaged or not a database: {text}", hint=REBUILD)
    if "unable to open" in lowered:
        return StoreError(f"{path} cannot be opened: {text}", hint="check the path and its permissions")
    if "readonly" in lowered:
        return StoreError(f"{path} cannot be written: {text}", hint="correct the owner or mode of the file and its folder")
    return StoreError(f"{path}: {text}")
