"""The whole brain on Kafka: the same fingerprint as on the embedded log, for the simulated market and for real trades."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gateway.composition import layout, open_embedder, open_episodes, open_insights, open_log, open_pipeline, open_sinks
from gateway.fingerprint import Fingerprint, fingerprint
from gateway.ingest import publish_file, publish_items
from gateway.kafka import pipeline_lags, run_workers
from schemas import asyncapi
from schemas.settings import Settings
from streams.kafka.log import KafkaLog
from streams.log import LogAppender
from streams.rebuild import fold
from streams.sources.market import simulate

pytestmark = pytest.mark.kafka
UNISWAP = Path(__file__).parents[3] / "shared" / "data" / "uniswap_v3"


def remembered(settings: Settings) -> Fingerprint:
    with open_episodes(settings) as episodes, open_insights(settings) as insights:
        return fingerprint(episodes, insights)


def on_embedded(folder: Path, publish: Callable[[LogAppender], object]) -> Fingerprint:
    settings = Settings(data_dir=folder / "embedded", broker="")
    with open_log(settings, create=True) as log:
        publish(log)
    with open_pipeline(settings) as pipeline:
        pipeline.driver.run_until_idle()
    return remembered(settings)


async def read_plainly(settings: Settings, document: dict[str, Any], carries: str) -> int:
    """Read a topic with aiokafka and jsonschema, knowing nothing but the AsyncAPI document; how many records fit their schema."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    channel = document["channels"][carries]
    payload = document["components"]["messages"][carries]["payload"]["schema"]["$ref"]
    validator = jsonschema.Draft202012Validator(json.loads((asyncapi.FILE.parent / payload).read_text()))
    described = {
        *document["components"]["messageTraits"]["cloudevents"]["headers"]["properties"],
        *document["components"]["messages"][carries].get("headers", {}).get("properties", {}),
    }
    consumer = AIOKafkaConsumer(bootstrap_servers=settings.broker.removeprefix("kafka://"), enable_auto_commit=False)
    await consumer.start()
    try:
        tps = [TopicPartition(channel["address"], number) for number in range(channel["bindings"]["kafka"]["partitions"])]
        consumer.assign(tps)
        await consumer.seek_to_beginning(*tps)
        left = total = sum((await consumer.end_offsets(tps)).values())
        while left:
            for record in [record for share in (await consumer.getmany(timeout_ms=200)).values() for record in share]:
                validator.validate(json.loads(record.value))
                assert {name for name, _ in record.headers} <= described
                left -= 1
        return total
    finally:
        await consumer.stop()


def test_the_simulated_market(kafka: Settings, tmp_path: Path) -> None:
    def publish(log: LogAppender) -> object:
        return publish_items(log, simulate(11, 1500), "market")

    with KafkaLog(kafka) as log:
        publish(log)
        run_workers(kafka, until_idle=True)
        found = remembered(kafka)
        assert found.insight_lines > 0
        assert found == on_embedded(tmp_path, publish)
        assert {lag.records for lag in pipeline_lags(kafka)} == {0}
        with (
            open_embedder(kafka) as embedder,
            open_sinks(layout(kafka.model_copy(update={"data_dir": tmp_path / "rebuilt"})), embedder) as sinks,
        ):
            fold(log, [sinks.episode_sink, sinks.writer])
            assert fingerprint(sinks.episodes, sinks.insights) == found


def test_real_trades(kafka: Settings, tmp_path: Path) -> None:
    """842 pool events of a week, twice: the second time changes nothing."""
    if not UNISWAP.is_dir():
        pytest.skip("the Uniswap file is not here")

    def publish(log: LogAppender) -> object:
        return publish_file(log, UNISWAP / "wbtc_weth_3000_events.jsonl", "uniswap-v3-events", UNISWAP / "pool.json")

    with KafkaLog(kafka) as log:
        publish(log)
        run_workers(kafka, until_idle=True)
        found = remembered(kafka)
        assert found == on_embedded(tmp_path, publish)
        publish(log)
        run_workers(kafka, until_idle=True)
        assert remembered(kafka) == found
