"""Kinds of faults in keeping: two processes, transactions, growth. The list of all kinds is in ``test_all_kinds.py``."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from stores.episodes import EpisodeFilter, WritableEpisodeStore
from stores.sqlite import InsightStore
from streams.stages.writer import InsightWriter
from tests.support.episodes import INFO, At, episode
from tests.support.sqlite import HashEmbedder, add, operations, writing


def test_two_processes_on_one_file_without_wal(tmp_path: Path) -> None:
    """A reader that is in the middle of reading neither stops the writer nor sees half of what it writes."""
    path = tmp_path / "store.db"
    with writing(path) as store:
        writer = InsightWriter(store, HashEmbedder())
        writer.handle(operations(add("one")))
        assert (tmp_path / "store.db-wal").exists()
        with InsightStore.open(path) as reader:
            with reader.snapshot():
                assert reader.counts() == (1, 0)
                writer.handle(operations(add("two"), first=1))
                assert (reader.counts(), reader.get("two")) == ((1, 0), None)
            assert reader.counts() == (2, 0)


BEGIN = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute('BEGIN IMMEDIATE')"


def test_a_deferred_transaction_upgrades(tmp_path: Path) -> None:
    """A writing transaction holds the write lock from its first moment, so that it cannot lose it between reading and writing."""
    path = tmp_path / "store.db"

    def refused() -> bool:
        """Another process, because locks of one process do not see each other."""
        done = subprocess.run([sys.executable, "-c", BEGIN, str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0 or "locked" in done.stderr, done.stderr
        return done.returncode != 0

    with writing(path) as store:
        with store.transaction():
            assert refused()
        assert not refused()


def test_thirty_megabytes_of_rows_grow_to_three_hundred_of_versions(tmp_path: Path) -> None:
    """Many small batches leave few files behind once they are tended, and every row."""
    with WritableEpisodeStore.open(tmp_path / "episodes", INFO, keep=timedelta(milliseconds=1)) as store:
        for number in range(60):
            store.record([(At(number), episode(number))])
        grown = size(tmp_path)
        store.compact()
        store.compact()
        assert store.count() == 60
        assert len(store.search_text("probe", EpisodeFilter(), limit=100)) == 60
        assert size(tmp_path) < grown / 2


def size(folder: Path) -> int:
    """Bytes in all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
