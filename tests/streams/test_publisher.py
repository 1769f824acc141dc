"""The publisher refuses what is not its contract before anything is sent."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from schemas.codec import ContractError, decode
from schemas.operations import UpvoteInsight
from schemas.settings import Settings
from schemas.topics import INSIGHTS_UPDATED, OPERATIONS, TOOLS_EXECUTED, TOPICS
from streams.embedded.log import EmbeddedLog
from streams.log import LogError
from streams.publisher import Publisher
from tests.support.streams import START, execution, read_all, update

FIELDS = {"tool": "swap", "action": "call", "agent_id": "a", "status": "success", "ts_executed": START, "pair": "x"}


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    return EmbeddedLog(tmp_path / "log.db")


def test_an_execution_goes_to_its_topic_under_its_key(log: EmbeddedLog) -> None:
    event = execution(1)
    position = Publisher(log, source="agent-7").publish(event, traceparent="00-aa-bb-01")
    (record,) = log.read(position.topic, position.partition, position.offset, 1)
    assert record.topic == TOOLS_EXECUTED.name
    assert record.key == event.key.encode()
    assert decode("tool-execution", record.value) == event
    headers = dict(record.headers)
    assert (headers["ce_id"], headers["ce_source"]) == (b"event-1", b"/defi-brain/agent-7")
    assert (headers["ce_time"], headers["traceparent"]) == (b"2026-01-01T00:01:00Z", b"00-aa-bb-01")


@pytest.mark.parametrize("moment", ["2022-05-06T10:39:10.758", "1969-12-31T23:59:59.500", "9999-12-31T23:59:59.999"])
def test_the_header_has_the_events_own_time_down_to_the_millisecond(log: EmbeddedLog, moment: str) -> None:
    position = Publisher(log).publish({**FIELDS, "ts_executed": f"{moment}999Z"})
    (record,) = log.read(position.topic, position.partition, position.offset, 1)
    assert record.header("ce_time") == f"{moment}000Z"


def test_an_operation_goes_to_the_operations(log: EmbeddedLog) -> None:
    operation = UpvoteInsight(op_id="op-1", insight_id="insight-1", ts=START, author="operator", reason="seen it")
    publisher = Publisher(log)
    publisher.publish(operation)
    publisher.publish({"kind": "UPVOTE", "op_id": "op-2", "insight_id": "insight-1", "ts": START, "author": "o", "reason": ""})
    records = read_all(log, OPERATIONS.name)
    assert [record.key for record in records] == [b"insight-1"] * 2
    assert [record.header("ce_id") for record in records] == ["op-1", "op-2"]
    assert decode("insight-operation", records[0].value) == operation


def test_fields_are_enough(log: EmbeddedLog) -> None:
    """Decimals, moments and integers of any size come through exactly, unknown fields too."""
    Publisher(log).publish({**FIELDS, "reward": Decimal("1.10"), "amount_in_raw": 2**200, "later_addition": 2**300})
    (record,) = read_all(log, TOOLS_EXECUTED.name)
    event = decode("tool-execution", record.value)
    assert (event.reward, event.amount_in_raw, event.later_addition) == (Decimal("1.1"), 2**200, 2**300)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ts_executed": "2026-01-01T00:00:00"}, "naive_timestamp"),
        ({"pnl_bps": float("nan")}, "not_finite"),
        ({"amount_in_raw": 2**256}, "amount_out_of_range"),
        ({"schema_version": "2.0"}, "unknown_version"),
        ({"note": "\ud800"}, "not_utf8"),
        ({"note": "x" * 1_000_000}, "too_large"),
        ({"tool": None}, "contract_violation"),
    ],
)
def test_what_is_not_the_contract_is_not_sent(log: EmbeddedLog, change: dict[str, object], reason: str) -> None:
    with pytest.raises(ContractError) as caught:
        Publisher(log).publish_many([execution(1), {**FIELDS, **change}])
    assert caught.value.reason == reason
    assert all(read_all(log, topic.name) == [] for topic in TOPICS)


def test_a_contract_that_was_tampered_with_is_not_sent(log: EmbeddedLog) -> None:
    with pytest.raises(ContractError):
        Publisher(log).publish(execution(1).model_copy(update={"tool": "NOT A NAME"}))
    assert read_all(log, TOOLS_EXECUTED.name) == []


def test_what_only_the_pipeline_makes_is_not_sent(log: EmbeddedLog) -> None:
    with pytest.raises(TypeError, match="InsightUpdate is made by the pipeline"):
        Publisher(log).publish(update("i", 1))
    assert read_all(log, INSIGHTS_UPDATED.name) == []


def test_it_opens_the_log_that_settings_name(tmp_path: Path) -> None:
    with Publisher(Settings(data_dir=tmp_path / "data")) as publisher:
        publisher.publish_raw(TOOLS_EXECUTED, None, b"\xff", (("h", b"\x00"),))
    with EmbeddedLog(tmp_path / "data" / "log.db") as log:
        (record,) = read_all(log, TOOLS_EXECUTED.name)
    assert (record.key, record.value, record.headers) == (None, b"\xff", (("h", b"\x00"),))
    with pytest.raises(LogError, match="cannot be reached"):
        Publisher(Settings(broker="kafka://127.0.0.1:1"))
