"""Logs: one JSON object a line with the record's place, or plain lines; never a record's value."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.logs import FIELDS, configure
from schemas.codec import ContractError
from schemas.settings import Settings
from schemas.topics import TOOLS_EXECUTED
from streams.batch import LOGGED, accounted, decoded
from streams.record import Record


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def rejected(count: int) -> None:
    """What happens to records that are no executions."""
    records = [
        Record(TOOLS_EXECUTED.name, 1, n, 0, b"k", b'{"secret": "0xdeadbeef"}', (("ce_id", b"id-%d" % n),)) for n in range(count)
    ]
    batch = [decoded(TOOLS_EXECUTED, record) for record in records]
    assert all(isinstance(fed.error, ContractError) for fed in batch)
    accounted("embed", batch, [])


def test_a_json_line_says_where_the_record_stands(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Settings(log_format="json"))
    rejected(2)
    lines: list[dict[str, Any]] = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert len(lines) == 2
    first = lines[0]
    assert first["message"] == "rejected"
    assert (first["level"], first["logger"], first["stage"], first["message_id"]) == ("WARNING", "streams.batch", "embed", "id-0")
    assert (first["topic"], first["partition"], first["offset"]) == (TOOLS_EXECUTED.name, 1, 0)
    assert first["reason"]
    assert first["time"].endswith("Z")
    assert "deadbeef" not in json.dumps(lines)


def test_a_plain_line_has_the_same_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Settings())
    rejected(1)
    line = capsys.readouterr().err.strip()
    assert "WARNING streams.batch: rejected stage=embed" in line
    assert all(f"{name}=" in line for name in FIELDS if name != "trace_id")
    assert "deadbeef" not in line


def test_a_flood_is_counted_and_not_told_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Settings(log_format="json"))
    rejected(LOGGED + 30)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert len(lines) == LOGGED + 1
    assert lines[-1]["message"] == "30 more of this batch were rejected"


def test_the_level_holds(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Settings(log_level="error"))
    rejected(3)
    assert capsys.readouterr().err == ""


def test_a_fault_keeps_its_traceback_on_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Settings(log_format="json"))
    try:
        raise RuntimeError("it broke")
    except RuntimeError:
        logging.getLogger("gateway.x").exception("a fault")
    (line,) = capsys.readouterr().err.splitlines()
    assert "it broke" in json.loads(line)["exc_info"]
