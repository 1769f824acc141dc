"""Records that hurt others, sent by a plain aiokafka producer that knows nothing of us but the AsyncAPI document.

The table in ``docs/kafka.md`` lists what this test finds.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.composition import open_episodes
from gateway.kafka import pipeline_lags, run_workers
from schemas.settings import Settings
from schemas.topics import TOOLS_EXECUTED
from streams.dead_letters import dead_letters
from streams.kafka.log import KafkaLog
from tests.support.streams import read_all

pytestmark = pytest.mark.kafka
NOW = time.time() - 86_400 * 30


def event(name: str, at: float = NOW, **more: Any) -> dict[str, Any]:
    return {"event_id": name, "tool": "probe", "agent_id": "hurt", "status": "success", "ts_executed": at, "pair": "A/B", **more}


def wire(name: str, at: float = NOW, **more: Any) -> bytes:
    return json.dumps(event(name, at, **more)).encode()


@dataclass(frozen=True)
class Sent:
    """A record and what must become of it: a dead letter's reason, or an episode (None)."""

    what: str
    value: bytes | None
    reason: str | None
    key: bytes | None = b"probe:offchain:A/B"
    headers: tuple[tuple[str, bytes], ...] = ()


SENT = [
    Sent("a good event", wire("good-1"), None),
    Sent("a tombstone", None, "null_value"),
    Sent("no key", wire("no-key"), None, key=None),
    Sent("neither key nor value", None, "null_value", key=None),
    Sent("a header that is not UTF-8", wire("header"), None, headers=(("traceparent", b"\xff\xfe"),)),
    Sent("bad JSON", b"{'tool': 1}", "not_json"),
    Sent("truncated JSON", wire("cut")[:-20], "not_json"),
    Sent("not UTF-8", b'{"tool": "\xff"}', "not_utf8"),
    Sent("framed by a schema registry", b"\x00\x00\x00\x00\x07" + wire("framed"), "confluent_framed"),
    Sent("800 kB", wire("large", note="x" * 800_000), None),
    Sent("over what is read, under what the broker takes", wire("huge", note="x" * 1_010_000), "too_large"),
    Sent("an unknown major version", wire("v2", schema_version="2.0"), "unknown_version"),
    Sent("an unknown minor version and extra fields", wire("extra", schema_version="1.9", flavour={"of": "tomorrow"}), None),
    Sent("NaN", wire("nan").replace(b'"pair"', b'"reward": NaN, "pair"'), "not_finite"),
    Sent("a naive timestamp", wire("naive").replace(str(NOW).encode(), b'"2026-01-01T00:00:00"'), "naive_timestamp"),
    Sent("an amount over 2^256", wire("amount", amount_in_raw=str(2**256)), "amount_out_of_range"),
    Sent("delivered twice, first", wire("twice"), None),
    Sent("delivered twice, again", wire("twice"), None),
    Sent("two identical events under two ids, first", wire("same-1"), None),
    Sent("two identical events under two ids, second", wire("same-2"), None),
    Sent("dated a day ahead", wire("ahead", time.time() + 86_400), "future_dated"),
    Sent("after the one dated ahead", wire("good-2", NOW + 60), None),
    Sent("very late", wire("late", NOW - 86_400 * 300), None),
    Sent("out of order, later first", wire("order-2", NOW + 200), None),
    Sent("out of order, earlier second", wire("order-1", NOW + 100), None),
    *[Sent(f"a burst of poison, {n}", b"poison", "not_json") for n in range(300)],
    Sent("after the burst", wire("good-3", NOW + 300), None),
]  # fmt: skip


async def send_plainly(settings: Settings) -> list[tuple[int, int]]:
    """Send with aiokafka alone; where each record stands. A record that neither key nor value has needs its batch interface."""
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import MessageSizeTooLargeError

    producer = AIOKafkaProducer(bootstrap_servers=settings.broker.removeprefix("kafka://"), max_request_size=4_000_000)
    await producer.start()
    places = []
    try:
        for sent in SENT:
            if sent.key is None and sent.value is None:
                batch = producer.create_batch()
                batch.append(key=None, value=None, timestamp=None)
                at = await (await producer.send_batch(batch, TOOLS_EXECUTED.name, partition=0))
            else:
                at = await producer.send_and_wait(TOOLS_EXECUTED.name, sent.value, key=sent.key, headers=list(sent.headers))
            places.append((at.partition, at.offset))
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(TOOLS_EXECUTED.name, wire("beyond", note="x" * 2_000_000))
    finally:
        await producer.stop()
    return places


def test_each_is_kept_or_put_aside_and_none_stops_the_others(kafka: Settings, tmp_path: Path) -> None:
    places = asyncio.run(send_plainly(kafka))
    run_workers(kafka, until_idle=True)
    with KafkaLog(kafka) as log, open_episodes(kafka) as store:
        letters = {(letter.partition, letter.offset): letter for letter in dead_letters(log, stage="embed")}
        records = {(record.partition, record.offset): record for record in read_all(log, TOOLS_EXECUTED.name)}
        for sent, place in zip(SENT, places, strict=True):
            letter = letters.pop(place, None)
            assert (letter.reason if letter else None) == sent.reason, sent.what
            if letter:
                assert (letter.value, letter.key) == (sent.value, sent.key), sent.what
                assert letter.headers == records[place].headers
        assert letters == {}
        good = [sent for sent in SENT if sent.reason is None]
        assert store.count() == len(good) - 1  # one was delivered twice
    assert {lag.records for lag in pipeline_lags(kafka)} == {0}
