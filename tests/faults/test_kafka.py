"""Deaths on a real Kafka: kill -9 at every step, zombies, rebalances, a broker that goes away. Nothing lost, nothing doubled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.settings import Settings
from streams.embedded.driver import EmbeddedDriver
from streams.embedded.log import EmbeddedLog
from streams.kafka.log import KafkaLog
from tests.support.kafka import any_broker, fresh_topics, settings_for
from tests.support.kafka_checks import Seen, everything, nothing_lost
from tests.support.kafka_runs import STEPS, Runs
from tests.support.streams import Store, fill, pipeline

pytestmark = [pytest.mark.kafka, pytest.mark.faults]
SMALL = {"batch_records": 16, "checkpoint_records": 10}
STATIC = {"kafka_instance": "one"}
"""A member of a known name that comes back takes its place at once: nobody waits for the session of the dead one to end."""


@pytest.fixture(scope="module")
def broker_address() -> Iterator[str]:
    with any_broker() as address:
        yield address


@pytest.fixture
def kafka(broker_address: str, tmp_path: Path) -> Settings:
    settings = settings_for(broker_address, tmp_path, **SMALL)
    fresh_topics(settings)
    return settings


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What the embedded log makes of the same input in one go."""
    folder = tmp_path_factory.mktemp("undisturbed")
    store = Store(folder / "store.db")
    with EmbeddedLog(folder / "log.db") as log:
        fill(log)
        with EmbeddedDriver(log, pipeline(store)) as driver:
            driver.run_until_idle()
        store.close()
        return everything(log, folder / "store.db")


@pytest.mark.parametrize("nth", [1, 3])
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
            assert ends[0] == -9
            assert runs.run(store, **STATIC) == 0
            assert everything(log, store) == undisturbed
            nothing_lost(log, store)
    finally:
        runs.close()
