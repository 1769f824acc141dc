"""What is particular to the log in a SQLite file: the file itself, the lease, tallies; and a model check of its offsets."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from schemas.topics import EPISODES_RECORDED, OPERATIONS, TOOLS_EXECUTED, Topic
from streams.embedded import schema
from streams.embedded.log import EmbeddedLog
from streams.embedded.tallies import StageTally
from streams.log import DriverBusy, FencedOut, LogError, LogMismatch, NewRecord
from streams.partitioner import partition_for
from tests.support.streams import read_all

TOPIC = TOOLS_EXECUTED.name


def test_another_partition_count_is_refused(tmp_path: Path) -> None:
    EmbeddedLog(tmp_path / "log.db").close()
    with pytest.raises(LogMismatch, match=r"tools.executed.v1 with 4 partitions, this program with 8") as caught:
        EmbeddedLog(tmp_path / "log.db", [Topic(TOPIC, "tool-execution", 8)])
    assert "new log" in (caught.value.hint or "")


def test_new_topics_join_an_old_log(tmp_path: Path) -> None:
    with (
        EmbeddedLog(tmp_path / "log.db", [OPERATIONS]) as old,
        EmbeddedLog(tmp_path / "log.db", [OPERATIONS, TOOLS_EXECUTED]) as new,
    ):
        new.append([NewRecord(TOPIC, b"k", b"v")])
        assert [record.value for record in read_all(old, TOPIC)] == [b"v"]


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to be taken for one" * 100)
    with pytest.raises(LogError, match="file is not a database"):
        EmbeddedLog(tmp_path / "text")
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE x (y)").connection.close()
    with pytest.raises(LogError, match="no such table"):
        EmbeddedLog(tmp_path / "other.db")


def test_a_full_disk_is_told_and_nothing_of_the_batch_is_kept(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log.db") as log:
        log.append([NewRecord(TOPIC, b"k", b"kept")])
        with log.writing() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(LogError, match=r"log\.db: database or disk is full") as caught:
            log.append([NewRecord(TOPIC, b"k", bytes(1_000_000))] * 2)
        assert "make room" in (caught.value.hint or "")
        log.append([NewRecord(TOPIC, b"k", b"later")])
        assert [record.value for record in read_all(log, TOPIC)] == [b"kept", b"later"]


def test_a_log_that_another_process_holds_for_too_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "BUSY_TIMEOUT_S", 0.01)
    with EmbeddedLog(tmp_path / "log.db") as log, EmbeddedLog(tmp_path / "log.db") as other, other.writing():
        with pytest.raises(LogError, match="database is locked") as caught:
            log.append([NewRecord(TOPIC, b"k", b"v")])
        assert "try again" in (caught.value.hint or "")
        with pytest.raises(LogError, match="database is locked"):
            log.lead()


def test_a_damaged_log_says_so_wherever_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with EmbeddedLog(path) as log:
        log.append([NewRecord(TOPIC, b"k", bytes(3000))] * 100)
        log.check()
    whole = path.read_bytes()
    path.write_bytes(whole[:100_000] + b"\xff" * 150_000 + whole[250_000:])
    with EmbeddedLog(path) as log:
        for look in (lambda: read_all(log, TOPIC), log.check):
            with pytest.raises(LogError, match=r"malformed|damaged") as caught:
                look()
            assert "restore a backup" in (caught.value.hint or "")


def test_the_changes_of_a_log_that_is_gone_get_into_no_other(tmp_path: Path) -> None:
    """A kill leaves a write-ahead file behind; SQLite would take its pages for the new log's."""
    path = tmp_path / "log.db"
    with EmbeddedLog(path) as log:
        log.append([NewRecord(TOPIC, b"k", bytes(3000))] * 100)
        left = Path(f"{path}-wal").read_bytes()
    path.rename(tmp_path / "aside.db")
    Path(f"{path}-wal").write_bytes(left)
    with pytest.raises(LogError, match=r"log\.db is gone, but log\.db-wal") as caught:
        EmbeddedLog(path)
    assert "put the file back" in (caught.value.hint or "")
    assert not path.exists()
    (tmp_path / "aside.db").rename(path)
    with EmbeddedLog(path) as log:
        assert len(read_all(log, TOPIC)) == 100


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    EmbeddedLog(tmp_path / "log.db").close()
    with sqlite3.connect(tmp_path / "log.db") as db:
        db.execute("INSERT INTO migrations VALUES (99, 0)")
    db.close()
    with pytest.raises(LogError, match="schema version 99"):
        EmbeddedLog(tmp_path / "log.db")


def test_migrations_record_themselves(tmp_path: Path) -> None:
    EmbeddedLog(tmp_path / "log.db", clock_ms=lambda: 77).close()
    db = sqlite3.connect(tmp_path / "log.db")
    assert db.execute("SELECT * FROM migrations").fetchall() == [(1, 77)]
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()


def test_a_closed_log_says_so(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log.db")
    log.close()
    for use in (log.changes, lambda: log.append([]), lambda: log.read(TOPIC, 0, 0, 1)):
        with pytest.raises(LogError, match="closed"):
            use()


def test_two_logs_have_two_identities(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "a.db") as a, EmbeddedLog(tmp_path / "b.db") as b:
        assert a.log_id != b.log_id


def test_one_driver_at_a_time(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log.db") as one, EmbeddedLog(tmp_path / "log.db") as two:
        with one.lead():
            with pytest.raises(DriverBusy, match="already runs the stages") as caught:
                two.lead()
            assert "publishing and reading need no lock" in (caught.value.hint or "")
            two.append([NewRecord(TOPIC, b"k", b"v")])
            assert len(read_all(two, TOPIC)) == 1
        two.lead().close()


def test_a_zombie_is_fenced_off(tmp_path: Path) -> None:
    """The lock file vanished under it, another driver took over, and it wakes up with work to commit."""
    with EmbeddedLog(tmp_path / "log.db") as one, EmbeddedLog(tmp_path / "log.db") as two, one.lead() as zombie:
        (tmp_path / "log.db.lock").unlink()
        with two.lead() as heir:
            with pytest.raises(FencedOut, match="epoch 1"), zombie.transaction() as transaction:
                transaction.append([NewRecord(TOPIC, b"k", b"zombie")])
            with heir.transaction() as transaction:
                transaction.append([NewRecord(TOPIC, b"k", b"heir")])
        assert [record.value for record in read_all(one, TOPIC)] == [b"heir"]


def test_a_closed_lease_commits_nothing(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log.db") as log:
        lease = log.lead()
        lease.close()
        with pytest.raises(FencedOut), lease.transaction():
            pytest.fail("the transaction must not begin")


def test_a_drivers_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    tally = StageTally(received=3, processed=2, rejected=1, reasons={"bad": 1}, emitted={TOPIC: 2}, counts={"mined": 5})
    with EmbeddedLog(tmp_path / "log.db") as log, log.lead() as lease:

        def work(*, fail: bool) -> None:
            with lease.transaction() as transaction:
                transaction.append([NewRecord(TOPIC, b"k", b"v", partition=0)])
                transaction.advance("s", {(EPISODES_RECORDED.name, 1): 3})
                transaction.count("s", tally)
                transaction.save_snapshot("s", EPISODES_RECORDED.name, 1, 3, b"state")
                transaction.move_relay("outbox", 9)
                if fail:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            work(fail=True)
        assert (read_all(log, TOPIC), log.tallies(), log.stage_offsets("s"), log.lags()) == ([], {}, {}, [])
        assert (log.snapshot("s", EPISODES_RECORDED.name, 1), log.relay_position("outbox")) == (None, 0)
        work(fail=False)
        work(fail=False)
        assert log.end_offsets(TOPIC)[0] == 2
        assert log.tallies() == {"s": StageTally(6, 4, 0, 0, 2, {"bad": 2}, {TOPIC: 4}, {"mined": 10})}
        assert log.stage_offsets("s") == {(EPISODES_RECORDED.name, 1): 3}
        assert log.snapshot("s", EPISODES_RECORDED.name, 1) == (3, b"state")
        assert log.relay_position("outbox") == 9


def test_lag_counts_records_and_dates_the_oldest(tmp_path: Path) -> None:
    times = iter((0, 1000, 2000, 3000))  # the first is asked for when the file is made
    with EmbeddedLog(tmp_path / "log.db", clock_ms=lambda: next(times)) as log:
        for _ in range(3):
            log.append([NewRecord(TOPIC, None, b"v", partition=1)])
        log.commit("readers", {(TOPIC, 1): 1, (TOPIC, 2): 0})
        behind, level = log.lags()
        assert (behind.kind, behind.consumer, behind.partition, behind.records, behind.oldest_ms) == (
            "group",
            "readers",
            1,
            2,
            2000,
        )
        assert (level.partition, level.records, level.oldest_ms) == (2, 0, None)


class LogModel(RuleBasedStateMachine):
    """Against lists: any mixture of appends, failed appends, reads, commits and reopenings on two handles of one file."""

    @initialize()
    def start(self) -> None:
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "log.db"
        self.logs = [EmbeddedLog(self.path), EmbeddedLog(self.path)]
        self.model: dict[int, list[bytes]] = {0: [], 1: [], 2: [], 3: []}
        self.groups: dict[tuple[str, int], int] = {}

    @rule(handle=st.integers(0, 1), keys=st.lists(st.binary(max_size=3), max_size=6))
    def append(self, handle: int, keys: list[bytes]) -> None:
        positions = self.logs[handle].append([NewRecord(TOPIC, key, b"value of " + key) for key in keys])
        for key, position in zip(keys, positions, strict=True):
            rows = self.model[partition_for(key, 4)]
            assert (position.partition, position.offset) == (partition_for(key, 4), len(rows))
            rows.append(key)

    @rule(handle=st.integers(0, 1), key=st.binary(max_size=3))
    def append_fails(self, handle: int, key: bytes) -> None:
        with pytest.raises(LogError):
            self.logs[handle].append([NewRecord(TOPIC, key, b""), NewRecord(TOPIC, key, b"", partition=4)])

    @rule(handle=st.integers(0, 1), partition=st.integers(0, 3), offset=st.integers(0, 20), limit=st.integers(1, 9))
    def read(self, handle: int, partition: int, offset: int, limit: int) -> None:
        got = self.logs[handle].read(TOPIC, partition, offset, limit)
        assert [record.key for record in got] == self.model[partition][offset : offset + limit]
        assert [record.offset for record in got] == list(range(offset, offset + len(got)))

    @rule(handle=st.integers(0, 1), group=st.sampled_from("ab"), partition=st.integers(0, 3), offset=st.integers(0, 20))
    def commit(self, handle: int, group: str, partition: int, offset: int) -> None:
        self.logs[handle].commit(group, {(TOPIC, partition): offset})
        self.groups[group, partition] = offset

    @rule(handle=st.integers(0, 1))
    def reopen(self, handle: int) -> None:
        self.logs[handle].close()
        self.logs[handle] = EmbeddedLog(self.path)

    @invariant()
    def both_handles_see_the_same(self) -> None:
        for log in self.logs:
            assert log.end_offsets(TOPIC) == {partition: len(rows) for partition, rows in self.model.items()}
            for group in "ab":
                expected = {(TOPIC, p): offset for (name, p), offset in self.groups.items() if name == group}
                assert log.committed(group) == expected

    def teardown(self) -> None:
        for log in self.logs:
            log.close()
        self.folder.cleanup()


LogModel.TestCase.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)
TestLogModel = LogModel.TestCase
