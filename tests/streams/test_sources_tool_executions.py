"""JSON lines of our own contract: identity of lines without one, and garbage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import ToolExecution
from streams.sources import Rejected, read_file
from streams.sources.tool_executions import read

CALL: dict[str, Any] = {
    "tool": "call",
    "agent_id": "agent",
    "status": "success",
    "ts_executed": "2025-01-01T00:00:00Z",
    "reward": 1,
}
SWAP: dict[str, Any] = {
    **CALL,
    "tool": "swap",
    "token_in": {"symbol": "AAA", "decimals": 6},
    "token_out": {"symbol": "BBB", "decimals": 6},
    "amount_in_raw": "1000000",
    "amount_out_raw": "999000",
}


def ids(lines: list[dict[str, Any]]) -> list[str]:
    found = list(read(json.dumps(line).encode() for line in lines))
    assert all(isinstance(item, ToolExecution) for item in found)
    return [item.event_id for item in found if isinstance(item, ToolExecution)]


def test_identical_lines_without_identity_are_two_events_each_time_the_file_is_read() -> None:
    once = ids([CALL, SWAP, CALL, CALL])
    assert len(set(once)) == 4
    assert once == ids([CALL, SWAP, CALL, CALL])


def test_the_first_of_identical_lines_has_the_id_it_gets_when_published_alone() -> None:
    assert ids([CALL, CALL])[0] == ToolExecution.model_validate(CALL).event_id


@pytest.mark.parametrize("identity", [{"event_id": "mine"}, {"tx_hash": "0x" + "ab" * 32, "chain_id": 1, "log_index": 0}])
def test_lines_with_an_identity_keep_it(identity: dict[str, Any]) -> None:
    first, second = ids([CALL | identity, CALL | identity])
    assert first == second == ToolExecution.model_validate(CALL | identity).event_id


def test_a_transaction_without_a_chain_is_no_identity() -> None:
    assert len(set(ids([CALL | {"tx_hash": "0x" + "ab" * 32}] * 2))) == 2


@given(st.lists(st.sampled_from([CALL, SWAP, CALL | {"reward": 2}]), max_size=12))
def test_as_many_ids_as_lines_and_a_longer_file_keeps_the_ids_of_a_shorter(lines: list[dict[str, Any]]) -> None:
    found = ids(lines)
    assert len(set(found)) == len(lines)
    assert ids([*lines, CALL])[: len(lines)] == found


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"{", "not_json"),
        (b"\xff", "not_utf8"),
        (json.dumps(SWAP | {"token_out": SWAP["token_in"]}).encode(), "same_token"),
        (json.dumps(SWAP | {"amount_in_raw": str(2**256)}).encode(), "amount_out_of_range"),
        (json.dumps(CALL | {"ts_executed": "2025-01-01T00:00:00"}).encode(), "naive_timestamp"),
        (json.dumps(CALL | {"schema_version": "2.0"}).encode(), "unknown_version"),
        (json.dumps(CALL).replace('"reward": 1', '"reward": NaN').encode(), "not_finite"),
        (json.dumps(CALL | {"note": "x" * 5_000_000}).encode(), "too_large"),
        (json.dumps(CALL | {"note": [1]}).replace("[1]", f"[{'1e15,' * 150_000}1]").encode(), "too_large"),
    ],
)
def test_a_bad_line_is_rejected_with_its_bytes_and_reading_goes_on(raw: bytes, reason: str) -> None:
    rejected, event = list(read([raw + b"\n", json.dumps(CALL).encode()]))
    assert isinstance(rejected, Rejected)
    assert (rejected.line_no, rejected.raw, rejected.reason) == (1, raw, reason)
    assert isinstance(event, ToolExecution)


def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(json.dumps(CALL).encode() + b"\n\n" + json.dumps(SWAP).encode())
    assert [item.tool for item in read_file(path, "tool-executions") if isinstance(item, ToolExecution)] == ["call", "swap"]
