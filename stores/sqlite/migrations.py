"""The store's schema as numbered steps that record themselves.

Each step runs in its own transaction together with its entry in ``migrations``, so a killed process leaves a step done or not
begun. The entry holds a hash of the step's statements. A file is refused whose entries are not a prefix of the steps known here:
one that a newer version made, or one whose steps were changed after they ran. Published steps are therefore never edited; a change
is a new step.

Only one writer migrates (it holds the writer's lock); a reader checks and never changes anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from stores.sqlite.connection import REBUILD, Connection
from stores.sqlite.errors import StoreError
from stores.sqlite.schema import MIGRATIONS, Migration

APPLICATION_ID = 0x44426E31
"""``DBn1`` in the file's header says that the file is ours."""

_CREATE = """
CREATE TABLE migrations (
    ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
    id INTEGER NOT NULL UNIQUE,
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL
) STRICT
"""


@dataclass(frozen=True, slots=True)
class Applied:
    """A step that ran in this file. ``ordinal`` counts in order of application."""

    ordinal: int
    id: int
    name: str
    sha256: str


def digest(migration: Migration) -> str:
    """What identifies a step's content."""
    return sha256("\x1e".join((migration.name, *migration.statements)).encode()).hexdigest()


def applied(connection: Connection) -> list[Applied]:
    """The steps that ran, in order; none in an empty file.

    Raises:
        StoreError: the file belongs to something else.
    """
    mark = connection.one("PRAGMA application_id")
    if mark == 0 and connection.one("SELECT count(*) FROM sqlite_schema") == 0:
        return []
    if mark != APPLICATION_ID:
        raise StoreError(f"{connection.path} is a database of something else", hint="point DEFI_BRAIN_DATA_DIR at another folder")
    return [Applied(*row) for row in connection.execute("SELECT ordinal, id, name, sha256 FROM migrations ORDER BY ordinal")]


def migrate(connection: Connection, migrations: tuple[Migration, ...] = MIGRATIONS) -> list[int]:
    """Run the steps that are missing; their ids.

    Raises:
        StoreError: the file is something else's, of a newer version, or was made by steps that have changed since.
    """
    done = _checked(connection, migrations)
    connection.execute("PRAGMA journal_mode = WAL")  # not before: it would change a file that is not ours
    ran = []
    for migration in migrations[len(done) :]:
        with connection.transaction():
            if connection.one("PRAGMA application_id") == 0:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(_CREATE)
            for statement in migration.statements:
                connection.execute(statement)
            entry = (migration.id, migration.name, digest(migration))
            connection.execute("INSERT INTO migrations (id, name, sha256) VALUES (?, ?, ?)", entry)
        ran.append(migration.id)
    return ran


def verify(connection: Connection, migrations: tuple[Migration, ...] = MIGRATIONS) -> None:
    """Check that the file has exactly the steps known here.

    Raises:
        StoreError: it has not.
    """
    done = _checked(connection, migrations)
    if len(done) < len(migrations):
        raise StoreError(
            f"{connection.path} is at schema step {len(done)} of {len(migrations)}",
            hint="start `defi-brain up` once: the writer brings it up to date",
        )


def _checked(connection: Connection, migrations: tuple[Migration, ...]) -> list[Applied]:
    done = applied(connection)
    for entry, known in zip(done, migrations, strict=False):
        if (entry.id, entry.sha256) != (known.id, digest(known)):
            raise StoreError(
                f"{connection.path}: schema step {entry.id} ({entry.name}) is not step {known.id} ({known.name}) of this version",
                hint=f"use the version that made it, or {REBUILD}",
            )
    if len(done) > len(migrations):
        newest = done[-1]
        raise StoreError(
            f"{connection.path} was made by a newer version: it has schema step {newest.id} ({newest.name}), "
            f"this version knows {len(migrations)}",
            hint=f"upgrade, or {REBUILD}",
        )
    return done
