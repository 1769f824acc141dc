"""What the stores tell: held against the stores' own statistics, while a writer holds its lock, zeros for what may come."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.metrics import catalogue
from gateway.metrics.collector import Sample
from gateway.metrics.stores_part import EmbedderPart, EpisodesPart, FilesPart, InsightsPart
from schemas.claims import Category
from schemas.insights import InsightStatus
from stores.sqlite import InsightFilter
from stores.sqlite.census import BAND_NAMES, take_census
from stores.sqlite.connection import open_connection
from streams.stages.writer import InsightWriter
from tests.support.sqlite import HashEmbedder, fill, in_log, insight, signals, workload, writing
from tests.support.sqlite import signal as drift
from workers.metrics import WATCHED


def by(samples: list[Sample], metric: catalogue.Metric) -> dict[tuple[str, ...], float]:
    return {sample.labels: sample.value for sample in samples if sample.metric is metric and not hasattr(sample.value, "total")}  # type: ignore[misc]


def test_what_was_learned(tmp_path: Path) -> None:
    path = tmp_path / "insights.db"
    with writing(path) as store:
        writer = InsightWriter(store, HashEmbedder())
        writer.handle(in_log(workload(count=200)))
        part = InsightsPart(path)
        samples = list(part.samples())
        stats = store.stats()
        operations = by(samples, catalogue.OPERATIONS)
        assert {kind: count for (kind,), count in operations.items() if count} == stats.operations
        assert by(samples, catalogue.REFUSED) == {(): stats.refused}
        assert by(samples, catalogue.OUTBOX) == {(): stats.outbox}
        assert by(samples, catalogue.EPOCH) == {(): stats.epoch}
        assert sum(by(samples, catalogue.ALARMS).values()) == stats.signals
        kept = by(samples, catalogue.INSIGHTS)
        status: Counter[str] = Counter()
        for (_, one, _), count in kept.items():
            status[one] += int(count)
        assert (status["active"], status["archived"]) == (stats.active, stats.archived)
        part.close()
        part.close()


def test_bands_of_confidence(tmp_path: Path) -> None:
    """The bands' edges: 0.5, where injection begins, is in the upper one; 1.0 has a band."""
    path = tmp_path / "insights.db"
    with writing(path) as store:
        fill(store, [insight(number, category=Category.GENERAL) for number in range(21)])  # confidence 0, 0.05 … 1.0
        connection = open_connection(path, readonly=True)
        found = {band: count for (_, _, band), count in take_census(connection).insights.items()}
        connection.close()
        by_hand: Counter[str] = Counter()
        for one in store.list(InsightFilter(status=None), limit=100).items:
            edges = [float(edge) for edge in ("0.3", "0.5", "0.7", "0.9")]
            by_hand[BAND_NAMES[sum(float(one.confidence) >= edge for edge in edges)]] += 1
    assert found == by_hand
    assert found["0.3-0.5"] == 4  # 0.30, 0.35, 0.40, 0.45


def test_zeros_of_what_may_come(tmp_path: Path) -> None:
    path = tmp_path / "insights.db"
    with writing(path):
        part = InsightsPart(path)
        samples = list(part.samples())
        part.close()
    assert by(samples, catalogue.OPERATIONS)["ADD",] == 0
    alarms = by(samples, catalogue.ALARMS)
    assert {metric for _, metric in alarms} == set(WATCHED)
    assert set(alarms.values()) == {0}
    insights = by(samples, catalogue.INSIGHTS)
    assert len(insights) == len(Category) * len(BAND_NAMES) * len(InsightStatus)


def test_alarms_by_level_and_metric(tmp_path: Path) -> None:
    path = tmp_path / "insights.db"
    with writing(path) as store:
        alarms = [drift(1), drift(2), drift(3, metric="gas_gwei", level="tool"), drift(3, metric="gas_gwei", level="tool")]
        InsightWriter(store, HashEmbedder()).handle(signals(*alarms))
        part = InsightsPart(path)
        found = {labels: count for labels, count in by(list(part.samples()), catalogue.ALARMS).items() if count}
        part.close()
    assert found == {("pair", "cost_bps"): 2, ("tool", "gas_gwei"): 1}


def test_a_scrape_reads_beside_a_writers_transaction(tmp_path: Path) -> None:
    path = tmp_path / "insights.db"
    with writing(path) as store:
        part = InsightsPart(path)
        list(part.samples())
        with store.transaction() as transaction:
            transaction.put(insight(1), HashEmbedder().vector("x"))
            seen = by(list(part.samples()), catalogue.INSIGHTS)
        assert sum(seen.values()) == 0
        assert sum(by(list(part.samples()), catalogue.INSIGHTS).values()) == 1
        part.close()


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"x" * 100)
    (tmp_path / "a.db-wal").write_bytes(b"x" * 7)
    samples = list(FilesPart(tmp_path, {"a": tmp_path / "a.db", "b": tmp_path / "b.db"}).samples())
    assert by(samples, catalogue.STORE_BYTES) == {("a",): 100, ("b",): 0}
    assert by(samples, catalogue.WAL_BYTES) == {("a",): 7, ("b",): 0}
    assert 0 < by(samples, catalogue.DISK_FREE)[()] <= by(samples, catalogue.DISK_SIZE)[()]
    with pytest.raises(FileNotFoundError):
        list(FilesPart(tmp_path / "gone", {}).samples())


def test_episodes_and_embedder() -> None:
    stats = SimpleNamespace(rows=5, segments=1, fragments=3, disk_bytes=1000)
    samples = list(EpisodesPart(SimpleNamespace(stats=lambda: stats)).samples())
    assert by(samples, catalogue.EPISODES) == {(): 5}
    assert by(samples, catalogue.EPISODE_FRAGMENTS) == {(): 3}
    assert by(samples, catalogue.STORE_BYTES) == {("episodes",): 1000}
    samples = list(EmbedderPart(SimpleNamespace(hits=4, misses=2)).samples())
    assert by(samples, catalogue.EMBEDDED) == {("cache",): 4, ("model",): 2}
