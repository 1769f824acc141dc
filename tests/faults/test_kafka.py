"""Deaths on a real Kafka: kill -9 at every step, zombies, rebalances, a broker that goes away. Nothing lost, nothing doubled."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from schemas.settings import Settings
from streams.embedded.driver import EmbeddedDriver
from streams.embedded.log import EmbeddedLog
from streams.kafka.client import group_of
from streams.kafka.log import KafkaLog
from streams.publisher import Publisher
from tests.support.kafka import fresh_topics, own_broker, settings_for, shared_broker
from tests.support.kafka_checks import Seen, everything, nothing_lost
from tests.support.kafka_runs import ALL, STEPS, Runs, worker
from tests.support.streams import Store, execution, fill, pipeline
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.faults]
SMALL = {"batch_records": 16, "checkpoint_records": 10}
STATIC = {"kafka_instance": "one"}
"""A member of a known name that comes back takes its place at once: nobody waits for the session of the dead one to end."""


@pytest.fixture
def kafka(tmp_path: Path) -> Settings:
    settings = settings_for(shared_broker(), tmp_path, **SMALL)
    fresh_topics(settings)
    return settings


def embedded(folder: Path, fill_in: Callable[[Any], object]) -> Seen:
    """What the embedded log makes of the same input in one go."""
    store = Store(folder / "embedded.store")
    with EmbeddedLog(folder / "embedded.db") as log:
        fill_in(log)
        with EmbeddedDriver(log, pipeline(store)) as driver:
            driver.run_until_idle()
        store.close()
        return everything(log, folder / "embedded.store")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return embedded(tmp_path_factory.mktemp("undisturbed"), fill)


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("stage", "point"), STEPS)
@pytest.mark.slow
def test_a_kill_at_each_step_changes_nothing(
    kafka: Settings, tmp_path: Path, undisturbed: Seen, stage: str, point: str, nth: int
) -> None:
    kill_and_compare(kafka, tmp_path / "store.db", undisturbed, [(stage, point, nth), (stage, point, 1)])


def test_kills_of_every_worker_change_nothing(kafka: Settings, tmp_path: Path, undisturbed: Seen) -> None:
    kills = [("sums", "sent", 2), ("episodes", "sent", 1), ("store", "relay-sent", 1), ("sums", "snapshot", 1)]
    kill_and_compare(kafka, tmp_path / "store.db", undisturbed, kills)


def kill_and_compare(kafka: Settings, store: Path, undisturbed: Seen, kills: list[tuple[str, str, int]]) -> None:
    runs = Runs(kafka)
    try:
        with KafkaLog(kafka) as log:
            fill(log)
            ends = [runs.run(store, kill, **STATIC) for kill in kills]
            assert set(ends) <= {0, -9}
            assert kills[0][2] > 1 or ends[0] == -9, f"{kills[0]} never came"
            assert runs.run(store, **STATIC) == 0
            assert everything(log, store) == undisturbed
            nothing_lost(log, store)
    finally:
        runs.close()


def committed(log: KafkaLog, settings: Settings, stage: str) -> int:
    """How many records the stage's group has behind it."""
    return sum(log.committed(group_of(settings, stage)).values())


def publish(log: KafkaLog, first: int, count: int) -> None:
    Publisher(log).publish_many(execution(n, key=n % 7) for n in range(first, first + count))


@pytest.mark.slow
def test_workers_come_and_go(kafka: Settings, tmp_path: Path) -> None:
    """Partitions move between workers of a stage while records flow, checkpoints and all; a worker more than there are partitions
    has nothing to do and does no harm; one dies hard."""
    store = tmp_path / "store.db"
    with KafkaLog(kafka) as log, ExitStack() as stack:
        publish(log, 0, 60)
        stack.enter_context(worker(kafka, store, ALL))
        until(lambda: committed(log, kafka, "sums") >= 50)
        others = [stack.enter_context(worker(kafka, store, "episodes,sums")) for _ in range(4)]
        for turn in range(1, 5):
            publish(log, 60 * turn, 60)
            until(lambda turn=turn: committed(log, kafka, "sums") >= 60 * turn)
        others[0].kill()
        others[1].terminate()
        publish(log, 300, 60)
        until(lambda: committed(log, kafka, "sums") >= 360 and committed(log, kafka, "episodes") >= 360)
    finish(kafka, store)
    compare(kafka, store, tmp_path, lambda log: publish(log, 0, 360))


@pytest.mark.slow
def test_a_zombie_worker_wakes_up(kafka: Settings, tmp_path: Path) -> None:
    """A worker of every shared stage is stopped, taken for dead, replaced, and wakes up with records in hand."""
    store = tmp_path / "store.db"
    with KafkaLog(kafka) as log, worker(kafka, store, "episodes,sums") as zombie:
        publish(log, 0, 60)
        until(lambda: committed(log, kafka, "sums") >= 20)
        publish(log, 60, 100)
        zombie.send_signal(signal.SIGSTOP)
        with worker(kafka, store, ALL):
            until(lambda: committed(log, kafka, "sums") >= 160 and committed(log, kafka, "episodes") >= 160)
            zombie.send_signal(signal.SIGCONT)
            publish(log, 160, 60)
            until(lambda: committed(log, kafka, "sums") >= 220)
    finish(kafka, store)
    compare(kafka, store, tmp_path, lambda log: publish(log, 0, 220))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "down"])
def test_the_broker_goes_away_in_the_middle(tmp_path: Path, how: str) -> None:
    store = tmp_path / "store.db"
    with own_broker() as broker:
        kafka = settings_for(broker.address, tmp_path, **SMALL)
        fresh_topics(kafka)
        with worker(kafka, store, ALL):
            with KafkaLog(kafka) as log:
                publish(log, 0, 200)
                until(lambda: committed(log, kafka, "episodes") >= 20)
            getattr(broker, how)()
            broker.up()
            with KafkaLog(kafka) as log:
                publish(log, 200, 60)
                until(lambda: committed(log, kafka, "sums") >= 260)
        finish(kafka, store)
        compare(kafka, store, tmp_path, lambda log: publish(log, 0, 260))


def finish(kafka: Settings, store: Path) -> None:
    """Whatever is left is read by one more run, and there is nothing wrong with it."""
    runs = Runs(kafka)
    try:
        assert runs.run(store) == 0
    finally:
        runs.close()


def compare(kafka: Settings, store: Path, tmp_path: Path, fill_in: Callable[[Any], None]) -> None:
    """The outcome equals that of the embedded log for the same input."""
    with KafkaLog(kafka) as log:
        found = everything(log, store)
        nothing_lost(log, store)
    assert found == embedded(tmp_path, fill_in)
