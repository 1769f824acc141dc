"""One writer at a time: the lock, the epoch, the zombie; and readers and threads beside the writer."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stores.sqlite import FencedOut, InsightStore, StoreError, WritableInsightStore
from tests.support.sqlite import MODEL, HashEmbedder, everything, fill, insight, writing

LOCKED_BY_A_CHILD = """
import sys
from pathlib import Path
from stores.sqlite import WritableInsightStore
with WritableInsightStore.open(Path(sys.argv[1]), ("hash-vectors", 16)):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    child = subprocess.Popen(
        [sys.executable, "-c", LOCKED_BY_A_CHILD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == "open\n"
    with pytest.raises(StoreError, match=f"written by process {child.pid}"):
        WritableInsightStore.open(path, MODEL)
    with InsightStore.open(path, MODEL) as reader:
        assert reader.counts() == (0, 0)
    child.kill()
    child.communicate()
    with writing(path) as store:
        assert store.epoch == 2


def test_the_lock_is_free_after_close_and_after_a_failed_open(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for _ in range(2):
        with writing(path):
            pass
        with pytest.raises(StoreError, match="made with"):
            WritableInsightStore.open(path, ("other", 16))
    with writing(path) as store:
        store.close()
        store.close()
        with writing(path) as again:
            assert again.epoch == 4


def test_a_zombie_fails_its_fence_and_writes_nothing(tmp_path: Path) -> None:
    """The lock file vanishes, so the lock of the second is another one: only the epoch is left to stop the first."""
    path = tmp_path / "store.db"
    with writing(path) as zombie:
        fill(zombie, [insight(1)])
        (tmp_path / "store.db.writer.lock").unlink()
        with writing(path) as heir:
            fill(heir, [insight(2)])
            before = everything(heir)
            for attempt in (
                lambda: fill(zombie, [insight(3)]),
                lambda: zombie.mark_sent(10),
                lambda: zombie.bind("log"),
            ):
                with pytest.raises(FencedOut, match="epoch 1, the store is at 2") as caught:
                    attempt()
                assert "stop this one" in (caught.value.hint or "")
            assert everything(heir) == before
            fill(heir, [insight(4)])
            assert heir.counts() == (3, 0)


def test_threads_do_not_get_into_each_others_transactions(tmp_path: Path) -> None:
    """While one thread's transaction is open, another thread's statement waits, and is not lost when the first rolls back."""
    with writing(tmp_path / "store.db") as store:
        inside, sent = threading.Event(), threading.Event()

        def announce() -> None:
            inside.wait(10)
            with store.transaction() as transaction:
                transaction.send([("topic", "key", "id", 0, b"{}", None)])
            sent.set()

        other = threading.Thread(target=announce)
        other.start()

        def fail() -> None:
            with store.transaction() as transaction:
                transaction.put(insight(1), HashEmbedder().vector("x"))
                inside.set()
                assert not sent.wait(0.05)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        other.join(10)
        assert store.counts() == (0, 0)
        assert [row.message_id for row in store.pending()] == ["id"]


def test_a_store_belongs_to_one_log(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with writing(path) as store:
        store.bind("log-a")
        store.bind("log-a")
    with writing(path) as store:
        with pytest.raises(StoreError, match="filled from log log-a, not log-b"):
            store.bind("log-b")
        assert store.stats().log_id == "log-a"


def test_offsets_never_go_back_and_outbox_numbers_are_never_used_again(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    message = ("topic", "key", "id", 7, b"value", None)
    with writing(path) as store:
        with store.transaction() as transaction:
            transaction.advance({("t", 0): 10, ("t", 1): 5})
            transaction.send([message] * 3)
        with store.transaction() as transaction:
            transaction.advance({("t", 0): 4})
        assert store.next_offsets() == {("t", 0): 10, ("t", 1): 5}
        assert [row.seq for row in store.pending(after=1)] == [2, 3]
        assert len(store.pending(limit=2)) == 2
        store.mark_sent(3)
        assert store.pending() == []
    with writing(path) as store, store.transaction() as transaction:
        transaction.send([message])
        assert [(row.seq, row.topic, row.key, row.message_id, row.ts_ms, row.value, row.trace) for row in store.pending()] == [
            (4, *message)
        ]


def test_an_operation_is_claimed_once(tmp_path: Path) -> None:
    with writing(tmp_path / "store.db") as store:
        with store.transaction() as transaction:
            transaction.claim_operations([("a", ("t", 0, 1))])
        with pytest.raises(StoreError, match="operation a was applied"), store.transaction() as transaction:
            transaction.claim_operations([("b", ("t", 0, 2)), ("a", ("t", 0, 3))])
        assert store.applied_at(["a", "b"]) == {"a": ("t", 0, 1)}


def test_a_killed_writer_leaves_what_it_committed_to_a_reader(tmp_path: Path) -> None:
    """The write-ahead log is still there and nobody has closed the file: a read-only process must cope."""
    path = tmp_path / "store.db"
    child = subprocess.Popen(
        [sys.executable, "-c", LOCKED_BY_A_CHILD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    child.kill()
    child.communicate()
    assert (tmp_path / "store.db-wal").stat().st_size > 0
    with InsightStore.open(path, MODEL) as reader:
        assert reader.counts() == (0, 0)
        assert reader.stats().epoch == 1
