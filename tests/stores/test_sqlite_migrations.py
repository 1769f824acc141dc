"""The schema's steps: run once, recorded, atomic; a file that is not what this version makes is refused with what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from stores.sqlite import InsightStore, StoreError, WritableInsightStore
from stores.sqlite.connection import Connection, open_connection
from stores.sqlite.migrations import applied, digest, migrate, verify
from stores.sqlite.schema import MIGRATIONS, Migration
from tests.support.sqlite import MODEL, fill, insight, writing

ONE = Migration(1, "one", ("CREATE TABLE one (x INTEGER) STRICT",))
TWO = Migration(2, "two", ("CREATE TABLE two (x INTEGER) STRICT", "INSERT INTO two VALUES (2)"))
BROKEN = Migration(2, "two", ("CREATE TABLE two (x INTEGER) STRICT", "INSERT INTO nowhere VALUES (2)"))


def tables(connection: Connection) -> set[str]:
    return {
        row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    }


@pytest.fixture
def connection(tmp_path: Path) -> Connection:
    return open_connection(tmp_path / "store.db")


def test_steps_are_numbered_from_one_without_gaps() -> None:
    assert [migration.id for migration in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


def test_steps_run_once_and_record_themselves(connection: Connection) -> None:
    assert migrate(connection, (ONE,)) == [1]
    assert migrate(connection, (ONE, TWO)) == [2]
    assert migrate(connection, (ONE, TWO)) == []
    verify(connection, (ONE, TWO))
    assert [(entry.ordinal, entry.id, entry.name, entry.sha256) for entry in applied(connection)] == [
        (1, 1, "one", digest(ONE)),
        (2, 2, "two", digest(TWO)),
    ]
    assert connection.execute("SELECT x FROM two") == [(2,)]


def test_a_step_that_fails_leaves_nothing(connection: Connection) -> None:
    migrate(connection, (ONE,))
    with pytest.raises(StoreError, match="nowhere"):
        migrate(connection, (ONE, BROKEN))
    assert tables(connection) == {"migrations", "one"}
    assert migrate(connection, (ONE, TWO)) == [2]


def test_a_first_step_that_fails_leaves_an_empty_file(connection: Connection) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        migrate(connection, (Migration(1, "one", ("INSERT INTO nowhere VALUES (1)",)),))
    assert tables(connection) == set()
    assert migrate(connection, (ONE,)) == [1]


def test_a_changed_step_is_refused(connection: Connection) -> None:
    migrate(connection, (ONE, TWO))
    changed = Migration(1, "one", ("CREATE TABLE one (x TEXT) STRICT",))
    for check in (migrate, verify):
        with pytest.raises(StoreError, match=r"step 1 \(one\) is not step 1 \(one\) of this version") as caught:
            check(connection, (changed, TWO))
        assert caught.value.hint


def test_a_newer_file_is_refused_and_untouched(connection: Connection) -> None:
    migrate(connection, (ONE, TWO))
    for check in (migrate, verify):
        with pytest.raises(StoreError, match=r"made by a newer version: it has schema step 2 \(two\), this version knows 1"):
            check(connection, (ONE,))
    assert [entry.id for entry in applied(connection)] == [1, 2]


def test_a_reader_wants_the_file_up_to_date(connection: Connection) -> None:
    migrate(connection, (ONE,))
    with pytest.raises(StoreError, match="step 1 of 2") as caught:
        verify(connection, (ONE, TWO))
    assert "defi-brain up" in (caught.value.hint or "")


def test_a_store_opens_again_with_everything_in_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for turn in range(3):
        with writing(path) as store:
            fill(store, [insight(turn)])
            assert store.counts() == (turn + 1, 0)
            assert store.stats().schema_step == len(MIGRATIONS)


def test_a_tampered_or_newer_store_is_refused_by_reader_and_writer(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with writing(path):
        pass
    for statement, message in (
        ("INSERT INTO migrations (id, name, sha256) VALUES (99, 'later', 'x')", "newer version"),
        ("UPDATE migrations SET sha256 = 'y' WHERE id = 2", "step 2"),
    ):
        connection = open_connection(path)
        connection.execute(statement)
        connection.close()
        for kind in (InsightStore, WritableInsightStore):
            with pytest.raises(StoreError, match=message) as caught:
                kind.open(path, MODEL)
            assert caught.value.hint


def test_files_of_others_are_refused_and_untouched(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as raw:
        raw.execute("CREATE TABLE theirs (x)")
    raw.close()
    text = tmp_path / "text.db"
    text.write_text("This is not a database, it is only a text that is long enough to be read as a header." * 10)
    for path, message in ((other, "something else"), (text, "not a database")):
        before = path.read_bytes()
        for kind in (InsightStore, WritableInsightStore):
            with pytest.raises(StoreError, match=message) as caught:
                kind.open(path, MODEL)
            assert caught.value.hint
        assert path.read_bytes() == before


def test_an_empty_file_is_no_store_yet(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    with pytest.raises(StoreError, match="step 0"):
        InsightStore.open(path)
    with writing(path) as store:
        assert store.counts() == (0, 0)
