"""The whole way with nothing replaced: the real pipeline with its model on a simulated market, its port, a real Prometheus.

A normal run raises no alert. Then the brain is restarted, and gets what goes wrong in life (garbage, duplicates, a market that
jumps). After that every query of every panel, and every annotation, has returned data.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from deploy.grafana import generate
from deploy.prometheus.server import free_port, missing
from gateway.composition import Pipeline
from gateway.metrics import catalogue
from gateway.metrics.wiring import open_observed
from schemas.events import ToolExecution
from schemas.settings import Settings
from schemas.topics import TOOLS_EXECUTED
from streams.publisher import Publisher
from tests.support.kafka import fresh_topics, settings_for, shared_broker
from tests.support.market import market_events
from tests.support.prometheus import Watcher
from tests.support.streams import GARBAGE, execution
from tests.support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]
NORMAL, REST = 900, 300
QUERIES = sorted(
    {
        (entry["title"] if "title" in entry else entry["name"], target["expr"])
        for name in generate.files()
        for board in [json.loads((generate.FOLDER / name).read_text())]
        for entry in [*board["panels"], *board["annotations"]["list"]]
        for target in entry.get("targets", [entry] if "expr" in entry else [])
    }
)
ON_KAFKA = [query for query in QUERIES if any(metric.name in query[1] for metric in catalogue.ON_KAFKA)]
"""Only workers on Kafka have these."""
CALM = frozenset({"DefiBrainDiskFilling"})
"""Not hurried: six hours' pace, guessed from seconds in which others write to the same disk, is anything."""


class Run(NamedTuple):
    """Prometheus, the target's instance, and the alerts that fired in the normal part."""

    watcher: Watcher
    address: str
    alarms: list[dict[str, Any]]


@contextmanager
def running(settings: Settings) -> Iterator[Pipeline]:
    """The pipeline at work on a thread."""
    stop = threading.Event()
    with open_observed(settings) as pipeline:
        thread = threading.Thread(target=pipeline.driver.run, args=(stop,))
        thread.start()
        try:
            yield pipeline
        finally:
            stop.set()
            pipeline.log.notify()
            thread.join()


def publish(pipeline: Pipeline, events: tuple[ToolExecution, ...], size: int = 100) -> None:
    """In pieces, each after the one before is through: a market that goes on for a while."""
    for first in range(0, len(events), size):
        Publisher(pipeline.log, source="market").publish_many(events[first : first + size])
        drain(pipeline)


def drain(pipeline: Pipeline) -> None:
    """Until every stage has read everything."""
    seen = pipeline.log.changes()
    while any(lag.records for lag in pipeline.log.lags()):
        seen = pipeline.log.wait(seen, 1.0)


def jumping(count: int, period: int = 150) -> Iterator[ToolExecution]:
    """A key whose market jumps now and then, so that something drifts within a short run."""
    for n in range(count):
        level = 10.0 if n // period % 2 else 1.0
        features = dict.fromkeys(("volatility", "pool_depth_usd", "pool_liquidity"), level * (1 + n % 7 / 100))
        yield execution(n).model_copy(update={"event_id": f"jumping-{n}", "features": features})


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The run."""
    folder = tmp_path_factory.mktemp("panels")
    settings = Settings(data_dir=folder / "data", metrics_port=free_port())
    address = f"127.0.0.1:{settings.metrics_port}"
    watcher = Watcher(folder / "prometheus", but=CALM)
    try:
        with running(settings) as pipeline:
            watcher.add(address)
            publish(pipeline, market_events(7, NORMAL))
            total = f'defi_brain_stage_received_records_total{{instance="{address}",stage="distil"}}'
            until(lambda: watcher.value(total) == NORMAL, "Prometheus has seen the normal run")
            fired = watcher.prometheus.query_range('ALERTS{alertstate="firing"}', 600)
        with running(settings) as pipeline:
            until(lambda: watcher.value(f'defi_brain_writer_epoch{{instance="{address}"}}') == 2, "the restart is seen")
            for value, _ in GARBAGE:
                Publisher(pipeline.log).publish_raw(TOOLS_EXECUTED, b"key", value)
            publish(pipeline, market_events(7, NORMAL + REST)[NORMAL - 50 :])
            publish(pipeline, tuple(jumping(1000)))
            alarms = f'sum(defi_brain_drift_alarms_total{{instance="{address}"}})'
            until(lambda: (watcher.value(alarms) or 0) > 0, "Prometheus has seen a drift alarm")
            until(lambda: watcher.value(total) == pipeline.log.tallies()["distil"].received, "Prometheus has seen it all")
            yield Run(watcher, address, fired)
    finally:
        watcher.prometheus.close()


def test_a_normal_run_is_quiet(watched: Run) -> None:
    assert watched.alarms == []


@pytest.mark.parametrize(("title", "expression"), [query for query in QUERIES if query not in ON_KAFKA])
def test_every_query_returns_data(watched: Run, title: str, expression: str) -> None:
    """As Grafana would ask, with all jobs and this instance; a number somewhere in the run, not only NaN."""
    returns_data(watched.watcher, watched.address, title, expression)


@pytest.mark.kafka
def test_the_queries_about_kafka_return_data_of_a_worker(tmp_path: Path) -> None:
    """The other queries, of `defi-brain worker` on a real Kafka."""
    settings = settings_for(shared_broker(), tmp_path, metrics_port=free_port())
    fresh_topics(settings)
    address = f"127.0.0.1:{settings.metrics_port}"
    assert ON_KAFKA
    watcher = Watcher(tmp_path / "prometheus", but=CALM)
    command = [sys.executable, "-c", "from gateway.cli import main; main()", "--broker", settings.broker, "worker", "breakers"]
    given = {"DATA_DIR": str(tmp_path), "KAFKA_APP": settings.kafka_app, "METRICS_PORT": str(settings.metrics_port)}
    environment = {**os.environ, **{f"DEFI_BRAIN_{name}": value for name, value in given.items()}}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        watcher.add(address)
        assigned = f'sum(defi_brain_kafka_assigned_partitions{{instance="{address}"}})'
        until(lambda: (watcher.value(assigned) or 0) > 0, "Prometheus has seen that the worker has partitions")
        for title, expression in ON_KAFKA:
            returns_data(watcher, address, title, expression)
    finally:
        process.terminate()
        process.wait(60)
        watcher.prometheus.close()


def returns_data(watcher: Watcher, address: str, title: str, expression: str) -> None:
    """A query has a number somewhere in the run."""
    asked = expression.replace("$__rate_interval", "5s").replace("$job", ".+").replace("$instance", address)

    def found() -> bool:
        series = watcher.prometheus.query_range(asked, 900)
        return any(not math.isnan(float(value)) for one in series for _, value in one["values"])

    # A rate needs two scrapes: what has just been seen for the first time is waited for.
    until(found, f"{title} has data for {asked}", 20.0)


def test_the_counts_survived_the_restart(watched: Run) -> None:
    """No counter of records has ever fallen, restart included."""
    watcher, address, _ = watched
    for name in ("defi_brain_stage_received_records_total", "defi_brain_stage_records_total", "defi_brain_operations_total"):
        for series in watcher.prometheus.query_range(f'{name}{{instance="{address}"}}', 900):
            values = [float(value) for _, value in series["values"]]
            assert values == sorted(values), series["metric"]
