"""What ``up`` opens: the composition root's pipeline with its port, or the bare one."""

from __future__ import annotations

import json
import threading
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from deploy.prometheus.server import free_port
from gateway.metrics import catalogue
from gateway.metrics.wiring import open_observed
from schemas.errors import BrainError
from schemas.settings import Settings

AFTER_WORK = {
    catalogue.REJECTED, catalogue.EMITTED, catalogue.REPLAYED, catalogue.RELAYED, catalogue.HANDLE, catalogue.COMMIT,
    catalogue.RECORD_AGE, catalogue.EVENT_AGE, catalogue.EVENT_TIME, catalogue.LAST_COMMIT,
}  # fmt: skip
"""Metrics that are not there before something has happened: of what never was there is no duration."""


def get(settings: Settings, page: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{settings.metrics_port}{page}", timeout=60) as answer:
        return answer.read().decode()


def test_an_idle_brain_says_all_there_is_to_say(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, metrics_port=free_port())
    with open_observed(settings):
        names = {sample.name for family in parse(get(settings, "/metrics")) for sample in family.samples}
        for metric in catalogue.METRICS:
            elsewhere = {*AFTER_WORK, *catalogue.ON_KAFKA, *catalogue.ON_SERVE}
            assert (metric.series[0] in names) == (metric not in elsewhere), metric.name
        assert set(catalogue.RUNTIME) <= names
        health = json.loads(get(settings, "/readyz"))
        assert set(health["stages"]) == {"embed", "episodes", "signals", "distil", "levels", "breakers", "writer"}
        assert 'defi_brain_scrape_errors_total{part="episodes"} 0.0' in get(settings, "/metrics")


def test_without_a_port_there_is_none(tmp_path: Path) -> None:
    with open_observed(Settings(data_dir=tmp_path)):
        assert "metrics" not in {thread.name for thread in threading.enumerate()}


def test_a_port_that_is_taken_opens_nothing(tmp_path: Path) -> None:
    """And lets go of the stores, so that the next start is not refused."""
    settings = Settings(data_dir=tmp_path / "a", metrics_port=free_port())
    other = settings.model_copy(update={"data_dir": tmp_path / "b"})
    with open_observed(settings), pytest.raises(BrainError, match="cannot be served"), open_observed(other):
        pass
    with open_observed(other):
        pass
