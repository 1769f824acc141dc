"""A real Prometheus: it scrapes an observed pipeline, and every alert fires when its condition really comes about."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.prometheus.server import RULES, Prometheus, PrometheusError, configuration, free_port, missing
from gateway.metrics.meter import Meter
from gateway.metrics.observe import Observation
from gateway.metrics.stores_part import FilesPart, InsightsPart
from schemas.events import ToolExecution
from schemas.topics import TOOLS_EXECUTED
from stores.sqlite import WritableInsightStore
from streams.embedded.driver import EmbeddedDriver
from streams.embedded.log import EmbeddedLog
from streams.embedded.worker import StageSlot
from streams.publisher import Publisher
from tests.support.docs import alerts
from tests.support.metrics import brain, probe
from tests.support.prometheus import Watcher, hurried
from tests.support.sqlite import MODEL, add
from tests.support.streams import GARBAGE, Episodes, Store, execution, fill, pipeline
from tests.support.waiting import until
from workers.stage import Delivery, Outcome

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def test_it_scrapes_what_the_log_says(watcher: Watcher, tmp_path: Path) -> None:
    """The whole way once: pipeline, port, Prometheus, query."""
    with probe(tmp_path) as one, watcher.watching(one.observation) as instance:
        published = fill(one.log)
        one.driver.run_until_idle()
        total = f'defi_brain_stage_received_records_total{{job="defi-brain",instance="{instance}",stage="episodes"}}'
        until(lambda: watcher.value(total) == published, "Prometheus has the count")
        until(lambda: watcher.value(f'sum(kafka_consumergroup_lag{{instance="{instance}"}})') == 0, "Prometheus has the end")
        assert watcher.value(f'up{{instance="{instance}"}}') == 1
        assert not watcher.prometheus.query(f'ALERTS{{instance="{instance}",alertname=~".*(Stuck|Behind|Down)"}}')


def test_a_query_that_is_wrong_is_an_error(watcher: Watcher) -> None:
    with pytest.raises(PrometheusError, match="parse error"):
        watcher.prometheus.query("sum(")


def test_a_configuration_that_is_wrong_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PrometheusError, match="did not start"):
        Prometheus(tmp_path, configuration(["127.0.0.1:1"]) + "nonsense: 1\n")


def test_a_hurry_changes_times_only() -> None:
    assert hurried(but=frozenset(alerts())) == RULES.read_text()
    assert hurried().count("- alert: ") == len(alerts())
    assert "[10m]" not in hurried()
    assert "> 120" in hurried()


# --- each alert, by its cause


@pytest.mark.slow
def test_down(watcher: Watcher, tmp_path: Path) -> None:
    with probe(tmp_path) as one, watcher.watching(one.observation) as instance:
        until(lambda: watcher.value(f'up{{instance="{instance}"}}') == 1, "it is up")
    watcher.add(instance)
    watcher.fires("DefiBrainDown", instance)
    watcher.drop(instance)


class Blocked(Episodes):
    """A stage that hangs in its work until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        self.go.wait(300)
        return super().handle(batch)


@pytest.mark.slow
def test_a_stuck_stage(watcher: Watcher, tmp_path: Path) -> None:
    """The stage really hangs; only that it has done so for five minutes is pretended, by clocks that are five minutes ahead."""
    stage, stop = Blocked(), threading.Event()
    with EmbeddedLog(tmp_path / "log.db", clock_ms=lambda: round((time.time() - 300) * 1000)) as log:
        Publisher(log).publish_many(execution(n) for n in range(3))
        meter = Meter()
        meter.started_s -= 300
        with EmbeddedDriver(log, [StageSlot(stage)], on_progress=meter.take) as driver:
            thread = threading.Thread(target=driver.run, args=(stop,))
            thread.start()
            with watcher.watching(Observation(log, driver, meter)) as instance:
                watcher.fires("DefiBrainStageStuck", instance)
                held = f'defi_brain_stage_in_process_records{{instance="{instance}",stage="episodes"}}'
                assert watcher.value(held) == 3
                stage.go.set()
                watcher.quiet("DefiBrainStageStuck", instance)
            stop.set()
            log.notify()
            thread.join()


@pytest.mark.slow
def test_a_stage_that_is_behind(watcher: Watcher, tmp_path: Path) -> None:
    """Records of ten minutes ago that nobody has read; a subscriber that reads nothing alarms nobody."""
    with EmbeddedLog(tmp_path / "log.db", clock_ms=lambda: round((time.time() - 600) * 1000)) as log:
        fill(log, garbage=False)
        meter, store = Meter(), Store(tmp_path / "store.db")
        with (
            EmbeddedDriver(log, pipeline(store), on_progress=meter.take) as driver,
            watcher.watching(Observation(log, driver, meter)) as instance,
        ):
            watcher.fires("DefiBrainBehind", instance)
            assert not watcher.firing("DefiBrainStageStuck", instance)
            log.commit("desk", {(TOOLS_EXECUTED.name, partition): 0 for partition in range(4)})
            driver.run_until_idle()
            watcher.quiet("DefiBrainBehind", instance)
            waiting = f'max(defi_brain_lag_seconds{{instance="{instance}",consumergroup="desk"}})'
            until(lambda: (watcher.value(waiting) or 0) > 300, "the subscriber is seen to be behind")
        store.close()


@pytest.mark.slow
def test_dead_letters(watcher: Watcher, tmp_path: Path) -> None:
    with probe(tmp_path) as one, watcher.watching(one.observation) as instance:
        fill(one.log, garbage=False, count=10)
        one.driver.run_until_idle()
        assert not watcher.firing("DefiBrainDeadLetters", instance)
        for value, _ in GARBAGE:
            Publisher(one.log).publish_raw(TOOLS_EXECUTED, b"key", value)
        one.driver.run_until_idle()
        watcher.fires("DefiBrainDeadLetters", instance)
        watcher.quiet("DefiBrainDeadLetters", instance)  # what is over falls out of the window


def restless(count: int, period: int = 150) -> Iterator[ToolExecution]:
    """A market that is ten times as nervous, and a pool ten times as deep, every other ``period`` events."""
    for n in range(count):
        level = 10.0 if n // period % 2 else 1.0
        wobble = 1.0 + 0.1 * ((n * 7919) % 101) / 101
        features = dict.fromkeys(("volatility", "pool_depth_usd", "pool_liquidity"), level * wobble)
        yield execution(n).model_copy(update={"event_id": f"restless-{n}", "features": features})


@pytest.mark.slow
def test_a_drift_storm(watcher: Watcher, tmp_path: Path) -> None:
    with brain(tmp_path) as (one, _), watcher.watching(one.observation) as instance:
        Publisher(one.log).publish_many(restless(100))
        one.driver.run_until_idle()
        assert not watcher.firing("DefiBrainDriftStorm", instance)
        Publisher(one.log).publish_many(restless(5000))
        one.driver.run_until_idle()
        watcher.fires("DefiBrainDriftStorm", instance)


@pytest.mark.slow
def test_an_outbox_that_nobody_empties(watcher: Watcher, tmp_path: Path) -> None:
    with brain(tmp_path, relayed=False) as (one, _), watcher.watching(one.observation) as instance:
        Publisher(one.log).publish_many(add(f"insight-{n}") for n in range(3))
        one.driver.run_until_idle()
        watcher.fires("DefiBrainOutboxStuck", instance)
        assert watcher.value(f'defi_brain_outbox_records{{instance="{instance}"}}') == 3


@pytest.mark.slow
def test_a_writer_that_changes_hands(watcher: Watcher, tmp_path: Path) -> None:
    path = tmp_path / "insights.db"
    WritableInsightStore.open(path, MODEL).close()
    part = InsightsPart(path)
    with probe(tmp_path, parts=[part]) as one, watcher.watching(one.observation) as instance:
        epoch = f'defi_brain_writer_epoch{{instance="{instance}"}}'
        for number in range(1, 6):
            until(lambda number=number: watcher.value(epoch) == number, f"epoch {number} is seen")  # type: ignore[misc]
            WritableInsightStore.open(path, MODEL).close()
        watcher.fires("DefiBrainWriterFlapping", instance)
    part.close()


@contextmanager
def small_disk(folder: Path, size: str = "32m") -> Iterator[Path]:
    """A file system of its own."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("a file system cannot be mounted here: the disk cannot be filled")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
def test_a_disk_that_fills(watcher: Watcher, tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk") as disk,
        probe(tmp_path, parts=[FilesPart(disk, {})]) as one,
        watcher.watching(one.observation) as instance,
        (disk / "ballast").open("wb") as ballast,
    ):

        def free() -> int:
            return int(watcher.value(f'defi_brain_disk_free_bytes{{instance="{instance}"}}') or 0)

        until(lambda: free() > 0, "the disk is seen")
        assert not {name for name, where in watcher.prometheus.alerts() if where == instance and "Disk" in name}
        for _ in range(30):
            before = free()
            ballast.write(bytes(2**20))
            ballast.flush()
            until(lambda before=before: free() < before, "there is less room")  # type: ignore[misc]
            if watcher.firing("DefiBrainDiskFilling", instance):
                break
        watcher.fires("DefiBrainDiskFilling", instance)
        assert not watcher.firing("DefiBrainDiskLow", instance)
        ballast.write(bytes(free() - 2**20))
        ballast.flush()
        watcher.fires("DefiBrainDiskLow", instance)


@pytest.mark.slow
def test_metrics_that_cannot_be_read(watcher: Watcher, tmp_path: Path) -> None:
    gone = tmp_path / "data"
    gone.mkdir()
    with probe(tmp_path, parts=[FilesPart(gone, {})]) as one, watcher.watching(one.observation) as instance:
        free = f'defi_brain_disk_free_bytes{{instance="{instance}"}}'
        until(lambda: watcher.value(free) is not None, "the folder is seen")
        gone.rmdir()
        watcher.fires("DefiBrainMetricsIncomplete", instance)
        until(lambda: watcher.value(free) is None, "what is not known is not said")


@pytest.mark.slow
def test_one_command_brings_both_up(tmp_path: Path) -> None:
    """``python -m deploy.prometheus up``: it says where to look, both answer, and Ctrl-C ends both."""
    metrics, port = free_port(), free_port()
    command = [sys.executable, "-m", "deploy.prometheus", "up", "--data-dir", str(tmp_path), "--simulate", "100"]
    environment = {**os.environ, "DEFI_BRAIN_METRICS_PORT": str(metrics)}
    with subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(3)]
        assert said[0].split()[1] == f"http://127.0.0.1:{metrics}/metrics"
        assert said[1].split() == ["prometheus", f"http://127.0.0.1:{port}"]
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/healthz", timeout=30) as answer:
            assert answer.status == 200
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=30) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=30)


def test_every_alert_is_caused_here() -> None:
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert {name for name in alerts() if f'watcher.fires("{name}"' in text} == set(alerts())
