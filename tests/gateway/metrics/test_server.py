"""The port: what it answers, how it ends, and that it stays on loopback unless told otherwise."""

from __future__ import annotations

import json
import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.metrics.collector import BrainCollector, Cached, Sample
from gateway.metrics.health import Health
from gateway.metrics.observe import make_registry, serve
from gateway.metrics.server import MetricsServer
from schemas.errors import BrainError
from schemas.settings import Settings
from tests.support.metrics import probe
from tests.support.streams import fill

WELL = Health(alive=True, ready=True, problems=(), stages={})


def get(url: str, accept: str = "*/*", method: str = "GET") -> tuple[int, str, str]:
    request = urllib.request.Request(url, headers={"Accept": accept}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def test_metrics_in_both_formats(tmp_path: Path) -> None:
    with probe(tmp_path) as one, MetricsServer(one.observation.registry, one.observation.health, 0) as server:
        fill(one.log)
        one.driver.run_until_idle()
        status, kind, text = get(f"{server.url}/metrics")
        assert status == 200
        assert kind.startswith("text/plain")
        names = {family.name for family in parse_text(text)}
        assert {"kafka_consumergroup_lag", "defi_brain_stage_handle_seconds", "process_resident_memory_bytes"} <= names
        status, kind, text = get(f"{server.url}/metrics", "application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text")
        assert {family.name for family in parse_openmetrics(text)} >= {"defi_brain_stage_records"}
        assert get(f"{server.url}/healthz")[0] == get(f"{server.url}/readyz")[0] == 200
        assert set(json.loads(get(f"{server.url}/healthz")[2])["stages"]) == {"episodes", "sums", "store"}


@pytest.mark.parametrize(
    ("health", "healthz", "readyz"),
    [
        (WELL, 200, 200),
        (Health(alive=True, ready=False, problems=("behind",), stages={}), 200, 503),
        (Health(alive=False, ready=False, problems=("stalled",), stages={}), 503, 503),
    ],
)
def test_health_is_the_status(health: Health, healthz: int, readyz: int) -> None:
    with MetricsServer(CollectorRegistry(), lambda: health, 0) as server:
        assert get(f"{server.url}/healthz")[0] == healthz
        status, kind, body = get(f"{server.url}/readyz")
        assert (status, kind) == (readyz, "application/json")
        assert json.loads(body) == health.plain()


def test_a_log_that_cannot_be_read_is_ill(tmp_path: Path) -> None:
    with probe(tmp_path) as one, MetricsServer(one.observation.registry, one.observation.health, 0) as server:
        one.log.close()
        status, _, body = get(f"{server.url}/healthz")
        assert status == 503
        assert "is closed" in json.loads(body)["problems"][0]
        status, _, text = get(f"{server.url}/metrics")
        assert status == 200
        assert 'defi_brain_scrape_errors_total{part="log"} 1.0' in text
        assert "kafka_consumergroup_lag" not in text
        assert "process_resident_memory_bytes" in text


def test_other_pages_and_methods() -> None:
    with MetricsServer(CollectorRegistry(), lambda: WELL, 0) as server:
        assert get(f"{server.url}/")[0] == 404
        assert get(f"{server.url}/healthz?verbose")[0] == 200
        assert get(f"{server.url}/healthz", method="HEAD") == (200, "application/json", "")
        assert get(f"{server.url}/metrics", method="POST")[0] == 501


def test_the_port_is_loopbacks_and_is_let_go() -> None:
    with MetricsServer(CollectorRegistry(), lambda: WELL, 0) as server:
        assert server.url.startswith("http://127.0.0.1:")
        with pytest.raises(BrainError, match="cannot be served") as refused:
            MetricsServer(CollectorRegistry(), lambda: WELL, server.port)
        assert "metrics_port" in (refused.value.hint or "")
    with MetricsServer(CollectorRegistry(), lambda: WELL, server.port):
        pass


def test_no_port_unless_the_settings_name_one(tmp_path: Path) -> None:
    with probe(tmp_path) as one:
        with serve(one.observation, Settings(metrics_port=0)) as none:
            assert none is None
        with MetricsServer(CollectorRegistry(), lambda: WELL, 0) as free:
            port = free.port
        with serve(one.observation, Settings(metrics_port=port)) as server:
            assert server is not None
            assert server.port == port


def test_a_client_that_hangs_up_is_no_news(capfd: pytest.CaptureFixture[str]) -> None:
    """It asks, and resets the connection before it is answered; the port answers the next one and prints nothing."""
    asked, gone = threading.Event(), threading.Event()

    def slow() -> Health:
        asked.set()
        gone.wait(30)
        return WELL

    with MetricsServer(CollectorRegistry(), slow, 0) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert asked.wait(30)
        gone.set()
        assert get(f"{server.url}/healthz")[0] == 200
    assert capfd.readouterr() == ("", "")


class Flaky:
    """A part that fails when it is told to."""

    name = "flaky"
    fails = True
    reads = 0

    def samples(self) -> Iterator[Sample]:
        self.reads += 1
        if self.fails:
            raise OSError("the folder has gone")
        return iter(())


def test_a_part_that_fails_costs_its_own_metrics_only() -> None:
    part = Flaky()
    registry = make_registry([part])

    def errors() -> float | None:
        return registry.get_sample_value("defi_brain_scrape_errors_total", {"part": "flaky"})

    assert errors() == 1
    assert registry.get_sample_value("process_cpu_seconds_total") is not None
    part.fails = False
    before = errors()
    assert errors() == before


def test_registering_reads_nothing() -> None:
    part = Flaky()
    CollectorRegistry().register(BrainCollector([part]))
    assert part.reads == 0


def test_a_cached_part_is_read_seldom() -> None:
    part, at = Flaky(), [0.0]
    part.fails = False
    cached = Cached(part, 5.0, clock=lambda: at[0])
    for at[0] in (0.0, 1.0, 4.9, 5.0, 9.0):
        cached.samples()
    assert part.reads == 2
