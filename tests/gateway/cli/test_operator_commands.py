"""``confidence`` and ``directives`` on a small brain: each write is the operator's, and applied when the command ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway import composition
from gateway.cli import main
from schemas.settings import Settings
from stores.sqlite import InsightStore
from streams.embedded.log import EmbeddedLog
from streams.publisher import Publisher
from tests.support import slim_cli
from tests.support.sqlite import add


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    with EmbeddedLog(folder / "log.db") as log:
        Publisher(log).publish_many([add("aaaa1111"), add("bbbb2222")])
    with slim_cli.installed(), composition.open_pipeline(Settings(data_dir=folder)) as pipeline:
        pipeline.driver.run_until_idle()
    return folder


def run(data: Path, *arguments: str, code: int = 0) -> Any:
    with slim_cli.installed():
        result = CliRunner().invoke(main, ["--data-dir", str(data), *arguments])
    assert result.exit_code == code, result.output + result.stderr
    return json.loads(result.stdout) if "--json" in arguments else result


def test_confidence(data: Path) -> None:
    assert run(data, "confidence", "set", "aaaa", "0.75", "--json")["confidence"] == 0.75
    assert run(data, "confidence", "decay", "aaaa", "--json")["confidence"] == 0.55
    assert "moved: aaaa1111, confidence 0.60" in run(data, "confidence", "boost", "aaaa").stdout
    run(data, "confidence", "set", "bbbb", "0.1")
    listed = run(data, "confidence", "list", "--json")["insights"]
    assert [(one["id"], one["confidence"]) for one in listed] == [("bbbb2222", 0.1), ("aaaa1111", 0.6)]
    steps = run(data, "confidence", "get", "aaaa", "--json")["steps"]
    assert [(one["kind"], one["after"], one["author"]) for one in steps] == [
        ("ADD", 0.6, "distil"),
        ("ADJUST", 0.75, "operator"),
        ("ADJUST", 0.55, "operator"),
        ("ADJUST", 0.6, "operator"),
    ]
    assert "0.600  aaaa1111" in run(data, "confidence", "get", "aaaa").stdout
    assert "0.100" in run(data, "confidence", "list", "--limit", "1").stdout
    assert "no single insight" in run(data, "confidence", "set", "zzzz", "0.5", code=1).stderr
    run(data, "confidence", "set", "aaaa", "1.5", code=2)


def test_directives(data: Path) -> None:
    made = run(
        data, "directives", "submit", "No swaps above 100 ETH.", "--priority", "high", "--expires", "2999-01-01T00:00:00Z", "--json"
    )
    run(data, "directives", "submit", "Prefer quiet hours.", "--type", "market_context")
    shown = run(data, "directives", "list", "--json")["directives"]
    assert [one["text"] for one in shown] == ["No swaps above 100 ETH.", "Prefer quiet hours."]
    assert "2999-01-01" in run(data, "directives", "list").stdout
    refused = run(data, "confidence", "set", made["insight_id"], "0.5", code=1)
    assert "directive_fixed" in refused.stderr
    run(data, "directives", "archive", made["insight_id"][:8])
    assert [one["text"] for one in run(data, "directives", "list", "--json")["directives"]] == ["Prefer quiet hours."]
    assert len(run(data, "directives", "list", "--all", "--json")["directives"]) == 2
    assert "--expires" in run(data, "directives", "submit", "x", "--expires", "tomorrow", code=2).stderr
    assert "expires after" in run(data, "directives", "submit", "x", "--expires", "2001-01-01T00:00:00Z", code=1).stderr
    with InsightStore.open(data / "defi-brain.db") as store:
        assert {entry.author for entry in store.history(made["insight_id"])} == {"operator"}


def test_forgetting_shows_that_nothing_is_left(data: Path) -> None:
    run(data, "directives", "submit", "Only xylophone pools.")
    (made,) = [one["id"] for one in run(data, "directives", "list", "--json")["directives"] if "xylophone" in one["text"]]
    before = run(data, "forget", made, "--dry-run", "--json")["left"]
    assert all(before[place] for place in ("rows", "documents", "text", "vectors"))
    with slim_cli.installed():
        asked = CliRunner().invoke(main, ["--data-dir", str(data), "forget", made], input="n\n")
    assert asked.exit_code == 1
    assert run(data, "forget", made, "--dry-run", "--json")["left"] == before
    after = run(data, "forget", made, "--yes", "--json")["left"]
    assert not any(count for place, count in after.items() if place != "announcements")
    assert "xylophone" not in run(data, "directives", "list", "--all").stdout
    again = run(data, "forget", made, "--yes", code=1)
    assert "forgotten" in again.stderr
