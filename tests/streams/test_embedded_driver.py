"""The driver: the same outputs whatever the batches, every record accounted for, restarts, refusals to start, loud failures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import BrainError
from schemas.topics import EPISODES_RECORDED, INSIGHTS_UPDATED, SIGNALS_RAISED, TOOLS_EXECUTED
from streams.batch import StageBroken
from streams.dead_letters import dead_letters
from streams.embedded.driver import EmbeddedDriver, StageFailed
from streams.embedded.feed import SHELF_BYTES, Feed
from streams.embedded.log import EmbeddedLog
from streams.embedded.worker import Progress, StageSlot
from streams.log import DriverBusy, FencedOut, LogMismatch, NewRecord
from streams.publisher import Publisher
from tests.support.streams import (
    GARBAGE,
    Episodes,
    Store,
    Sums,
    contents,
    execution,
    fill,
    outcomes,
    pipeline,
    read_all,
    ticking,
)
from workers.stage import Delivery, Emission, Outcome

Slots = Callable[[Store], Sequence[StageSlot]]


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    return EmbeddedLog(tmp_path / "log.db", clock_ms=ticking())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.db")


def run(log: EmbeddedLog, store: Store, *, batch: int = 64, checkpoint: int = 50, slots: Slots = pipeline) -> list[Progress]:
    progress: list[Progress] = []
    with EmbeddedDriver(
        log, slots(store), batch_records=batch, checkpoint_records=checkpoint, on_progress=progress.append
    ) as driver:
        driver.run_until_idle()
    return progress


def test_every_record_is_accounted_for(log: EmbeddedLog, store: Store) -> None:
    """Law 5, with poison in between: received = processed + duplicates + late + rejected, stage by stage, and each rejected record
    has its letter."""
    published = fill(log)
    run(log, store)
    tallies = log.tallies()
    for stage, tally in tallies.items():
        assert tally.received == tally.processed + tally.duplicates + tally.late + tally.rejected
        assert tally.received == sum(log.stage_offsets(stage).values())
        assert tally.rejected == sum(tally.reasons.values()) == len(list(dead_letters(log, stage=stage)))
        for topic, count in tally.emitted.items():
            assert count == len(read_all(log, topic))
    assert tallies["episodes"].received == published
    assert tallies["episodes"].rejected == 7 + len(GARBAGE)
    assert tallies["sums"].duplicates == 2
    assert [lag.records for lag in log.lags()] == [0] * 16
    assert len(store.contents()) == tallies["sums"].processed + tallies["sums"].emitted[SIGNALS_RAISED.name]


def test_poison_is_kept_as_it_came(log: EmbeddedLog, store: Store) -> None:
    fill(log)
    run(log, store)
    sent = {record.key: record for record in read_all(log, TOOLS_EXECUTED.name)}
    for n, (value, reason) in enumerate(GARBAGE):
        (letter,) = [letter for letter in dead_letters(log) if letter.key == f"bad-{n}".encode()]
        record = sent[letter.key]
        assert (letter.reason, letter.value, letter.headers) == (reason, value, (("ce_id", b"\xff"),))
        assert (letter.topic, letter.partition, letter.offset) == (record.topic, record.partition, record.offset)
        assert (letter.stage, letter.timestamp_ms, letter.error_class) == ("episodes", record.timestamp_ms, "ContractError")
    refused = list(dead_letters(log, reason="failed_event"))
    assert [letter.detail for letter in refused if letter.key == b"probe:offchain:pair-2"] == ["event-16"]
    assert {letter.error_class for letter in refused} == {"Refusal"}


def test_each_stage_that_cannot_read_a_record_says_so(log: EmbeddedLog, store: Store) -> None:
    log.append([NewRecord(EPISODES_RECORDED.name, b"k", b"junk")])
    run(log, store)
    letters = list(dead_letters(log))
    assert sorted(letter.stage for letter in letters) == ["store", "sums"]
    assert len({letter.id for letter in letters}) == 2


@settings(max_examples=12, deadline=None)
@given(batch=st.integers(1, 40), checkpoint=st.integers(1, 60), threaded=st.booleans())
def test_any_batching_gives_the_same(tmp_path_factory: pytest.TempPathFactory, batch: int, checkpoint: int, threaded: bool) -> None:
    def outputs(batch: int, checkpoint: int, threaded: bool) -> object:
        folder = tmp_path_factory.mktemp("run")
        store = Store(folder / "store.db")
        with EmbeddedLog(folder / "log.db", clock_ms=ticking()) as log:
            fill(log, 40, keys=3)
            run(log, store, batch=batch, checkpoint=checkpoint, slots=lambda store: pipeline(store, threaded=threaded))
            return contents(log), outcomes(log), store.left()

    assert outputs(batch, checkpoint, threaded) == outputs(1000, 1000, False)


def test_work_in_pieces_gives_the_same(tmp_path: Path) -> None:
    """A driver for each slice of the input, restored from what the last one left; snapshots may be lost or refused."""

    def outputs(name: str, pieces: int, checkpoint: int, spoil: str | None = None) -> object:
        store = Store(tmp_path / f"{name}.store")
        with EmbeddedLog(tmp_path / f"{name}.db", clock_ms=ticking()) as log:
            for start in range(0, 60, 60 // pieces):
                Publisher(log).publish_many(execution(n, key=n % 3) for n in range(start, start + 60 // pieces))
                run(log, store, batch=7, checkpoint=checkpoint)
                if spoil is not None:
                    with log.writing() as connection:
                        connection.execute(spoil)
            return contents(log), outcomes(log), store.left()

    whole = outputs("whole", 1, 1000)
    assert outputs("seldom", 4, 1000) == whole
    assert outputs("often", 4, 5) == whole
    assert outputs("lost", 4, 5, "DELETE FROM snapshots") == whole
    assert outputs("refused", 4, 5, "UPDATE snapshots SET state = CAST('{\"partition\": -1}' AS BLOB)") == whole


def test_a_restart_feeds_the_state_from_its_snapshot(log: EmbeddedLog, store: Store) -> None:
    """Restored, then fed only what came after; nothing of that is emitted or counted again."""
    fed: list[int] = []

    class Recording(Sums):
        def handle(self, batch: Sequence[Delivery]) -> Outcome:
            fed.extend(delivery.position.offset for delivery in batch)
            return super().handle(batch)

    publisher = Publisher(log)
    publisher.publish_many(execution(n) for n in range(30))
    run(log, store, batch=10)
    older = Sums(_busy_partition(log))
    older.handle(_episodes(log)[:20])
    with log.lead() as lease, lease.transaction() as transaction:  # as after a crash ten records behind a snapshot
        transaction.save_snapshot("sums", EPISODES_RECORDED.name, older.partition, 20, older.snapshot())
    before = contents(log), outcomes(log)
    run(log, store, batch=6, slots=lambda store: pipeline(store, factory=Recording))
    assert fed == list(range(20, 30))
    assert (contents(log), outcomes(log)) == before
    offset, _ = log.snapshot("sums", EPISODES_RECORDED.name, older.partition) or (0, b"")
    assert offset == 30, "saved again when the run ended"
    publisher.publish_many(execution(n) for n in range(30, 33))
    run(log, store)
    assert log.tallies()["sums"].emitted == {SIGNALS_RAISED.name: 11}


def _busy_partition(log: EmbeddedLog) -> int:
    return max(log.end_offsets(EPISODES_RECORDED.name).items(), key=lambda item: item[1])[0]


def _episodes(log: EmbeddedLog) -> list[Delivery]:
    feed = Feed(log, {})
    return [fed.delivery for fed in feed.take(EPISODES_RECORDED, _busy_partition(log), 0, 100) if fed.delivery]


def test_a_store_that_lost_its_file_is_filled_again(log: EmbeddedLog, store: Store, tmp_path: Path) -> None:
    fill(log)
    run(log, store)
    before = contents(log), outcomes(log)
    fresh = Store(tmp_path / "fresh.db")
    run(log, fresh)
    assert fresh.contents() == store.contents()
    assert (contents(log), outcomes(log)) == before, "what was counted, dead-lettered and announced before is not again"


def test_a_sink_without_offsets_goes_on_from_the_drivers(log: EmbeddedLog, tmp_path: Path) -> None:
    fill(log)
    run(log, Store(tmp_path / "one.db", owns_offsets=False))
    fresh = Store(tmp_path / "two.db", owns_offsets=False)
    run(log, fresh)
    assert fresh.contents() == []


def test_the_store_of_another_log_is_refused(log: EmbeddedLog, store: Store, tmp_path: Path) -> None:
    fill(log)
    run(log, store)
    with EmbeddedLog(tmp_path / "other.db") as other:
        with pytest.raises(LogMismatch, match="another log"):
            EmbeddedDriver(other, pipeline(store))
        other.lead().close()


def test_a_store_ahead_of_its_log_is_refused(log: EmbeddedLog, tmp_path: Path) -> None:
    class Ahead(Store):
        def next_offsets(self) -> dict[tuple[str, int], int]:
            return {(SIGNALS_RAISED.name, 2): 1}

    with pytest.raises(LogMismatch, match=r"read brain.signals.raised.v1/2 up to 1, but .* ends at 0"):
        EmbeddedDriver(log, pipeline(Ahead(tmp_path / "ahead.db")))
    log.lead().close()


def test_two_drivers_are_refused(log: EmbeddedLog, store: Store) -> None:
    with EmbeddedDriver(log, pipeline(store)), EmbeddedLog(log.path) as elsewhere, pytest.raises(DriverBusy):
        EmbeddedDriver(elsewhere, pipeline(store))


def test_two_stages_of_one_name_are_refused(log: EmbeddedLog) -> None:
    with pytest.raises(ValueError, match="two stages are called episodes"):
        EmbeddedDriver(log, [StageSlot(Episodes()), StageSlot(Episodes())])


def test_a_slot_has_one_stage(log: EmbeddedLog) -> None:
    with pytest.raises(ValueError, match="a stage or a factory"):
        StageSlot()
    with pytest.raises(ValueError, match="a stage or a factory"):
        StageSlot(Episodes(), factory=Sums)

    class Two(Sums):
        inputs = (EPISODES_RECORDED, SIGNALS_RAISED)

    with pytest.raises(ValueError, match="2 inputs"):
        EmbeddedDriver(log, [StageSlot(factory=Two)])


class Failing(Episodes):
    """Raises at the batch that holds a certain event."""

    def __init__(self, event_id: str) -> None:
        self.event_id = event_id

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        if any(delivery.message.event_id == self.event_id for delivery in batch):
            raise OSError("the disk is full")
        return super().handle(batch)


@pytest.mark.parametrize("threaded", [False, True])
def test_a_failing_stage_stops_the_driver_and_loses_nothing(log: EmbeddedLog, store: Store, threaded: bool) -> None:
    Publisher(log).publish_many(execution(n) for n in range(20))
    slots = [StageSlot(Failing("event-13"), batch=5, threaded=threaded), *pipeline(store)[1:]]
    with EmbeddedDriver(log, slots) as driver:
        with pytest.raises(StageFailed, match="stage episodes failed: OSError: the disk is full") as caught:
            driver.run_until_idle()
        assert isinstance(caught.value.__cause__, OSError)
        with pytest.raises(BrainError, match="failed before"):
            driver.run_until_idle()
    assert log.tallies()["episodes"].processed == 10
    run(log, store)
    assert log.tallies()["episodes"].processed == 20
    assert len(read_all(log, EPISODES_RECORDED.name)) == 20


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (Outcome(processed=1), "was given 2 records and accounts for 1"),
        (
            Outcome([Emission(INSIGHTS_UPDATED, "k", execution(1), "id", 0)], processed=2),
            "emitted to brain.insights.updated.v1, which is not among its outputs",
        ),
    ],
)
def test_a_stage_that_breaks_its_contract_stops_the_driver(log: EmbeddedLog, outcome: Outcome, message: str) -> None:
    class Broken(Episodes):
        def handle(self, batch: Sequence[Delivery]) -> Outcome:
            return outcome

    Publisher(log).publish_many(execution(n) for n in range(2))
    with EmbeddedDriver(log, [StageSlot(Broken())]) as driver, pytest.raises(StageFailed, match=message) as caught:
        driver.run_until_idle()
    assert isinstance(caught.value.__cause__, StageBroken)
    assert log.tallies() == {}
    assert read_all(log, INSIGHTS_UPDATED.name) == []


def test_a_zombie_driver_commits_nothing(log: EmbeddedLog, store: Store) -> None:
    """Another driver takes over while this one is in the middle of a batch."""
    Publisher(log).publish_many(execution(n) for n in range(3))

    class Sleeper(Episodes):
        def handle(self, batch: Sequence[Delivery]) -> Outcome:
            Path(f"{log.path}.lock").unlink()
            with EmbeddedLog(log.path) as other:
                other.lead().close()
            return super().handle(batch)

    with EmbeddedDriver(log, [StageSlot(Sleeper())]) as driver, pytest.raises(StageFailed, match="no longer holds") as caught:
        driver.run_until_idle()
    assert isinstance(caught.value.__cause__, FencedOut)
    assert "another driver took over" in (caught.value.hint or "")
    assert read_all(log, EPISODES_RECORDED.name) == []
    run(log, store)
    assert len(read_all(log, EPISODES_RECORDED.name)) == 3


def test_it_runs_on_what_others_publish_until_it_is_stopped(log: EmbeddedLog, store: Store) -> None:
    """Records come from another handle while it waits; it stops when told, and goes on in a second run."""
    arrived, stop = threading.Event(), threading.Event()
    expected = {"relayed": 0}

    def watch(progress: Progress) -> None:
        expected["relayed"] -= progress.relayed
        if expected["relayed"] == 0:
            arrived.set()

    with EmbeddedLog(log.path) as elsewhere, EmbeddedDriver(log, pipeline(store), on_progress=watch) as driver:
        for start in (0, 3):
            expected["relayed"] = 1
            arrived.clear()
            stop.clear()
            thread = threading.Thread(target=driver.run, args=(stop,))
            thread.start()
            Publisher(elsewhere).publish_many(execution(n) for n in range(start, start + 3))
            assert arrived.wait(60)
            stop.set()
            thread.join()
    assert len(read_all(log, INSIGHTS_UPDATED.name)) == 2
    assert store.left() == 0


def test_progress_adds_up(log: EmbeddedLog, store: Store) -> None:
    fill(log)
    progress = run(log, store, batch=9)
    for stage, tally in log.tallies().items():
        steps = [one for one in progress if one.stage == stage]
        assert sum(one.tally.received for one in steps) == tally.received
        assert sum(len(one.emissions) for one in steps) == sum(tally.emitted.values())
    assert sum(one.relayed for one in progress) == len(read_all(log, INSIGHTS_UPDATED.name))


def test_what_several_stages_read_is_decoded_once(log: EmbeddedLog) -> None:
    Publisher(log).publish_many(execution(n) for n in range(12))
    with EmbeddedDriver(log, [StageSlot(Episodes())]) as driver:
        driver.run_until_idle()
    partition = _busy_partition(log)
    feed = Feed(log, {EPISODES_RECORDED.name: 2, TOOLS_EXECUTED.name: 1}, shelf_records=6)

    first = feed.take(EPISODES_RECORDED, partition, 0, 4)
    again = feed.take(EPISODES_RECORDED, partition, 0, 3)
    assert [one is two for one, two in zip(first[:3], again, strict=True)] == [True] * 3
    rest = feed.take(EPISODES_RECORDED, partition, 3, 100)
    assert rest[0] is first[3]
    assert [fed.record.offset for fed in (*again, *rest)] == list(range(12))
    late = feed.take(EPISODES_RECORDED, partition, 4, 100)
    assert late == rest[1:], "what fell off the shelf is decoded again"
    assert late[0] is not rest[1]


def test_large_records_wait_for_a_slow_stage_in_the_log_and_not_in_memory(log: EmbeddedLog) -> None:
    large = execution(0).model_copy(update={"note": "x" * 900_000}).to_wire()
    log.append([NewRecord(TOOLS_EXECUTED.name, b"k", large, partition=0)] * 20)
    feed = Feed(log, {TOOLS_EXECUTED.name: 2})
    quick = [feed.take(TOOLS_EXECUTED, 0, n, 1)[0] for n in range(20)]
    held = SHELF_BYTES // len(large)
    latest = feed.take(TOOLS_EXECUTED, 0, 20 - held, held)
    earlier = feed.take(TOOLS_EXECUTED, 0, 0, 20 - held)
    assert [*earlier, *latest] == quick
    assert [one is two for one, two in zip([*earlier, *latest], quick, strict=True)] == [False] * (20 - held) + [True] * held
