"""The sessions in docs/rest.md, docs/mcp.md and docs/python.md, run as they stand."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from gateway.cli import main
from tests.support.doc_examples import blocks, fits, run_console, run_programs


def test_the_curl_session(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    outcomes = run_console("rest.md", tmp_path, {"8765": port})
    assert len(outcomes) > 10
    for command, shown, got in outcomes:
        assert fits(shown, got), f"{command}\n{got}"


@pytest.mark.parametrize("page", ["mcp.md", "python.md"])
def test_the_programs(page: str, tmp_path: Path) -> None:
    outcomes = run_programs(page, tmp_path)
    assert outcomes
    for _, shown, got in outcomes:
        assert fits(shown, got), got


def test_the_clients_configuration_names_a_command_that_exists() -> None:
    (block,) = [one for one in blocks("mcp.md") if one.language == "json"]
    server = json.loads(block.text)["mcpServers"]["defi-brain"]
    assert server["command"] == "defi-brain"
    assert server["args"][2] in main.commands


def test_outputs_are_compared() -> None:
    assert fits('{"a":...}', '{"a": 1}')
    assert fits("a\n...", "a\nb\nc")
    assert not fits('{"a":...}', '{"b": 1}')
    assert not fits("a", "a b")
