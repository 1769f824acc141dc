"""Deleted words leave the write-ahead file as soon as nobody reads an earlier state, and nobody is waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from stores.sqlite import InsightStore, WritableInsightStore
from stores.sqlite.connection import BUSY_MS, Backend, usable_backends
from tests.support.sqlite import insight

WORDS = "The bilby vault is thin."
INFO = ("test", 2)


def overwrite(store: WritableInsightStore, text: str) -> None:
    with store.transaction() as writing:
        writing.put(insight(1, text=text), [1.0, 0.0])


@pytest.mark.parametrize("backend", usable_backends())
def test_cleaning(tmp_path: Path, backend: Backend) -> None:
    path, wal = tmp_path / "i.db", tmp_path / "i.db-wal"
    with WritableInsightStore.open(path, INFO, backend=backend) as store, InsightStore.open(path, backend=backend) as reader:
        assert store.clean()
        overwrite(store, WORDS)
        with reader.snapshot():
            assert reader.get("i0001") is not None
            overwrite(store, "Another.")
            store.forgot()
            assert not store.clean()
            assert WORDS.encode() in wal.read_bytes()
            overwrite(store, "And another.")  # the writer goes on
        assert store._connection.one("PRAGMA busy_timeout") == BUSY_MS
        assert store.clean()
        assert wal.stat().st_size == 0
        assert WORDS.encode() not in path.read_bytes()


def test_announcements_are_sent_first(tmp_path: Path) -> None:
    path = tmp_path / "i.db"
    with WritableInsightStore.open(path, INFO) as store:
        with store.transaction() as writing:
            writing.send([("topic", "key", "id", 0, WORDS.encode(), None)])
        store.forgot()
        assert not store.clean()
        assert WORDS.encode() in path.read_bytes()
        with store.transaction() as writing:
            writing.send([("topic", "key", "later", 0, b"later", None)])
        store.mark_sent(1)
        assert store.clean()
        assert store.clean()
        for file in tmp_path.iterdir():
            assert WORDS.encode() not in file.read_bytes()


def test_a_new_writer_cleans_what_a_killed_one_left(tmp_path: Path) -> None:
    path, wal = tmp_path / "i.db", tmp_path / "i.db-wal"
    WritableInsightStore.open(path, INFO).close()
    with InsightStore.open(path) as reader:  # an open reader keeps the file as a killed writer does
        assert reader.stats().active == 0
        with WritableInsightStore.open(path, INFO) as store:
            overwrite(store, WORDS)
            overwrite(store, "Another.")
        assert WORDS.encode() in wal.read_bytes()
        with WritableInsightStore.open(path) as store:
            assert store.clean()
            assert WORDS.encode() not in wal.read_bytes() + path.read_bytes()
