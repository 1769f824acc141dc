"""Metrics of a process that answers questions: what was asked shows at its port, with its own pipeline and without."""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deploy.prometheus.server import free_port
from gateway.brain import open_service
from gateway.metrics import catalogue
from gateway.metrics.observe import watched_alone
from gateway.metrics.recall_part import RecallPart
from schemas.settings import Settings
from stores.recall.grading import Grade
from stores.recall.memories import Kind
from tests.support.gateway import AGENT, READER, WordEmbedder


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(settings: Settings) -> Iterator[WordEmbedder]:
        yield WordEmbedder()

    monkeypatch.setattr("gateway.composition.open_embedder", opened)
    monkeypatch.setattr("gateway.brain.open_embedder", opened)


def scraped(port: int) -> dict[tuple[str, tuple[str, ...]], float]:
    """Values by name and label values."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {(one.name, tuple(one.labels.values())): one.value for family in families for one in family.samples}


def test_what_is_asked_shows_with_the_pipelines_metrics(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, metrics_port=free_port(), briefing=False)
    with open_service(settings) as service:
        service.remember(AGENT, "one", "Quotes of the second router are stale at midnight.", wait_s=20)
        answered = [service.recall(READER, "quotes of the second router").result for _ in range(3)]
        seen = scraped(settings.metrics_port)
    assert seen["defi_brain_recall_seconds_count", ()] == 3
    for grade in Grade:
        assert seen["defi_brain_recalls_total", (grade.value,)] == sum(one.grade is grade for one in answered)
    handed = [hit.kind for one in answered for hit in one.hits]
    assert {kind: seen["defi_brain_recalled_memories_total", (kind.value,)] for kind in Kind} == {
        kind: handed.count(kind) for kind in Kind
    }
    assert seen["defi_brain_notes_total", ("new",)] == 1
    assert (seen["defi_brain_ranker_active", ()], seen["defi_brain_ranker_uses", ()]) == (0, 0)
    assert seen["defi_brain_stage_received_records_total", ("writer",)] == 1


def test_a_process_without_a_pipeline_has_a_port_of_its_own() -> None:
    part = RecallPart(lambda: (True, 61))
    part.note(Grade.AMBIGUOUS, [Kind.EPISODE, Kind.INSIGHT], 0.004)
    settings = Settings(metrics_port=free_port())
    with watched_alone(settings, [part]) as server:
        assert server is not None
        seen = scraped(settings.metrics_port)
        with urllib.request.urlopen(f"{server.url}/readyz", timeout=10) as answer:
            assert answer.status == 200
    assert seen["defi_brain_recalls_total", ("ambiguous",)] == 1
    assert (seen["defi_brain_ranker_active", ()], seen["defi_brain_ranker_uses", ()]) == (1, 61)
    names = {name for name, _ in seen}
    assert all(metric.series[0] in names for metric in catalogue.ON_SERVE)


def test_a_port_that_is_taken_costs_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(metrics_port=free_port())
    with watched_alone(settings, [RecallPart()]) as first, caplog.at_level(logging.WARNING):
        assert first is not None
        with watched_alone(settings, [RecallPart()]) as second:
            assert second is None
    assert "no metrics of this process" in caplog.text
    with watched_alone(Settings(), [RecallPart()]) as none:
        assert none is None
