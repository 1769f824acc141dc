"""Traces of agents through the whole pipeline: read = processed + duplicates + rejected, the second time as the first."""

from __future__ import annotations

import json
from pathlib import Path

from tests.gateway.test_cli import document
from tests.streams.test_sources_agent_traces import attempt, notes


def test_traces_are_ingested_and_add_up(tmp_path: Path) -> None:
    traces = tmp_path / "traces.json"
    entries = [attempt(task=1), attempt(task=2, reward=0.0), notes("env_1", True), notes("env_1", True), {"neither": 1}]
    traces.write_text(json.dumps(entries))
    command, data = ("ingest", str(traces), "--format", "agent-trace"), tmp_path / "data"
    first = document(*command, data=data)
    assert [first[name] for name in ("records", "processed", "duplicates", "rejected")] == [9, 7, 1, 1]
    assert first["reasons"] == {"unknown_trace": 1}
    second = document(*command, data=data)
    assert [second[name] for name in ("records", "processed", "duplicates", "rejected")] == [9, 0, 8, 1]
