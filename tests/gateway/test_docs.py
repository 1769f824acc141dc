"""The sessions in docs/rest.md, docs/mcp.md and docs/python.md, run as they stand; examples and tables that follow from code."""

from __future__ import annotations

import json
import re
import socket
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import main
from schemas.events import ToolExecution
from schemas.settings import Settings
from tests.support.doc_examples import ROOT, blocks, fits, run_console, run_programs
from workers.reflect import reflect


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


def test_the_executions_of_the_contracts_page_are_taken_and_the_second_one_teaches(tmp_path: Path) -> None:
    (block,) = [one for one in blocks("contracts.md") if one.language == "json"]
    file = tmp_path / "examples.jsonl"
    file.write_text(block.text)
    done = CliRunner().invoke(
        main, ["--data-dir", str(tmp_path / "data"), "ingest", str(file), "--format", "tool-executions", "--json"]
    )
    told = json.loads(done.stdout)
    assert (told["records"], told["processed"], told["rejected"]) == (2, 2, 0)
    metrics = reflect(ToolExecution.model_validate_json(block.text.splitlines()[1])).metrics
    assert {"cost_bps", "gas_gwei", "failed"} <= set(metrics)


def test_the_page_of_settings_has_each_with_its_default_and_its_words() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    shown = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", page, re.MULTILINE)
    assert shown == [(name, _shown(field.default), field.description) for name, field in Settings.model_fields.items()]
    (example,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert set(tomllib.loads(example)) <= set(Settings.model_fields)


def _shown(default: object) -> str:
    if default is None or default == "":
        return "–"
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


def test_outputs_are_compared() -> None:
    assert fits('{"a":...}', '{"a": 1}')
    assert fits("a\n...", "a\nb\nc")
    assert not fits('{"a":...}', '{"b": 1}')
    assert not fits("a", "a b")
