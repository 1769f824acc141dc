"""Workers on a cluster, watched: what they say of the partitions that they have, of rebalances, and of a cluster that is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.kafka.broker import free_port
from gateway.metrics import catalogue
from gateway.metrics.cluster import STALE_S, ClusterWatch
from gateway.metrics.meter import Meter
from gateway.metrics.observe import Observation
from schemas.settings import Settings
from schemas.topics import EPISODES_RECORDED, TOOLS_EXECUTED
from streams.embedded.worker import StageSlot
from streams.kafka.app import create_app, run_until_idle
from streams.kafka.log import KafkaLog
from streams.kafka.standing import Standing
from streams.publisher import Publisher
from tests.support.kafka import stages_of
from tests.support.streams import Episodes, Store, execution, fill, pipeline

START = 1_000_000.0


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def run(settings: Settings, slots: Sequence[StageSlot], standings: dict[str, Standing], watch: ClusterWatch) -> None:
    async def main() -> None:
        app = create_app(settings, slots, on_progress=watch.take, standings=standings)
        await run_until_idle(app, settings, stages_of(slots), poll_s=0.1)

    asyncio.run(main())


@pytest.mark.kafka
def test_a_worker_tells_of_its_own_partitions(kafka: Settings, tmp_path: Path) -> None:
    clock, standings, store = Clock(), dict[str, Standing](), Store(tmp_path / "store.db")
    slots = pipeline(store)
    watch = ClusterWatch(kafka, stages_of(slots), standings, clock)
    seen = Observation(watch, watch, Meter(clock=clock), [watch], clock=clock, unready=watch.unready)

    def value(metric: catalogue.Metric, *labels: str) -> float | None:
        return seen.registry.get_sample_value(metric.name, dict(zip(metric.labels, labels, strict=True)))

    with KafkaLog(kafka) as log:
        fill(log, 40, garbage=False)
        assert seen.health().problems[0] == "the cluster has not been asked yet"
        watch.look(log)
        assert seen.health().problems == tuple(
            f"{name} has not been given its partitions yet" for name in ("episodes", "sums", "store")
        )
        assert value(catalogue.LAG, "episodes", TOOLS_EXECUTED.name, "0") is None, "others may have it"
        run(kafka, slots, standings, watch)
        watch.look(log)
        assert seen.health().ready
        assert {standing.rebalances for standing in standings.values()} == {0, 1}
        assert value(catalogue.ASSIGNED, "episodes") == 4
        assert value(catalogue.REBALANCES, "store") == 0
        assert value(catalogue.RECEIVED, "episodes") == sum(log.end_offsets(TOOLS_EXECUTED.name).values())
        ends = log.end_offsets(EPISODES_RECORDED.name)
        for partition, end in ends.items():
            assert value(catalogue.LAG, "sums", EPISODES_RECORDED.name, str(partition)) == 0
            assert value(catalogue.END_OFFSET, EPISODES_RECORDED.name, str(partition)) == end
        clock.now += 5
        watch.look(log)
        assert value(catalogue.COMMIT_AGE, "sums") == 5
        behind(log, watch, seen, clock, standings, kafka)
    store.close()


def behind(
    log: KafkaLog, watch: ClusterWatch, seen: Observation, clock: Clock, standings: dict[str, Standing], kafka: Settings
) -> None:
    """Records come, and nobody reads them any more."""
    (position, *_) = Publisher(log).publish_many(execution(n, key=1) for n in range(100, 110))
    (arrived,) = log.read(position.topic, position.partition, position.offset, 1)
    clock.now = arrived.timestamp_ms / 1000 + 30
    watch.look(log)
    where = (position.topic, str(position.partition))
    labels = {"consumergroup": "episodes", "topic": where[0], "partition": where[1]}
    assert seen.registry.get_sample_value("kafka_consumergroup_lag", labels) == 10
    assert seen.registry.get_sample_value("defi_brain_lag_seconds", labels) == 30
    event_time = seen.registry.get_sample_value("defi_brain_lag_event_time_seconds", labels)
    assert event_time is not None
    assert event_time > 0
    clock.now += 60
    watch.look(log)
    assert not seen.health().alive
    standings["episodes"].give([another(position.partition)], clock.now)
    watch.look(log)
    assert seen.health().ready, "somebody else has the partition now"
    standings["episodes"].take(clock.now)
    clock.now += kafka.health_behind_s + 1
    watch.look(log)
    assert seen.health().problems == ("episodes has been in a rebalance for 61 s",)


def another(partition: int) -> tuple[str, int]:
    """Another partition of the input."""
    return TOOLS_EXECUTED.name, (partition + 1) % TOOLS_EXECUTED.partitions


def test_a_silent_cluster_makes_a_worker_unready_but_not_dead(tmp_path: Path) -> None:
    clock = Clock()
    settings = Settings(broker=f"kafka://127.0.0.1:{free_port()}", data_dir=tmp_path)
    standings = {"episodes": Standing(START, frozenset({(TOOLS_EXECUTED.name, 0)}), 1)}
    watch = ClusterWatch(settings, [Episodes()], standings, clock)
    seen = Observation(watch, watch, Meter(clock=clock), [watch], clock=clock, unready=watch.unready)
    watch.start()
    clock.now += STALE_S + 1
    health = seen.health()
    watch.close()
    assert (health.alive, health.ready) == (True, False)
    errors = seen.registry.get_sample_value("defi_brain_scrape_errors_total", {"part": "cluster"})
    assert errors == 1
