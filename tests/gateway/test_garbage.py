"""Law 5 end to end: every kind of bad record is rejected with its reason and its bytes, and none stops the pipeline."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from gateway.composition import open_log, open_pipeline
from schemas.settings import Settings
from schemas.topics import TOOLS_EXECUTED
from streams.dead_letters import dead_letters
from streams.publisher import Publisher

WETH = {"address": "0x" + "a" * 40, "symbol": "WETH", "decimals": 18}
USDC = {"address": "0x" + "b" * 40, "symbol": "USDC", "decimals": 6}


def swap(**changes: Any) -> dict[str, Any]:
    """A good swap's fields, with changes."""
    return {
        "tool": "swap",
        "agent_id": "test",
        "status": "success",
        "chain_id": 1,
        "ts_executed": "2025-01-01T00:00:00Z",
        "token_in": WETH,
        "token_out": USDC,
        "amount_in_raw": str(10**18),
        "amount_out_raw": str(3_000 * 10**6),
        **changes,
    }


def wire(**changes: Any) -> bytes:
    """A swap as a record's value."""
    return orjson.dumps(swap(**changes))


TOMORROW = int(time.time()) + 86_400

GARBAGE: dict[str, tuple[bytes | None, str]] = {
    "null value": (None, "null_value"),
    "bad JSON": (b'{"tool": "swap", ', "not_json"),
    "not JSON at all": (b"hello", "not_json"),
    "an array": (b"[1, 2]", "not_object"),
    "bad UTF-8": (b'{"tool": "\xff\xfe"}', "not_utf8"),
    "NaN": (wire().replace(b'"test"', b"NaN"), "not_finite"),
    "infinity": (wire().replace(b'"test"', b"-Infinity"), "not_finite"),
    "2^256": (wire(amount_in_raw=str(2**256)), "amount_out_of_range"),
    "2^256 as a number": (wire().replace(b'"1000000000000000000"', str(2**256).encode()), "amount_out_of_range"),
    "2^255": (wire(amount_in_raw=str(2**255)), "sentinel_amount"),
    "an amount with a fraction": (wire(amount_in_raw=1.5), "inexact_amount"),
    "a naive timestamp": (wire(ts_executed="2025-01-01T00:00:00"), "naive_timestamp"),
    "a date beyond the calendar in UTC": (wire(ts_executed="9999-12-31T23:59:59-14:00"), "bad_timestamp"),
    "a date in the future": (wire(ts_executed=TOMORROW), "future_dated"),
    "an unknown major version": (wire(schema_version="2.0"), "unknown_version"),
    "a 5 MB payload": (wire(error="x" * 5_000_000), "too_large"),
    "the same token twice": (wire(token_out=WETH), "same_token"),
    "a schema-registry frame": (b"\x00\x00\x00\x00\x01" + wire(), "confluent_framed"),
    "a number beyond floats in a field nobody knows": (wire().replace(b'"test"', b'"test","later":1e400'), "not_finite"),
    "three hundred and ten digits in a field nobody knows": (
        wire().replace(b'"test"', b'"test","later":[1' + b"0" * 310 + b".5]"),
        "not_finite",
    ),
    "nesting near the parser's limit": (wire().replace(b'"test"', b'"test","later":' + b"[" * 150 + b"]" * 150), "too_deep"),
    "a price off by 10^12": (wire(mid_before="0.000000003"), "price_off_reference"),
    "a success without amounts": (wire(amount_out_raw="0"), "success_without_amounts"),
    "a revert without gas": (wire(status="reverted"), "revert_without_gas"),
}


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A brain that was given every kind of garbage between good records."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("garbage"))
    with open_pipeline(settings) as pipeline:
        publisher = Publisher(pipeline.log)
        for number, (value, _) in enumerate(GARBAGE.values()):
            publisher.publish(swap(event_id=f"good-{number}"))
            publisher.publish_raw(TOOLS_EXECUTED, None, value, (("x-origin", b"\xff"),))
        publisher.publish(swap(event_id="good-last"))
        pipeline.driver.run_until_idle()
    return settings


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_rejected_with_its_reason_and_its_bytes(after: Settings, kind: str) -> None:
    value, reason = GARBAGE[kind]
    with open_log(after) as log:
        letters = [letter for letter in dead_letters(log) if letter.value == value]
    assert [letter.reason for letter in letters] == [reason]
    assert letters[0].stage == "embed"
    assert letters[0].headers == (("x-origin", b"\xff"),)
    assert letters[0].detail


def test_the_good_records_between_go_through_and_the_counts_add_up(after: Settings) -> None:
    with open_log(after) as log:
        tally = log.tallies()["embed"]
        kept = log.tallies()["episodes"]
    assert tally.received == 2 * len(GARBAGE) + 1
    assert tally.rejected == len(GARBAGE)
    assert tally.received == tally.processed + tally.duplicates + tally.late + tally.rejected
    assert kept.processed == len(GARBAGE) + 1
