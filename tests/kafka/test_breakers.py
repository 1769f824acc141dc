"""Portfolio breakers on Kafka: the same standings as on the embedded log, over a restart, and a rebuild from the cluster."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from gateway.composition import layout, open_insights, open_pipeline, open_sinks
from gateway.kafka import run_workers
from schemas.portfolio import PortfolioStanding, PortfolioValuation
from schemas.settings import Settings
from streams.embedded.log import EmbeddedLog
from streams.kafka.log import KafkaLog
from streams.publisher import Publisher
from streams.rebuild import fold
from tests.support.gateway import WordEmbedder
from tests.support.sqlite import START

pytestmark = pytest.mark.kafka


def valuations() -> list[PortfolioValuation]:
    """Two portfolios that fall, are paid into, go blind and rise again."""
    made = []
    for i, (value, deposits, missing) in enumerate(
        [
            (1000, 0, ()),
            (980, 0, ()),
            (960, 0, ()),
            (920, 0, ()),
            (1920, 1000, ()),
            (10, 1000, ("X",)),
            (1700, 1000, ()),
            (2100, 1000, ()),
        ]
    ):
        for n, name in enumerate(("main", "side")):
            ts = START + timedelta(minutes=10 * i + n)
            made.append(PortfolioValuation(portfolio=name, ts=ts, value=value + n, net_deposits=deposits, missing=missing))  # type: ignore[arg-type]
    return made


def standings(settings: Settings) -> tuple[PortfolioStanding, ...]:
    with open_insights(settings) as store:
        return store.standings()


def test_standings_are_the_same_over_a_restart_and_as_on_the_embedded_log(kafka: Settings, tmp_path: Path) -> None:
    told = valuations()
    with KafkaLog(kafka) as log:
        for part in (told[:7], told[7:]):
            Publisher(log).publish_many(part)
            run_workers(kafka, until_idle=True)
        found = standings(kafka)
        again = Settings(data_dir=tmp_path / "again")
        with open_sinks(layout(again), WordEmbedder()) as sinks:
            fold(log, [sinks.writer])
            assert sinks.insights.standings() == found
    embedded = Settings(data_dir=tmp_path / "embedded")
    with EmbeddedLog(embedded.log_path) as log:
        Publisher(log).publish_many(told)
    with open_pipeline(embedded) as pipeline:
        pipeline.driver.run_until_idle()
    assert standings(embedded) == found
    assert [one.state.value for one in found] == ["ok", "ok"]
